"""IMAP client connections: connect, TLS, login, commands, IDLE; one asyncio protocol, no thread.

Every failure is a `MailboxFailure`; after one the connection is aborted by its owner.
"""

import asyncio
import base64
import re
import ssl
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import cast

import msgspec

from oncebox.core.connecting import NETWORK_ERROR_CODES
from oncebox.mailboxes.imap_responses import (
    MAX_LITERAL_BYTES,
    AnswerInvalid,
    AnswerTooLarge,
    ImapResponse,
    ImapResponseParser,
    to_number,
)
from oncebox.mailboxes.reader import MailboxFailure

_CRLF = b"\r\n"
#: an answer may take one second longer for each of these bytes
_BYTES_PER_SECOND = 32_768
#: responses to one command, wanted or not
_MAX_RESPONSES = 200_000
#: bytes of the responses to one command, unless it allows more
_MAX_ANSWER_BYTES = 8 * 1024 * 1024
#: seconds for LOGOUT
_LOGOUT_TIMEOUT = 1.0
#: bytes of a literal that is sent without asking (RFC 7888, LITERAL-)
_MAX_UNASKED_LITERAL = 4096
_MODSEQ_MAX = 2**63 - 1
_SETTLED_FAILURES = frozenset({"certificate_refused"})
_LIMIT_CODES = frozenset({"LIMIT", "OVERQUOTA"})
_TEMPORARY_CODES = frozenset({"UNAVAILABLE", "INUSE", "CORRUPTION", "SERVERBUG"})
#: a repeat cannot succeed, whatever the text says
_LASTING_CODES = frozenset(
    {"AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED", "NONEXISTENT", "NOPERM"}
)
_LIMIT_TEXT = re.compile(
    rb"too many|too fast|throttl|rate limit|exceeded|maximum number|connection limit",
    re.IGNORECASE,
)
_BUSY_TEXT = re.compile(rb"unavailable|not connected|timeout|temporar", re.IGNORECASE)
#: Microsoft: "Suggested Backoff Time: 3000 milliseconds"
_BACKOFF_TEXT = re.compile(rb"backoff time: ([0-9]{1,9}) milliseconds", re.IGNORECASE)
#: seconds until a server that limits us is asked again
_THROTTLED_FOR = 60.0
_PLAIN_STRING = re.compile(rb"[\x20-\x7e]*")


class ImapSecurity(StrEnum):
    """Encryption of the connection; never downgraded implicitly."""

    #: TLS from the first byte
    TLS = "tls"
    #: plain at first, then STARTTLS before the login; required, not opportunistic
    STARTTLS = "starttls"
    #: for a server on this machine
    NONE = "none"


class ImapLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What a login needs: a password or an access token."""

    username: str
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return "ImapLogin()"


class CommandRefused(MailboxFailure):
    """The server answered NO or BAD."""

    def __init__(self, answer: ImapResponse) -> None:
        """Classify an answer; its text is never shown."""
        self.answer = answer
        code, retry_after = refusal_code(answer)
        super().__init__(code, retry_after=retry_after)

    @property
    def is_temporary(self) -> bool:
        """Whether the server itself says so."""
        return self.code != "server_refused"


def refusal_code(answer: ImapResponse) -> tuple[str, float | None]:
    """Return our code for a NO, BAD or BYE, and after how many seconds to ask again."""
    if answer.code in _LASTING_CODES:
        return "server_refused", None
    if answer.code in _LIMIT_CODES or _LIMIT_TEXT.search(answer.text):
        backoff = _BACKOFF_TEXT.search(answer.text)
        return "throttled", int(backoff[1]) / 1000 if backoff else _THROTTLED_FOR
    if answer.code in _TEMPORARY_CODES or _BUSY_TEXT.search(answer.text):
        return "server_unavailable", None
    return ("server_closed" if answer.kind == "BYE" else "server_refused"), None


class ImapConnection(asyncio.Protocol):
    """IMAP dialogue: one command at a time."""

    def __init__(self, within: float) -> None:
        """Answers must begin within so many seconds."""
        self.within = within
        self.capabilities: frozenset[str] = frozenset()
        #: the folder that is open, read-only; empty without one
        self.selected = ""
        #: mails in it, as the server last said
        self.exists = 0
        #: the server said that the folder has changed since `clear_news`
        self.has_news = False
        self._parser = ImapResponseParser()
        self._transport: asyncio.Transport | None = None
        self._changed = asyncio.Event()
        self._is_over = False
        self._commands = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; uvloop's are no subclasses."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes; the server waits while they are not read."""
        self._parser.feed(data)
        self._changed.set()
        if self._parser.buffered > self._parser.needed:
            self._open_transport().pause_reading()

    def eof_received(self) -> None:
        """Close too; responses received before still count."""
        self._is_over = True
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake the waiting call."""
        del exc
        self._is_over = True
        self._changed.set()

    # responses

    async def read_response(self) -> ImapResponse:
        """Wait for a response.

        Raises: AnswerInvalid, AnswerTooLarge, MailboxFailure.
        """
        while (response := self._parser.next_response()) is None:
            if self._is_over:
                raise MailboxFailure("server_closed")
            self._changed.clear()
            self._resume_reading()
            await self._changed.wait()
        return response

    async def read_greeting(self) -> ImapResponse:
        """Return the greeting, OK or PREAUTH."""
        async with asyncio.timeout(self.within):
            greeting = await self.read_response()
        if greeting.tag != b"*":
            raise AnswerInvalid
        self._note(greeting)
        if greeting.kind not in {"OK", "PREAUTH"}:
            raise AnswerInvalid
        return greeting

    def clear_news(self) -> None:
        """Forget what the server said until now: a search follows."""
        self.has_news = False

    def _note(self, response: ImapResponse) -> None:
        """Note what a server may say at any time."""
        if response.kind == "BYE":
            code, retry_after = refusal_code(response)
            raise MailboxFailure(code, retry_after=retry_after)
        if response.code == "CAPABILITY":
            self.capabilities = _capabilities(response.code_text)
        elif response.kind == "CAPABILITY":
            self.capabilities = _capabilities(response.parts[0])
        elif response.kind == "EXISTS":
            self.exists = response.number
            self.has_news = True

    # commands

    async def command(
        self,
        *words: bytes,
        wanted: Collection[str] = (),
        take: Callable[[ImapResponse], object] = bool,
        most: int = _MAX_ANSWER_BYTES,
        literal: int | None = None,
    ) -> ImapResponse:
        """Send a command; return its OK, after ``take`` got the responses of the wanted kinds.

        ``most`` limits the bytes of all responses, ``literal`` those of the literals of one.

        Raises: CommandRefused, AnswerInvalid, AnswerTooLarge, MailboxFailure, TimeoutError.
        """
        self._parser.max_literal = MAX_LITERAL_BYTES if literal is None else literal
        begun = self._parser.consumed
        async with asyncio.timeout(self.within) as limit:
            started = asyncio.get_running_loop().time()
            tag = await self._write_command(words)
            for _ in range(_MAX_RESPONSES):
                response = await self._read_extending(limit, started, begun)
                if self._parser.consumed - begun > most:
                    raise AnswerTooLarge
                if response.tag == tag:
                    self._parser.max_literal = MAX_LITERAL_BYTES
                    self._note(_accepted(response))
                    return response
                self._take_untagged(response, wanted, take)
        raise AnswerTooLarge

    async def _read_extending(
        self, limit: asyncio.Timeout, started: float, begun: int
    ) -> ImapResponse:
        """Read a response; the limit moves with what is received, and no further."""
        while (response := self._parser.next_response()) is None:
            if self._is_over:
                raise MailboxFailure("server_closed")
            received = self._parser.consumed + self._parser.buffered - begun
            if not limit.expired():
                limit.reschedule(started + self.within + received / _BYTES_PER_SECOND)
            self._changed.clear()
            self._resume_reading()
            await self._changed.wait()
        return response

    def _take_untagged(
        self,
        response: ImapResponse,
        wanted: Collection[str],
        take: Callable[[ImapResponse], object],
    ) -> None:
        if response.tag != b"*":
            raise AnswerInvalid
        self._note(response)
        if response.kind in wanted or (response.code and response.code in wanted):
            take(response)

    async def _write_command(self, words: tuple[bytes, ...]) -> bytes:
        """Write a command; words that are no plain strings become literals."""
        self._commands += 1
        tag = b"A%d" % self._commands
        line = tag
        for word in words:
            if _PLAIN_STRING.fullmatch(word):
                line += b" " + word
                continue
            asks = self._must_ask(word)
            self._write(line + (b" {%d}" if asks else b" {%d+}") % len(word) + _CRLF)
            if asks:
                await self._read_continuation()
            line = word
        self._write(line + _CRLF)
        return tag

    def _must_ask(self, literal: bytes) -> bool:
        small = "LITERAL-" in self.capabilities and len(literal) <= _MAX_UNASKED_LITERAL
        return not (small or "LITERAL+" in self.capabilities)

    async def _read_continuation(self) -> ImapResponse:
        """Wait for ``+``."""
        for _ in range(_MAX_RESPONSES):
            response = await self.read_response()
            if response.tag == b"+":
                return response
            if response.tag != b"*":
                raise CommandRefused(response)
            self._note(response)
        raise AnswerTooLarge

    async def authenticate(self, method: str, initial: bytes, *, cancel: bytes = b"") -> None:
        """Log in by SASL; ``cancel`` answers the details of a refusal.

        Raises: CommandRefused, and as `command`.
        """
        encoded = base64.b64encode(initial)
        self._commands += 1
        tag = b"A%d" % self._commands
        async with asyncio.timeout(self.within):
            begin = tag + b" AUTHENTICATE " + method.encode()
            if "SASL-IR" in self.capabilities:
                self._write(begin + b" " + encoded + _CRLF)
            else:
                self._write(begin + _CRLF)
                await self._read_continuation()
                self._write(encoded + _CRLF)
            for _ in range(_MAX_RESPONSES):
                response = await self.read_response()
                if response.tag == tag:
                    self._note(_accepted(response))
                    return
                if response.tag == b"+":
                    self._write(cancel + _CRLF)
                else:
                    self._take_untagged(response, (), bool)
        raise AnswerTooLarge

    # waiting

    async def idle(self, seconds: float) -> bool:
        """Let the server report by itself; tell whether there is news. Ends with DONE.

        Raises: CommandRefused, and as `command`.
        """
        if self.has_news:
            return True
        self._commands += 1
        tag = b"A%d" % self._commands
        async with asyncio.timeout(self.within):
            self._write(tag + b" IDLE" + _CRLF)
            await self._read_continuation()
        await self.listen(seconds)
        async with asyncio.timeout(self.within):
            self._write(b"DONE" + _CRLF)
            for _ in range(_MAX_RESPONSES):
                response = await self.read_response()
                if response.tag == tag:
                    _accepted(response)
                    return self.has_news
                self._take_untagged(response, (), bool)
        raise AnswerTooLarge

    async def listen(self, seconds: float) -> bool:
        """Read what the server says unasked until there is news; False without."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                while not self.has_news:
                    self._take_untagged(await self.read_response(), (), bool)
        except TimeoutError:
            return False
        return True

    # the end

    async def log_out(self) -> None:
        """Say LOGOUT, wait briefly, and close."""
        try:
            if not self._is_over:
                self._write(b"Z LOGOUT" + _CRLF)
                async with asyncio.timeout(_LOGOUT_TIMEOUT):
                    while True:
                        await self.read_response()
        except (MailboxFailure, TimeoutError, OSError):
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended."""
        return self._is_over

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Say STARTTLS and encrypt; what was said before TLS does not count."""
        await self.command(b"STARTTLS")
        if not self._parser.is_empty:
            # Bytes in the clear that would pass for encrypted ones.
            raise AnswerInvalid
        async with asyncio.timeout(self.within):
            secured = await asyncio.get_running_loop().start_tls(
                self._open_transport(), self, context, server_hostname=host
            )
        if secured is None:
            raise MailboxFailure("server_closed")
        self._transport = secured
        self.capabilities = frozenset()

    def _write(self, data: bytes) -> None:
        if self._is_over:
            raise MailboxFailure("server_closed")
        self._open_transport().write(data)

    def _resume_reading(self) -> None:
        transport = self._open_transport()
        if not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def _open_transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise MailboxFailure("server_closed")
        return self._transport


