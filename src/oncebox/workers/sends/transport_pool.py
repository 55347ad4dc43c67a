"""Transport pool: opens transports from encrypted rows, reopens them when the rows change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from oncebox.errors import ConfigInvalid
from oncebox.ledger.ciphers import SendCipher
from oncebox.model.sends.transports import ConfiguredTransport as Row
from oncebox.transports import transport_config
from oncebox.transports.transport import MailTransport
from oncebox.transports.transport_config import TransportConfig

#: opens a transport from its configuration
OpenTransport = Callable[[TransportConfig], MailTransport]
_TransportKey = tuple[str, str]


@dataclass(slots=True)
class _OpenTransport:
    """An open transport and the number of its users."""

    kind: str
    #: encrypted; a changed configuration needs a new transport
    config: bytes | None
    transport: MailTransport
    users: int = 0
    retired: bool = False


class TransportPool:
    """Opens each transport once; closes a reconfigured one after its last use."""

    def __init__(
        self, cipher: SendCipher, open_transport: OpenTransport = transport_config.open_transport
    ) -> None:
        self._cipher = cipher
        self._open_transport = open_transport
        self._open: dict[_TransportKey, _OpenTransport] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def acquire(self, row: Row) -> AsyncIterator[MailTransport]:
        """Yield the transport of a row, opened if necessary.

        Raises: ConfigInvalid, SigningInvalid, MasterKeyWrong.
        """
        opened = self._get(row)
        opened.users += 1
        try:
            yield opened.transport
        finally:
            opened.users -= 1
            if opened.retired and not opened.users:
                self._close(opened)

    async def close(self) -> None:
        """Close all transports; none may be in use."""
        for opened in self._open.values():
            self._close(opened)
        self._open.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _get(self, row: Row) -> _OpenTransport:
        key = (row.tenant, row.name)
        found = self._open.get(key)
        if found is not None and (found.kind, found.config) == (row.kind, row.config):
            return found
        opened = _OpenTransport(row.kind, row.config, self._open_transport(self._read_config(row)))
        self._open[key] = opened
        if found is not None:
            found.retired = True
            if not found.users:
                self._close(found)
        return opened

    def _read_config(self, row: Row) -> TransportConfig:
        plain = row.config and self._cipher.decrypt_field(
            "config", row.tenant, row.name, row.config
        )
        found = transport_config.decode_config(plain)
        # A damaged row must never turn into the log transport, which sends nothing.
        if transport_config.transport_kind(found) != row.kind:
            raise ConfigInvalid(
                "the kind of the transport does not match its configuration; configure it again "
                "with: oncebox transport change"
            )
        return found

    def _close(self, opened: _OpenTransport) -> None:
        closing = asyncio.get_running_loop().create_task(opened.transport.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
