"""A flood of ten kinds of expensive mail for one tenant, and codes for another.

In the short form the flood comes first: few of its mails become messages before a code that comes
after them, and in the end all of them do. In the long form the flood goes on, and
the time to a code is compared with that of an idle service.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from oncebox.client import AsyncInbox
from oncebox.client.asynchronous import AsyncClient
from oncebox.core import credentials
from tests.support.ports import free_port
from tests.torture.artifacts.courier import Courier, letter
from tests.torture.checks import Violation
from tests.torture.fairness import expensive
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.sites import open_site
from tests.torture.processes import ROOT, Children
from tests.torture.scenario import Outcome, Plan

#: From so many codes on, the flood goes on and time is compared.
LONG = 100
#: Connections of the flood, and inboxes it goes to.
_FLOODERS, _FLOODED = 6, 3
#: Mails of twenty that may become messages while a code is on its way: what the parsers have.
_MAX_PASSED = 10
#: Codes on the idle service.
_IDLE = 100
_TENANT, _DOMAIN = "flooded", "flooded.example"
_WITHIN = 60.0
_PATIENCE = 180.0


@dataclass
class Service:
    """A service with two tenants."""

    folder: Path
    url: str
    children: Children
    short: bool
    http: int = field(default_factory=free_port)
    smtp: int = field(default_factory=free_port)

    @property
    def _environment(self) -> Mapping[str, str]:
        return {
            "ONCEBOX_DATABASE_URL": self.url,
            "ONCEBOX_DATA_DIR": str(self.folder / "data"),
            "ONCEBOX_MASTER_KEY": MASTER_KEY,
            "ONCEBOX_HTTP__PORT": str(self.http),
            "ONCEBOX_SMTP__PORT": str(self.smtp),
            "ONCEBOX_SMTP__CONNECTIONS_PER_ADDRESS": "0",
            "ONCEBOX_MAIL__AUTHENTICATE": "false",
            # A test cannot wait for the whole flood at two seconds each.
            **({"ONCEBOX_PARSER__CPU": "0.6"} if self.short else {}),
        }

    def start(self) -> tuple[str, str]:
        """Start it; return the key of the first tenant, and one of the other."""
        self._type("tenant", "new", _TENANT)
        self._type("domain", "add", _DOMAIN, "--tenant", _TENANT)
        other = self._type("key", "new", "--scope", "admin", "--tenant", _TENANT, "--json")
        child = self.children.python("oncebox", "serve", environment=self._environment)
        child.wait_for("service_started", timeout=60)
        found = credentials.read(self.folder / "data")
        assert found is not None
        return found.key, json.loads(other)["key"]

    def _type(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "oncebox", *words],
            check=True,
            cwd=ROOT,
            env={**os.environ, **self._environment},
            capture_output=True,
        )
        return done.stdout.decode()


def flood(plan: Plan) -> Outcome:
    """Flood one tenant; each code of the other is one trial."""
    outcome = Outcome()
    with ExitStack() as stack:
        site = stack.enter_context(open_site(plan.database, plan.folder))
        children = stack.enter_context(Children(plan.folder))
        service = Service(plan.folder, site.fresh(), children, plan.trials < LONG)
        asyncio.run(_play(plan, service, *service.start(), outcome))
    outcome.require(trials=plan.trials)
    return outcome


async def _play(plan: Plan, service: Service, key: str, other: str, outcome: Outcome) -> None:
    url = f"http://127.0.0.1:{service.http}"
    async with AsyncClient(url, key) as victim, AsyncClient(url, other) as flooded:
        inbox = await victim.inboxes.create(attempt_id="victim")
        targets = [
            await flooded.inboxes.create(attempt_id=f"flood-{number}", domain=_DOMAIN)
            for number in range(_FLOODED)
        ]
        codes = Codes(service, victim, inbox, outcome)
        await codes.grant("warm")
        if service.short:
            await _short(plan, codes, Flood(service, flooded, targets))
        else:
            await _long(plan, service, codes, targets)


@dataclass
class Codes:
    """Codes for one inbox, one after the other."""

    service: Service
    client: AsyncClient
    inbox: AsyncInbox
    outcome: Outcome
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def grant(self, name: str) -> float:
        """Send a code and wait for it; return the seconds from its 250 to the grant."""
        number = next(self._numbers)
        code, courier = f"83{number:04}", Courier(self.service.smtp)
        before = (await self.client.inboxes.get(self.inbox.id)).cursor
        waiting = asyncio.create_task(self.inbox.wait_for_code(after=before, within=_WITHIN))
        taken_at = await courier.bring(self.inbox.email, letter(self.inbox.email, code, number))
        courier.close()
        grant = await waiting
        if grant.value != code:
            self.outcome.violations.append(Violation("foreign", name))
        return time.monotonic() - taken_at


@dataclass
class Flood:
    """Mails for the inboxes of the other tenant."""

    service: Service
    client: AsyncClient
    targets: list[AsyncInbox]
    sent: int = 0

    async def bring(self, first: int) -> None:
        """Bring a mail of each kind and size, all at once."""
        made = [make() for make in expensive.mails(first)]
        self.sent += len(made)
        await asyncio.gather(
            *(self._bring(self.targets[n % _FLOODED], data) for n, data in enumerate(made))
        )

    async def filed(self) -> int:
        """Return how many of them are messages."""
        found = [await self.client.inboxes.get(each.id) for each in self.targets]
        return sum(each.cursor for each in found)

    async def _bring(self, inbox: AsyncInbox, data: bytes) -> None:
        courier = Courier(self.service.smtp)
        await courier.bring(inbox.email, data)
        courier.close()


async def _short(plan: Plan, codes: Codes, flood: Flood) -> None:
    """Count the mails of the flood that become messages while a code is on its way."""
    outcome = codes.outcome
    for trial in range(plan.trials):
        await flood.bring(1000 * trial)
        before = await flood.filed()
        await codes.grant(f"code {trial}")
        passed = await flood.filed() - before
        if passed > _MAX_PASSED:
            outcome.violations.append(Violation("late", f"code {trial}", f"behind {passed} mails"))
        outcome.trials += 1
    async with asyncio.timeout(_PATIENCE):
        while await flood.filed() < flood.sent:  # noqa: ASYNC110 - only asking helps
            await asyncio.sleep(0.2)
    outcome.note = f"{flood.sent} mails of the flood, all of them messages in the end"


async def _long(plan: Plan, service: Service, codes: Codes, targets: list[AsyncInbox]) -> None:
    outcome = codes.outcome
    idle = [await codes.grant("idle") for _ in range(_IDLE)]
    sent = itertools.count()
    flooders = [
        asyncio.create_task(_flood_on(service, targets[number % _FLOODED], number, sent))
        for number in range(_FLOODERS)
    ]
    await asyncio.sleep(5)
    loaded = []
    for trial in range(plan.trials):
        loaded.append(await codes.grant(f"code {trial}"))
        outcome.trials += 1
    for each in flooders:
        each.cancel()
    await asyncio.gather(*flooders, return_exceptions=True)
    before, after = (quantiles(each, n=100)[98] for each in (idle, loaded))
    outcome.note = (
        f"p99 idle {before * 1000:.0f} ms, in a flood of {next(sent)} mails {after * 1000:.0f} ms"
    )
    if after > 2 * before + 1:
        outcome.violations.append(Violation("late", "p99", outcome.note))


async def _flood_on(service: Service, inbox: AsyncInbox, number: int, sent: Iterator[int]) -> None:
    courier = Courier(service.smtp)
    for turn in itertools.count():
        for make in expensive.mails(1_000_000 * number + 1000 * turn):
            await courier.bring(inbox.email, make())
            next(sent)
