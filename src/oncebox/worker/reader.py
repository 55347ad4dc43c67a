"""The parser's process: reads mails from a pipe, one at a time, and answers; nothing else.

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

from oncebox.mail.dkim import check
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parse import parse
from oncebox.worker.frames import PREFIX, Reply, Request, encode

#: it ends with this when a mail needs more memory than it may have
NO_MEMORY = 71
_READY = b"ready"
_MOST_FILES = 32
_HIGHEST_FILE = 1 << 20


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent tells its child on the command line."""

    #: seconds of processor time for one mail
    cpu: float
    #: bytes of address space; 0 is no limit
    memory: int
    limits: ParseLimits = ParseLimits()


Verb = Callable[[bytes, bytes, ParseLimits], Any]


def _parse(raw: bytes, _rest: bytes, limits: ParseLimits) -> Any:
    return parse(raw, limits)


def _check(raw: bytes, rest: bytes, _limits: ParseLimits) -> Any:
    return check(raw, msgspec.msgpack.decode(rest, type=dict[str, list[bytes]]))


#: what can be asked: of the raw mail, what the verb needs besides, and the limits
VERBS: dict[str, Verb] = {"parse": _parse, "check": _check}


def main(arguments: list[str], source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the parent closes its end."""
    orders = msgspec.json.decode(arguments[0], type=Orders)
    _confine(orders)
    gc.freeze()  # what is there now stays; looking through it again would be in vain
    _send(sink, encode(Reply(-1, _READY)))
    try:
        while (data := _receive(source)) is not None:
            _send(sink, _answer(data, orders))
    except MemoryError:
        os._exit(NO_MEMORY)  # nothing here can be relied on any more


def _answer(data: bytes, orders: Orders) -> bytes:
    request = msgspec.msgpack.decode(data, type=Request)
    # The kernel ends this process when the time is up, wherever it is.
    signal.setitimer(signal.ITIMER_PROF, orders.cpu)
    result = _perform(request, orders.limits)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return encode(Reply(request.number, result))


def _perform(request: Request, limits: ParseLimits) -> bytes | None:
    try:
        result = VERBS[request.verb](request.raw, request.rest, limits)
        return msgspec.msgpack.encode(result)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - what one mail broke is no reason to end
        return None


def _confine(orders: Orders) -> None:
    """Give up what a parser does not need."""
    os.closerange(3, _HIGHEST_FILE)  # not every event loop closes what a child must not inherit
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C at a terminal is for the parent
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    limits.append((resource.RLIMIT_NOFILE, _MOST_FILES))
    if orders.memory:
        limits.append((resource.RLIMIT_AS, orders.memory))
    for kind, wanted in limits:
        _, hard = resource.getrlimit(kind)
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))


def _receive(source: BinaryIO) -> bytes | None:
    """Return the next frame; None if the parent is gone."""
    prefix = source.read(PREFIX)
    if len(prefix) < PREFIX:
        return None
    size = int.from_bytes(prefix)
    data = source.read(size)
    return data if len(data) == size else None


def _send(sink: BinaryIO, data: bytes) -> None:
    try:
        sink.write(data)
        sink.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone, and so is whoever asked


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
