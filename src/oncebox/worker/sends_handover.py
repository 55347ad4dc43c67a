"""One hand-over: what is sealed is opened, given to its way, and comes back as an outcome."""

import asyncio

import msgspec

from oncebox import clock
from oncebox.errors import MasterKeyWrong, OnceboxError, StoreError
from oncebox.ledger.sends.desk import SendDesk
from oncebox.ledger.sends.outbox import Outbox
from oncebox.model import intent
from oncebox.model.outcome import NotSent, Outcome, Phase, Rejected, Unknown
from oncebox.model.send import Marker, Send
from oncebox.model.transport import GIVEN_BACK, STORE_AWAY, WORKER_STOPPED
from oncebox.model.transport import Transport as Row
from oncebox.telemetry import Telemetry
from oncebox.transport.email.capability import Capability, Idempotency
from oncebox.transport.email.parcel import Parcel, Transport
from oncebox.worker.sends_underway import Try
from oncebox.worker.sends_ways import Ways

#: milliseconds before the end of a provider's memory in which a key is no longer relied on
_MARGIN = 600_000
#: what is not given back, but in doubt
_IN_DOUBT = {GIVEN_BACK: WORKER_STOPPED}


class HandOver:
    """Hands sends over, each once, and never raises for what becomes of them."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        desk: SendDesk,
        outbox: Outbox,
        ways: Ways,
        telemetry: Telemetry,
        *,
        now: clock.Clock,
        secret: bytes,
        lease: int,
        within: float,
    ) -> None:
        """Hand over within so many seconds; ``secret`` makes the keys that providers are given."""
        self._desk = desk
        self._outbox = outbox
        self._ways = ways
        self._telemetry = telemetry
        self._now = now
        self._secret = secret
        self._lease = lease
        self._within = within

    async def run(self, one: Try, row: Row) -> Outcome:
        """Return what became of one try."""
        try:
            async with self._ways.lend(row) as way:
                return await self._give(one, way)
        except OnceboxError as error:
            code = error.code
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=code)
            return NotSent(code="transport_invalid", phase=Phase.CONNECT, opens_circuit=True)
        except Exception:
            self._telemetry.log.exception("transport_not_opened", transport=row.name)
            return NotSent(code="transport_failed", phase=Phase.CONNECT)

    async def _give(self, one: Try, way: Transport) -> Outcome:
        try:
            parcel = self._parcel(one, way.capability)
        except (MasterKeyWrong, msgspec.MsgspecError):
            self._telemetry.log.exception("send_unreadable", send=one.send.id)
            return Rejected(code="send_unreadable", phase=Phase.CONNECT)

        async def marker() -> bool:
            one.marked = await self._mark(one, way.capability)
            return one.marked

        try:
            return await way.send(parcel, marker)
        except asyncio.CancelledError:
            return _ended(one, GIVEN_BACK)
        except StoreError as error:
            self._telemetry.store_errors.labels(error.code).inc()
            return _ended(one, STORE_AWAY)
        except Exception:
            self._telemetry.log.exception("transport_failed", send=one.send.id)
            return _ended(one, "transport_failed")

    async def _mark(self, one: Try, capability: Capability) -> bool:
        """Commit the marker, if this try is still ours and the send may go."""
        now = self._now()
        wish = Marker(
            tenant=one.send.tenant,
            id=one.send.id,
            fence=one.send.fence,
            until=now + self._lease,
            replay_until=replay_until(capability, now),
        )
        return await self._desk.begin(wish)

    def _parcel(self, one: Try, capability: Capability) -> Parcel:
        message, goes_to = self._outbox.letter(one.claimed)
        send = one.send
        return Parcel(
            send_id=send.id,
            provider_key=self._provider_key(send, capability),
            sender=goes_to.sender,
            recipients=goes_to.recipients,
            message=message,
            message_id=send.message_id,
            email=goes_to.email,
            deadline=clock.steady() + self._within,
        )

    def _provider_key(self, send: Send, capability: Capability) -> str:
        if capability.idempotency is Idempotency.NONE:
            return ""
        return intent.provider_key(self._secret, send.tenant, send.key.hex(), send.epoch)


def replay_until(capability: Capability, now: int) -> int | None:
    """Return until when the other side surely knows a key that it is given now."""
    if capability.idempotency is not Idempotency.REPLAY:
        return None
    return now + capability.window_ms - _MARGIN


def _ended(one: Try, code: str) -> NotSent | Unknown:
    """Say what is known of a hand-over that was ended from here."""
    if one.marked:
        return Unknown(code=_IN_DOUBT.get(code, code), phase=Phase.HANDED_OVER)
    return NotSent(code=code, phase=Phase.CONNECT)
