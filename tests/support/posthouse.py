"""A box that sends, the ways it sends by, and a look at what became of its sends."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.admin import audit
from oncebox.ledger.notifications import SENDS
from oncebox.ledger.sends import sends, transports
from oncebox.model.sends.email import Email
from oncebox.model.sends.send import Send, SendState, SendTry
from oncebox.model.sends.transports import (
    FENCE_LOST,
    ConfiguredTransport,
    NewTransport,
    NotSent,
    SendOutcome,
    SendPhase,
    TransportRate,
)
from oncebox.schemas.sends import SendAnswer
from oncebox.settings import SendSettings
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports import transport_config
from oncebox.transports.dkim_signing import DkimKey
from oncebox.transports.resend import ResendConfig
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport import CAPABILITIES, HandoverMarker, OutgoingMail
from oncebox.transports.transport_config import SmtpConfig, TransportConfig
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.program import settings

#: retries come at once, and nothing waits for long
_FAST: dict[str, Any] = {"first_wait": 0.001, "longest_wait": 0.001, "sender": "shop@example.com"}
_LOOK_EVERY = 0.01
_PATIENCE = 30.0


class PostHouse:
    """An opened box with ways of its own."""

    def __init__(
        self,
        place: Place,
        worker: dict[str, Any] | None = None,
        sources: dict[str, dict[str, Any]] | None = None,
        **sending: Any,
    ) -> None:
        """Prepare; nothing is opened."""
        found = msgspec.structs.replace(settings(place, worker), sources=sources or {})
        chosen = SendSettings(**{**_FAST, **sending})
        self.box = Oncebox(settings=msgspec.structs.replace(found, sends=chosen))
        self._numbers = itertools.count()

    @property
    def rooms(self) -> Any:
        """The rooms of the box."""
        return self.box.components

    def deed(self) -> audit.AuditEntry:
        """Return who does something, and why."""
        now = self.rooms.database.clock()
        return audit.AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="eve", why="because")

    # ways

    async def add(
        self,
        server: ScriptedSmtp | ScriptedProvider,
        name: str = "relay",
        *,
        position: int = 0,
        rate: TransportRate | None = None,
        group: str = "",
        **given: Any,
    ) -> None:
        """Configure a way to a server."""
        written = _way_to(server, **given)
        new = msgspec.structs.replace(
            self._new(name, written, position, rate), failover_group=group
        )
        await self.rooms.database.write(transports.add, new, self.deed())

    async def change(self, name: str, written: TransportConfig, group: str = "") -> None:
        """Write a way anew."""
        new = msgspec.structs.replace(self._new(name, written, 0, None), failover_group=group)
        await self.rooms.database.write(transports.change, new, self.deed())

    async def pause(self, name: str = "relay", *, paused: bool = True) -> None:
        """Pause a way, or let it go on."""
        await self.rooms.database.write(transports.pause, name, self.deed(), paused=paused)
        self.rooms.ledger.notify(SENDS)

    async def way(self, name: str = "relay") -> ConfiguredTransport:
        """Return a way as it stands."""
        found: ConfiguredTransport = await self.rooms.database.read(transports.get, TENANT, name)
        return found

    def _new(
        self, name: str, written: TransportConfig, position: int, rate: TransportRate | None
    ) -> NewTransport:
        sealed = self.rooms.send_cipher.encrypt_field(
            "config", TENANT, name, transport_config.encode_config(written)
        )
        kind = transport_config.transport_kind(written)
        return NewTransport(
            name=name,
            kind=kind,
            config=sealed,
            position=position,
            rate=rate,
            signs=transport_config.signing_domains(written),
        )

    # sends

    async def send(self, entity: str | None = None, **options: Any) -> SendAnswer:
        """Send a small mail."""
        entity = entity or f"order_{next(self._numbers)}"
        return await self.box.send(mail(), event_type="receipt", entity_id=entity, **options)

    async def get(self, id_: str) -> Send:
        """Return a send as it stands."""
        found: Send = await self.rooms.database.read(sends.get, TENANT, id_)
        return found

    async def tries(self, id_: str) -> list[SendTry]:
        """Return the tries at a send."""
        found: list[SendTry] = await self.rooms.database.read(sends.tries, TENANT, id_)
        return found

    async def until(self, id_: str, *states: SendState) -> Send:
        """Wait until a send stands in one of these states."""
        return await self.holds(id_, lambda send: send.state in states)

    async def holds(self, id_: str, true: Callable[[Send], bool]) -> Send:
        """Wait until something is true of a send."""
        async with asyncio.timeout(_PATIENCE):
            while not true(send := await self.get(id_)):  # noqa: ASYNC110 - it looks at a database
                await asyncio.sleep(_LOOK_EVERY)
        return send

    async def rests(self, name: str = "relay") -> None:
        """Wait until a way rests."""
        async with asyncio.timeout(_PATIENCE):
            while (await self.way(name)).rests_until is None:  # noqa: ASYNC110 - as above
                await asyncio.sleep(_LOOK_EVERY)

    def goes_by(self, way: "HeldWay") -> None:
        """Let everything go by a way that the test holds in its hands."""
        self.box._start_send_workers()
        (sender,) = self.box._send_workers
        sender._transports._open_transport = lambda _config: way

    async def lose_lease(self) -> None:
        """Let the leases of all hand-overs run out, and nobody renew them."""
        (sender,) = self.box._send_workers

        async def never() -> None:
            """Renew nothing."""

        def over(tx: Transaction) -> None:
            tx.execute("UPDATE oncebox_sends SET due_at = 1 WHERE state = 'sending'")

        sender._renew = never  # type: ignore[method-assign]
        await self.rooms.database.write(over)

    def metric(self, name: str) -> float:
        """Return one figure from a scrape."""
        lines = self.box.metrics().splitlines()
        found = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name)]
        return sum(found)


class HeldWay:
    """A way on which a mail is taken, and its answer comes when the test gives it."""

    capability = CAPABILITIES["smtp"]

    def __init__(self) -> None:
        """Begin with nothing taken."""
        self.taken = asyncio.Event()
        self.count = 0
        self.answer: asyncio.Future[SendOutcome] = asyncio.get_running_loop().create_future()

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Take a mail, and wait."""
        del mail
        if not await before_point_of_no_return():
            return NotSent(code=FENCE_LOST, phase=SendPhase.BODY)
        self.count += 1
        self.taken.set()
        return await self.answer

    async def probe(self, deadline: float) -> None:
        """Report no failure."""
        del deadline

    async def close(self) -> None:
        """Nothing is open."""


