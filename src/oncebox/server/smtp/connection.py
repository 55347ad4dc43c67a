"""SMTP connections: sockets, timeouts, connection limits, storing received mail."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute
from oncebox.model.deliveries.delivery import Accepted
from oncebox.model.inboxes.received_mail import Envelope
from oncebox.server.rate_limits import limit_key
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.mail_spool import MailSpool, SpooledMail, failure_reply
from oncebox.server.smtp.smtp_replies import SessionRules
from oncebox.server.smtp.smtp_session import MailContent, Need, SmtpSession
from oncebox.server.smtp.tls import TlsCertificate
from oncebox.settings import SmtpSettings

_NEVER = float("inf")


class ClientTimeouts:
    """The patience with one client."""

    __slots__ = ("_credit", "_looked_at", "_over_at", "_patience", "_settings", "_until", "fresh")

    def __init__(self, settings: SmtpSettings) -> None:
        """Begin to wait."""
        self._settings = settings
        self._patience = settings.data_rate * settings.command_within / 3
        now = clock.steady()
        self._over_at = now + settings.session_within
        #: bytes since the last look
        self.fresh = 0
        #: what may be missing from the expected rate
        self._credit = self._patience
        self._looked_at = now
        self._until = _NEVER

    def wait(self) -> None:
        """Wait for the next command, or for the first bytes of a mail."""
        now = clock.steady()
        self._until = now + self._settings.command_within
        self._looked_at, self._credit, self.fresh = now, self._patience, 0

    def wait_for(self, seconds: float) -> None:
        """Wait for so long and no longer."""
        self._until = clock.steady() + seconds
        self.fresh = 0

    def session_expired(self, now: float) -> bool:
        """Say whether the connection was open for too long."""
        return now >= self._over_at

    def wait_expired(self, now: float) -> bool:
        """Say whether what is waited for should have come."""
        return now >= self._until

    def meets_rate(self, now: float) -> bool:
        """Say whether a mail still comes at the rate it must, seen over a few seconds."""
        credit = min(self._patience, self._credit + self.fresh)
        self._credit = credit - (now - self._looked_at) * self._settings.data_rate
        self._looked_at, self.fresh = now, 0
        return self._credit >= 0


#: seconds between two looks, at most
_CHECK_EVERY = 1.0


class TrackedConnection(Protocol):
    """A connection, as the watch sees it."""

    address: str

    def check_timeout(self, now: float) -> None:
        """End the connection if its client is too slow."""

    def finish(self) -> None:
        """End the connection as soon as no mail is under way."""

    def abort(self) -> None:
        """End the connection at once."""


class SmtpConnections:
    """Knows all connections of one server."""

    def __init__(self, settings: SmtpSettings, telemetry: Telemetry) -> None:
        """Begin with no connection."""
        self.settings = settings
        self.is_stopping = False
        self._telemetry = telemetry
        self._open: set[TrackedConnection] = set()
        self._per_network: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()
        shortest = min(settings.command_within / 3, settings.session_within)
        self._check_every = min(_CHECK_EVERY, shortest / 4)
        telemetry.smtp_open.set_function(lambda: len(self._open))

    def admit(self, connection: TrackedConnection) -> bool:
        """Count a new connection; say whether there is room for it."""
        home = limit_key(connection.address)
        most = self.settings.connections_per_address
        if len(self._open) >= self.settings.connections or (
            most and self._per_network[home] >= most
        ):
            return False
        self._open.add(connection)
        self._per_network[home] += 1
        self._empty.clear()
        self._telemetry.smtp_sessions.inc()
        return True

    def remove(self, connection: TrackedConnection) -> None:
        """Take out a connection that is closed."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        home = limit_key(connection.address)
        self._per_network[home] -= 1
        if not self._per_network[home]:
            del self._per_network[home]
        if not self._open:
            self._empty.set()

    def count_end(self, why: str) -> None:
        """Count a connection that we end."""
        self._telemetry.smtp_ended.labels(why).inc()

    def count_refusal(self, code: bytes) -> None:
        """Count a reply that refused something."""
        self._telemetry.smtp_refused.labels(code.decode()).inc()

    async def run(self) -> None:
        """Look at everybody, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._check_every)
            now = clock.steady()
            for connection in list(self._open):
                self._check(connection, now)

    def _check(self, connection: TrackedConnection, now: float) -> None:
        try:
            connection.check_timeout(now)
        except Exception:
            # One odd connection must not blind the watch to the others.
            self._telemetry.log.exception("smtp_watch_stumbled")
            connection.abort()

    async def stop(self) -> None:
        """Let mails under way finish for a while, and end everybody."""
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
    """The conversation ends here, after a last word or without one; only tests want that."""

    def __init__(self, reply: bytes = b"") -> None:
        """Take the last word; without one the connection is cut."""
        super().__init__()
        self.reply = reply


class RecipientLookup(Protocol):
    """Knows what addresses lead to."""

    def glance(self, local: str, domain: str) -> RecipientRoute | None:
        """Return what is known at once; None: ask with ``find``."""

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Ask the database."""


