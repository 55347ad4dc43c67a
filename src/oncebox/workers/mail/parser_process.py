"""Child process that parses mail: pipe framing and the loop that answers its parent.

It has limits of its own on memory and on the time for one mail, no secrets, no descriptors but
its pipes and standard error, and ends when its parent does.
"""

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from oncebox.mail.auth.dkim_verify import check_dkim
from oncebox.mail.languages.tables import load_languages
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse

#: bytes before every frame that say how long it is
LENGTH_BYTES = 4
#: a longer frame is a broken one
MAX_FRAME = 1 << 30


class ParserRequest(msgspec.Struct, frozen=True, array_like=True):
    """One thing to do with one mail."""

    number: int
    operation: str
    raw: bytes
    #: what the verb needs besides, in MessagePack
    arguments: bytes


class ParserReply(msgspec.Struct, frozen=True, array_like=True):
    """What came of it."""

    number: int
    #: the result in MessagePack; none if it could not be done
    result: bytes | None


_ENCODER = msgspec.msgpack.Encoder()


def encode_frame(frame: ParserRequest | ParserReply) -> bytes:
    """Return a frame with its length before it."""
    data = bytearray(LENGTH_BYTES)
    _ENCODER.encode_into(frame, data, LENGTH_BYTES)
    data[:LENGTH_BYTES] = (len(data) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
    return bytes(data)


class FrameSplitter:
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
        while len(self._waiting) - at >= LENGTH_BYTES:
            size = int.from_bytes(self._waiting[at : at + LENGTH_BYTES])
            if size > MAX_FRAME:
                raise ValueError("the length of a frame is beyond all measure")
            if len(self._waiting) - at - LENGTH_BYTES < size:
                break
            found.append(bytes(self._waiting[at + LENGTH_BYTES : at + LENGTH_BYTES + size]))
            at += LENGTH_BYTES + size
        del self._waiting[:at]
        return found


#: it ends with this when a mail needs more memory than it may have
NO_MEMORY = 71
_READY = b"ready"
_MAX_FILES = 32
_HIGHEST_FILE = 1 << 20


class ChildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent tells its child on the command line."""

    #: seconds of processor time for one mail
    cpu: float
    #: bytes of address space; 0 is no limit
    memory: int
    limits: ParseLimits = ParseLimits()


Operation = Callable[[bytes, bytes, ParseLimits], Any]


def _parse(raw: bytes, _rest: bytes, limits: ParseLimits) -> Any:
    return parse(raw, limits)


def _check(raw: bytes, rest: bytes, _limits: ParseLimits) -> Any:
    return check_dkim(raw, msgspec.msgpack.decode(rest, type=dict[str, list[bytes]]))


#: what can be asked: of the raw mail, what the verb needs besides, and the limits
OPERATIONS: dict[str, Operation] = {"parse": _parse, "check": _check}


def main(arguments: list[str], source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the parent closes its end."""
    orders = msgspec.json.decode(arguments[0], type=ChildOptions)
    load_languages()  # before the first mail, and outside of its CPU limit
    _apply_limits(orders)
    gc.freeze()  # what is there now stays; looking through it again would be in vain
    _write_frame(sink, encode_frame(ParserReply(-1, _READY)))
    try:
        while (data := _read_frame(source)) is not None:
            _write_frame(sink, _handle_request(data, orders))
    except MemoryError:
        os._exit(NO_MEMORY)  # nothing here can be relied on any more


def _handle_request(data: bytes, orders: ChildOptions) -> bytes:
    request = msgspec.msgpack.decode(data, type=ParserRequest)
    # The kernel ends this process when the time is up, wherever it is.
    signal.setitimer(signal.ITIMER_PROF, orders.cpu)
    result = _run_operation(request, orders.limits)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return encode_frame(ParserReply(request.number, result))


def _run_operation(request: ParserRequest, limits: ParseLimits) -> bytes | None:
    try:
        result = OPERATIONS[request.operation](request.raw, request.arguments, limits)
        return msgspec.msgpack.encode(result)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - what one mail broke is no reason to end
        return None


def _apply_limits(orders: ChildOptions) -> None:
    """Give up what a parser does not need."""
    os.closerange(3, _HIGHEST_FILE)  # not every event loop closes what a child must not inherit
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C at a terminal is for the parent
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    limits.append((resource.RLIMIT_NOFILE, _MAX_FILES))
    if orders.memory:
        limits.append((resource.RLIMIT_AS, orders.memory))
    for kind, wanted in limits:
        _, hard = resource.getrlimit(kind)
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))


def _read_frame(source: BinaryIO) -> bytes | None:
    """Return the next frame; None if the parent is gone."""
    prefix = source.read(LENGTH_BYTES)
    if len(prefix) < LENGTH_BYTES:
        return None
    size = int.from_bytes(prefix)
    data = source.read(size)
    return data if len(data) == size else None


def _write_frame(sink: BinaryIO, data: bytes) -> None:
    try:
        sink.write(data)
        sink.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone, and so is whoever asked


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
