# The protocol by hand: what docs/programs.md says, and nothing else.
import json, os, signal, sys, time

TABLE = os.environ.get("TABLE", "")
BATCH = None


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message = json.loads(line)
    if "batch" in message:
        global BATCH
        BATCH = message["batch"]
        with open("batches", "a") as file:
            file.write(f"{message['batch']}\n")
    return message


def say(**message):
    if all(message.get(kind) is None for kind in ("hello", "done", "failed")):
        message.setdefault("batch", BATCH)
    sys.stdout.write(json.dumps(message) + "\n")


def write(text):
    "As it is, with the number of the batch where it says so."
    sys.stdout.write(text.replace('"BATCH"', str(BATCH)))
    sys.stdout.flush()


def greet(protocol=1):
    hello = read()["hello"]
    say(hello={"protocol": protocol, "client": "raw"})
    sys.stdout.flush()
    return hello


class Abandoned(Exception):
    pass


def query(sql, values=(), event=None):
    say(query=sql, values=list(values), event=event)
    sys.stdout.flush()
    answer = read()
    if "abandoned" in answer:
        raise Abandoned(answer["error"])
    return answer["rows"]


def execute(sql, values=(), event=None):
    say(execute=sql, values=list(values), event=event)


def once(name):
    "Whether this is the first time, of all programs in this directory."
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def note(name, text):
    "Writes a file, all of it at once. Two lanes have two programs in one directory."
    part = f"{name}.{os.getpid()}"
    with open(part, "w") as file:
        file.write(str(text))
    os.rename(part, name)


def key_of(event):
    return event["stream"].split(":")[1]


def record(n, event):
    "A row for each event, and for each key its last number and how often that was wrong."
    key, number = key_of(event), event["data"]
    execute(f"INSERT INTO {TABLE} (position, key, worker) VALUES ($1, $2, $3)",
            [event["position"], key, str(os.getpid())], n)
    rows = query(f"SELECT number FROM {TABLE}_keys WHERE key = $1", [key], n)
    if rows:
        wrong = 0 if number == rows[0][0] + 1 else 1
        execute(f"UPDATE {TABLE}_keys SET number = $1, wrong = wrong + $2 WHERE key = $3", [number, wrong, key], n)
    else:
        execute(f"INSERT INTO {TABLE}_keys VALUES ($1, $2, $3)", [key, number, 0 if number == 1 else 1], n)


def upsert(n, event):
    "The same without a query."
    key, number = key_of(event), event["data"]
    execute(f"INSERT INTO {TABLE} (position, key, worker) VALUES ($1, $2, $3)",
            [event["position"], key, str(os.getpid())], n)
    execute(f"INSERT INTO {TABLE}_keys VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET number = excluded.number, "
            f"wrong = {TABLE}_keys.wrong + CASE WHEN excluded.number = {TABLE}_keys.number + 1 THEN 0 ELSE 1 END",
            [key, number, 0 if number == 1 else 1], n)


def serve(handle, finish=lambda batch: None):
    greet()
    while True:
        batch = read()
        try:
            for n, event in enumerate(batch["events"]):
                handle(n, event)
            finish(batch)
            say(done=batch["batch"])
            sys.stdout.flush()
        except Abandoned:
            pass
