"""Composition root: builds components, ASGI application and SMTP server from settings."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from oncebox.components import Components, RecheckRejected
from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.ledger.artifacts.claims import JudgeLink
from oncebox.ledger.inboxes.domain_proofs import FindTxt
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.mailboxes.mailbox_fields import DeclaredMailboxes
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.settings import Settings, SmtpSettings

if TYPE_CHECKING:  # commands that serve nothing should not wait for it
    from oncebox.core.egress import Egress
    from oncebox.server.http.request_context import App, WebhookHandler
    from oncebox.server.http.routing import Route
    from oncebox.server.smtp.connection import MailStore, RecipientLookup
    from oncebox.server.smtp.smtp_server import SmtpServer
    from oncebox.server.webhooks.inbound_mail import InboundReceiver


class Interceptor(Protocol):
    """Test mode's hooks between the endpoints and the ledger; each may return its argument."""

    @property
    def routes(self) -> "Sequence[Route]":
        """Additional API routes."""

    def judge_link(self, url: str, policy: InboxPolicy) -> LinkVerdict:
        """Decide whether a link may be claimed."""

    async def begin(self, components: Components, smtp: str | None) -> None:
        """Prepare, before requests are served; mail is received at ``smtp``."""

    @property
    def smtp_auth(self) -> bool:
        """Whether SMTP clients may log in, with any credentials."""

    def smtp_settings(self, settings: SmtpSettings) -> SmtpSettings:
        """Return the settings of SMTP."""

    def addresses(self, directory: "RecipientLookup") -> "RecipientLookup":
        """Return the lookup of recipients."""

    def mail(self, post: "MailStore") -> "MailStore":
        """Return the store for mail."""

    def webhooks(self, handler: "WebhookHandler") -> "WebhookHandler":
        """Return the webhook endpoint."""

    async def end(self) -> None:
        """Deliver what is still held; no requests are served any more."""


async def open_components(
    settings: Settings,
    telemetry: Telemetry | None = None,
    *,
    migrate: bool | None = None,
    judge_link: JudgeLink | None = None,
    deadline: float | None = None,
) -> Components:
    """Open the database; the components over it are built when they are first used.

    A SQLite database is migrated; PostgreSQL waits for ``oncebox migrate`` unless ``migrate``.
    A ``deadline`` is the seconds after which callers of the database are answered in any case.

    Raises: ConfigInvalid, StoreError.
    """
    telemetry = telemetry or Telemetry()
    is_sqlite = settings.database.startswith("sqlite:")
    if not is_sqlite:  # a missing or malformed key is reported before connecting
        startup.load_master_key(settings, may_create=False)
    mailboxes = _declared_mailboxes(settings)
    database = startup.connect(settings.database, connections=settings.connections)
    try:
        await startup.prepare(
            database, telemetry, migrate=is_sqlite if migrate is None else migrate
        )
        known = await startup.master_key_id(database)
        key = startup.load_master_key(settings, may_create=is_sqlite and known is None)
        await startup.check_master_key(database, key)
        database.deadline = deadline  # a migration may take longer
        telemetry.store_overdue.set_function(lambda: database.overdue)
        components = Components(
            settings,
            database,
            telemetry,
            key,
            recheck=_recheck_rejected,
            judge_link=judge_link,
            find_txt=_txt_lookup(settings),
            mailboxes=mailboxes,
        )
        telemetry.free_disk.set_function(lambda: components.disk_space.free)
        return components
    except BaseException:
        await database.close()
        raise


def _declared_mailboxes(settings: Settings) -> DeclaredMailboxes:
    """Return the mailboxes of the settings.

    Raises: ConfigInvalid.
    """
    if not settings.mailboxes:
        return DeclaredMailboxes()
    from oncebox.mailboxes.declared_mailboxes import read_declared  # noqa: PLC0415 - few have any

    return read_declared(settings.mailboxes, os.environ)


def load_server() -> None:
    """Import the servers; commands that serve nothing need none of them."""
    for name in ("application", "webhooks.endpoint", "smtp.smtp_server"):
        import_module(f"oncebox.server.{name}")


class HttpHandlers(NamedTuple):
    """What answers HTTP requests: an ASGI application, and the handler of webhooks beside it."""

    app: "App"
    webhooks: "WebhookHandler"


