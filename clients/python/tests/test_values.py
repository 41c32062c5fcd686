"""Values arrive with all their digits, both ways."""

from tests.engine import Conversation, event

ECHO = """
    from decimal import Decimal
    from anabranch import run
    def handle(event, tx):
        tx.execute("x", event.data, [event.data], type(event.data).__name__)
    run(handle%s)
"""


class Values(Conversation):
    def said(self, source: str, data: str = "null") -> str:
        program = self.start(source)
        raw = '{"batch":1,"events":[{"position":1,"stream":"A:1","version":1,"type":"T","data":%s}]}\n'
        program.raw((raw % data).encode("utf-8"))
        line = program.line()
        assert line is not None
        return line

    def test_numbers_and_texts_of_events(self) -> None:
        for data, kind in (
            ("123456789012345678901234567890", "int"),
            ("-9007199254740993", "int"),
            ("0.1", "float"),
            ("1e+300", "float"),
            ('"ä \U0001f600 \\" \\\\ \\n \\u0000"', "str"),
            ("true", "bool"),
            ("null", "NoneType"),
            ('{"ключ":[1,"ü"]}', "dict"),
        ):
            said = self.said(ECHO % "", data)
            self.assertEqual(said, f'{{"execute":"x","values":[{data},[{data}],"{kind}"],"batch":1,"event":0}}')

    def test_decimals_of_events_if_asked_for(self) -> None:
        data = "12345678901234567890.120"
        said = self.said(ECHO % ", parse_float=Decimal", data)
        self.assertEqual(said, f'{{"execute":"x","values":["{data}",[{data}],"Decimal"],"batch":1,"event":0}}')

    def test_values_of_a_handler(self) -> None:
        said = self.said(
            """
            from datetime import date, datetime, time, timedelta, timezone
            from decimal import Decimal
            from enum import Enum, IntEnum
            from uuid import UUID
            from anabranch import run
            class Colour(str, Enum):
                RED = "red"
            class Size(IntEnum):
                BIG = 3
            class Price(Enum):
                LOW = Decimal("0.10")
            class Name(str):
                pass
            zone = timezone(timedelta(hours=1))
            def handle(event, tx):
                tx.execute("x", Decimal("0.10"), [Decimal("1E+5")], Colour.RED, Size.BIG, Price.LOW, [Price.LOW],
                    Name("n"), UUID(int=1), date(2026, 1, 2), time(3, 4), datetime(2026, 1, 2, 3, 4, 5, 6),
                    datetime(2026, 1, 2, 3, tzinfo=zone), (1, None), {"a": True}, 2**70, -0.5, Decimal("NaN"),
                    Decimal("1E-7"), Decimal("1E+2"), Decimal("0E-8"), Decimal("-1E+5000"))
            run(handle)
            """
        )
        values = (
            '"0.10",[1E+5],"red",3,"0.10",[0.10],"n","00000000-0000-0000-0000-000000000001","2026-01-02","03:04:00",'
            '"2026-01-02T03:04:05.000006","2026-01-02T02:00:00.000000Z",[1,null],{"a":true},1180591620717411303424,'
            '-0.5,"NaN","0.0000001","100","0.00000000","-1E+5000"'
        )
        self.assertEqual(said, f'{{"execute":"x","values":[{values}],"batch":1,"event":0}}')

    def test_rows_keep_their_digits(self) -> None:
        program = self.start(
            """
            from decimal import Decimal
            from anabranch import run
            run(lambda event, tx: tx.execute("$1", list(tx.query_first("q"))), parse_float=Decimal)
            """
        )
        program.batch(1, event("A"))
        program.hear()
        program.raw(b'{"columns":["a","b"],"rows":[[9223372036854775807,0.12345678901234567890]]}\n')
        self.assertIn('"values":[[9223372036854775807,0.12345678901234567890]]', str(program.line()))
