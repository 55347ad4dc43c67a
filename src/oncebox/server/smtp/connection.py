"""SMTP connections: sockets, timeouts, connection limits, storing received mail.

See docs/decisions/0023-use-a-sans-io-smtp-session-with-strict-line-endings.md.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError, StoreError
from oncebox.ledger.inboxes.mail_intake import MailWaiter
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute
from oncebox.model.client_address import limit_key
from oncebox.model.deliveries.delivery import Accepted
from oncebox.model.inboxes.received_mail import Envelope
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.mail_limits import MailLimits
from oncebox.server.smtp.mail_spool import MailSpool, SpoolFile, failure_reply
from oncebox.server.smtp.smtp_replies import SessionRules
from oncebox.server.smtp.smtp_session import MailContent, Need, SmtpSession
from oncebox.server.smtp.tls import TlsCertificate
from oncebox.settings import SmtpSettings


class ClientTimeouts:
    """The deadlines of one client: of its session, of the next command, of the data rate."""

    __slots__ = ("_allowance", "_checked_at", "_credit", "_settings", "fresh", "over_at", "until")

    def __init__(self, settings: SmtpSettings) -> None:
        self._settings = settings
        self._allowance = settings.data_rate * settings.command_within / 3
        now = clock.steady()
        #: when the session, and the current wait, must be over
        self.over_at = now + settings.session_within
        self.until = float("inf")
        #: bytes since the last check
        self.fresh = 0
        #: bytes that may be missing from the expected rate
        self._credit = self._allowance
        self._checked_at = now

    def wait(self) -> None:
        """Wait for the next command, or for the first bytes of a mail."""
        now = clock.steady()
        self.until = now + self._settings.command_within
        self._checked_at, self._credit, self.fresh = now, self._allowance, 0

    def wait_for(self, seconds: float) -> None:
        """Wait for so many seconds."""
        self.until = clock.steady() + seconds
        self.fresh = 0

    def meets_rate(self, now: float) -> bool:
        """Say whether a mail arrives at the required rate, averaged over a few seconds."""
        credit = min(self._allowance, self._credit + self.fresh)
        self._credit = credit - (now - self._checked_at) * self._settings.data_rate
        self._checked_at, self.fresh = now, 0
        return self._credit >= 0


#: largest number of seconds between two checks
_CHECK_EVERY = 1.0


class SmtpConnections:
    """All connections of one server."""

    def __init__(self, settings: SmtpSettings, telemetry: Telemetry) -> None:
        self.settings = settings
        self.is_stopping = False
        self._telemetry = telemetry
        self._open: set[SmtpConnection] = set()
        self._per_network: Counter[str] = Counter()
        #: connections whose mail was committed, or failed with an error, and that wait for a reply
        self._ended: list[tuple[SmtpConnection, Exception | None]] = []
        self._empty = asyncio.Event()
        self._empty.set()
        shortest = min(settings.command_within / 3, settings.session_within)
        self._check_every = min(_CHECK_EVERY, shortest / 4)
        telemetry.smtp_open.set_function(lambda: len(self._open))

    def admit(self, connection: "SmtpConnection") -> bool:
        """Count a new connection, unless a limit is reached; say whether it is admitted."""
        network = limit_key(connection.address)
        most = self.settings.connections_per_address
        if len(self._open) >= self.settings.connections or (
            most and self._per_network[network] >= most
        ):
            return False
        self._open.add(connection)
        self._per_network[network] += 1
        self._empty.clear()
        self._telemetry.smtp_sessions.inc()
        return True

    def remove(self, connection: "SmtpConnection") -> None:
        """Remove a connection that is closed."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        network = limit_key(connection.address)
        self._per_network[network] -= 1
        if not self._per_network[network]:
            del self._per_network[network]
        if not self._open:
            self._empty.set()

    def reply_later(self, connection: "SmtpConnection", error: Exception | None) -> None:
        """Reply to a mail whose commit has ended, together with the others of that commit.

        The next commit begins before the replies are written.
        """
        self._ended.append((connection, error))
        if len(self._ended) == 1:
            asyncio.get_running_loop().call_soon(self._reply_all)

    def _reply_all(self) -> None:
        ended, self._ended = self._ended, []
        for connection, error in ended:
            try:
                connection.reply(error)
            except Exception:
                # The others must still get their replies.
                self._telemetry.log.exception("smtp_session_failed")
                connection.abort()

    async def run(self) -> None:
        """Check the timeouts of all connections periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._check_every)
            now = clock.steady()
            for connection in list(self._open):
                try:
                    connection.check_timeout(now)
                except Exception:
                    # The other connections must still be checked.
                    self._telemetry.log.exception("smtp_timeout_check_failed")
                    connection.abort()

    async def stop(self) -> None:
        """Give the mails in progress some time, and close all connections."""
        self.is_stopping = True
        for connection in list(self._open):
            connection.finish()
        try:
            async with asyncio.timeout(self.settings.stop_within):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.abort()


class SessionAborted(Exception):
    """The session ends here, after a last reply or without one; only test mode raises it."""

    def __init__(self, reply: bytes = b"") -> None:
        super().__init__()
        self.reply = reply


class RecipientLookup(Protocol):
    """Finds the inboxes of addresses."""

    def find_cached(self, local: str, domain: str) -> RecipientRoute | None:
        """Return a cached route; None if ``find`` must look it up."""

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Return the route from the database."""