def build_http_handlers(
    components: Components,
    stopping: asyncio.Event,
    tools: Callable[[Any], Any] | None = None,
    interceptor: Interceptor | None = None,
) -> HttpHandlers:
    """Return what answers HTTP requests.

    ``stopping`` ends long polls; ``tools`` makes the MCP application on its first request.
    """
    # Imported here, because commands that serve nothing should not wait for it.
    from oncebox.server.application import make_api  # noqa: PLC0415
    from oncebox.server.webhooks.endpoint import WebhookEndpoint  # noqa: PLC0415

    endpoint = WebhookEndpoint(
        components.sources,
        components.intake,
        components.quarantine,
        _document_fetcher(components),
        components.telemetry,
        clock=components.database.clock,
        inbound=_inbound_receiver(components),
        disk=components.disk_space,
    )
    components.exit_stack.push_async_callback(endpoint.close)
    if interceptor is None:
        return HttpHandlers(make_api(components, stopping, tools), endpoint)
    api = make_api(components, stopping, tools, interceptor.routes)
    return HttpHandlers(api, interceptor.webhooks(endpoint))


def build_asgi_app(components: Components, stopping: asyncio.Event) -> Any:
    """Return everything a port serves as one ASGI application, for another server."""
    from oncebox.server.http.asgi_app import AsgiApp  # noqa: PLC0415 - as above

    app, webhooks = build_http_handlers(components, stopping)
    return AsgiApp(app, components.settings.http, components.telemetry, webhooks)


def _document_fetcher(components: Components) -> Callable[[str], Awaitable[bytes]]:
    """Return a function that fetches small documents; its client is made on the first call."""
    egress = _lazy_egress(components)

    async def fetch(url: str) -> bytes:
        return await egress().get(url)

    return fetch


def _inbound_receiver(components: Components) -> "InboundReceiver":
    """Return what stores the mail in webhooks; it has an HTTP client of its own."""
    from oncebox.server.webhooks.inbound_mail import InboundReceiver, MailFetcher  # noqa: PLC0415

    return InboundReceiver(
        components.ledger,
        components.recipients,
        components.mail_intake,
        MailFetcher(_lazy_egress(components), clock=components.database.clock),
        components.telemetry,
        largest=components.settings.smtp.size,
        disk=components.disk_space,
    )


def _lazy_egress(components: Components) -> "Callable[[], Egress]":
    """Return a function that returns an HTTP client, made on the first call."""
    made: list[Egress] = []

    def egress() -> "Egress":
        from oncebox.core.egress import Egress  # noqa: PLC0415

        if not made:
            made.append(Egress())
        return made[0]

    async def close() -> None:
        for each in made:
            await each.close()

    components.exit_stack.push_async_callback(close)
    return egress


def _txt_lookup(settings: Settings) -> FindTxt:
    """Return a function that asks for TXT records; nothing is cached, as they were just set."""

    async def find(name: str) -> list[bytes]:
        from oncebox.workers.mail.dns_resolver import DnsResolver  # noqa: PLC0415 - seldom needed

        return await DnsResolver(settings.mail.dns_servers).txt(name)

    return find


def build_smtp_server(
    components: Components, sockets: list[socket.socket], interceptor: Interceptor | None = None
) -> "SmtpServer":
    """Return the server that receives mail on these sockets."""
    from oncebox.server.smtp.mail_limits import MailLimits  # noqa: PLC0415 - as above
    from oncebox.server.smtp.smtp_server import SmtpServer  # noqa: PLC0415 - as above

    directory, store = components.recipients, components.mail_intake
    settings = components.settings.smtp
    if interceptor is not None:
        settings = interceptor.smtp_settings(settings)
    return SmtpServer(
        sockets,
        settings,
        components.telemetry,
        directory=directory if interceptor is None else interceptor.addresses(directory),
        post=store if interceptor is None else interceptor.mail(store),
        folder=components.settings.folder,
        mail_limits=MailLimits(settings, components.disk_space, rates=interceptor is None),
        auth=interceptor is not None and interceptor.smtp_auth,
    )


def _recheck_rejected(components: Components) -> RecheckRejected:
    """Return a function that verifies rejected requests again."""
    receiver = cache(lambda: _inbound_receiver(components))

    async def recheck(rejected: RejectedRequest) -> Sequence[NewDelivery]:
        from oncebox.server.webhooks.request_verification import verify_again  # noqa: PLC0415 - seldom needed

        draft_mail = receiver().draft
        return await verify_again(components.sources, components.intake, rejected, draft_mail)

    return recheck
