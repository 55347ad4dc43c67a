"""Assembly: settings into rooms, top to bottom; the only place that knows them all."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from oncebox import seal
from oncebox.config import Settings
from oncebox.errors import DatabaseReadOnly, MasterKeyMissing
from oncebox.ledger.attempts.desk import AttemptDesk
from oncebox.ledger.counter import Counter
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.deliveries.handover import Quarantine
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.events.broadcast import Broadcast
from oncebox.ledger.events.numbering import Numbering
from oncebox.ledger.inboxes.claims import Clerk, Judged, JudgeLink
from oncebox.ledger.inboxes.correspondence import Correspondence, Etiquette, Headers
from oncebox.ledger.inboxes.desk import MailDesk
from oncebox.ledger.inboxes.directory import Directory
from oncebox.ledger.inboxes.grants import Grants
from oncebox.ledger.inboxes.lobby import Lobby
from oncebox.ledger.inboxes.post import Post
from oncebox.ledger.inboxes.postmaster import Postmaster
from oncebox.ledger.inboxes.strongbox import Strongbox
from oncebox.ledger.office import filed
from oncebox.ledger.office.keeper import Keeper
from oncebox.ledger.office.keyring import KeyRing
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.ledger.sends.desk import SendDesk
from oncebox.ledger.sends.outbox import Outbox, Scribe
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.ledger.sends.templates import TemplateFolder
from oncebox.ledger.vault import Vault
from oncebox.model.delivery import NewDelivery
from oncebox.model.email import Email
from oncebox.model.inbox import InboxPolicy
from oncebox.model.quarantine import Rejected
from oncebox.model.source import Schemes
from oncebox.seal import MasterKey
from oncebox.store import opening
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

if TYPE_CHECKING:  # commands that serve nothing should not wait for it
    from oncebox.edge.guard import App
    from oncebox.edge.http.route import Route
    from oncebox.edge.smtp.office import Directory as Addresses
    from oncebox.edge.smtp.office import Post as Taking
    from oncebox.edge.smtp.server import SmtpServer
    from oncebox.egress import Egress

#: checks a rejected request again; returns what it holds, or raises why it is not believed
Judge = Callable[[Rejected], Awaitable[Sequence[NewDelivery]]]


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything a process needs to take in, look at and work on deliveries."""

    settings: Settings
    database: Database
    telemetry: Telemetry
    master_key: MasterKey
    vault: Vault
    intake: Intake
    desk: Desk
    mail: MailDesk
    attempts: AttemptDesk
    keys: KeyRing
    #: empty until its first ``refresh``
    book: SourceBook
    keeper: Keeper
    counter: Counter
    quarantine: Quarantine
    judge: Judge
    postmaster: Postmaster
    directory: Directory
    numbering: Numbering
    broadcast: Broadcast
    lobby: Lobby
    post: Post
    strongbox: Strongbox
    grants: Grants
    sends: SendDesk
    sendbox: SendBox
    outbox: Outbox
    #: what else must be closed, and is before the database
    leaving: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def close(self) -> None:
        """Let go of the database."""
        await self.leaving.aclose()
        await self.directory.close()
        await self.broadcast.close()
        await self.lobby.close()
        await self.sends.close()
        await self.quarantine.close()
        await self.book.close()
        await self.keys.close()
        await self.database.close()


class Drill(Protocol):
    """What tests put between the doors and the ledger; a service by itself has none.

    Each of its methods may return what it is given.
    """

    @property
    def routes(self) -> "Sequence[Route]":
        """What can be asked besides."""

    def judge_link(self, url: str, policy: InboxPolicy) -> Judged:
        """Say which links are let out."""

    async def begin(self, rooms: Rooms, smtp: str | None) -> None:
        """Prepare, before anybody is answered; mail is taken at ``smtp``."""

    def addresses(self, directory: "Addresses") -> "Addresses":
        """Return who knows what addresses lead to."""

    def mail(self, post: "Taking") -> "Taking":
        """Return who stores mail."""

    def webhooks(self, app: "App") -> "App":
        """Return who takes webhooks."""

    async def end(self) -> None:
        """Hand over what is still held; nobody is answered any more."""


