"""SMTP client connections: connect, TLS, login, commands and replies, connection pool.

aiosmtplib connects, starts TLS and logs in. After that this module writes every byte itself: the
moment of the final dot must be known, and an unsolicited reply must not pass for an answer.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import aiosmtplib
import msgspec

from oncebox.core.connecting import ErrorCodes, is_host, is_loopback
from oncebox.errors import ConfigInvalid
from oncebox.model.sends.transports import NotSent, SendPhase
from oncebox.transports.transport import (
    CONNECT_ERROR_CODES,
    connect_failure,
    error_chain,
)

_LINE_END = b"\r\n"
_DOT = b".\r\n"
_REPLY_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\r\n]*))?\r?\n")
#: bytes of one reply
_MAX_REPLY_BYTES = 8192
#: bytes of a mail that are written at once
_CHUNK_BYTES = 65_536
_MIN_REFUSAL_CODE = 400
_OK = 250
_START_MAIL_INPUT = 354
_SERVICE_CLOSING = 421
#: seconds for the reply of a server on an idle connection
_CHECK_TIMEOUT = 5.0
#: seconds for QUIT
_QUIT_TIMEOUT = 1.0


class SmtpReply(msgspec.Struct, frozen=True):
    """A server reply."""

    code: int
    #: of the last line; never shown
    text: bytes


class SmtpDialogueError(Exception):
    """The dialogue cannot continue."""


class SmtpConnectionLost(SmtpDialogueError):
    """The connection was lost."""


class SmtpReplyUnreadable(SmtpDialogueError):
    """The received bytes are no SMTP reply."""


class SmtpCommandRefused(SmtpDialogueError):
    """The server refused a command."""

    def __init__(self, reply: SmtpReply) -> None:
        super().__init__()
        self.reply = reply


class SmtpClientConnection(asyncio.Protocol):
    """SMTP dialogue on an open connection, after TLS and login; raises SmtpDialogueError."""

    def __init__(self, transport: asyncio.Transport, extensions: Mapping[str, str]) -> None:
        """Take over a connection; ``extensions`` are the server's, in lower case."""
        self.extensions = extensions
        #: closes the connection after its idle time
        self.idle_timer: asyncio.TimerHandle | None = None
        self._transport = transport
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = asyncio.Event()
        #: no reply and no message is outstanding
        self._is_idle = True
        # Drained means: the kernel has all of it. With 0, TLS would never drain.
        transport.set_write_buffer_limits(high=1, low=0)
        transport.set_protocol(self)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes."""
        self._received += data
        self._changed.set()
        if len(self._received) > _MAX_REPLY_BYTES:
            self._transport.abort()

    def eof_received(self) -> None:
        """Close too; replies received before still count."""
        self._ended.set()
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake all waiting calls."""
        del exc
        self._ended.set()
        self._changed.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """The kernel has not taken everything yet."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The kernel has taken everything."""
        self._writable.set()

    # commands

    @property
    def is_idle(self) -> bool:
        """Whether the connection can be used for another mail."""
        return self._is_idle and not self._received and not self._is_closed()

    async def command(self, command: bytes, expected: int = _OK) -> SmtpReply:
        """Send a command and return its reply, of the same class as the expected one."""
        self.check_no_unsolicited_reply()
        self._is_idle = False
        self._transport.write(command + _LINE_END)
        reply = await self.read_reply()
        if reply.code // 100 != expected // 100:
            # A positive reply of another class means that both sides are out of step.
            self._is_idle = reply.code >= _MIN_REFUSAL_CODE and reply.code != _SERVICE_CLOSING
            raise SmtpCommandRefused(reply)
        self._is_idle = True
        return reply

    async def start_data(self) -> None:
        """Start the message; no other command is possible until its dot is answered."""
        await self.command(b"DATA", _START_MAIL_INPUT)
        self._is_idle = False

    async def write_message(self, message: bytes) -> None:
        """Write a message without its dot; return when the kernel has all of it."""
        view = memoryview(dot_stuff(message))
        for start in range(0, len(view), _CHUNK_BYTES):
            self.check_no_unsolicited_reply()
            self._transport.write(view[start : start + _CHUNK_BYTES])
            await self._writable.wait()
            if self._is_closed():
                raise SmtpConnectionLost
        self.check_no_unsolicited_reply()

    def check_no_unsolicited_reply(self) -> None:
        """Check that the connection is open and the server has sent nothing unasked."""
        if self._received:
            self._is_idle = False
            reply = self._parse_reply()
            if reply is not None and reply.code >= _MIN_REFUSAL_CODE:
                raise SmtpCommandRefused(reply)
            raise SmtpReplyUnreadable
        if self._is_closed():
            raise SmtpConnectionLost

    async def write_final_dot(self) -> None:
        """Write the final dot: from now on only a reply shows whether the mail was accepted."""
        self._transport.write(_DOT)
        await self._writable.wait()

    async def read_final_reply(self) -> SmtpReply:
        """Return the reply to the dot."""
        reply = await self.read_reply()
        self._is_idle = reply.code != _SERVICE_CLOSING and reply.code // 100 in {2, 4, 5}
        return reply

    async def read_reply(self) -> SmtpReply:
        """Wait for a complete reply."""
        while (reply := self._parse_reply()) is None:
            if self._is_closed():
                raise SmtpConnectionLost
            self._changed.clear()
            await self._changed.wait()
        return reply

    async def is_alive(self) -> bool:
        """Tell whether the server still answers; resets its state."""
        try:
            async with asyncio.timeout(_CHECK_TIMEOUT):
                await self.command(b"RSET")
        except (SmtpDialogueError, TimeoutError):
            return False
        return True

    def abort(self) -> None:
        """Abort the connection and discard unsent bytes."""
        self._is_idle = False
        self._transport.abort()

    async def quit(self) -> None:
        """Send QUIT and wait briefly for the server to close."""
        self._is_idle = False
        if not self._is_closed():
            self._transport.write(b"QUIT\r\n")
        self._transport.close()
        try:
            async with asyncio.timeout(_QUIT_TIMEOUT):
                await self._ended.wait()
        except TimeoutError:
            self._transport.abort()

    def _is_closed(self) -> bool:
        return self._ended.is_set() or self._transport.is_closing()

    def _parse_reply(self) -> SmtpReply | None:
        """Remove a complete reply from the buffer; None if it is incomplete."""
        start, code = 0, b""
        while (end := self._received.find(b"\n", start)) >= 0:
            line = _REPLY_LINE.fullmatch(bytes(self._received[start : end + 1]))
            if line is None or code not in {b"", line[1]}:
                raise SmtpReplyUnreadable
            start, code = end + 1, line[1]
            if line[2] != b"-":
                reply = SmtpReply(int(code), line[3] or b"")
                del self._received[:start]
                return reply
        if len(self._received) > _MAX_REPLY_BYTES:
            raise SmtpReplyUnreadable
        return None


