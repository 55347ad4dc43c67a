"""Thousands of codes that come at random moments, against agents who wait for them.

Two agents wait for every inbox. Their connections are cut in the middle of anything, they give
up and come back as they like, and the service is killed now and then. Every code must be granted,
soon after its mail was taken and to one agent only; whoever got it may get it again.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from statistics import quantiles
from typing import Any

from oncebox.client import AsyncInbox
from oncebox.client.asynchronous import AsyncClient
from oncebox.client.core import inbox_plans
from oncebox.client.errors import WaitTimedOut
from oncebox.core import credentials
from oncebox.errors import OnceboxError
from oncebox.errors.mail import AlreadyClaimed
from oncebox.schemas.artifacts import Grant
from tests.support.ports import free_port
from tests.torture.artifacts.courier import Courier, letter
from tests.torture.checks import Violation
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.sites import open_site
from tests.torture.mail.cutter import Cutter
from tests.torture.processes import Child, Children
from tests.torture.scenario import Outcome, Plan

#: Inboxes, each with two agents and one sender.
_INBOXES = 40
#: Bytes after which a connection is cut at the latest: a few calls.
_LONGEST = 8_000
#: Seconds of one poll. A wake-up that is lost is only made good when it is over.
_POLL = 45.0
#: Seconds from the 250, or from when the service is there again, to the grant, after which a
#: wake-up counts as lost.
_LATE = 35.0
#: Seconds after which a code counts as lost.
_LOST = 90.0
#: How often an agent goes away in the middle of a wait, and after how many seconds.
_GIVES_UP, _AFTER = 0.2, 0.3
#: Arrivals between two deaths of the service.
_DIES_EVERY = 1_500
_SETTINGS = {
    "ONCEBOX_MASTER_KEY": MASTER_KEY,
    "ONCEBOX_WORKER__LEASE": "2",
    "ONCEBOX_WAITS__LEASE": "2",
    "ONCEBOX_MAIL__AUTHENTICATE": "false",
    "ONCEBOX_HTTP__WRONG_KEYS": "0",
    "ONCEBOX_SMTP__CONNECTIONS_PER_ADDRESS": "0",
}


@dataclass
class Round:
    """One inbox: which code is under way, and what became of all of them."""

    inbox: AsyncInbox
    #: codes in the order in which they were sent, with when each was taken
    sent: dict[str, float] = field(default_factory=dict)
    #: who was granted which code, and how often
    granted: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    #: seconds from the 250 to the first grant
    waited: dict[str, float] = field(default_factory=dict)
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, agent: str, grant: Grant) -> None:
        """Note a grant."""
        self.granted[grant.value][agent] += 1
        self.moved.set()

    async def settled(self, code: str, service: "Service") -> bool:
        """Wait until a code was granted; say whether it was."""
        try:
            async with asyncio.timeout(_LOST):
                while code not in self.granted:
                    self.moved.clear()
                    await self.moved.wait()
        except TimeoutError:
            return False
        self.waited[code] = max(0.0, time.monotonic() - max(self.sent[code], service.up_at))
        return True


@dataclass
class Service:
    """The service under test, which can be killed and comes back on the same ports."""

    plan: Plan
    url: str
    children: Children
    port: int = field(default_factory=free_port)
    smtp: int = field(default_factory=free_port)
    child: Child | None = None
    deaths: int = 0
    #: since when it answers, by the steady clock; while it is down, for ever not
    up_at: float = inf

    def start(self) -> str:
        """Start it; return its first key."""
        folder = self.plan.folder / "data"
        self.child = self.children.python(
            "oncebox",
            "serve",
            environment={
                **_SETTINGS,
                "ONCEBOX_DATABASE_URL": self.url,
                "ONCEBOX_DATA_DIR": str(folder),
                "ONCEBOX_HTTP__PORT": str(self.port),
                "ONCEBOX_SMTP__PORT": str(self.smtp),
            },
        )
        self.child.wait_for("service_started", timeout=60)
        found = credentials.read(folder)
        assert found is not None
        self.up_at = time.monotonic()
        return found.key

    def die(self) -> None:
        """Kill it with all its processes, and start it again."""
        assert self.child is not None
        self.up_at = inf
        self.child.kill_all()
        self.deaths += 1
        self.start()


def waits(plan: Plan) -> Outcome:
    """Let codes come to those who wait; each code is one trial."""
    outcome = Outcome()
    with ExitStack() as stack:
        site = stack.enter_context(open_site(plan.database, plan.folder))
        children = stack.enter_context(Children(plan.folder))
        service = Service(plan, site.fresh(), children)
        key = service.start()
        cutter = stack.enter_context(Cutter(service.port, plan.chance("cutter"), longest=_LONGEST))
        longest, inbox_plans._LONGEST_POLL = inbox_plans._LONGEST_POLL, _POLL
        try:
            rounds = asyncio.run(_play(plan, service, cutter.port, key))
        finally:
            inbox_plans._LONGEST_POLL = longest
        outcome.violations += judge(rounds)
        outcome.trials = sum(len(each.granted) for each in rounds)
        outcome.note = _note(rounds, cutter.cuts, service.deaths)
    outcome.require(trials=plan.trials)
    return outcome


def judge(rounds: Sequence[Round]) -> list[Violation]:
    """Return which codes were never granted, late, granted to two, or never sent."""
    found = []
    for each in rounds:
        for code in each.sent:
            name, holders = f"{each.inbox.id} {code}", each.granted.get(code)
            if not holders:
                found.append(Violation("lost", name))
            elif len(holders) > 1:
                found.append(Violation("doubled", name, ", ".join(holders)))
            elif each.waited.get(code, 0.0) > _LATE:
                found.append(Violation("late", name, f"{each.waited[code]:.1f} s"))
        found += [
            Violation("foreign", f"{each.inbox.id} {code}")
            for code in each.granted
            if code not in each.sent
        ]
    return found


async def _play(plan: Plan, service: Service, port: int, key: str) -> list[Round]:
    inboxes = min(_INBOXES, plan.trials)
    counts = [plan.trials // inboxes + (n < plan.trials % inboxes) for n in range(inboxes)]
    async with AsyncClient(f"http://127.0.0.1:{service.port}", key) as direct:
        rounds = [
            Round(await direct.inboxes.create(attempt_id=f"attempt-{number}"))
            for number in range(inboxes)
        ]
    address = f"http://127.0.0.1:{port}"
    agents = [_agent(f"agent-{name}", each, address, key, plan) for each in rounds for name in "ab"]
    await until_done(
        [_send(plan, service, each, n) for each, n in zip(rounds, counts, strict=True)],
        helped_by=[*agents, _reap(plan, service, rounds)],
    )
    return rounds


async def until_done(
    work: Iterable[Coroutine[Any, Any, None]], *, helped_by: Iterable[Coroutine[Any, Any, None]]
) -> None:
    """Work until it is done, then end the helpers; whoever fails ends it all at once.

    Nobody would send to a service that is not coming back but for ever.

    Raises: ExceptionGroup, of what failed.
    """
    async with asyncio.TaskGroup() as group:
        helpers = [group.create_task(each) for each in helped_by]
        await asyncio.gather(*(group.create_task(each) for each in work))
        for each in helpers:
            each.cancel()


async def _send(plan: Plan, service: Service, round_: Round, count: int) -> None:
    """Send codes to one inbox, each at a random moment after the one before was granted."""
    dice, courier = plan.chance(round_.inbox.attempt_id), Courier(service.smtp)
    for number in range(count):
        code = f"{dice.randrange(1_000):03}{number:04}"
        await asyncio.sleep(dice.choice((0, 0, dice.uniform(0, 0.02), dice.uniform(0, 0.2))))
        round_.sent[code] = 0.0
        data = letter(round_.inbox.email, code, number)
        round_.sent[code] = await courier.bring(round_.inbox.email, data)
        if not await round_.settled(code, service):
            break
    courier.close()


async def _agent(name: str, round_: Round, url: str, key: str, plan: Plan) -> None:
    """Wait for one code after another, as one whose connections and patience are short."""
    dice = plan.chance(f"{name} {round_.inbox.attempt_id}")
    inbox, after = round_.inbox.id, 0
    while True:
        async with AsyncClient(url, key, timeout=30) as client:  # a new one: it has died
            for _ in range(dice.randint(1, 20)):
                after = await _once(client, inbox, after, name, round_, dice)


async def _once(
    client: AsyncClient, inbox: str, after: int, name: str, round_: Round, dice: random.Random
) -> int:
    """Wait once; return the number after which to go on."""
    patience = dice.uniform(0, _AFTER) if dice.random() < _GIVES_UP else None
    try:
        async with asyncio.timeout(patience):
            grant = await client.inboxes.wait_for_code(
                inbox, claim_key=name, after=after, within=120
            )
    except AlreadyClaimed:
        return await _place(client, inbox, after)
    except (TimeoutError, WaitTimedOut):
        return after
    except OnceboxError as error:
        if not error.retry_safe:
            raise
        await asyncio.sleep(0.05)
        return after
    round_.take(name, grant)
    return grant.sequence


async def _place(client: AsyncClient, inbox: str, after: int) -> int:
    """Return how far an inbox is: what came until now is somebody else's."""
    try:
        return (await client.inboxes.get(inbox)).cursor
    except OnceboxError:
        return after


async def _reap(plan: Plan, service: Service, rounds: Sequence[Round]) -> None:
    """Kill the service whenever so many codes have been granted, and at least once."""
    due = min(_DIES_EVERY, plan.trials // 2)
    while True:
        await asyncio.sleep(0.05)
        if sum(len(each.granted) for each in rounds) >= due:
            due += _DIES_EVERY
            await asyncio.to_thread(service.die)


def _note(rounds: Sequence[Round], cuts: int, deaths: int) -> str:
    times = sorted(seconds for each in rounds for seconds in each.waited.values())
    if len(times) < 2:
        return ""
    cut = quantiles(times, n=100)
    again = sum(sum(n.values()) - 1 for each in rounds for n in each.granted.values())
    return (
        f"{cuts} connections cut, {deaths} deaths, {again} granted again, "
        f"from 250 to grant p50 {cut[49] * 1000:.0f} ms, p99 {cut[98] * 1000:.0f} ms"
    )
