"""Frames: how the parser's processes and their parent speak over pipes."""

import msgspec

#: bytes before every frame that say how long it is
PREFIX = 4
#: a longer frame is a broken one
LONGEST = 1 << 30


class Request(msgspec.Struct, frozen=True, array_like=True):
    """One thing to do with one mail."""

    number: int
    verb: str
    raw: bytes
    #: what the verb needs besides, in MessagePack
    rest: bytes


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What came of it."""

    number: int
    #: the result in MessagePack; none if it could not be done
    result: bytes | None


_ENCODER = msgspec.msgpack.Encoder()


def encode(frame: Request | Reply) -> bytes:
    """Return a frame with its length before it."""
    data = bytearray(PREFIX)
    _ENCODER.encode_into(frame, data, PREFIX)
    data[:PREFIX] = (len(data) - PREFIX).to_bytes(PREFIX)
    return bytes(data)


class Splitter:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what came; return the frames that are whole now.

        Raises: ValueError, if this is no stream of frames.
        """
        self._waiting += data
        found: list[bytes] = []
        at = 0
        while len(self._waiting) - at >= PREFIX:
            size = int.from_bytes(self._waiting[at : at + PREFIX])
            if size > LONGEST:
                message = "the length of a frame is beyond all measure"
                raise ValueError(message)
            if len(self._waiting) - at - PREFIX < size:
                break
            found.append(bytes(self._waiting[at + PREFIX : at + PREFIX + size]))
            at += PREFIX + size
        del self._waiting[:at]
        return found
