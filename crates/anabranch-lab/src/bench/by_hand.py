"""What a program does without Anabranch: its own driver, and a checkpoint commit for each event.

Arguments: the kind of database, its address, the table of events, the table of totals, how many events.
"""
import json
import sys
import time

kind, address, events, table, count = sys.argv[1:]
if kind == "postgres":
    import psycopg

    connection, mark = psycopg.connect(address), "%s"
else:
    import sqlite3

    connection, mark = sqlite3.connect(address, isolation_level=None), "?"
    connection.execute("PRAGMA synchronous = FULL")

upsert = (
    f"INSERT INTO {table} (id, events, total) VALUES ({mark}, 1, {mark}) "
    f"ON CONFLICT (id) DO UPDATE SET events = {table}.events + 1, total = {table}.total + excluded.total"
)
cursor = connection.cursor()
cursor.execute(f"SELECT position FROM {table}_cursor")
position = cursor.fetchone()[0]
started, handled = time.monotonic(), 0
while handled < int(count):
    cursor.execute(
        f"SELECT position, stream_id, data FROM {events} WHERE position > {mark} ORDER BY position LIMIT 1000",
        (position,),
    )
    page = cursor.fetchall()
    if kind == "postgres":
        connection.commit()
    for position, stream, data in page[: int(count) - handled]:
        order = data if isinstance(data, dict) else json.loads(data)
        if kind != "postgres":
            cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(upsert, (stream, order["total"]))
        cursor.execute(f"UPDATE {table}_cursor SET position = {mark}", (position,))
        cursor.execute("COMMIT") if kind != "postgres" else connection.commit()
        handled += 1
print(handled / (time.monotonic() - started))
