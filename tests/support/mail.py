"""A real SMTP server on a free port, whose addresses a test lists, and clients byte by byte."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Row, Transaction
from oncebox.errors import StoreUnavailable
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.inboxes.mail_intake import MailIntake, MailWaiter
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.model.deliveries.delivery import Headers
from oncebox.model.inboxes.received_mail import MAIL_SOURCE, Envelope, decode_envelope
from oncebox.server.http.http_server import listen
from oncebox.server.smtp.connection import MailStore as Taking
from oncebox.server.smtp.smtp_server import SmtpServer
from oncebox.settings import LimitSettings, SmtpSettings
from tests.support.clerk import TENANT, VAULT

#: a mail that is all right
PLAIN = b"Subject: one\r\n\r\nbody\r\n"
#: limits that a test can wait for
SHORT: dict[str, Any] = {
    "command_within": 0.6,
    "session_within": 30.0,
    "data_rate": 1000,
    "stop_within": 2.0,
}


class Listed:
    """A directory with the addresses that a test names."""

    def __init__(self, *local: str) -> None:
        self.places = {
            name: RecipientRoute(RecipientStatus.OPEN, f"inb_{name}", TENANT) for name in local
        }
        #: addresses that must be asked for
        self.unknown_at_first: set[str] = set()
        self.asked: list[str] = []
        self.is_down = False

    def find_cached(self, local: str, domain: str) -> RecipientRoute | None:
        if domain.lower() != "oncebox.test":
            return RecipientRoute(RecipientStatus.NOT_OURS, "", "")
        if self.is_down or local in self.unknown_at_first:
            return None
        return self.places.get(
            local.lower().partition("+")[0], RecipientRoute(RecipientStatus.UNKNOWN, "", "")
        )

    async def find(self, local: str, domain: str) -> RecipientRoute:
        self.asked.append(local)
        await asyncio.sleep(0.01)
        if self.is_down:
            raise StoreUnavailable("canary: the database is locked at /var/lib/secret")
        self.unknown_at_first.discard(local)
        place = self.find_cached(local, domain)
        assert place is not None
        return place


class Shelf:
    """A post that keeps mails in memory, or fails as a test wants it."""

    def __init__(self) -> None:
        self.mails: list[tuple[Envelope, bytes]] = []
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def store(self, envelope: Envelope, data: bytes) -> None:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.mails.append((envelope, data))

    def begin(self, envelope: Envelope, data: bytes, waiter: MailWaiter) -> None:
        async def store() -> None:
            try:
                await self.store(envelope, data)
            except Exception as error:  # noqa: BLE001 - the waiter receives it
                waiter.set_exception(error)
            else:
                waiter.set_result([])

        self._storing = asyncio.ensure_future(store())

    @property
    def bodies(self) -> list[bytes]:
        return [data for _, data in self.mails]


class Line:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def reply(self, *, within: float = 10.0) -> str:
        """Read one reply, of however many lines."""
        lines = []
        async with asyncio.timeout(within):
            while True:
                line = (await self._reader.readline()).decode()
                if not line:
                    raise ConnectionResetError
                lines.append(line)
                if line[3:4] != "-":
                    return "".join(lines)

    async def ask(self, command: str | bytes) -> str:
        """Send one command and read the reply."""
        self.send((command if isinstance(command, bytes) else command.encode()) + b"\r\n")
        return await self.reply()

    async def codes(self, *commands: str) -> list[int]:
        """Send commands one after another; return the codes of the replies."""
        return [int((await self.ask(command))[:3]) for command in commands]

    async def hello(self) -> None:
        """Read the greeting and answer it."""
        assert (await self.reply()).startswith("220 ")
        assert (await self.ask("EHLO client.example")).startswith("250-")

    async def begin(self, *recipients: str, sender: str = "ann@example.com") -> None:
        """Go as far as the 354."""
        codes = await self.codes(
            f"MAIL FROM:<{sender}>", *(f"RCPT TO:<{each}>" for each in recipients), "DATA"
        )
        assert codes == [250, *[250] * len(recipients), 354]

    async def mail(self, data: bytes, *recipients: str) -> str:
        """Send a whole mail, stuffed already; return the last reply."""
        await self.begin(*(recipients or ("a@oncebox.test",)))
        self.send(data + b".\r\n")
        return await self.reply()

    async def end(self, *, within: float = 10.0) -> bytes:
        """Wait until the server has closed; return what it said last."""
        async with asyncio.timeout(within):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    def half_close(self) -> None:
        self._writer.write_eof()

    def reset(self) -> None:
        """Go without a word."""
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


@dataclass
class MailServer:
    """A server under test."""

    port: int
    telemetry: Telemetry
    directory: Listed
    server: SmtpServer
    shelf: Shelf = field(default_factory=Shelf)
    lines: list[Line] = field(default_factory=list)

    async def connect(self, host: str = "127.0.0.1") -> Line:
        """Open a connection, from an address of the loopback network."""
        opened = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0))
        self.lines.append(Line(*opened))
        return self.lines[-1]

    async def line(self, host: str = "127.0.0.1") -> Line:
        """Open a connection and say hello."""
        line = await self.connect(host)
        await line.hello()
        return line

    def hang_up(self) -> None:
        """Close every connection."""
        for line in self.lines:
            line.close()

    def count(self, name: str, **labels: str) -> float:
        """Return one figure from a scrape."""
        for text in self.telemetry.scrape().splitlines():
            if text.startswith((f"{name}{{", f"{name} ")) and all(
                f'{label}="{value}"' in text for label, value in labels.items()
            ):
                return float(text.rsplit(" ", 1)[1])
        return 0.0


@asynccontextmanager
async def receiving(
    folder: Path,
    *,
    post: Taking | None = None,
    telemetry: Telemetry | None = None,
    local: Iterable[str] = ("a", "b", "c"),
    at_port: int = 0,
    **settings: Any,
) -> AsyncIterator[MailServer]:
    """Receive mail for the named addresses, into a shelf unless a post is given."""
    sockets = listen("127.0.0.1", at_port)
    telemetry, directory, shelf = telemetry or Telemetry(), Listed(*local), Shelf()
    server = SmtpServer(
        sockets,
        SmtpSettings(**{"hostname": "mx.oncebox.test", **settings}),
        telemetry,
        directory=directory,
        post=post or shelf,
        folder=folder,
    )
    async with server:
        port = int(sockets[0].getsockname()[1])
        opened = MailServer(port, telemetry, directory, server, shelf)
        try:
            yield opened
        except BaseException:
            opened.hang_up()  # a test that failed did not
            raise


@asynccontextmanager
async def storing(database: Database, folder: Path, **settings: Any) -> AsyncIterator[MailServer]:
    """Receive mail into a database."""
    telemetry = Telemetry()
    post = MailIntake(database, telemetry, LimitSettings(), VAULT)
    async with receiving(folder, post=post, telemetry=telemetry, **settings) as server:
        yield server


@dataclass(frozen=True)
class Stored:
    """One delivery of a mail, as it lies in the ledger."""

    tenant: str
    key: str
    state: str
    road: str
    type: str
    payload_id: str
    envelope: Envelope
    body: bytes
    sightings: int


def stored(tx: Transaction) -> list[Stored]:
    """Return every delivery of mail, in the order of arrival."""
    return [_stored(row) for row in tx.execute(_EVERYTHING.format(MAIL_SOURCE))]


_EVERYTHING = """
SELECT tenant, key, state, road, type, payload_id, headers, body, COALESCE((
    SELECT SUM(count) FROM oncebox_sightings WHERE delivery_id = delivery.id), 0)
FROM oncebox_deliveries AS delivery JOIN oncebox_payloads AS payload ON payload.id = payload_id
WHERE source = '{}' ORDER BY delivery.id
"""


def _stored(row: Row) -> Stored:
    tenant, key, state, road, type_, payload_id, headers, body, sightings = row
    envelope = decode_envelope(msgspec.json.decode(headers, type=Headers))
    opened = VAULT.decrypt(body, vaults.mail_aad(tenant, payload_id))
    return Stored(tenant, key, state, road, type_, payload_id, envelope, opened, int(sightings))