def _accepted(response: ImapResponse) -> ImapResponse:
    """Return an OK.

    Raises: CommandRefused.
    """
    if response.kind not in {"OK", "PREAUTH"}:
        raise CommandRefused(response)
    return response


def _capabilities(text: bytes) -> frozenset[str]:
    return frozenset(text.decode("ascii", "replace").upper().split())


def modseq_of(response: ImapResponse) -> int:
    """Return the value of HIGHESTMODSEQ."""
    return to_number(response.code_text, most=_MODSEQ_MAX)


async def open_connection(
    host: str, port: int, security: ImapSecurity, tls: ssl.SSLContext, within: float
) -> tuple[ImapConnection, bool]:
    """Connect and encrypt; return the connection and whether it is logged in already.

    Raises: MailboxFailure.
    """
    connection = ImapConnection(within)
    try:
        async with asyncio.timeout(within):
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                host,
                port,
                ssl=tls if security is ImapSecurity.TLS else None,
            )
        greeting = await connection.read_greeting()
        if security is ImapSecurity.STARTTLS:
            await _upgrade(connection, greeting, tls, host)
        if not connection.capabilities:
            await connection.command(b"CAPABILITY")
    except BaseException as error:
        connection.abort()
        if isinstance(error, OSError | TimeoutError):
            raise network_failure(error) from None
        raise
    return connection, greeting.kind == "PREAUTH"


