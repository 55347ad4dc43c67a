"""Public keys of providers, fetched when first wanted and kept for a while."""

import asyncio
from collections.abc import Awaitable, Callable

from oncebox import clock
from oncebox.errors import EgressError
from oncebox.telemetry import Telemetry

#: returns a small document by its URL; raises EgressError
Fetch = Callable[[str], Awaitable[bytes]]

_KEEP = 24 * 3600.0
_KEEP_FAILURE = 10.0
_MOST = 1_000


class RemoteKeys:
    """Knows the keys that were fetched; a miss starts a fetch and never waits for it."""

    def __init__(self, fetch: Fetch, telemetry: Telemetry) -> None:
        """Begin with none."""
        self._fetched = fetch
        self._telemetry = telemetry
        self._kept: dict[str, tuple[float, str | None]] = {}
        self._fetching: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str, /) -> str | None:
        """Return a key, or None if it is not here."""
        until, key = self._kept.get(name, (0.0, None))
        return key if clock.steady() < until else None

    def want(self, name: str) -> None:
        """Fetch a key in the background; the schemes name only addresses of their providers."""
        until, _ = self._kept.get(name, (0.0, None))
        if name in self._fetching or clock.steady() < until or len(self._fetching) >= _MOST:
            return
        task = asyncio.create_task(self._fetch(name))
        self._fetching[name] = task
        task.add_done_callback(lambda _task: self._fetching.pop(name, None))

    async def _fetch(self, name: str) -> None:
        try:
            key = (await self._fetched(name)).decode("ascii")
        except (EgressError, UnicodeDecodeError) as error:
            self._telemetry.log.warning("key_not_fetched", error=type(error).__name__)
            self._keep(name, None, _KEEP_FAILURE)
        else:
            self._keep(name, key, _KEEP)

    def _keep(self, name: str, key: str | None, seconds: float) -> None:
        if len(self._kept) >= _MOST:
            self._kept.pop(next(iter(self._kept)))
        self._kept[name] = (clock.steady() + seconds, key)

    async def close(self) -> None:
        """Stop fetching."""
        for task in list(self._fetching.values()):
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)
