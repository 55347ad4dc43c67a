"""A ledger to type commands at, and handlers to run against it."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from oncebox.box import Oncebox
from oncebox.cli import main
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.settings_loading import load_settings
from oncebox.wiring import open_components

Handler = Callable[..., Any]

_OPEN = {DeliveryState.RECEIVED, DeliveryState.PROCESSING, DeliveryState.FAILED}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The lines, split at their tabs."""
        return [line.split("\t") for line in self.out.splitlines()]

    @property
    def records(self) -> list[Any]:
        """The lines, read as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def record(self) -> Any:
        """The only line, read as JSON."""
        (only,) = self.records
        return only

    @property
    def error(self) -> Any:
        """The error object that ``--json`` puts on standard error."""
        return json.loads(self.err)["error"]


class Ledger:
    """Types commands and runs handlers, all against the database the environment names."""

    def __init__(self, captured: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self._captured = captured
        self._patch = patch

    def type(self, *arguments: str, stdin: bytes = b"") -> Answer:
        """Run one command in this process."""
        self._captured.readouterr()
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main.run(arguments)
        captured = self._captured.readouterr()
        return Answer(code, captured.out, captured.err)

    def accept(self, key: str, *options: str, source: str = "shop", body: str = "{}") -> str:
        """Store a delivery and return its id."""
        answer = self.type("delivery", "accept", source, "--key", key, "--body", body, *options)
        return answer.rows[0][0]

    def state(self, id_: str) -> str:
        """Return the state a delivery is in."""
        return str(self.inspect(id_)["delivery"]["state"])

    def inspect(self, id_: str) -> Any:
        """Return everything known of a delivery."""
        return self.type("delivery", "inspect", id_, "--json").record

    def audit(self, target: str, tenant: str = "default") -> list[tuple[str, str, str]]:
        """Return who did what to a thing, and why."""
        return asyncio.run(_audit(target, tenant))

    def work(self, handler: Handler, *, source: str = "shop") -> None:
        """Run a handler until nothing more of its source waits."""
        asyncio.run(_work(handler, source))


async def _work(handler: Handler, source: str) -> None:
    box = Oncebox()
    box.on(source)(handler)
    async with box:
        while await _has_open(box, source):
            await box.components.database.wait("due", 0.01)


async def _has_open(box: Oncebox, source: str) -> bool:
    tenant = box.settings.tenant
    found = await box.components.database.read(inspections.newest, tenant, source=source, most=1000)
    return any(facts.state in _OPEN for facts in found)


async def _audit(target: str, tenant: str) -> list[tuple[str, str, str]]:
    rooms = await open_components(load_settings())
    try:
        found = await rooms.database.read(audit.for_target, tenant, target)
    finally:
        await rooms.close()
    return [(each.who, each.action, each.why) for each in found]
