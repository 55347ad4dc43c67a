"""One call of the API: who asks, what for, and the rooms that can answer."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncebox import ids
from oncebox.config import Settings
from oncebox.ledger.attempts.desk import AttemptDesk
from oncebox.ledger.counter import Counter
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.events.broadcast import Broadcast
from oncebox.ledger.inboxes.directory import Directory
from oncebox.ledger.inboxes.grants import Grants
from oncebox.ledger.inboxes.lobby import Lobby
from oncebox.ledger.inboxes.postmaster import Postmaster
from oncebox.ledger.office.audit import Deed
from oncebox.ledger.office.keeper import Keeper
from oncebox.ledger.office.keyring import KeyRing
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.ledger.vault import Vault
from oncebox.model.delivery import NewDelivery
from oncebox.model.key import ApiKey
from oncebox.model.quarantine import Rejected
from oncebox.seal import MasterKey
from oncebox.telemetry import Telemetry

#: checks a rejected request again; returns what it holds, or raises why it is not believed
Judge = Callable[[Rejected], Awaitable[Sequence[NewDelivery]]]


class Rooms(Protocol):
    """What the API needs of a process."""

    @property
    def settings(self) -> Settings:
        """Every setting."""

    @property
    def telemetry(self) -> Telemetry:
        """Counters and logs."""

    @property
    def master_key(self) -> MasterKey:
        """What seals cursors."""

    @property
    def vault(self) -> Vault:
        """What opens mail."""

    @property
    def counter(self) -> Counter:
        """The ledger's verbs."""

    @property
    def desk(self) -> Desk:
        """The bell that rings when work becomes due."""

    @property
    def broadcast(self) -> Broadcast:
        """What is new, for all who follow."""

    @property
    def lobby(self) -> Lobby:
        """Where those sit who wait for mail."""

    @property
    def attempts(self) -> AttemptDesk:
        """The actions of attempts."""

    @property
    def keys(self) -> KeyRing:
        """Whose key a text is."""

    @property
    def book(self) -> SourceBook:
        """Every source."""

    @property
    def keeper(self) -> Keeper:
        """Changes of sources."""

    @property
    def postmaster(self) -> Postmaster:
        """Changes of inboxes and domains."""

    @property
    def directory(self) -> Directory:
        """Where mail for an address goes."""

    @property
    def grants(self) -> Grants:
        """Hands artifacts out."""

    @property
    def outbox(self) -> Outbox:
        """Takes mail that is to be sent."""

    @property
    def sendbox(self) -> SendBox:
        """Opens what sends say, and knows addresses by their marks."""

    @property
    def judge(self) -> Judge:
        """Checks rejected requests again."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one handler of the API sees."""

    rooms: Rooms
    key: ApiKey
    #: the parts of the path that stand for something
    path: Mapping[str, str]
    query: Any
    body: Any
    #: returns when the client has gone
    left: Callable[[], Awaitable[None]]
    #: set when the service stops, so that nobody is kept waiting
    stopping: asyncio.Event
    #: by name; of those that come several times, the last
    headers: Mapping[bytes, bytes]
    #: makes sure that the key is still good, for calls that take long
    check: Callable[[], Awaitable[Any]]
    #: the Idempotency-Key that was sent, where the route takes one
    request_key: str | None = None

    @property
    def tenant(self) -> str:
        """Whose data may be seen; there is no other."""
        return self.key.tenant

    @property
    def now(self) -> int:
        """The time by the ledger's clock."""
        return self.rooms.counter.clock()

    def deed(self, why: str = "") -> Deed:
        """Return who does something now, and why."""
        return Deed(
            id=ids.new("aud"),
            tenant=self.tenant,
            at=self.now,
            who=f"key:{self.key.id}",
            why=why,
        )