def mail(to: str = "ann@example.org", text: str = "Thank you.") -> Email:
    """Return a small mail."""
    return Email(to=to, subject="Paid", text=text)


def smtp(server: ScriptedSmtp, *, dkim: tuple[DkimKey, ...] = (), **given: Any) -> SmtpConfig:
    """Return the configuration of the way to a server, in the clear."""
    knobs = {name: given.pop(name) for name in ("answer_within", "greylisted_for") if name in given}
    relay = Relay(host=server.host, port=server.port, security=RelaySecurity.NONE, **given)
    return SmtpConfig(relay=relay, dkim=dkim, **{"greylisted_for": 0, **knobs})


def _way_to(server: ScriptedSmtp | ScriptedProvider, **given: Any) -> TransportConfig:
    return smtp(server, **given) if isinstance(server, ScriptedSmtp) else resend(server, **given)


def resend(provider: ScriptedProvider, **given: Any) -> ResendConfig:
    """Return the configuration of the way to a provider."""
    return ResendConfig(**{"api_key": "re_test", "url": provider.url, **given})


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(_PATIENCE):
        while not true():  # noqa: ASYNC110 - nothing rings
            await asyncio.sleep(_LOOK_EVERY)


@asynccontextmanager
async def open_house(place: Place, **given: Any) -> AsyncIterator[PostHouse]:
    """Open a house; close it in the end."""
    house = PostHouse(place, **given)
    async with house.box:
        yield house