async def open_rooms(
    settings: Settings,
    telemetry: Telemetry | None = None,
    *,
    migrate: bool | None = None,
    judge_link: JudgeLink | None = None,
) -> Rooms:
    """Open the database and put the rooms together.

    A SQLite database migrates itself; PostgreSQL waits for ``oncebox migrate`` unless told.

    Raises: ConfigInvalid, StoreError.
    """
    telemetry = telemetry or Telemetry()
    is_sqlite = settings.database.startswith("sqlite:")
    if not is_sqlite:
        _master_key(settings, may_make=False)  # missing or malformed is said before connecting
    database = opening.connect(settings.database, connections=settings.connections)
    try:
        wanted = is_sqlite if migrate is None else migrate
        await opening.prepare(database, telemetry, migrate=wanted)
        known = await opening.master_key_id(database)
        key = _master_key(settings, may_make=is_sqlite and known is None)
        await opening.check_key(database, key)
        return _furnished(settings, database, telemetry, key, judge_link or _judge_link)
    except BaseException:
        await database.close()
        raise


def load_edges() -> None:
    """Load what answers; commands that serve nothing need none of it."""
    for name in ("front", "hooks.app", "http.application", "smtp.server"):
        import_module(f"oncebox.edge.{name}")


def front_of(
    rooms: Rooms,
    stopping: asyncio.Event,
    tools: Callable[[Any], Any] | None = None,
    drill: Drill | None = None,
) -> Any:
    """Return everything a port serves, as one ASGI application.

    ``stopping`` is set when nobody should be kept waiting; ``tools`` makes the agent's tools over
    the API, once somebody asks for them.
    """
    # Imported here, because commands that serve nothing should not wait for it.
    from oncebox.edge.front import front  # noqa: PLC0415
    from oncebox.edge.hooks.app import Hooks  # noqa: PLC0415
    from oncebox.edge.http.application import application  # noqa: PLC0415

    hooks = Hooks(
        rooms.book,
        rooms.intake,
        rooms.quarantine,
        _fetcher(rooms),
        rooms.telemetry,
        clock=rooms.database.clock,
    )
    rooms.leaving.push_async_callback(hooks.close)
    settings = rooms.settings.http
    if drill is None:
        api = application(rooms, stopping, tools)
        return front(api, hooks, settings, rooms.telemetry, hooks.express)
    taking = drill.webhooks(hooks)
    express = hooks.express if taking is hooks else None  # whoever stands between sees them all
    api = application(rooms, stopping, tools, drill.routes)
    return front(api, taking, settings, rooms.telemetry, express)


def _fetcher(rooms: Rooms) -> Callable[[str], Awaitable[bytes]]:
    """Return what fetches small documents; few sources need one, so it is made when one does."""
    made: list[Egress] = []

    async def fetch(url: str) -> bytes:
        from oncebox.egress import Egress  # noqa: PLC0415

        if not made:
            made.append(Egress())
        return await made[0].get(url)

    async def close() -> None:
        for each in made:
            await each.close()

    rooms.leaving.push_async_callback(close)
    return fetch


def smtp_of(rooms: Rooms, sockets: list[socket.socket], drill: Drill | None = None) -> "SmtpServer":
    """Return what receives mail on these sockets.

    Raises: ConfigInvalid.
    """
    from oncebox.edge.smtp.server import SmtpServer  # noqa: PLC0415 - as above

    return SmtpServer(
        sockets,
        rooms.settings.smtp,
        rooms.telemetry,
        directory=rooms.directory if drill is None else drill.addresses(rooms.directory),
        post=rooms.post if drill is None else drill.mail(rooms.post),
        folder=rooms.settings.folder,
    )


def _furnished(
    settings: Settings,
    database: Database,
    telemetry: Telemetry,
    key: MasterKey,
    judge_link: JudgeLink,
) -> Rooms:
    schemes = _schemes()
    written = filed.read(settings.sources, settings.tenant, key)
    names = {(each.tenant, each.name) for each in written}
    book = SourceBook(database, key, telemetry, written=written, schemes=schemes)
    intake = Intake(database, telemetry, tenant=settings.tenant, limits=settings.limits)
    postmaster = Postmaster(settings.inboxes, home=settings.tenant)
    vault, strongbox = Vault(key), Strongbox(key)
    sends, sendbox = SendDesk(database, telemetry), SendBox(key)
    return Rooms(
        settings=settings,
        database=database,
        telemetry=telemetry,
        master_key=key,
        vault=vault,
        intake=intake,
        desk=Desk(database),
        mail=MailDesk(database),
        attempts=AttemptDesk(database, telemetry, key),
        keys=KeyRing(database),
        book=book,
        keeper=Keeper(key, schemes=schemes, written=names),
        counter=Counter(database, key),
        quarantine=Quarantine(database, telemetry, key=key, caps=settings.quarantine),
        judge=_judge(book, intake),
        postmaster=postmaster,
        directory=Directory(database, default=postmaster.default, draining=postmaster.draining),
        numbering=Numbering(database),
        broadcast=Broadcast(database, telemetry),
        lobby=Lobby(database, vault, telemetry, settings.waits),
        post=Post(database, telemetry, settings.limits, vault),
        strongbox=strongbox,
        grants=Grants(database, Clerk(strongbox, judge_link), telemetry),
        sends=sends,
        sendbox=sendbox,
        outbox=Outbox(
            sends,
            sendbox,
            _scribe(settings),
            settings.sends,
            telemetry,
            correspondence=Correspondence(database, vault, _etiquette()),
        ),
    )


