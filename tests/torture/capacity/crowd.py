"""API keys that hold as many waits and event streams as they may; nobody else is refused.

What a key asks for beyond its limits is answered with 429 and ``key_limit_reached``, and with 503
what all keys ask for beyond what is not reserved. Meanwhile
webhooks on new connections, mail and health checks are all accepted.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from oncebox.client.asynchronous import AsyncClient
from oncebox.core import credentials
from tests.support.ports import free_port
from tests.torture.artifacts.courier import Courier, letter
from tests.torture.checks import Violation
from tests.torture.hooks.events import Line, Lost, request
from tests.torture.hooks.service import Service
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.sites import open_site
from tests.torture.processes import ROOT, Children
from tests.torture.scenario import Outcome, Plan

#: From so many webhooks on, the limits are those that the service has by default.
MANY = 1_000
_KEYS = 3
#: Webhooks that come at once.
_AT_ONCE = 15
#: Mails and probes of a round.
_MAILS, _PROBES = 2, ("/healthz", "/readyz")
_PATIENCE = 60.0


@dataclass(frozen=True)
class Limits:
    """The limits that the keys are brought to."""

    connections: int = 1_000
    requests: int = 300
    waits: int = 250
    streams: int = 50

    @property
    def settings(self) -> Mapping[str, str]:
        """The same as settings."""
        return {
            "ONCEBOX_HTTP__CONNECTIONS": str(self.connections),
            "ONCEBOX_HTTP__REQUESTS_PER_KEY": str(self.requests),
            "ONCEBOX_WAITS__PER_KEY": str(self.waits),
            "ONCEBOX_EVENTS__STREAMS_PER_KEY": str(self.streams),
        }


_FEW = Limits(connections=60, requests=18, waits=15, streams=5)


def crowd(plan: Plan) -> Outcome:
    """Bring keys to their limits; each webhook is one trial."""
    outcome = Outcome()
    limits = Limits() if plan.trials >= MANY else _FEW
    with ExitStack() as stack:
        site = stack.enter_context(open_site(plan.database, plan.folder))
        children = stack.enter_context(Children(plan.folder))
        smtp = free_port()
        settings = {**limits.settings, "ONCEBOX_SMTP__PORT": str(smtp)}
        service = Service(plan.folder, site.fresh(), children, settings)
        keys = [_new_key(plan, service.url) for _ in range(_KEYS)]
        service.start()
        asyncio.run(_Crowd(plan, service.port, smtp, limits, outcome).play(keys))
        outcome.violations += service.settle()
        service.stop()
    outcome.require(trials=plan.trials)
    return outcome


def _new_key(plan: Plan, url: str) -> str:
    environment = {
        "ONCEBOX_DATABASE_URL": url,
        "ONCEBOX_DATA_DIR": str(plan.folder / "data"),
        "ONCEBOX_MASTER_KEY": MASTER_KEY,
    }
    done = subprocess.run(
        [sys.executable, "-m", "oncebox", "key", "new", "--scope", "agent", "--json"],
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
    )
    return str(json.loads(done.stdout)["key"])


@dataclass
class _Crowd:
    """Clients that hold requests open, and those who must not notice."""

    plan: Plan
    port: int
    smtp: int
    limits: Limits
    outcome: Outcome
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def play(self, keys: list[str]) -> None:
        """Take up all that the keys may have, then let the others come."""
        found = credentials.read(self.plan.folder / "data")
        assert found is not None
        async with AsyncClient(f"http://127.0.0.1:{self.port}", found.key) as client:
            self._inbox = await client.inboxes.create(attempt_id="capacity")
        for key in keys:
            inbox = await self._own_inbox(key)
            wait = f"GET /v1/inboxes/{inbox}/messages?wait=55 HTTP/1.1\r\nHost: a\r\n"
            stream = "GET /v1/events HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n"
            await self._hold(wait, key, self.limits.waits)
            await self._hold(stream, key, self.limits.streams)
        await self._go_on()
        for writer in self._writers:
            writer.close()
        self.outcome.note = f"{len(self._writers)} open requests of {len(keys)} keys"

    async def _own_inbox(self, key: str) -> str:
        async with AsyncClient(f"http://127.0.0.1:{self.port}", key) as client:
            return (await client.inboxes.create()).id

    async def _hold(self, head: str, key: str, most: int) -> None:
        """Ask for some more than the key may have; those beyond are refused by their code."""
        asked = f"{head}Authorization: Bearer {key}\r\n\r\n".encode()
        answers = await asyncio.gather(*(self._open(asked) for _ in range(most + 5)))
        refused = [each for each in answers if each is not None]
        codes = Counter(refused)
        # Together the keys may have all that is not reserved, and not one request more.
        if not codes or not set(codes) <= {"429 key_limit_reached", "503 server_busy"}:
            self.outcome.violations.append(Violation("limit", head.split()[1], str(dict(codes))))

    async def _open(self, asked: bytes) -> str | None:
        """Return the status and code of a refusal; None while the request is held."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(asked)
        with suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                head = await reader.readuntil(b"\r\n\r\n")
                if b" 200 " in head.partition(b"\r\n")[0]:
                    self._writers.append(writer)
                    return None
                body = await reader.readexactly(_length(head))
                writer.close()
                return f"{head[9:12].decode()} {json.loads(body)['code']}"
        self._writers.append(writer)
        return None

    async def _go_on(self) -> None:
        for first in range(0, self.plan.trials, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, self.plan.trials))
            answers = await asyncio.gather(*(self._post(number) for number in numbers))
            self.outcome.trials += len(answers)
            refused = Counter(each for each in answers if each != "200")
            for path in _PROBES:
                refused[f"{path} {await self._get(path)}"] += 1
            refused = Counter({each: n for each, n in refused.items() if not each.endswith(" 200")})
            if refused:
                self.outcome.violations.append(Violation("refused", f"round {first}", str(refused)))
        courier = Courier(self.smtp, patience=_PATIENCE)
        for number in range(_MAILS):
            await courier.bring(
                self._inbox.email, letter(self._inbox.email, f"12{number:04}", number)
            )
        courier.close()

    async def _post(self, number: int) -> str:
        line = Line(self.port, kept=False)
        try:
            return str(await line.ask(request(f"{self.plan.seed}-{number}")))
        except Lost as lost:
            return str(lost)

    async def _get(self, path: str) -> str:
        line = Line(self.port, kept=False)
        try:
            return str(await line.ask(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()))
        except Lost as lost:
            return str(lost)


def _length(head: bytes) -> int:
    found = re.search(rb"content-length: (\d+)", head.lower())
    return int(found[1]) if found else 0
