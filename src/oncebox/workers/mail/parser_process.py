"""Child process that parses mail and checks signatures, one framed request after another.

It has limits of its own on memory and on the time for one mail, no secrets, no descriptors but
its pipes and standard error, and ends when its parent does.
See docs/decisions/0022-use-a-custom-mime-and-html-parser-in-isolated-processes.md.
"""

import gc
import os
import resource
import signal
import sys
from types import FrameType
from typing import BinaryIO, Literal

import msgspec

from oncebox.mail.auth.dkim_verify import check_dkim
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse

#: size of the length before every frame
LENGTH_BYTES = 4
#: the number of the reply that says that the child is ready
READY = -1
#: exit code after a mail that needs more memory than the limit
NO_MEMORY = 71
#: parsed before the first mail, so that tables and patterns are compiled by then
SAMPLE = (
    b"From: Sender <a@sender.example>\r\nSubject: Your code\r\nMessage-ID: <1@sender.example>\r\n"
    b"Date: Mon, 16 Nov 2026 10:00:00 +0000\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    b'<p style="color:#000">Enter this code to sign in to your account:<p><b>482915</b>\r\n'
    b'<p>Or <a href="https://sender.example/verify?token=Zk3vQ9xT7LmW2pRs">Sign in</a>\r\n'
)
_MAX_FILES = 32
_HIGHEST_FILE = 1 << 20

Operation = Literal["parse", "check"]


class ParserRequest(msgspec.Struct, frozen=True, array_like=True):
    """One operation on one mail."""

    number: int
    operation: Operation
    raw: bytes
    #: TXT records by name, for ``check``
    records: dict[str, list[bytes]]
    #: seconds of processor time after which it is abandoned; 0 is no limit but the child's own
    within: float = 0.0


class ParserReply(msgspec.Struct, frozen=True, array_like=True):
    """The reply to one request."""

    number: int
    #: the result in MessagePack; None if the operation failed
    result: bytes | None
    #: whether it was abandoned
    abandoned: bool = False


class ChildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a child, passed on its command line."""

    #: seconds of processor time for one mail
    cpu: float
    #: bytes of address space; 0 is no limit
    memory: int
    limits: ParseLimits
    #: by how much its priority is lowered
    nice: int = 0


def main(arguments: list[str], source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until the parent closes its end."""
    options = msgspec.json.decode(arguments[0], type=ChildOptions)
    os.nice(options.nice)
    # Outside of the CPU limit of the first mail.
    _run_operation(ParserRequest(READY, "parse", SAMPLE, {}), options.limits)
    _apply_limits(options.memory)
    signal.signal(signal.SIGVTALRM, _abandon)
    gc.collect()
    gc.freeze()  # what is loaded now stays; the collector need not examine it again
    gc.disable()
    _write_frame(sink, ParserReply(READY, None))
    try:
        while (data := _read_frame(source)) is not None:
            request = msgspec.msgpack.decode(data, type=ParserRequest)
            # The kernel ends this process when the time is up.
            signal.setitimer(signal.ITIMER_PROF, options.cpu)
            reply = _reply(request, options.limits)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _write_frame(sink, reply)
            del data, request, reply
            gc.collect()  # after the reply, because nobody waits for it
    except MemoryError:
        os._exit(NO_MEMORY)  # nothing here can be relied on any more


class _Abandoned(BaseException):
    """The time for the current mail is up; not an Exception, which the parser would handle."""


def _abandon(_signal: int, _frame: FrameType | None) -> None:
    raise _Abandoned


def _reply(request: ParserRequest, limits: ParseLimits) -> ParserReply:
    """Run an operation, for at most as long as the request allows."""
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, request.within)
        try:
            return ParserReply(request.number, _run_operation(request, limits))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Abandoned:
        return ParserReply(request.number, None, abandoned=True)


def _run_operation(request: ParserRequest, limits: ParseLimits) -> bytes | None:
    try:
        if request.operation == "parse":
            return msgspec.msgpack.encode(parse(request.raw, limits))
        return msgspec.msgpack.encode(check_dkim(request.raw, request.records))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a mail that breaks the parser must not end the process
        return None


def _apply_limits(memory: int) -> None:
    os.closerange(3, _HIGHEST_FILE)  # not every event loop closes inherited descriptors
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C at a terminal is for the parent
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    limits.append((resource.RLIMIT_NOFILE, _MAX_FILES))
    if memory:
        limits.append((resource.RLIMIT_AS, memory))
    for kind, wanted in limits:
        _, hard = resource.getrlimit(kind)
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (limit, limit))


def _read_frame(source: BinaryIO) -> bytes | None:
    """Return the next frame; None if the parent is gone."""
    prefix = source.read(LENGTH_BYTES)
    size = int.from_bytes(prefix)
    data = source.read(size)
    return data if len(prefix) == LENGTH_BYTES and len(data) == size else None


def _write_frame(sink: BinaryIO, reply: ParserReply) -> None:
    data = msgspec.msgpack.encode(reply)
    try:
        sink.write(len(data).to_bytes(LENGTH_BYTES))
        sink.write(data)
        sink.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
