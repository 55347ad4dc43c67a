"""Server-sent events: bytes as they come, into blocks as they are meant."""

from typing import NamedTuple

#: bytes of a block that is never finished; beyond that it is no stream of ours
_LONGEST = 16 * 1024 * 1024


class Block(NamedTuple):
    """One block: where the reader is after it, and what it carries, if anything."""

    id: str | None
    data: bytes
    #: milliseconds that the service asks to be left alone after a cut
    retry: int | None


class Unreadable(Exception):
    """What comes is no stream of blocks."""


class Reader:
    """Collects bytes and returns the blocks that are whole; lines end as they like."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""
        self._lines: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Block]:
        """Return the blocks that have become whole.

        Raises: Unreadable.
        """
        blocks = []
        text = self._rest + chunk
        # A carriage return at the very end may be the first half of a line's end.
        held = b"\r" if text.endswith(b"\r") else b""
        lines = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, last = lines.split(b"\n")
        self._rest = last + held
        for line in whole:
            if line:
                self._keep(line)
            elif self._lines:
                blocks.append(_parsed(self._lines))
                self._lines, self._size = [], 0
        if self._size + len(self._rest) > _LONGEST:
            raise Unreadable
        return blocks

    def _keep(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)


def _parsed(lines: list[bytes]) -> Block:
    id_: str | None = None
    retry: int | None = None
    data: list[bytes] = []
    for line in lines:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id" and b"\0" not in value:
            id_ = value.decode("utf-8", "replace")
        elif name == b"data":
            data.append(value)
        elif name == b"retry" and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - a day
            retry = int(value)
    return Block(id_, b"\n".join(data), retry)