def _judge_link(url: str, policy: InboxPolicy) -> Judged:
    """Judge a link by the hosts that its inbox lets out."""
    from oncebox.mail.linkpolicy import judge  # noqa: PLC0415 - most commands need none

    judged: Judged = judge(url, policy.link_hosts, local=policy.link_origins)
    return judged


def templates_of(settings: Settings) -> Path:
    """Return the folder of templates."""
    return Path(settings.sends.templates or settings.folder / "templates")


def _scribe(settings: Settings) -> Scribe:
    """Return who writes mail."""
    templates = TemplateFolder(templates_of(settings))

    def fill(email: Email) -> Email:
        from oncebox.mail.template import Template, filled  # noqa: PLC0415 - few need Jinja2

        subject, text, html = templates.get(email.template)
        template = Template(name=email.template, subject=subject, text=text, html=html)
        return filled(email, template)

    def message_id(secret: bytes, tenant: str, key: str, domain: str) -> str:
        from oncebox.mail import compose  # noqa: PLC0415 - most commands need none

        return compose.message_id(secret, tenant, key, domain)

    def written(email: Email, *, message_id: str, date: int, seed: bytes) -> bytes:
        from oncebox.mail.compose import compose_formed  # noqa: PLC0415 - most commands need none

        return compose_formed(email, message_id=message_id, date=date, seed=seed)

    return Scribe(fill=fill, message_id=message_id, compose=written)


def _etiquette() -> Etiquette:
    """Return what is known of how mail is answered."""

    def is_automatic(headers: Headers, sender: str | None) -> bool:
        from oncebox.mail import automatic  # noqa: PLC0415 - most commands need none

        return automatic.is_automatic(headers, sender)

    def answering(headers: Headers, message_id: str) -> dict[str, str]:
        from oncebox.mail import threads  # noqa: PLC0415 - most commands need none

        return threads.answering(headers, message_id)

    return Etiquette(is_automatic=is_automatic, answering=answering)


def _schemes() -> Schemes:
    """Say what schemes there are; the tables are read when first asked for."""

    def known(name: str) -> bool:
        from oncebox.signature import schemes  # noqa: PLC0415 - most commands need none

        return name in schemes.names()

    def keyless(name: str) -> bool:
        from oncebox.signature import schemes  # noqa: PLC0415 - most commands need none

        return known(name) and schemes.find(name).keyless

    return Schemes(known=known, keyless=keyless)


def _judge(book: SourceBook, intake: Intake) -> Judge:
    """Return what checks rejected requests again; keys that must be fetched are not."""

    async def judge(rejected: Rejected) -> Sequence[NewDelivery]:
        from oncebox.edge.hooks.review import Review  # noqa: PLC0415 - seldom needed
        from oncebox.signature.scheme import NO_KEYS  # noqa: PLC0415

        return await Review(book, intake, NO_KEYS)(rejected)

    return judge


def _master_key(settings: Settings, *, may_make: bool) -> MasterKey:
    """Return the configured key; only a new SQLite installation may make its own."""
    if settings.master_key:
        return seal.from_text(settings.master_key)
    if settings.master_key_file:
        return seal.from_file(Path(settings.master_key_file))
    if not settings.database.startswith("sqlite:"):
        message = (
            "PostgreSQL needs a master key that all hosts share: set ONCEBOX_MASTER_KEY or "
            "ONCEBOX_MASTER_KEY_FILE; make one with: openssl rand -base64 32"
        )
        raise MasterKeyMissing(message)
    path = opening.sqlite_path(settings.database).with_suffix(".key")
    if not may_make:
        return seal.from_file(path)
    try:
        return seal.from_file_or_new(path)
    except OSError as error:
        message = "the folder of the database cannot be written; choose one with ONCEBOX_DATA_DIR"
        raise DatabaseReadOnly(message) from error