class MailStore(Protocol):
    """Stores mail."""

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is committed.

        Raises: SessionAborted, in test mode.
        """

    def begin(self, envelope: Envelope, data: bytes, waiter: MailWaiter) -> None:
        """Let the waiter receive the result when the mail is committed."""


class SmtpContext(msgspec.Struct, frozen=True):
    """The objects that the connections of one server share."""

    rules: SessionRules
    mail_limits: MailLimits
    connections: SmtpConnections
    recipients: RecipientLookup
    mail_store: MailStore
    spool: MailSpool
    telemetry: Telemetry
    #: None: TLS is not offered
    tls: TlsCertificate | None


# Module names, because the members of an enum are slow to look up for every command.
_BYTES, _RECIPIENT, _STORED, _TLS, _END = Need
#: seconds a client has to read the last reply
_LINGER = 2.0
#: bytes that are discarded meanwhile
_MAX_DISCARDED = 1024 * 1024
#: unprocessed bytes at which reading is paused
_MAX_READ_AHEAD = 64 * 1024


class SmtpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, context: SmtpContext) -> None:
        self._context = context
        self._connections = context.connections
        self._telemetry = context.telemetry
        self._limits = context.rules.settings
        self._timeouts = ClientTimeouts(self._limits)
        self._transport: asyncio.Transport
        self._session: SmtpSession
        self.address = ""
        #: whether work that the session needs is in progress, and its task
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None
        #: bytes that came through TLS before the handshake was reported
        self._early_tls_data: bytes | None = None
        #: the current mail, if it is spooled: its file and content, and the task that writes
        self._spooled: tuple[SpoolFile, MailContent] | None = None
        self._spooling: asyncio.Task[None] | None = None
        #: input is ignored; the client has ended its input; it does not read
        self._is_ending = False
        self._client_ended = False
        self._is_write_blocked = False
        self._is_closed = False
        self._is_paused = False
        self._is_finishing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, or refuse the connection."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "unknown"
        self._session = SmtpSession(
            self._context.rules,
            self._context.recipients.find_cached,
            self.address,
            self._context.mail_limits,
        )
        if not self._connections.admit(self):
            self._telemetry.smtp_refused.labels(
                smtp_replies.TOO_MANY_CONNECTIONS[:3].decode()
            ).inc()
            self._telemetry.smtp_ended.labels("too_many").inc()
            self._transport.write(smtp_replies.TOO_MANY_CONNECTIONS)
            self._transport.close()
            self._is_ending = True
        else:
            self._flush()
            if self._connections.is_stopping:
                self.finish()

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the session."""
        self._timeouts.fresh += len(data)
        if self._is_ending:
            # Ignored; the connection is only open so that the last reply arrives.
            if self._timeouts.fresh > _MAX_DISCARDED:
                self.abort()
            return
        if self._early_tls_data is not None:
            self._early_tls_data += data
            return
        need = self._session.feed(data)
        if not self._is_busy:
            self._advance(need)
        elif self._session.waiting > _MAX_READ_AHEAD:
            self._update_reading()

    def eof_received(self) -> bool:
        """Reply to the commands before, then close; an incomplete mail is dropped."""
        self._client_ended = True
        is_busy = self._session.need in {_RECIPIENT, _STORED}
        return is_busy and not self._tls_version()  # TLS has no half-closed connections

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - for any reason
        """Remove the connection; a mail that is being stored is still stored."""
        self._is_closed = self._is_ending = True
        self._connections.remove(self)
        if self._session.need is not _STORED:
            self._drop_spooled_mail()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read."""
        self._is_write_blocked = True
        self._update_reading()

    def resume_writing(self) -> None:
        """Continue to read."""
        self._is_write_blocked = False
        self._update_reading()

    def _advance(self, need: Need) -> None:
        """Send the replies, and do what the session needs."""
        self._is_busy = False
        if self._is_closed:
            return
        self._flush()
        if self._spooled is not None and self._spooled[1] is not self._session.content:
            self._drop_spooled_mail()  # that mail was refused; none of it may be in the next one
        if need is _BYTES:
            self._await_bytes()
        elif need is _END:
            self._close_gracefully()
        else:
            self._start_work(need)
        if self._is_paused or self._session.waiting > _MAX_READ_AHEAD:
            self._update_reading()

    def _start_work(self, need: Need) -> None:
        self._is_busy = True
        if need is _STORED:
            self._store()
        elif need is _RECIPIENT:
            self._run_in_task(self._look_up_recipient())
        else:
            self._run_in_task(self._start_tls())
            self._update_reading()  # at once: all further bytes belong to TLS

    def _await_bytes(self) -> None:
        content = self._session.content
        if self._client_ended:
            self._close_gracefully()
        elif content is not None:
            if content.held >= self._limits.spool_from and self._spooling is None:
                self._start_spooling(content)
        elif self._is_finishing:
            self.finish()

    def _flush(self) -> None:
        """Send the session's replies, and wait for the client's next command."""
        session = self._session
        replies = session.output
        if not replies:
            return
        self._transport.write(replies[0] if len(replies) == 1 else b"".join(replies))
        session.output = []
        self._timeouts.wait()
        if session.refusal_codes:
            for code in session.refusal_codes:
                self._telemetry.smtp_refused.labels(code.decode()).inc()
            session.refusal_codes = []

    def _update_reading(self) -> None:
        """Pause or resume reading."""
        busy = self._session.need is _TLS or self._spooling is not None or self._is_write_blocked
        pause = not self._is_ending and (busy or self._session.waiting > _MAX_READ_AHEAD)
        if pause is self._is_paused or self._transport.is_closing():
            return
        self._is_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _run_in_task(self, work: Coroutine[Any, Any, Need]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run_work(work))

    async def _run_work(self, work: Coroutine[Any, Any, Need]) -> None:
        try:
            need = await work
        except Exception:
            # The state of the session is unknown, so the client needs a new connection.
            self._telemetry.log.exception("smtp_session_failed")
            self.abort()
        else:
            self._advance(need)

    async def _look_up_recipient(self) -> Need:
        try:
            route = await self._context.recipients.find(*self._session.address)
        except Exception as error:  # noqa: BLE001 - any error of ours is temporary
            self._log_failure("rcpt", error)
            return self._session.recipient_found(None)
        return self._session.recipient_found(route)

    async def _start_tls(self) -> Need:
        loop = asyncio.get_running_loop()
        tls = cast("TlsCertificate", self._context.tls).context
        if self._is_closed or self._transport.is_closing():
            return _END  # gone already; the handshake would never end
        self._early_tls_data = b""  # from here on all bytes come through TLS
        try:
            transport = await loop.start_tls(
                self._transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=self._limits.command_within,
            )
        except OSError:  # as are all errors of TLS
            transport = None
        if transport is None:
            self._telemetry.smtp_ended.labels("tls_failed").inc()
            self.abort()
            self.connection_lost(None)  # the loop does not call it without TLS
            return _END
        self._transport = transport
        self._is_paused = False
        self._timeouts.wait()
        self._session.tls_started(self._tls_version())
        early, self._early_tls_data = self._early_tls_data, None
        return self._session.feed(early)

    def _store(self) -> None:
        """Store the mail: a small one at once, a large one from its file."""
        session = self._session
        if self._spooled is not None:
            self._run_in_task(self._store_large(*self._spooled, session.envelope))
            return
        pieces = cast("MailContent", session.content).pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        faults.point("smtp.spooled")
        try:
            # Most mails are small, so they get no task of their own, and no future.
            self._context.mail_store.begin(session.envelope, data, self)
        except Exception as error:  # noqa: BLE001 - any error of ours is temporary
            self.set_exception(error)

    def done(self) -> bool:
        """Say that the result of a mail is always wanted, also by a client that is gone."""
        return False

    def set_result(self, _accepted: list[Accepted], /) -> None:
        """Reply to a mail that is committed."""
        self._connections.reply_later(self, None)

    def set_exception(self, error: Exception, /) -> None:
        """Reply to a mail that is not committed."""
        self._connections.reply_later(self, error)

    def reply(self, error: Exception | None) -> None:
        """Send the reply to a mail, by the result of its commit."""
        if error is None:
            faults.point("smtp.committed")
            need = self._session.mail_stored(smtp_replies.STORED)
        else:
            need = self._not_stored(error)
        self._advance(need)

    def _not_stored(self, error: BaseException) -> Need:
        """Return what the session needs after a mail that could not be stored."""
        if not isinstance(error, SessionAborted):
            self._log_failure("data", error)
            return self._session.mail_stored(failure_reply(error))
        if not error.reply:
            self.abort()
        return self._session.end(error.reply)

    async def _store_large(self, file: SpoolFile, content: MailContent, envelope: Envelope) -> Need:
        try:
            if self._spooling is not None:
                await self._spooling
            await file.flush(content)
            if content.refusal is None:
                async with self._context.spool.memory.reserve(content.size):
                    data = await file.read()
                    faults.point("smtp.spooled")
                    await self._context.mail_store.store(envelope, data)
                    del data
            reply = content.refusal or smtp_replies.STORED
        except Exception as error:  # noqa: BLE001 - any error of ours is temporary
            return self._not_stored(error)
        finally:
            self._drop_spooled_mail()
        if reply is smtp_replies.STORED:
            faults.point("smtp.committed")
        return self._session.mail_stored(reply)

    def _log_failure(self, at: str, error: BaseException) -> None:
        if isinstance(error, StoreError):
            self._telemetry.count_store_error("smtp", error)
        code = error.code if isinstance(error, OnceboxError) else type(error).__name__
        self._telemetry.log.warning("smtp_temporary_failure", at=at, error=code)

    def _start_spooling(self, content: MailContent) -> None:
        """Write the received part of a mail to disk; reading is paused meanwhile."""
        if self._spooled is None:
            self._spooled = (self._context.spool.file(), content)
        work = self._flush_spool(*self._spooled)
        self._spooling = asyncio.get_running_loop().create_task(work)
        self._update_reading()

    async def _flush_spool(self, file: SpoolFile, content: MailContent) -> None:
        await file.flush(content)
        self._spooling = None
        self._timeouts.wait()  # the delay was ours
        self._update_reading()

    def _drop_spooled_mail(self) -> None:
        if self._spooled is not None:
            self._spooled[0].close()
            self._spooled = None

    def check_timeout(self, now: float) -> None:
        """End the connection if the client is too slow, or connected for too long."""
        session, timeouts = self._session, self._timeouts
        if self._is_ending:
            if now >= timeouts.until:
                self.abort()
        elif session.need is not _BYTES or self._spooling is not None:
            return  # the client waits for us
        elif now >= timeouts.over_at:
            self._end_with(smtp_replies.SESSION_OVER, "session_over")
        elif session.content is not None:
            if not timeouts.meets_rate(now):
                self._end_with(smtp_replies.TOO_SLOW, "slow_data")
        elif now >= timeouts.until:
            self._end_with(smtp_replies.TOO_SLOW, "slow_command")

    def finish(self) -> None:
        """End the connection as soon as no mail is in progress."""
        self._is_finishing = True
        if self._session.is_idle and not self._is_ending:
            self._end_with(smtp_replies.SHUTTING_DOWN, "stopping")

    def abort(self) -> None:
        """End the connection at once."""
        self._is_ending = True
        self._transport.abort()

    def _end_with(self, reply: bytes, why: str) -> None:
        self._telemetry.smtp_ended.labels(why).inc()
        self._advance(self._session.end(reply))

    def _close_gracefully(self) -> None:
        """Close; not at once, because a client that still sends would lose the last reply."""
        if self._is_ending:
            return
        self._is_ending = True
        self._drop_spooled_mail()
        self._timeouts.wait_for(_LINGER)
        if self._client_ended or self._session.client_quit or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._update_reading()
        with suppress(OSError):  # the client has gone already
            self._transport.write_eof()

    def _tls_version(self) -> str:
        found = self._transport.get_extra_info("ssl_object")
        return str(found.version()) if found is not None else ""
