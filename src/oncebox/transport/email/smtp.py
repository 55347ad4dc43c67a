"""SMTP out: one mail to one relay, and an honest word about what became of it.

A mail is in doubt only between its dot and the answer. All that fails before the dot is not sent:
a server must throw away what has no end. So the body is written and drained, then the marker is
committed, then the dot is written, and then the answer is waited for as long as RFC 5321 asks.
"""

import asyncio
import re
import ssl

from oncebox import clock, faults
from oncebox.model.outcome import Accepted, NotSent, Outcome, Phase, Rejected, Unknown
from oncebox.transport.email import envelope
from oncebox.transport.email.capability import ALL, Capability
from oncebox.transport.email.conversation import Conversation, Lost, Refused, Reply, Unreadable
from oncebox.transport.email.parcel import FENCE_LOST, Marker, Parcel
from oncebox.transport.email.pool import Pool
from oncebox.transport.email.relay import TROUBLES, Progress, Relay, check, trouble

#: seconds for the answer to the dot (RFC 5321, 4.5.3.2.6); less makes duplicates
ANSWER_WITHIN = 600.0
#: milliseconds after which a server that greylists may be asked again
GREYLISTED_FOR = 300_000

_GREYLISTING = frozenset({450, 451})
#: the server wants TLS or a login that the relay's settings do not give it
_WANTS_LOGIN = frozenset({530, 534, 535, 538})
_POSITIVE, _TRANSIENT, _PERMANENT = 2, 4, 5
_DEADLINE_PASSED = "deadline_passed"
#: how Postfix, Exim and their kin name what they took
_QUEUE_ID = re.compile(rb"(?:queued as |\bid=)([A-Za-z0-9-]{6,40})\b")


