"""SMTP transport: one mail to one relay; unknown outcome only between dot and reply.

A failure before the final dot means "not sent", because a server must discard an incomplete
message. So the transport writes and drains the body, commits the marker, writes the dot, and
waits for the reply as long as RFC 5321 requires.
See docs/decisions/0031-use-a-marker-before-the-point-of-no-return.md.
"""

import asyncio
import re
import ssl
from collections.abc import Iterator, Mapping

from oncebox.core import clock, faults
from oncebox.errors.mail import AddressInvalid
from oncebox.model.inboxes.addresses import domain_key
from oncebox.model.sends.transports import (
    FENCE_LOST,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
)
from oncebox.transports.smtp_connection import (
    CONNECT_ERRORS,
    Relay,
    SmtpClientConnection,
    SmtpClientPool,
    SmtpCommandRefused,
    SmtpConnectionLost,
    SmtpDialogueError,
    SmtpProgress,
    SmtpReply,
    SmtpReplyUnreadable,
    check_relay,
    session_failure,
)
from oncebox.transports.transport import (
    CAPABILITIES,
    DEADLINE_PASSED,
    Capability,
    HandoverMarker,
    OutgoingMail,
    deadline_timeout,
)

#: no control characters, blanks or characters with a meaning in SMTP commands
_ADDRESS_ATOM = '[^\x00-\x20\x7f-\xa0"(),:;<>@\\[\\]\\\\\u2028\u2029\ud800-\udfff]+'
_ADDRESS = re.compile(f"{_ADDRESS_ATOM}@{_ADDRESS_ATOM}")
#: octets of an address on the wire (RFC 5321, 4.5.3.1.3), without angle brackets
_MAX_ADDRESS_BYTES = 254
#: octets of a line without its end (RFC 5322, 2.1.1)
_MAX_LINE_BYTES = 998
# With as many CR as LF, a bare LF never comes without a bare CR.
_BARE_CR = re.compile(rb"\r(?:[^\n]|\Z)")
_HEADERS_END = b"\r\n\r\n"


def find_flaw(mail: OutgoingMail, most_recipients: int) -> str | None:
    """Return the code of a flaw no server would accept, or None."""
    if not mail.recipients:
        return "no_recipient"
    if len(mail.recipients) > most_recipients:
        return "too_many_recipients"
    if mail.sender and not _is_valid_address(mail.sender):
        return "sender_invalid"
    if not all(map(_is_valid_address, mail.recipients)):
        return "recipient_invalid"
    return _find_message_flaw(mail.message)


def find_missing_extension(mail: OutgoingMail, extensions: Mapping[str, str]) -> str | None:
    """Return the code of an extension the mail needs and the server lacks, or None."""
    if _needs_utf8(mail) and "smtputf8" not in extensions:
        return "smtputf8_missing"
    if not mail.message.isascii() and "8bitmime" not in extensions:
        return "eightbitmime_missing"
    most = extensions.get("size", "")
    # SIZE without a number, or with 0, sets no limit (RFC 1870).
    if most.isdecimal() and 0 < int(most[:20]) < len(mail.message):
        return "message_too_large"
    return None


