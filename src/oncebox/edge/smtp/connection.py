"""Connections: a session on a socket; does what the session wants, and loses patience for it."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

from oncebox import faults
from oncebox.edge.smtp import replies
from oncebox.edge.smtp.certificate import Certificate
from oncebox.edge.smtp.content import Content
from oncebox.edge.smtp.letter import Letter, trouble
from oncebox.edge.smtp.office import BrokenOff, Office
from oncebox.edge.smtp.pace import Pace
from oncebox.edge.smtp.session import Session, Want
from oncebox.errors import OnceboxError
from oncebox.model.delivery import Accepted
from oncebox.model.envelope import Envelope

# By names of our own: an enum's members are slow to look up, and this is on every command's way.
_BYTES, _PLACE, _STORED, _TLS, _END = Want
#: seconds a client has to read our last word
_LINGER = 2.0
#: bytes that are thrown away meanwhile
_DEAF_BYTES = 1024 * 1024
#: bytes that may wait while we are busy; beyond that the client must wait too
_AHEAD = 64 * 1024


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, office: Office) -> None:
        """Prepare; nobody is there yet."""
        self._office = office
        self._watch = office.watch
        self._limits = office.rules.settings
        self._pace = Pace(self._limits)
        self._transport: asyncio.Transport
        self._session: Session
        self.address = ""
        #: whether something is done that the session wants, and by which task
        self._is_busy = False
        self._task: asyncio.Task[None] | None = None
        #: what came through TLS before we were told that it is there
        self._early: bytes | None = None
        #: the mail under way, if it is a large one, and the work of bringing it to disk
        self._letter: Letter | None = None
        self._spooling: asyncio.Task[None] | None = None
        #: we hear nothing any more; the client says nothing any more; it does not read
        self._is_over = False
        self._has_ended = False
        self._is_deaf = False
        self._is_closed = False
        self._is_paused = False
        self._is_finishing = False

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client, or turn it away."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else "unknown"
        self._session = Session(self._office.rules, self._office.directory.glance, self.address)
        if not self._watch.admit(self):
            self._watch.count_refusal(replies.TOO_MANY_CONNECTIONS[:3])
            self._watch.count_end("too_many")
            self._transport.write(replies.TOO_MANY_CONNECTIONS)
            self._transport.close()
            self._is_over = True
        else:
            self._flush()
            if self._watch.is_stopping:
                self.finish()

    def data_received(self, data: bytes) -> None:
        """Go on with the session."""
        self._pace.fresh += len(data)
        if self._is_over:
            # Not heard any more; kept open so that our last word arrives, but not for a flood.
            if self._pace.fresh > _DEAF_BYTES:
                self.abort()
            return
        if self._early is not None:
            self._early += data
            return
        want = self._session.feed(data)
        if not self._is_busy:
            self._go_on(want)
        elif self._session.waiting > _AHEAD:
            self._mind_reading()

    def eof_received(self) -> bool:
        """Answer what was said before, then close; half a mail is no mail."""
        self._has_ended = True
        is_busy = self._session.want in {_PLACE, _STORED}
        return is_busy and not self._tls_version()  # inside TLS nobody can go on writing

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - however it went
        """Forget the connection; a mail on its way to the database still gets there."""
        self._is_closed = self._is_over = True
        self._watch.forget(self)
        if self._session.want is not _STORED:
            self._drop_letter()

    def pause_writing(self) -> None:
        """Hear nothing more from a client that does not read."""
        self._is_deaf = True
        self._mind_reading()

    def resume_writing(self) -> None:
        """Go on listening."""
        self._is_deaf = False
        self._mind_reading()

    # how the session goes on

    def _go_on(self, want: Want) -> None:
        """Say what there is to say, and do what is wanted."""
        self._flush()
        if self._letter is not None and self._letter.content is not self._session.content:
            self._drop_letter()  # that mail was refused; nothing of it may be in the next
        if want is _BYTES:
            self._await_bytes()
        elif want is _END:
            self._hang_up()
        else:
            self._is_busy = True
            self._do(want)
        if self._is_paused or self._session.waiting > _AHEAD:
            self._mind_reading()

    def _do(self, want: Want) -> None:
        if want is _STORED:
            self._store()
        elif want is _PLACE:
            self._begin(self._find())
        else:
            self._begin(self._secure())
            self._mind_reading()  # at once: whatever comes from now on is TLS's

    def _go_on_after(self, want: Want) -> None:
        """Go on when what was wanted is done."""
        self._is_busy = False
        self._task = None
        if not self._is_closed:
            self._go_on(want)

    def _await_bytes(self) -> None:
        content = self._session.content
        if self._has_ended:
            self._hang_up()
        elif content is not None:
            if content.held >= self._limits.spool_from and self._spooling is None:
                self._spool(content)
        elif self._is_finishing:
            self.finish()

    def _flush(self) -> None:
        """Send what the session has said, and wait for what the client says to that."""
        session = self._session
        said = session.said
        if said:
            self._transport.write(said[0] if len(said) == 1 else b"".join(said))
            session.said = []
            self._pace.wait()
            for code in session.refusals:
                self._watch.count_refusal(code)
            session.refusals = []

    def _mind_reading(self) -> None:
        """Read on, unless the client must wait for us, or for its own slowness."""
        busy = self._session.want is _TLS or self._spooling is not None or self._is_deaf
        pause = not self._is_over and (busy or self._session.waiting > _AHEAD)
        if pause is self._is_paused or self._transport.is_closing():
            return
        self._is_paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _begin(self, work: Coroutine[Any, Any, Want]) -> None:
        """Do something that takes its time; one thing at a time."""
        self._task = asyncio.get_running_loop().create_task(self._carry_out(work))

    async def _carry_out(self, work: Coroutine[Any, Any, Want]) -> None:
        try:
            want = await work
        except Exception:
            # Whatever it was, the client is better off with a new connection.
            self._office.telemetry.log.exception("smtp_stumbled")
            self.abort()
        else:
            self._go_on_after(want)

    # what is wanted

    async def _find(self) -> Want:
        try:
            place = await self._office.directory.find(*self._session.address)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            self._tell("rcpt", error)
            return self._session.found(None)
        return self._session.found(place)

    async def _secure(self) -> Want:
        loop = asyncio.get_running_loop()
        tls = cast("Certificate", self._office.tls).context
        if self._is_closed or self._transport.is_closing():
            return _END  # gone already; nobody would tell us, and the handshake never come
        self._early = b""  # from here on nothing reaches us but through TLS
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
            self._watch.count_end("tls_failed")
            self.abort()
            self.connection_lost(None)  # without TLS nobody else tells us
            return _END
        self._transport = transport
        self._is_paused = False
        self._pace.wait()
        self._session.secured(self._tls_version())
        early, self._early = self._early, None
        return self._session.feed(early)

    def _store(self) -> None:
        """Have the mail stored: a small one at once, a large one from its file."""
        session = self._session
        content = cast("Content", session.content)
        if self._letter is not None:
            self._begin(self._store_large(self._letter, session.envelope, content))
            return
        pieces = content.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        faults.point("smtp.spooled")
        try:
            # No task for every mail: this is the way that nearly all of them go.
            begun = self._office.post.begin(session.envelope, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            begun = asyncio.get_running_loop().create_future()
            begun.set_exception(error)
        begun.add_done_callback(self._stored)

    def _stored(self, begun: asyncio.Future[list[Accepted]]) -> None:
        error = begun.exception()
        if error is None:
            faults.point("smtp.committed")
            want = self._session.stored(replies.STORED)
        else:
            want = self._not_stored(error)
        self._go_on_after(want)

    def _not_stored(self, error: BaseException) -> Want:
        """Say that it did not work, or nothing where the conversation is to be broken off."""
        if not isinstance(error, BrokenOff):
            self._tell("data", error)
            return self._session.stored(trouble(error))
        if not error.reply:
            self.abort()
        return self._session.end(error.reply)

    async def _store_large(self, letter: Letter, envelope: Envelope, content: Content) -> Want:
        try:
            if self._spooling is not None:
                await self._spooling
            await letter.catch_up()
            if content.refusal is None:
                async with self._office.spool.allowance.lend(content.size):
                    data = await letter.whole()
                    faults.point("smtp.spooled")
                    await self._office.post.store(envelope, data)
                    del data
            reply = content.refusal or replies.STORED
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our trouble
            self._drop_letter()
            return self._not_stored(error)
        self._drop_letter()
        if reply is replies.STORED:
            faults.point("smtp.committed")
        return self._session.stored(reply)

    def _tell(self, at: str, error: BaseException) -> None:
        code = error.code if isinstance(error, OnceboxError) else type(error).__name__
        self._office.telemetry.log.warning("smtp_trouble", at=at, error=code)

    # large mails

    def _spool(self, content: Content) -> None:
        """Bring what has come of a mail to disk, and read no further meanwhile."""
        self._letter = self._letter or Letter(self._office.spool, content)
        work = self._spool_on(self._letter)
        self._spooling = asyncio.get_running_loop().create_task(work)
        self._mind_reading()

    async def _spool_on(self, letter: Letter) -> None:
        await letter.catch_up()
        self._spooling = None
        self._pace.wait()  # it was us who did not read
        self._mind_reading()

    def _drop_letter(self) -> None:
        if self._letter is not None:
            self._letter.close()
            self._letter = None

    # the end

    def look(self, now: float) -> None:
        """End the connection if the client is too slow, or was here for too long."""
        session, pace = self._session, self._pace
        if self._is_over:
            if pace.is_up(now):
                self.abort()
        elif session.want is not _BYTES or self._spooling is not None:
            return  # the move is ours
        elif pace.is_over(now):
            self._dismiss(replies.SESSION_OVER, "session_over")
        elif session.content is not None:
            if not pace.is_kept(now):
                self._dismiss(replies.TOO_SLOW, "slow_data")
        elif pace.is_up(now):
            self._dismiss(replies.TOO_SLOW, "slow_command")

    def finish(self) -> None:
        """End the connection as soon as no mail is under way."""
        self._is_finishing = True
        if self._session.is_idle and not self._is_over:
            self._dismiss(replies.SHUTTING_DOWN, "stopping")

    def abort(self) -> None:
        """End the connection at once."""
        self._is_over = True
        self._transport.abort()

    def _dismiss(self, reply: bytes, why: str) -> None:
        self._watch.count_end(why)
        self._go_on(self._session.end(reply))

    def _hang_up(self) -> None:
        """Close; who still sends would lose our last word if that were done at once."""
        if self._is_over:
            return
        self._is_over = True
        self._drop_letter()
        self._pace.wait_for(_LINGER)
        if self._has_ended or self._session.is_polite or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._mind_reading()
        with suppress(OSError):  # the client has gone already
            self._transport.write_eof()

    def _tls_version(self) -> str:
        found = self._transport.get_extra_info("ssl_object")
        return str(found.version()) if found is not None else ""