async def _upgrade(
    connection: ImapConnection, greeting: ImapResponse, tls: ssl.SSLContext, host: str
) -> None:
    if not connection.capabilities:
        await connection.command(b"CAPABILITY")
    # A session that is logged in before TLS cannot be encrypted any more (RFC 3501, 7.1.4).
    if greeting.kind == "PREAUTH" or "STARTTLS" not in connection.capabilities:
        raise MailboxFailure("starttls_missing", needs_operator=True)
    await connection.start_tls(tls, host)


def network_failure(error: BaseException) -> MailboxFailure:
    """Return the failure of an error of the network."""
    for kind, code in NETWORK_ERROR_CODES:
        if isinstance(error, kind):
            return MailboxFailure(code, needs_operator=code in _SETTLED_FAILURES)
    if isinstance(error, TimeoutError):
        return MailboxFailure("timed_out")
    return MailboxFailure("connect_failed")


async def log_in(connection: ImapConnection, login: ImapLogin, host: str, port: int) -> None:
    """Log in by one method only: a wrong password tried with each of them locks accounts.

    Raises: MailboxFailure: ``login_refused``, ``login_unavailable`` or as `ImapConnection.command`.
    """
    before = connection.capabilities
    try:
        if login.token:
            await _log_in_by_token(connection, login, host, port)
        else:
            await _log_in_by_password(connection, login)
    except CommandRefused as refusal:
        if refusal.is_temporary:
            raise
        raise MailboxFailure("login_refused", needs_operator=True) from None
    if connection.capabilities == before:
        # A login may add some, and the answer need not name them.
        await connection.command(b"CAPABILITY")
    if "ID" in connection.capabilities:
        # Some servers open no folder for clients without a name.
        await connection.command(b'ID ("name" "oncebox")')


async def _log_in_by_token(
    connection: ImapConnection, login: ImapLogin, host: str, port: int
) -> None:
    bearer = f"auth=Bearer {login.token}"
    if "AUTH=OAUTHBEARER" in connection.capabilities:
        user = login.username.replace("=", "=3D").replace(",", "=2C")
        text = f"n,a={user},\x01host={host}\x01port={port}\x01{bearer}\x01\x01"
        await connection.authenticate("OAUTHBEARER", text.encode(), cancel=b"AQ==")
    elif "AUTH=XOAUTH2" in connection.capabilities:
        text = f"user={login.username}\x01{bearer}\x01\x01"
        await connection.authenticate("XOAUTH2", text.encode())
    else:
        raise MailboxFailure("login_unavailable", needs_operator=True)


async def _log_in_by_password(connection: ImapConnection, login: ImapLogin) -> None:
    if "AUTH=PLAIN" in connection.capabilities:
        text = f"\0{login.username}\0{login.password}"
        await connection.authenticate("PLAIN", text.encode(), cancel=b"*")
        return
    if "LOGINDISABLED" in connection.capabilities:
        raise MailboxFailure("login_unavailable", needs_operator=True)
    words = (quote(login.username), quote(login.password))
    await connection.command(b"LOGIN", *words)


def quote(text: str) -> bytes:
    """Return a quoted string; other text than ASCII as it is, to be sent as a literal."""
    encoded = text.encode()
    if not _PLAIN_STRING.fullmatch(encoded):
        return encoded
    return b'"%s"' % encoded.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
