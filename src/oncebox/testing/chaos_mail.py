"""Chaos of mail: stands before the post, and does to a mail what a rule says."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from oncebox.edge.smtp.office import BrokenOff, Post
from oncebox.errors import OnceboxError
from oncebox.model.delivery import Accepted
from oncebox.model.envelope import Envelope
from oncebox.telemetry import Telemetry
from oncebox.testing.chaos_rules import MailRule

#: what a server says that wants to be left alone for a while
_NOT_NOW = b"421 4.7.0 try again in a moment (a fault that was asked for)\r\n"
#: put before a copy, as a relay that hands a mail over twice does
_TRACE = (
    b"Received: from copy-%d.chaos.invalid by chaos.invalid; Thu, 1 Jan 1970 00:00:00 +0000\r\n"
)
#: seconds between the next mail and the one that it overtook, so that no clock confuses them
_APART = 0.01

#: says what is to happen to a mail
Strike = Callable[[Envelope], MailRule | None]


@dataclass(eq=False)
class _Held:
    """A mail that its sender thinks has arrived."""

    inboxes: frozenset[str]
    #: whether the next mail for one of its inboxes lets it go
    overtaken: bool
    let_go: asyncio.Event = field(default_factory=asyncio.Event)


class ChaosMail:
    """A post that stores mail twice, late, in another order, not at all, or without a word."""

    def __init__(self, post: Post, strike: Strike, telemetry: Telemetry) -> None:
        """Stand before a post."""
        self._post = post
        self._strike = strike
        self._log = telemetry.log
        self._held: dict[_Held, asyncio.Task[None]] = {}

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is on disk, or said to be.

        Raises: BrokenOff, StoreUnavailable.
        """
        rule = self._strike(envelope)
        if rule is None:
            await self._arrive(envelope, data)
        else:
            self._log.info("chaos", door="mail", fault=rule.fault)
            await self._meet(rule, envelope, data)

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Begin to store a mail."""

        async def stored() -> list[Accepted]:
            await self.store(envelope, data)
            return []

        return asyncio.get_running_loop().create_task(stored())

    def let_go(self, inbox_id: str | None = None) -> None:
        """Hold nothing any longer, of one inbox or of all."""
        for held in self._held:
            if inbox_id is None or inbox_id in held.inboxes:
                held.let_go.set()

    async def close(self) -> None:
        """Return when everything that was held has arrived."""
        self.let_go()
        await asyncio.gather(*self._held.values())

    async def _meet(self, rule: MailRule, envelope: Envelope, data: bytes) -> None:
        match rule.fault:
            case "duplicate":
                await self._arrive(envelope, data)
                for number in range(1, rule.more + 1):
                    await self._post.store(envelope, _TRACE % number + data)
            case "delay" | "reorder":
                self._hold(rule, envelope, data)
            case "421":
                raise BrokenOff(_NOT_NOW)
            case "drop_after_accept":
                await self._arrive(envelope, data)
                raise BrokenOff

    async def _arrive(self, envelope: Envelope, data: bytes) -> None:
        """Store a mail, and let go of those that it has overtaken."""
        overtaken = [
            held
            for held in self._held
            if held.overtaken and not held.inboxes.isdisjoint(_inboxes(envelope))
        ]
        await self._post.store(envelope, data)
        for held in overtaken:
            held.let_go.set()

    def _hold(self, rule: MailRule, envelope: Envelope, data: bytes) -> None:
        held = _Held(_inboxes(envelope), overtaken=rule.fault == "reorder")
        late = self._arrive_late(held, rule.holds_for, envelope, data)
        self._held[held] = asyncio.get_running_loop().create_task(late)

    async def _arrive_late(
        self, held: _Held, seconds: float, envelope: Envelope, data: bytes
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                await held.let_go.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(_APART)
        try:
            await self._post.store(envelope, data)
        except OnceboxError as error:
            self._log.error("chaos_lost_a_mail", error=error.code)
        finally:
            del self._held[held]


def _inboxes(envelope: Envelope) -> frozenset[str]:
    return frozenset(each.inbox_id for each in envelope.recipients)
