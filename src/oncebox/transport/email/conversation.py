"""A conversation with a mail server, once it has greeted us: commands, replies, the mail, the dot.

The connection, its TLS and the login are aiosmtplib's; from there on every byte is ours, because
the moment of the dot must be known, and what a server says unasked must not pass for an answer.
"""

import asyncio
import re
from collections.abc import Mapping

import msgspec

_LINE_END = b"\r\n"
_DOT = b".\r\n"
_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\r\n]*))?\r?\n")
#: bytes of one reply
_LONGEST_REPLY = 8192
#: bytes of a mail that are written at once
_PIECE = 65_536
_LEAST_REFUSAL = 400
_OK = 250
_GO_ON = 354
_CLOSING = 421
#: seconds for the answer of a server that was left alone for a while
_CHECK_WITHIN = 5.0
#: seconds for a farewell
_LEAVE_WITHIN = 1.0


class Reply(msgspec.Struct, frozen=True):
    """What a server said."""

    code: int
    #: of the last line; it is never shown to anybody
    text: bytes


class Lost(Exception):
    """The connection is gone."""


class Unreadable(Exception):
    """What was said is no reply."""


class Refused(Exception):
    """The server did not say what would let the mail go on."""

    def __init__(self, reply: Reply) -> None:
        """Keep what it said."""
        super().__init__()
        self.reply = reply


class Conversation(asyncio.Protocol):
    """Speaks on a connection that is open, secured and logged in."""

    def __init__(self, transport: asyncio.Transport, extensions: Mapping[str, str]) -> None:
        """Take the connection over; ``extensions`` is what the server offers, in lower case."""
        self.extensions = extensions
        #: ends it when nobody needed it for too long
        self.retiring: asyncio.TimerHandle | None = None
        self._transport = transport
        self._heard = bytearray()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = asyncio.Event()
        #: whether nothing is open: no answer, no mail
        self._rests = True
        # Drained means: all of it is with the system. With 0, TLS would never be.
        transport.set_write_buffer_limits(high=1, low=0)
        transport.set_protocol(self)

    # What the connection tells us

    def data_received(self, data: bytes) -> None:
        """Keep what was said."""
        self._heard += data
        self._changed.set()
        if len(self._heard) > _LONGEST_REPLY:
            self._transport.abort()

    def eof_received(self) -> None:
        """Close as well; what was said before still counts."""
        self._ended.set()
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake up whoever waits."""
        del exc
        self._ended.set()
        self._changed.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """Something is not with the system yet."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """All of it is."""
        self._writable.set()

    # What is said

    @property
    def rests(self) -> bool:
        """Whether another mail may follow."""
        return self._rests and not self._heard and not self._is_over()

    async def ask(self, command: bytes, expected: int = _OK) -> Reply:
        """Say one line and return its reply, whose first digit is that of the expected one.

        Raises: Lost, Refused, Unreadable.
        """
        self.listen()
        self._rests = False
        self._transport.write(command + _LINE_END)
        reply = await self.reply()
        if reply.code // 100 != expected // 100:
            # Who says yes to something else is not where we think.
            self._rests = reply.code >= _LEAST_REFUSAL and reply.code != _CLOSING
            raise Refused(reply)
        self._rests = True
        return reply

    async def begin(self) -> None:
        """Open the mail; until its dot is answered, nothing else can be said.

        Raises: Lost, Refused, Unreadable.
        """
        await self.ask(b"DATA", _GO_ON)
        self._rests = False

    async def stream(self, message: bytes) -> None:
        """Write a mail without its dot; return when all of it is with the system.

        Raises: Lost, Refused, Unreadable, if the server did not hear it out.
        """
        view = memoryview(stuffed(message))
        for start in range(0, len(view), _PIECE):
            self.listen()
            self._transport.write(view[start : start + _PIECE])
            await self._drain()
        self.listen()

    def listen(self) -> None:
        """See that nothing was said unasked, and that the line is open.

        Raises: Lost, Refused, Unreadable.
        """
        if self._heard:
            self._rests = False
            reply = self._parsed()
            if reply is not None and reply.code >= _LEAST_REFUSAL:
                raise Refused(reply)
            raise Unreadable
        if self._is_over():
            raise Lost

    async def end(self) -> None:
        """Write the dot: from here on the mail may be taken, and only an answer says whether."""
        self._transport.write(_DOT)
        await self._writable.wait()

    async def answer(self) -> Reply:
        """Return the reply to the dot.

        Raises: Lost, Unreadable.
        """
        reply = await self.reply()
        self._rests = reply.code != _CLOSING and reply.code // 100 in {2, 4, 5}
        return reply

    async def reply(self) -> Reply:
        """Wait for a whole reply.

        Raises: Lost, Unreadable.
        """
        while (reply := self._parsed()) is None:
            if self._is_over():
                raise Lost
            self._changed.clear()
            await self._changed.wait()
        return reply

    async def answers(self) -> bool:
        """Say whether the server is still there, and has forgotten the last mail."""
        try:
            async with asyncio.timeout(_CHECK_WITHIN):
                await self.ask(b"RSET")
        except (Lost, Refused, Unreadable, TimeoutError):
            return False
        return True

    def abort(self) -> None:
        """Cut the line; what is not with the system yet is thrown away."""
        self._rests = False
        self._transport.abort()

    async def leave(self) -> None:
        """Say goodbye, and do not wait for long."""
        self._rests = False
        if not self._is_over():
            self._transport.write(b"QUIT\r\n")
        self._transport.close()
        try:
            async with asyncio.timeout(_LEAVE_WITHIN):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()

    def _is_over(self) -> bool:
        return self._ended.is_set() or self._transport.is_closing()

    async def _drain(self) -> None:
        await self._writable.wait()
        if self._is_over():
            raise Lost

    def _parsed(self) -> Reply | None:
        """Take a whole reply from what was heard; None: it is not whole yet."""
        start, code = 0, b""
        while (end := self._heard.find(b"\n", start)) >= 0:
            line = _LINE.fullmatch(bytes(self._heard[start : end + 1]))
            if line is None or code not in {b"", line[1]}:
                raise Unreadable
            start, code = end + 1, line[1]
            if line[2] != b"-":
                reply = Reply(int(code), line[3] or b"")
                del self._heard[:start]
                return reply
        if len(self._heard) > _LONGEST_REPLY:
            raise Unreadable
        return None


def stuffed(message: bytes) -> bytes:
    """Return a mail as it is written before the dot: whole lines, none of them a dot (RFC 5321)."""
    if message and not message.endswith(_LINE_END):
        message += _LINE_END
    message = message.replace(b"\r\n.", b"\r\n..")
    return b"." + message if message.startswith(b".") else message
