"""Just enough of PostgreSQL's wire protocol to see a COMMIT go out and its answer come back."""

import re
import struct
from dataclasses import dataclass
from typing import Final

#: What a client may ask before anything else; we answer ``N`` so that all stays readable.
ENCRYPTION_REQUESTS: Final = frozenset({80877103, 80877104})

_LENGTH: Final = struct.Struct("!I")
_COMMIT: Final = re.compile(rb"\s*(commit|end)\b(?!\s+prepared)", re.IGNORECASE)
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

    @property
    def says_committed(self) -> bool:
        """Whether the server says that a transaction is committed."""
        return self.type == b"C" and self.body == b"COMMIT\0"


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
    """Recognises a client's COMMIT, sent as a simple query or as a prepared statement."""

    def __init__(self) -> None:
        self._statements: set[bytes] = set()

    def is_commit(self, frame: Frame) -> bool:
        """Say whether this frame makes the server commit, remembering prepared commits."""
        if frame.type == b"Q":
            return _COMMIT.match(frame.body) is not None
        if frame.type == b"P":
            self._remember(frame.body)
        elif frame.type == b"B":
            return frame.body.split(b"\0", 2)[1] in self._statements
        return False

    def _remember(self, body: bytes) -> None:
        name, text = body.split(b"\0", 2)[:2]
        if _COMMIT.match(text):
            self._statements.add(name)
        else:
            self._statements.discard(name)