def envelope_commands(
    mail: OutgoingMail, extensions: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the subject and the command of each envelope line."""
    options = ""
    if "size" in extensions:
        options += f" SIZE={len(mail.message)}"
    if not mail.message.isascii():
        options += " BODY=8BITMIME"
    if _needs_utf8(mail):
        options += " SMTPUTF8"
    yield "sender", f"MAIL FROM:<{_ascii_domain_address(mail.sender)}>{options}".encode()
    for each in mail.recipients:
        yield "recipient", f"RCPT TO:<{_ascii_domain_address(each)}>".encode()


def _is_valid_address(address: str) -> bool:
    if not _ADDRESS.fullmatch(address):
        return False
    try:
        return len(_ascii_domain_address(address).encode()) <= _MAX_ADDRESS_BYTES
    except AddressInvalid:
        return False


def _ascii_domain_address(address: str) -> str:
    """Return an address whose domain is in A-labels, which every server accepts."""
    local, at, domain = address.rpartition("@")
    return address if domain.isascii() else f"{local}{at}{domain_key(domain)}"


def _needs_utf8(mail: OutgoingMail) -> bool:
    addresses = (mail.sender, *mail.recipients)
    headers = mail.message.partition(_HEADERS_END)[0]
    return not (
        headers.isascii() and all(_ascii_domain_address(each).isascii() for each in addresses)
    )


def _find_message_flaw(message: bytes) -> str | None:
    # A server that accepts other line ends could see the end of the message too early.
    bare = message.count(b"\r") != message.count(b"\n") or _BARE_CR.search(message)
    if bare or b"\0" in message:
        return "message_malformed"
    if max(map(len, message.split(b"\r\n"))) > _MAX_LINE_BYTES:
        return "line_too_long"
    return None


#: seconds for the reply to the dot (RFC 5321, 4.5.3.2.6); less causes duplicates
FINAL_REPLY_TIMEOUT = 600.0
#: milliseconds until a greylisting server is tried again
GREYLIST_RETRY_MS = 300_000

_GREYLISTING = frozenset({450, 451})
#: the server requires TLS or a login that the relay is not configured for
_LOGIN_REQUIRED = frozenset({530, 534, 535, 538})
_POSITIVE_CLASS, _TRANSIENT_CLASS, _PERMANENT_CLASS = 2, 4, 5
#: queue id in the reply of Postfix, Exim and similar servers
_QUEUE_ID = re.compile(rb"(?:queued as |\bid=)([A-Za-z0-9-]{6,40})\b")


class SmtpTransport:
    """Sends mail to a relay; never retries."""

    capability: Capability = CAPABILITIES["smtp"]

    def __init__(
        self,
        relay: Relay,
        *,
        tls: ssl.SSLContext | None = None,
        answer_within: float = FINAL_REPLY_TIMEOUT,
        greylisted_for: int = GREYLIST_RETRY_MS,
        most_connections: int = 10,
        idle: float = 30.0,
    ) -> None:
        """Configure only; ``tls`` replaces the system's trust store."""
        check_relay(relay)
        self._answer_within = answer_within
        self._greylisted_for = greylisted_for
        self._pool = SmtpClientPool(
            relay, tls or ssl.create_default_context(), most=most_connections, idle=idle
        )

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Send a mail; see `MailTransport.send`."""
        flaw = find_flaw(mail, self.capability.max_recipients)
        if flaw is not None:
            return SendRejected(code=flaw, phase=SendPhase.CONNECT)
        progress = SmtpProgress()
        connection = await self._connect(progress, mail.deadline)
        if isinstance(connection, NotSent):
            return connection
        try:
            return await self._deliver(connection, mail, progress, before_point_of_no_return)
        finally:
            self._pool.release(connection)

    async def probe(self, deadline: float) -> NotSent | None:
        """Connect, start TLS, log in and send NOOP; see `MailTransport.probe`."""
        progress = SmtpProgress()
        connection = await self._connect(progress, deadline)
        if isinstance(connection, NotSent):
            return connection
        try:
            async with deadline_timeout(deadline):
                await connection.command(b"NOOP")
        except _DIALOGUE_ERRORS as error:
            if isinstance(error, SmtpCommandRefused):
                code = error.reply.code
                return NotSent(code="session_refused", phase=progress.phase, reply=code)
            return NotSent(code=_error_code(error), phase=progress.phase)
        finally:
            self._pool.release(connection)
        return None

    async def close(self) -> None:
        """Send QUIT on idle connections and close them."""
        await self._pool.close()

    async def _connect(
        self, progress: SmtpProgress, deadline: float
    ) -> SmtpClientConnection | NotSent:
        try:
            async with deadline_timeout(deadline):
                return await self._pool.acquire(progress)
        except CONNECT_ERRORS as error:
            return session_failure(error, progress.phase)

    async def _deliver(
        self,
        connection: SmtpClientConnection,
        mail: OutgoingMail,
        progress: SmtpProgress,
        marker: HandoverMarker,
    ) -> SendOutcome:
        faults.point("sends.connected")
        misfit = find_missing_extension(mail, connection.extensions)
        if misfit is not None:
            return SendRejected(code=misfit, phase=SendPhase.GREETED)
        try:
            async with deadline_timeout(mail.deadline):
                await _write_up_to_dot(connection, mail, progress)
        except _DIALOGUE_ERRORS as error:
            return self._failed_before_dot(error, progress)
        faults.point("sends.body_drained")
        # A commit is never interrupted: its outcome would be unknown.
        if not await marker():
            return NotSent(code=FENCE_LOST, phase=SendPhase.BODY)
        progress.phase = SendPhase.MARKED
        if clock.steady() >= mail.deadline:
            return NotSent(code=DEADLINE_PASSED, phase=SendPhase.MARKED)
        try:
            connection.check_no_unsolicited_reply()
        except _DIALOGUE_ERRORS as error:
            return self._failed_before_dot(error, progress)
        return await self._finish_message(connection)

    async def _finish_message(self, connection: SmtpClientConnection) -> SendOutcome:
        """Write the dot. Without a reply the outcome is unknown."""
        try:
            async with asyncio.timeout(self._answer_within):
                await connection.write_final_dot()
                faults.point("sends.handed_over")
                reply = await connection.read_final_reply()
        except SmtpDialogueError as error:
            return SendUnknown(code=_error_code(error), phase=SendPhase.HANDED_OVER)
        except TimeoutError:
            return SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)
        faults.point("sends.reply_read")
        if reply.code // 100 == _POSITIVE_CLASS:
            return SendAccepted(provider_id=_queue_id(reply))
        if reply.code // 100 not in {_TRANSIENT_CLASS, _PERMANENT_CLASS}:
            return SendUnknown(code="reply_unexpected", phase=SendPhase.ANSWERED, reply=reply.code)
        return self._outcome_of_refusal(reply, "message", SendPhase.ANSWERED)

    def _failed_before_dot(
        self, error: Exception, progress: SmtpProgress
    ) -> NotSent | SendRejected:
        if isinstance(error, SmtpCommandRefused):
            return self._outcome_of_refusal(error.reply, progress.subject, progress.phase)
        return NotSent(code=_error_code(error), phase=progress.phase)

    def _outcome_of_refusal(
        self, reply: SmtpReply, subject: str, phase: SendPhase
    ) -> NotSent | SendRejected:
        if phase is SendPhase.ENVELOPE and reply.code in _LOGIN_REQUIRED:
            code = "login_required"
            return NotSent(code=code, phase=phase, reply=reply.code, opens_circuit=True)
        if reply.code // 100 == _PERMANENT_CLASS:
            return SendRejected(code=f"{subject}_refused", phase=phase, reply=reply.code)
        if reply.code // 100 != _TRANSIENT_CLASS:
            return NotSent(code="reply_unexpected", phase=phase, reply=reply.code)
        wait = self._greylisted_for if reply.code in _GREYLISTING else None
        code = f"{subject}_deferred"
        return NotSent(code=code, phase=phase, reply=reply.code, retry_after=wait)


def _error_code(error: Exception) -> str:
    return next(code for kind, code in _ERROR_CODES.items() if isinstance(error, kind))


_ERROR_CODES: dict[type[Exception], str] = {
    SmtpConnectionLost: "connection_lost",
    SmtpReplyUnreadable: "reply_unreadable",
    TimeoutError: DEADLINE_PASSED,
}
_DIALOGUE_ERRORS = (SmtpDialogueError, TimeoutError)


async def _write_up_to_dot(
    connection: SmtpClientConnection, mail: OutgoingMail, progress: SmtpProgress
) -> None:
    """Write everything but the dot. One refused recipient refuses the whole mail."""
    progress.phase = SendPhase.ENVELOPE
    for subject, command in envelope_commands(mail, connection.extensions):
        progress.subject = subject
        await connection.command(command)
    progress.subject = "message"
    await connection.start_data()
    progress.phase = SendPhase.BODY
    await connection.write_message(mail.message)


def _queue_id(reply: SmtpReply) -> str:
    found = _QUEUE_ID.search(reply.text)
    return found[1].decode() if found else ""
