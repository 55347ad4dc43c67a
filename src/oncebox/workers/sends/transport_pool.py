"""Transport pool: opens transports from encrypted rows, and again when those change; directory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from oncebox.core import clock
from oncebox.errors import ConfigInvalid, StoreError
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.sends import transports
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends.send import Send
from oncebox.model.sends.transports import ConfiguredTransport as Row
from oncebox.transports import transport_config
from oncebox.transports.transport import MailTransport
from oncebox.transports.transport_config import TransportConfig

#: opens a transport from its configuration
OpenTransport = Callable[[TransportConfig], MailTransport]
_TransportKey = tuple[str, str]
#: it signs with its own keys, and refuses mail of domains it has none for
_SIGNS_BY_ITSELF = "resend"


@dataclass(slots=True)
class _OpenTransport:
    """An open transport and the number of its users."""

    kind: str
    #: encrypted; a changed configuration needs a new transport
    config: bytes | None
    transport: MailTransport
    #: domains that it signs for with a key
    signs: tuple[str, ...] = ()
    users: int = 0
    retired: bool = False


#: seconds for which transports are remembered
_REMEMBERED = 1.0
_MAX_TENANTS = 1_000


class TransportDirectory:
    """The transports of tenants as last read; whoever relies on one has it checked in SQL."""

    def __init__(self, ledger: Ledger) -> None:
        self._read = ledger.shared(transports.of_tenants)
        self._known: dict[str, tuple[float, list[Row]]] = {}

    async def find(self, tenant: str, name: str, failover_group: str = "") -> Row | None:
        """Return a transport, or the first one (of a group) if the name is empty, or None."""
        until, known = self._known.get(tenant, (0.0, []))
        now = clock.steady()
        if now >= until:
            try:
                known = await self._read.read(tenant)
            except StoreError:
                return None
            if len(self._known) >= _MAX_TENANTS:
                self._known.clear()
            self._known[tenant] = now + _REMEMBERED, known
        return chosen_transport(known, name, failover_group)


def chosen_transport(rows: Sequence[Row], name: str, failover_group: str) -> Row | None:
    """Return the transport that the ledger would choose: the named one, or the first."""
    return next(
        (
            each
            for each in rows
            if name in {"", each.name} and failover_group in {"", each.failover_group}
        ),
        None,
    )


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

    def signs(self, row: Row, send: Send) -> bool:
        """Tell whether a transport signs a mail: with a key for its sender, or as Resend does.

        Raises: as ``acquire``.
        """
        sender = send.message_id.replace("@", ".").lower()
        return row.kind == _SIGNS_BY_ITSELF or any(
            sender.endswith(f".{domain}>") for domain in self._get(row).signs
        )

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
        config = self._read_config(row)
        opened = _OpenTransport(
            row.kind,
            row.config,
            self._open_transport(config),
            signs=transport_config.signing_domains(config),
        )
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
