"""Just enough of PostgreSQL's wire protocol to see a commit go out and its answer come back.

A transaction ends with COMMIT; a statement outside of one commits by itself.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final

#: What a client may ask before anything else; we answer ``N`` so that all stays readable.
ENCRYPTION_REQUESTS: Final = frozenset({80877103, 80877104})

_LENGTH: Final = struct.Struct("!I")
_COMMIT: Final = re.compile(rb"\s*(commit|end)\b(?!\s+prepared)", re.IGNORECASE)
_WRITE: Final = re.compile(rb"\s*(insert|update|delete|with)\b", re.IGNORECASE)
_WRITTEN: Final = re.compile(rb"(INSERT 0|UPDATE|DELETE) [1-9]")
_STARTUP_TYPE: Final = b""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message of the protocol."""

    #: One letter, or nothing for the untyped message that opens a session.
    type: bytes
    #: What follows the length.
    body: bytes

    def encoded(self) -> bytes:
        """Return the bytes as they travelled."""
        return self.type + _LENGTH.pack(len(self.body) + _LENGTH.size) + self.body

    @property
    def asks_encryption(self) -> bool:
        """Whether this is an SSL or GSSAPI request instead of a session."""
        return (
            self.type == _STARTUP_TYPE
            and len(self.body) == _LENGTH.size
            and _LENGTH.unpack(self.body)[0] in ENCRYPTION_REQUESTS
        )

    def says_committed(self, *, alone: bool = False) -> bool:
        """Say whether the server tells of a commit; ``alone``: no transaction was open."""
        if self.type != b"C":
            return False
        return self.body == b"COMMIT\0" or (alone and _WRITTEN.match(self.body) is not None)

    @property
    def ends_transaction(self) -> bool | None:
        """Whether no transaction is open from here on; None if this does not tell."""
        return self.body == b"I" if self.type == b"Z" else None


class FrameReader:
    """Cuts a stream of bytes, however it is chopped, into frames."""

    def __init__(self, *, opens_untyped: bool) -> None:
        self._buffer = bytearray()
        self._untyped = opens_untyped

    def feed(self, data: bytes) -> list[Frame]:
        """Add what arrived and return the frames that are now complete."""
        self._buffer += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
            # After a refused encryption request the client opens the session once more.
            self._untyped = self._untyped and frame.asks_encryption
        return frames

    def _next(self) -> Frame | None:
        letter = 0 if self._untyped else 1
        if len(self._buffer) < letter + _LENGTH.size:
            return None
        end = letter + _LENGTH.unpack_from(self._buffer, letter)[0]
        if len(self._buffer) < end:
            return None
        frame = Frame(
            bytes(self._buffer[:letter]), bytes(self._buffer[letter + _LENGTH.size : end])
        )
        del self._buffer[:end]
        return frame


class CommitWatcher:
    """Recognises what makes a server commit, sent as a simple query or as a prepared statement."""

    def __init__(self) -> None:
        self._commits: set[bytes] = set()
        self._writes: set[bytes] = set()

    def is_commit(self, frame: Frame, *, alone: bool = False) -> bool:
        """Say whether this frame makes the server commit; ``alone``: no transaction is open."""
        if frame.type == b"Q":
            return _COMMIT.match(frame.body) is not None or (
                alone and _WRITE.match(frame.body) is not None
            )
        if frame.type == b"P":
            self._remember(frame.body)
        elif frame.type == b"B":
            name = frame.body.split(b"\0", 2)[1]
            return name in self._commits or (alone and name in self._writes)
        return False

    def _remember(self, body: bytes) -> None:
        name, text = body.split(b"\0", 2)[:2]
        for kind, names in ((_COMMIT, self._commits), (_WRITE, self._writes)):
            names.discard(name)
            if kind.match(text):
                names.add(name)