def dot_stuff(message: bytes) -> bytes:
    """Return a message with complete lines and doubled leading dots (RFC 5321)."""
    if message and not message.endswith(_LINE_END):
        message += _LINE_END
    message = message.replace(b"\r\n.", b"\r\n..")
    return b"." + message if message.startswith(b".") else message


_MIN_PERMANENT_CODE = 500


class RelaySecurity(StrEnum):
    """Encryption of the connection; never downgraded implicitly."""

    #: plain at first, then STARTTLS before any mail; required, not opportunistic
    STARTTLS = "starttls"
    #: TLS from the first byte
    TLS = "tls"
    #: for a server on this machine or in a private network
    NONE = "none"


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """The server that takes outgoing mail, and the login for it."""

    host: str
    port: int = 587
    security: RelaySecurity = RelaySecurity.STARTTLS
    #: empty: no login
    username: str = ""
    password: str = ""
    #: the name in EHLO
    name: str = "localhost"

    def __repr__(self) -> str:
        return f"Relay({self.host}:{self.port}, {self.security})"


@dataclass(slots=True)
class SmtpProgress:
    """How far a mail got."""

    phase: SendPhase = SendPhase.CONNECT
    #: what the last command was about: sender, recipient or message
    subject: str = "message"


class RelayUnsuitable(Exception):
    """The server lacks something the configuration requires; its argument is the code."""


def check_relay(relay: Relay) -> None:
    """Check a relay; a password is never sent in the clear.

    Raises: ConfigInvalid.
    """
    if not is_host(relay.host):
        raise ConfigInvalid("a relay needs a host, such as smtp.example.com")
    if not relay.name.isascii() or not relay.name.isprintable() or not relay.name.split():
        raise ConfigInvalid("the EHLO name must be printable ASCII, such as app.example.com")
    if relay.username and relay.security is RelaySecurity.NONE and not is_loopback(relay.host):
        raise ConfigInvalid(
            "a password is never sent without TLS; use starttls or tls for this relay"
        )


async def open_connection(
    relay: Relay, tls: ssl.SSLContext, progress: SmtpProgress
) -> SmtpClientConnection:
    """Connect, start TLS and log in, each once.

    Raises: CONNECT_ERRORS.
    """
    client = aiosmtplib.SMTP(
        hostname=relay.host,
        port=relay.port,
        local_hostname=relay.name,
        timeout=None,  # the caller has a deadline
        use_tls=relay.security is RelaySecurity.TLS,
        start_tls=False,
        tls_context=tls,
    )
    try:
        await client.connect()
        progress.phase = SendPhase.GREETED
        await _say_ehlo(client)
        if relay.security is RelaySecurity.STARTTLS:
            await _start_tls(client)
        if relay.username:
            await _log_in(client, relay)
        return SmtpClientConnection(_asyncio_transport(client), dict(client.esmtp_extensions))
    except BaseException:
        if client.transport is not None:
            _asyncio_transport(client).abort()
        client.close()
        raise


