"""Server-sent events, from pieces of bytes. Pure."""

from typing import Iterator, List, NamedTuple, Optional

#: More than any event that the server sends.
MOST = 64 << 20


class Frame(NamedTuple):
    """What an empty line ends. Without a name it only says where the tail stands."""

    id: Optional[str]
    name: Optional[str]
    data: str


class Frames:
    """Takes pieces as they come, and gives what is whole. What is cut off in the middle never comes out."""

    def __init__(self) -> None:
        self._left = b""
        self._size = 0
        self._id: Optional[str] = None
        self._name: Optional[str] = None
        self._data: List[str] = []

    def feed(self, piece: bytes) -> Iterator[Frame]:
        lines = (self._left + piece).split(b"\n")
        self._left = lines.pop()
        for line in lines:
            self._size += len(line)
            if line in (b"", b"\r"):
                yield from self._end()
            else:
                self._field(line.decode("utf-8").rstrip("\r"))
        if self._size + len(self._left) > MOST:
            raise ValueError(f"an event is larger than {MOST} bytes")

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            self._id = value
        elif name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)

    def _end(self) -> Iterator[Frame]:
        frame = Frame(self._id, self._name if self._data else None, "\n".join(self._data))
        self._size, self._id, self._name, self._data = 0, None, None, []
        if frame.id is not None or frame.name is not None:
            yield frame
