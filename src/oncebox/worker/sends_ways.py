"""Ways out: transports opened from their sealed rows, and opened anew when these change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from oncebox.errors import ConfigInvalid
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.model.transport import Transport as Row
from oncebox.transport.email import config
from oncebox.transport.email.config import TransportConfig
from oncebox.transport.email.parcel import Transport

#: opens a way from its configuration
Opens = Callable[[TransportConfig], Transport]
_Key = tuple[str, str]


@dataclass(slots=True)
class _Way:
    """A way that is open, and how many use it."""

    kind: str
    #: as it is sealed; another one is another way
    config: bytes | None
    transport: Transport
    users: int = 0
    retired: bool = False


class Ways:
    """Opens each way once; one that was written anew is closed when nobody uses it any more."""

    def __init__(self, sendbox: SendBox, opens: Opens = config.opened) -> None:
        """Open nothing yet."""
        self._sendbox = sendbox
        self._opens = opens
        self._open: dict[_Key, _Way] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lend(self, row: Row) -> AsyncIterator[Transport]:
        """Lend the way of a row.

        Raises: ConfigInvalid, SigningInvalid, MasterKeyWrong.
        """
        way = self._way(row)
        way.users += 1
        try:
            yield way.transport
        finally:
            way.users -= 1
            if way.retired and not way.users:
                self._close(way)

    async def close(self) -> None:
        """Close all ways; nobody may use one any more."""
        for way in self._open.values():
            self._close(way)
        self._open.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _way(self, row: Row) -> _Way:
        key = (row.tenant, row.name)
        found = self._open.get(key)
        if found is not None and (found.kind, found.config) == (row.kind, row.config):
            return found
        opened = _Way(row.kind, row.config, self._opens(self._read(row)))
        self._open[key] = opened
        if found is not None:
            found.retired = True
            if not found.users:
                self._close(found)
        return opened

    def _read(self, row: Row) -> TransportConfig:
        sealed = row.config
        plain = sealed and self._sendbox.open_config(row.tenant, row.name, sealed)
        found = config.read(plain)
        if config.kind(found) != row.kind:  # above all: nothing is logged that should be sent
            raise ConfigInvalid("the transport is of another kind than its configuration")
        return found

    def _close(self, way: _Way) -> None:
        closing = asyncio.get_running_loop().create_task(way.transport.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
