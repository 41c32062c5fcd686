"""Values as JSON, with all their digits."""

import math
from datetime import date, datetime, time, timezone
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from typing import Any, Callable, Dict, Iterable, Mapping, Type
from uuid import UUID

Encoder = Callable[[Any], str]


def text(value: str) -> str:
    if not value.isascii():
        value.encode("utf-8")  # Half a character (a lone surrogate) is refused here, where the handler sees it.
    return encode_basestring(value)


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is no number that JSON has")
    return float.__repr__(value)


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value!r} is no number that JSON has")
    return str(value)


#: Beyond so many digits a number is written with its exponent.
_PLAIN = 1_000


def _digits(value: Decimal) -> str:
    """Without an exponent, where it can be: no column of whole numbers takes one."""
    if value.is_finite() and -_PLAIN < value.as_tuple().exponent and value.adjusted() < _PLAIN:
        return format(value, "f")
    return str(value)


def time_text(value: datetime) -> str:
    """As Anabranch writes times: a moment in UTC, always with microseconds, so that texts sort as times do."""
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    moment = value.astimezone(timezone.utc).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def _quoted(write: Callable[[Any], str]) -> Encoder:
    return lambda value: f'"{write(value)}"'


def _list(values: Iterable[Any]) -> str:
    return "[" + ",".join([INSIDE[type(value)](value) for value in values]) + "]"


def _object(values: Mapping[Any, Any]) -> str:
    parts = []
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"keys of an object are texts, not {key!r}")
        parts.append(text(key) + ":" + INSIDE[type(value)](value))
    return "{" + ",".join(parts) + "}"


class _Encoders(Dict[Type[Any], Encoder]):
    """An encoder for each type. A type that is seen for the first time gets that of its base."""

    def __missing__(self, kind: Type[Any]) -> Encoder:
        if issubclass(kind, Enum):
            encoder: Encoder = lambda value: self[type(value.value)](value.value)
        elif issubclass(kind, (bytes, bytearray, memoryview)):
            raise TypeError("bytes are no value: pass value.hex(), and decode it in the statement")
        else:
            base = next((base for base in kind.__mro__ if base in self), None)
            if base is None:
                raise TypeError(f"{kind.__name__} is no value that JSON has")
            encoder = self[base]
        self[kind] = encoder
        return encoder


_KINDS: Dict[Type[Any], Encoder] = {
    str: text,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
    float: _float,
    Decimal: _decimal,
    datetime: _quoted(time_text),
    date: _quoted(date.isoformat),
    time: _quoted(time.isoformat),
    UUID: _quoted(str),
    list: _list,
    tuple: _list,
    dict: _object,
}

#: Inside of lists and objects, and in the data of events and tasks.
INSIDE = _Encoders(_KINDS)

#: For a value of a statement. A decimal is a text there, which no database rounds on the way in.
VALUES = _Encoders({**_KINDS, Decimal: _quoted(_digits)})


def encode(value: Any) -> str:
    return INSIDE[type(value)](value)


def encode_values(values: Iterable[Any]) -> str:
    return ",".join([VALUES[type(value)](value) for value in values])


def blame(values: Iterable[Any], error: Exception) -> Exception:
    """The error with the number of the value that caused it."""
    for number, value in enumerate(values, 1):
        try:
            VALUES[type(value)](value)
        except Exception:
            return type(error)(f"${number}: {error}") if type(error) in (TypeError, ValueError) else error
    return error
