"""Relays: the mail server that mail is handed to, and how a connection to it is opened."""

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

import aiosmtplib
import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.outcome import NotSent, Phase
from oncebox.transport.email.conversation import Conversation

_LEAST_PERMANENT = 500
_LEAST_REFUSAL = 400


class Security(StrEnum):
    """How the connection is kept from others' eyes; none is ever chosen in silence."""

    #: begun in the clear and secured before anything is said; without it, nothing is said
    STARTTLS = "starttls"
    #: secured from the first byte
    TLS = "tls"
    #: for a server on this machine or in a network of one's own
    NONE = "none"


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """Where mail is handed to, and who hands it over."""

    host: str
    port: int = 587
    security: Security = Security.STARTTLS
    #: empty: no login
    username: str = ""
    password: str = ""
    #: what we call ourselves
    name: str = "localhost"

    def __repr__(self) -> str:
        """Leave out who logs in, and how."""
        return f"Relay({self.host}:{self.port}, {self.security})"


@dataclass(slots=True)
class Progress:
    """How far a mail came."""

    phase: Phase = Phase.CONNECT
    #: who the server was last told about
    subject: str = "message"


class Unfit(Exception):
    """The server does not offer what is asked for; nothing goes this way until that is mended."""

    def __init__(self, code: str) -> None:
        """Keep the code of what is missing."""
        super().__init__(code)
        self.code = code


def check(relay: Relay) -> None:
    """See that a relay can be spoken to, and that no password goes out in the clear.

    Raises: ConfigInvalid.
    """
    if not _is_host(relay.host):
        message = "a relay needs a host, such as smtp.example.com"
        raise ConfigInvalid(message)
    if not relay.name.isascii() or not relay.name.isprintable() or not relay.name.split():
        message = "a relay is greeted by a name in ASCII, such as app.example.com"
        raise ConfigInvalid(message)
    if relay.username and relay.security is Security.NONE and not _is_here(relay.host):
        message = "a password is not sent in the clear; use starttls or tls for this relay"
        raise ConfigInvalid(message)


async def greet(relay: Relay, tls: ssl.SSLContext, progress: Progress) -> Conversation:
    """Connect, secure, log in: each once.

    Raises: what `trouble` tells apart.
    """
    client = aiosmtplib.SMTP(
        hostname=relay.host,
        port=relay.port,
        local_hostname=relay.name,
        timeout=None,  # the caller has a deadline
        use_tls=relay.security is Security.TLS,
        start_tls=False,
        tls_context=tls,
    )
    try:
        await client.connect()
        progress.phase = Phase.GREETED
        await _introduce(client)
        if relay.security is Security.STARTTLS:
            await _secure(client)
        if relay.username:
            await _log_in(client, relay)
        return Conversation(_transport(client), dict(client.esmtp_extensions))
    except BaseException:
        if client.transport is not None:
            _transport(client).abort()
        client.close()
        raise


def trouble(error: Exception, phase: Phase) -> NotSent:
    """Say what became of a mail that never came to its envelope.

    A refusal here is about the way, never about the mail, so it condemns none.
    """
    if isinstance(error, Unfit):
        return NotSent(code=error.code, phase=phase, opens_circuit=True)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return _unwelcome(error, phase)
    for kind, code in _TROUBLES:
        if _was_caused_by(error, kind):
            return NotSent(code=code, phase=phase, opens_circuit=kind in _FOR_GOOD)
    return NotSent(code="connect_failed", phase=phase)


_TROUBLES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "certificate_refused"),
    (ssl.SSLError, "tls_failed"),
    (socket.gaierror, "host_not_found"),
    (TimeoutError, "deadline_passed"),
    (aiosmtplib.SMTPServerDisconnected, "connection_lost"),
    # A challenge that is none.
    (ValueError, "reply_unreadable"),
)
#: what the world does to those who connect
TROUBLES = (Unfit, aiosmtplib.SMTPException, OSError, ValueError)
_FOR_GOOD = frozenset({ssl.SSLCertVerificationError})


def _unwelcome(error: aiosmtplib.SMTPResponseException, phase: Phase) -> NotSent:
    """Judge a reply to the greeting, to TLS or to the login."""
    if error.code < _LEAST_REFUSAL:
        return NotSent(code="reply_unreadable", phase=phase, reply=max(error.code, 0))
    is_permanent = error.code >= _LEAST_PERMANENT
    who = "login" if isinstance(error, aiosmtplib.SMTPAuthenticationError) else "session"
    code = f"{who}_refused" if is_permanent else f"{who}_deferred"
    return NotSent(code=code, phase=phase, opens_circuit=is_permanent, reply=error.code)


def _was_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__
    return False


def _is_host(text: str) -> bool:
    try:
        return bool(text.encode("idna")) and text.isprintable() and " " not in text
    except UnicodeError:
        return False


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _transport(client: aiosmtplib.SMTP) -> asyncio.Transport:
    if client.transport is None:
        raise aiosmtplib.SMTPServerDisconnected("")
    # uvloop's transports are none by their class.
    return cast("asyncio.Transport", client.transport)


async def _introduce(client: aiosmtplib.SMTP) -> None:
    """Say hello, the old way to those who know no other."""
    try:
        await client.ehlo()
    except aiosmtplib.SMTPHeloError as error:
        if error.code < _LEAST_PERMANENT:
            raise
        await client.helo()


async def _secure(client: aiosmtplib.SMTP) -> None:
    if not client.supports_extension("starttls"):
        raise Unfit("starttls_missing")
    await client.starttls()
    # What was offered in the clear may have been anybody's offer.
    await _introduce(client)


async def _log_in(client: aiosmtplib.SMTP, relay: Relay) -> None:
    """Try one method: a wrong password that is tried by all of them locks accounts."""
    methods = {
        "plain": client.auth_plain,
        "login": client.auth_login,
        "cram-md5": client.auth_crammd5,
    }
    for name, method in methods.items():
        if name in client.server_auth_methods:
            await method(relay.username, relay.password)
            return
    raise Unfit("login_missing")