class MailStore(Protocol):
    """Stores mail."""

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when it is on disk.

        Raises: SessionAborted, where a test wants that.
        """

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Return what is done when it is on disk."""


class SmtpContext(msgspec.Struct, frozen=True):
    """Everything the connections of one server share."""

    rules: SessionRules
    connections: SmtpConnections
    recipients: RecipientLookup
    mail_store: MailStore
    spool: MailSpool
    telemetry: Telemetry
    #: none: TLS is not offered
    tls: TlsCertificate | None


# By names of our own: an enum's members are slow to look up, and this is on every command's way.
_BYTES, _PLACE, _STORED, _TLS, _END = Need
#: seconds a client has to read our last word
_LINGER = 2.0
#: bytes that are thrown away meanwhile
_MAX_DISCARDED = 1024 * 1024
#: bytes that may wait while we are busy; beyond that the client must wait too
_MAX_READ_AHEAD = 64 * 1024


class SmtpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, office: SmtpContext) -> None:
        """Prepare; nobody is there yet."""
        self._context = office
        self._connections = office.connections
        self._limits = office.rules.settings
        self._timeouts = ClientTimeouts(self._limits)
        self._transport: asyncio.Transport
        self._session: SmtpSession
        self.address = ""
        #: whether something is done that the session wants, and by which task
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None
        #: what came through TLS before we were told that it is there
        self._early_tls_data: bytes | None = None
        #: the mail under way, if it is a large one, and the work of bringing it to disk
        self._spooled_mail: SpooledMail | None = None
        self._spooling: asyncio.Task[None] | None = None
        #: we hear nothing any more; the client says nothing any more; it does not read
        self._is_ending = False
        self._client_ended = False
        self._is_write_blocked = False
        self._is_closed = False
        self._is_paused = False
        self._is_finishing = False

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, or turn it away."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "unknown"
        self._session = SmtpSession(
            self._context.rules, self._context.recipients.glance, self.address
        )
        if not self._connections.admit(self):
            self._connections.count_refusal(smtp_replies.TOO_MANY_CONNECTIONS[:3])
            self._connections.count_end("too_many")
            self._transport.write(smtp_replies.TOO_MANY_CONNECTIONS)
            self._transport.close()
            self._is_ending = True
        else:
            self._flush()
            if self._connections.is_stopping:
                self.finish()

    def data_received(self, data: bytes) -> None:
        """Go on with the session."""
        self._timeouts.fresh += len(data)
        if self._is_ending:
            # Not heard any more; kept open so that our last word arrives, but not for a flood.
            if self._timeouts.fresh > _MAX_DISCARDED:
                self.abort()
            return
        if self._early_tls_data is not None:
            self._early_tls_data += data
            return
        want = self._session.feed(data)
        if not self._is_busy:
            self._advance(want)
        elif self._session.waiting > _MAX_READ_AHEAD:
            self._update_reading()

    def eof_received(self) -> bool:
        """Answer what was said before, then close; half a mail is no mail."""
        self._client_ended = True
        is_busy = self._session.need in {_PLACE, _STORED}
        return is_busy and not self._tls_version()  # inside TLS nobody can go on writing

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went
        """Forget the connection; a mail on its way to the database still gets there."""
        self._is_closed = self._is_ending = True
        self._connections.remove(self)
        if self._session.need is not _STORED:
            self._drop_spooled_mail()

    def pause_writing(self) -> None:
        """Hear nothing more from a client that does not read."""
        self._is_write_blocked = True
        self._update_reading()

    def resume_writing(self) -> None:
        """Go on listening."""
        self._is_write_blocked = False
        self._update_reading()

    # how the session goes on

    def _advance(self, want: Need) -> None:
        """Say what there is to say, and do what is wanted."""
        self._flush()
        if (
            self._spooled_mail is not None
            and self._spooled_mail.content is not self._session.content
        ):
            self._drop_spooled_mail()  # that mail was refused; nothing of it may be in the next
        if want is _BYTES:
            self._await_bytes()
        elif want is _END:
            self._close_gracefully()
        else:
            self._is_busy = True
            self._start_work(want)
        if self._is_paused or self._session.waiting > _MAX_READ_AHEAD:
            self._update_reading()

    def _start_work(self, want: Need) -> None:
        if want is _STORED:
            self._store()
        elif want is _PLACE:
            self._run_in_task(self._look_up_recipient())
        else:
            self._run_in_task(self._start_tls())
            self._update_reading()  # at once: whatever comes from now on is TLS's

    def _advance_after(self, want: Need) -> None:
        """Go on when what was wanted is done."""
        self._is_busy = False
        self._task = None
        if not self._is_closed:
            self._advance(want)

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
        """Send what the session has said, and wait for what the client says to that."""
        session = self._session
        said = session.output
        if said:
            self._transport.write(said[0] if len(said) == 1 else b"".join(said))
            session.output = []
            self._timeouts.wait()
            for code in session.refusal_codes:
                self._connections.count_refusal(code)
            session.refusal_codes = []

    def _update_reading(self) -> None:
        """Read on, unless the client must wait for us, or for its own slowness."""
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
        """Do something that takes its time; one thing at a time."""
        self._task = asyncio.get_running_loop().create_task(self._run_work(work))

    async def _run_work(self, work: Coroutine[Any, Any, Need]) -> None:
        try:
            want = await work
        except Exception:
            # Whatever it was, the client is better off with a new connection.
            self._context.telemetry.log.exception("smtp_stumbled")
            self.abort()
        else:
            self._advance_after(want)

    # what is wanted

    async def _look_up_recipient(self) -> Need:
        try:
            place = await self._context.recipients.find(*self._session.address)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            self._log_failure("rcpt", error)
            return self._session.recipient_found(None)
        return self._session.recipient_found(place)

    async def _start_tls(self) -> Need:
        loop = asyncio.get_running_loop()
        tls = cast("TlsCertificate", self._context.tls).context
        if self._is_closed or self._transport.is_closing():
            return _END  # gone already; nobody would tell us, and the handshake never come
        self._early_tls_data = b""  # from here on nothing reaches us but through TLS
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
            self._connections.count_end("tls_failed")
            self.abort()
            self.connection_lost(None)  # without TLS nobody else tells us
            return _END
        self._transport = transport
        self._is_paused = False
        self._timeouts.wait()
        self._session.tls_started(self._tls_version())
        early, self._early_tls_data = self._early_tls_data, None
        return self._session.feed(early)

    def _store(self) -> None:
        """Have the mail stored: a small one at once, a large one from its file."""
        session = self._session
        content = cast("MailContent", session.content)
        if self._spooled_mail is not None:
            self._run_in_task(self._store_large(self._spooled_mail, session.envelope, content))
            return
        pieces = content.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        faults.point("smtp.spooled")
        try:
            # No task for every mail: this is the way that nearly all of them go.
            begun = self._context.mail_store.begin(session.envelope, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            begun = asyncio.get_running_loop().create_future()
            begun.set_exception(error)
        begun.add_done_callback(self._stored)

    def _stored(self, begun: asyncio.Future[list[Accepted]]) -> None:
        error = begun.exception()
        if error is None:
            faults.point("smtp.committed")
            want = self._session.mail_stored(smtp_replies.STORED)
        else:
            want = self._not_stored(error)
        self._advance_after(want)

    def _not_stored(self, error: BaseException) -> Need:
        """Say that it did not work, or nothing where the conversation is to be broken off."""
        if not isinstance(error, SessionAborted):
            self._log_failure("data", error)
            return self._session.mail_stored(failure_reply(error))
        if not error.reply:
            self.abort()
        return self._session.end(error.reply)

    async def _store_large(
        self, letter: SpooledMail, envelope: Envelope, content: MailContent
    ) -> Need:
        try:
            if self._spooling is not None:
                await self._spooling
            await letter.flush()
            if content.refusal is None:
                async with self._context.spool.memory.reserve(content.size):
                    data = await letter.read_all()
                    faults.point("smtp.spooled")
                    await self._context.mail_store.store(envelope, data)
                    del data
            reply = content.refusal or smtp_replies.STORED
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            self._drop_spooled_mail()
            return self._not_stored(error)
        self._drop_spooled_mail()
        if reply is smtp_replies.STORED:
            faults.point("smtp.committed")
        return self._session.mail_stored(reply)

    def _log_failure(self, at: str, error: BaseException) -> None:
        code = error.code if isinstance(error, OnceboxError) else type(error).__name__
        self._context.telemetry.log.warning("smtp_trouble", at=at, error=code)

    # large mails

    def _start_spooling(self, content: MailContent) -> None:
        """Bring what has come of a mail to disk, and read no further meanwhile."""
        self._spooled_mail = self._spooled_mail or SpooledMail(self._context.spool, content)
        work = self._flush_spool(self._spooled_mail)
        self._spooling = asyncio.get_running_loop().create_task(work)
        self._update_reading()

    async def _flush_spool(self, letter: SpooledMail) -> None:
        await letter.flush()
        self._spooling = None
        self._timeouts.wait()  # it was us who did not read
        self._update_reading()

    def _drop_spooled_mail(self) -> None:
        if self._spooled_mail is not None:
            self._spooled_mail.close()
            self._spooled_mail = None

    # the end

    def check_timeout(self, now: float) -> None:
        """End the connection if the client is too slow, or was here for too long."""
        session, pace = self._session, self._timeouts
        if self._is_ending:
            if pace.wait_expired(now):
                self.abort()
        elif session.need is not _BYTES or self._spooling is not None:
            return  # the move is ours
        elif pace.session_expired(now):
            self._end_with(smtp_replies.SESSION_OVER, "session_over")
        elif session.content is not None:
            if not pace.meets_rate(now):
                self._end_with(smtp_replies.TOO_SLOW, "slow_data")
        elif pace.wait_expired(now):
            self._end_with(smtp_replies.TOO_SLOW, "slow_command")

    def finish(self) -> None:
        """End the connection as soon as no mail is under way."""
        self._is_finishing = True
        if self._session.is_idle and not self._is_ending:
            self._end_with(smtp_replies.SHUTTING_DOWN, "stopping")

    def abort(self) -> None:
        """End the connection at once."""
        self._is_ending = True
        self._transport.abort()

    def _end_with(self, reply: bytes, why: str) -> None:
        self._connections.count_end(why)
        self._advance(self._session.end(reply))

    def _close_gracefully(self) -> None:
        """Close; who still sends would lose our last word if that were done at once."""
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