def session_failure(error: Exception, phase: SendPhase) -> NotSent:
    """Return the outcome of a mail whose session failed before the envelope.

    Such a failure concerns the relay, not the mail, so the mail is not rejected.
    """
    if isinstance(error, RelayUnsuitable):
        return NotSent(code=str(error), phase=phase, opens_circuit=True)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return _session_refusal(error, phase)
    return connect_failure(error_chain(error), phase, _SMTP_ERROR_CODES)


_SMTP_ERROR_CODES: ErrorCodes = (
    *CONNECT_ERROR_CODES,
    (aiosmtplib.SMTPServerDisconnected, "connection_lost"),
    # an invalid authentication challenge
    (ValueError, "reply_unreadable"),
)
#: errors of connecting, TLS and login that are not ours
CONNECT_ERRORS = (RelayUnsuitable, aiosmtplib.SMTPException, OSError, ValueError)


def _session_refusal(error: aiosmtplib.SMTPResponseException, phase: SendPhase) -> NotSent:
    if error.code < _MIN_REFUSAL_CODE:
        return NotSent(code="reply_unreadable", phase=phase, reply=max(error.code, 0))
    is_permanent = error.code >= _MIN_PERMANENT_CODE
    who = "login" if isinstance(error, aiosmtplib.SMTPAuthenticationError) else "session"
    code = f"{who}_refused" if is_permanent else f"{who}_deferred"
    return NotSent(code=code, phase=phase, opens_circuit=is_permanent, reply=error.code)


def _asyncio_transport(client: aiosmtplib.SMTP) -> asyncio.Transport:
    if client.transport is None:
        raise aiosmtplib.SMTPServerDisconnected("")
    # uvloop's transports are not subclasses.
    return cast("asyncio.Transport", client.transport)


async def _say_ehlo(client: aiosmtplib.SMTP) -> None:
    """Send EHLO, or HELO to servers that refuse it."""
    try:
        await client.ehlo()
    except aiosmtplib.SMTPHeloError as error:
        if error.code < _MIN_PERMANENT_CODE:
            raise
        await client.helo()


async def _start_tls(client: aiosmtplib.SMTP) -> None:
    if not client.supports_extension("starttls"):
        raise RelayUnsuitable("starttls_missing")
    await client.starttls()
    # Extensions announced before TLS cannot be trusted.
    await _say_ehlo(client)


async def _log_in(client: aiosmtplib.SMTP, relay: Relay) -> None:
    """Try one method only: a wrong password tried with each method locks accounts."""
    methods = {
        "plain": client.auth_plain,
        "login": client.auth_login,
        "cram-md5": client.auth_crammd5,
    }
    offered = [method for name, method in methods.items() if name in client.server_auth_methods]
    if not offered:
        raise RelayUnsuitable("login_missing")
    await offered[0](relay.username, relay.password)


class SmtpClientPool:
    """Bounded pool of connections; idle ones are reused, the most recent first."""

    def __init__(self, relay: Relay, tls: ssl.SSLContext, *, most: int, idle: float) -> None:
        """Limit the connections; one that is idle for ``idle`` seconds is closed."""
        self._relay = relay
        self._tls = tls
        self._idle_for = idle
        self._slots = asyncio.Semaphore(most)
        self._idle: list[SmtpClientConnection] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def acquire(self, progress: SmtpProgress) -> SmtpClientConnection:
        """Return a working connection, a new one if necessary.

        Raises: CONNECT_ERRORS.
        """
        await self._slots.acquire()
        try:
            return await self._take_idle() or await open_connection(
                self._relay, self._tls, progress
            )
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: SmtpClientConnection) -> None:
        """Take a connection back; one that is not idle is aborted."""
        self._slots.release()
        if not connection.is_idle or self._is_closed or self._idle_for <= 0:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        connection.idle_timer = loop.call_later(self._idle_for, self._close_idle, connection)
        self._idle.append(connection)

    async def close(self) -> None:
        """Close idle connections; those in use are aborted when released."""
        self._is_closed = True
        for connection in list(self._idle):
            self._close_idle(connection)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _take_idle(self) -> SmtpClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            _cancel_idle_timer(connection)
            try:
                if connection.is_idle and await connection.is_alive():
                    return connection
            except BaseException:
                connection.abort()
                raise
            connection.abort()
        return None

    def _close_idle(self, connection: SmtpClientConnection) -> None:
        self._idle.remove(connection)
        _cancel_idle_timer(connection)
        leaving = asyncio.get_running_loop().create_task(connection.quit())
        self._closing.add(leaving)
        leaving.add_done_callback(self._closing.discard)


def _cancel_idle_timer(connection: SmtpClientConnection) -> None:
    if connection.idle_timer is not None:
        connection.idle_timer.cancel()
        connection.idle_timer = None