class Smtp:
    """Hands mails to a relay; never tries twice."""

    capability: Capability = ALL["smtp"]

    def __init__(
        self,
        relay: Relay,
        *,
        tls: ssl.SSLContext | None = None,
        answer_within: float = ANSWER_WITHIN,
        greylisted_for: int = GREYLISTED_FOR,
        most_connections: int = 10,
        idle: float = 30.0,
    ) -> None:
        """Connect to nobody yet. ``tls`` says whom to trust, instead of the system.

        Raises: ConfigInvalid.
        """
        check(relay)
        self._answer_within = answer_within
        self._greylisted_for = greylisted_for
        self._pool = Pool(
            relay, tls or ssl.create_default_context(), most=most_connections, idle=idle
        )

    async def send(self, parcel: Parcel, before_point_of_no_return: Marker) -> Outcome:
        """Hand a mail over; see `Transport.send`."""
        flaw = envelope.flaw(parcel, self.capability.most_recipients)
        if flaw is not None:
            return Rejected(code=flaw, phase=Phase.CONNECT)
        progress = Progress()
        try:
            async with _until(parcel.deadline):
                line = await self._pool.take(progress)
        except TROUBLES as error:
            return trouble(error, progress.phase)
        try:
            return await self._deliver(line, parcel, progress, before_point_of_no_return)
        finally:
            self._pool.give(line)

    async def probe(self, deadline: float) -> NotSent | None:
        """Connect, secure, log in and be answered once more; see `probe.Probed`."""
        progress = Progress()
        try:
            async with _until(deadline):
                line = await self._pool.take(progress)
        except TROUBLES as error:
            return trouble(error, progress.phase)
        try:
            async with _until(deadline):
                await line.ask(b"NOOP")
        except _BREAKS as error:
            if isinstance(error, Refused):
                code = error.reply.code
                return NotSent(code="session_refused", phase=progress.phase, reply=code)
            return NotSent(code=_broken(error), phase=progress.phase)
        finally:
            self._pool.give(line)
        return None

    async def close(self) -> None:
        """Say goodbye where nothing is on its way."""
        await self._pool.close()

    async def _deliver(
        self, line: Conversation, parcel: Parcel, progress: Progress, marker: Marker
    ) -> Outcome:
        faults.point("sends.connected")
        misfit = envelope.misfit(parcel, line.extensions)
        if misfit is not None:
            return Rejected(code=misfit, phase=Phase.GREETED)
        try:
            async with _until(parcel.deadline):
                await _write(line, parcel, progress)
        except _BREAKS as error:
            return self._before_the_dot(error, progress)
        faults.point("sends.body_drained")
        # A commit is not cut short: nobody would know whether it was one.
        if not await marker():
            return NotSent(code=FENCE_LOST, phase=Phase.BODY)
        progress.phase = Phase.MARKED
        if clock.steady() >= parcel.deadline:
            return NotSent(code=_DEADLINE_PASSED, phase=Phase.MARKED)
        try:
            line.listen()
        except _BREAKS as error:
            return self._before_the_dot(error, progress)
        return await self._hand_over(line)

    async def _hand_over(self, line: Conversation) -> Outcome:
        """Write the dot. Whatever is not a reply leaves the mail in doubt."""
        try:
            async with asyncio.timeout(self._answer_within):
                await line.end()
                faults.point("sends.handed_over")
                reply = await line.answer()
        except Lost:
            return Unknown(code="connection_lost", phase=Phase.HANDED_OVER)
        except Unreadable:
            return Unknown(code="reply_unreadable", phase=Phase.HANDED_OVER)
        except TimeoutError:
            return Unknown(code="no_answer", phase=Phase.HANDED_OVER)
        faults.point("sends.reply_read")
        if reply.code // 100 == _POSITIVE:
            return Accepted(provider_id=_queue_id(reply))
        if reply.code // 100 not in {_TRANSIENT, _PERMANENT}:
            return Unknown(code="reply_unexpected", phase=Phase.ANSWERED, reply=reply.code)
        return self._refused(reply, "message", Phase.ANSWERED)

    def _before_the_dot(self, error: Exception, progress: Progress) -> NotSent | Rejected:
        if isinstance(error, Refused):
            return self._refused(error.reply, progress.subject, progress.phase)
        return NotSent(code=_broken(error), phase=progress.phase)

    def _refused(self, reply: Reply, subject: str, phase: Phase) -> NotSent | Rejected:
        """Judge a reply that says no."""
        if phase is Phase.ENVELOPE and reply.code in _WANTS_LOGIN:
            code = "login_required"
            return NotSent(code=code, phase=phase, reply=reply.code, opens_circuit=True)
        if reply.code // 100 == _PERMANENT:
            return Rejected(code=f"{subject}_refused", phase=phase, reply=reply.code)
        if reply.code // 100 != _TRANSIENT:
            return NotSent(code="reply_unexpected", phase=phase, reply=reply.code)
        wait = self._greylisted_for if reply.code in _GREYLISTING else None
        code = f"{subject}_deferred"
        return NotSent(code=code, phase=phase, reply=reply.code, retry_after=wait)


def _broken(error: Exception) -> str:
    return next(code for kind, code in _CODES.items() if isinstance(error, kind))


_CODES: dict[type[Exception], str] = {
    Lost: "connection_lost",
    Unreadable: "reply_unreadable",
    TimeoutError: _DEADLINE_PASSED,
}
_BREAKS = (Refused, Lost, Unreadable, TimeoutError)


async def _write(line: Conversation, parcel: Parcel, progress: Progress) -> None:
    """Say everything but the dot. One recipient refused is all refused: the audience is one."""
    progress.phase = Phase.ENVELOPE
    for subject, command in envelope.commands(parcel, line.extensions):
        progress.subject = subject
        await line.ask(command)
    progress.subject = "message"
    await line.begin()
    progress.phase = Phase.BODY
    await line.stream(parcel.message)


def _until(deadline: float) -> asyncio.Timeout:
    return asyncio.timeout(max(0.0, deadline - clock.steady()))


def _queue_id(reply: Reply) -> str:
    found = _QUEUE_ID.search(reply.text)
    return found[1].decode() if found else ""
