"""A user's program: a box with a fast worker, and a clerk who looks at its ledger."""

import asyncio
import base64
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.inspection import DeliveryInspection
from oncebox.settings import LimitSettings, RetrySettings, Settings, WorkerSettings
from tests.support.clerk import TENANT, Clerk
from tests.support.databases import Place

KEY = base64.b64encode(bytes(range(32))).decode()
SOURCE = "shop"
_LOOK_EVERY = 0.005
_ENDED = {DeliveryState.DONE, DeliveryState.DEAD, DeliveryState.HELD}


def settings(
    place: Place, worker: dict[str, Any] | None = None, retry: dict[str, Any] | None = None
) -> Settings:
    """Return settings under which retries come at once and nothing waits for long."""
    return Settings(
        database_url=place.url,
        master_key=KEY,
        tenant=TENANT,
        connections=3,
        database_within=60,
        worker=WorkerSettings(**{"poll": 0.02, "stop_within": 0.05} | (worker or {})),
        retry=RetrySettings(**{"first_wait": 0.001, "longest_wait": 0.001} | (retry or {})),
        limits=LimitSettings(body=1000, headers=1000, header_count=10),
    )


class Program:
    """A box whose ledger can be looked at by hand."""

    def __init__(
        self,
        place: Place,
        worker: dict[str, Any] | None = None,
        retry: dict[str, Any] | None = None,
    ) -> None:
        """Prepare the box; handlers are added before ``running``."""
        self.place = place
        self.box = Oncebox(settings=settings(place, worker, retry))

    @functools.cached_property
    def clerk(self) -> Clerk:
        """Who looks at the ledger."""
        return Clerk(self.place)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Program"]:
        """Open the box and let it work."""
        async with self.box:
            yield self
        self.clerk.close()

    async def accept(self, key: str = "1", **rest: Any) -> str:
        """Accept one arrival; return its id."""
        return (await self.box.accept(SOURCE, key=key, **rest)).id

    async def ended(self, *ids: str) -> list[DeliveryState]:
        """Wait until deliveries are done, dead or held; return which."""
        states: list[DeliveryState] = []
        while not states or not set(states) <= _ENDED:
            await asyncio.sleep(_LOOK_EVERY)
            known = {each.id: each.state for each in self.clerk.all()}
            states = [known[id_] for id_ in ids]
        return states

    async def handled(self, key: str = "1", **rest: Any) -> DeliveryInspection:
        """Accept one arrival and wait for its end; return all that is known of it."""
        id_ = await self.accept(key, **rest)
        await self.ended(id_)
        return self.clerk.inspect(id_)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        while not holds():  # noqa: ASYNC110 - it looks at a database, which rings no bell
            await asyncio.sleep(_LOOK_EVERY)

    def metric(self, name: str, **labels: str) -> float:
        """Return one figure from a scrape."""
        for line in self.box.metrics().splitlines():
            if line.startswith((f"{name}{{", f"{name} ")) and all(
                f'{label}="{value}"' in line for label, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        return 0.0
