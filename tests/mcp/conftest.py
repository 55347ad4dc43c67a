"""One real service for all tests of the tools, with agents at both of its doors."""

import asyncio
import itertools
import smtplib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.services import Running, Services
from tests.mcp.agents import Agent, over_http, over_stdio
from tests.support.letters import mail
from tests.torture.processes import Children

SOURCE = "shop"


@dataclass
class House:
    """A service, and whoever comes to it."""

    services: Services
    service: Running
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        return self.service.url

    def key(self, *scopes: str) -> str:
        """Return a new key."""
        headers = {"Idempotency-Key": self.name("key")}
        with self.service.client() as client:
            made = client.post("/v1/keys", json={"scopes": list(scopes)}, headers=headers)
        return str(made.raise_for_status().json()["key"])

    def name(self, word: str = "attempt") -> str:
        """Return a name that nobody has."""
        return f"{word}-{next(self.numbers)}"

    def stdio(self, key: str, mode: str = "auto") -> Agent:
        """Return an agent with a process of its own."""
        folder = self.folder / self.name("stdio")
        folder.mkdir()
        return over_stdio(self.url, key, folder, mode)

    def http(self, key: str, mode: str = "auto") -> Agent:
        """Return an agent that speaks to the service itself."""
        return over_http(self.url, key, mode)

    def post(self, to: str, text: str, **rest: Any) -> None:
        """Hand a mail over by SMTP."""
        number = self.name("mail")
        letter = mail("Confirm", text, message_id=f"<{number}@shop.example>", **rest)
        self.hand_over(to, letter)

    def hand_over(self, to: str, letter: bytes, times: int = 1) -> None:
        """Hand the very same mail over, as often as a server does that hears no answer."""
        host, _, port = self.service.greeting["smtp"].rpartition(":")
        for _ in range(times):
            with smtplib.SMTP(host, int(port), timeout=60) as client:
                client.sendmail("no-reply@shop.example", [to], letter)

    def accept(self, key: str, **rest: Any) -> None:
        """Let a delivery arrive."""

        async def arrive() -> None:
            async with self.services._box() as box:
                await box.accept(SOURCE, key=key, **rest)

        asyncio.run(arrive())


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service that takes mail, and has a source whose work is fetched."""
    folder = tmp_path_factory.mktemp("mcp")
    with Children(folder) as children:
        services = Services(folder, children)
        services.set("ONCEBOX_SMTP__JUNK", "1000")
        services.set("ONCEBOX_MAIL__DNS_SERVERS", "127.0.0.1:9")
        services.set("ONCEBOX_WORKER__WATCHDOG", "30")
        house = House(services, services.serve(), folder)
        source = {"name": SOURCE, "scheme": "none", "allow_unsigned": True, "mode": "pull"}
        with house.service.client() as client:
            headers = {"Idempotency-Key": "source"}
            client.post("/v1/sources", json=source, headers=headers).raise_for_status()
        yield house


@pytest.fixture(scope="session")
def key(house: House) -> str:
    """The key of an agent that also fetches work."""
    return house.key("agent", f"worker:{SOURCE}")


@pytest.fixture(scope="session")
def by_stdio(house: House, key: str) -> Iterator[Agent]:
    """An agent at one door."""
    with house.stdio(key) as agent:
        yield agent


@pytest.fixture(scope="session")
def by_http(house: House, key: str) -> Iterator[Agent]:
    """An agent at the other."""
    with house.http(key) as agent:
        yield agent


@pytest.fixture(params=["stdio", "http"])
def agent(request: pytest.FixtureRequest) -> Agent:
    """Both doors, one after the other; the same key."""
    found: Agent = request.getfixturevalue(f"by_{request.param}")
    return found
