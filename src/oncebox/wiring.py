"""Composition root: builds components, ASGI application and SMTP server from settings."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from oncebox.components import Components, RecheckRejected
from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.artifacts.claims import JudgeLink, LinkVerdict
from oncebox.ledger.deliveries.intake import Intake
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.settings import Settings

if TYPE_CHECKING:  # commands that serve nothing should not wait for it
    from oncebox.core.egress import Egress
    from oncebox.server.http.request_limits import App
    from oncebox.server.http.routing import Route
    from oncebox.server.smtp.connection import MailStore as Taking
    from oncebox.server.smtp.connection import RecipientLookup as Addresses
    from oncebox.server.smtp.smtp_server import SmtpServer


class Interceptor(Protocol):
    """What tests put between the doors and the ledger; a service by itself has none.

    Each of its methods may return what it is given.
    """

    @property
    def routes(self) -> "Sequence[Route]":
        """What can be asked besides."""

    def judge_link(self, url: str, policy: InboxPolicy) -> LinkVerdict:
        """Say which links are let out."""

    async def begin(self, components: Components, smtp: str | None) -> None:
        """Prepare, before anybody is answered; mail is taken at ``smtp``."""

    def addresses(self, directory: "Addresses") -> "Addresses":
        """Return who knows what addresses lead to."""

    def mail(self, post: "Taking") -> "Taking":
        """Return who stores mail."""

    def webhooks(self, app: "App") -> "App":
        """Return who takes webhooks."""

    async def end(self) -> None:
        """Hand over what is still held; nobody is answered any more."""


async def open_components(
    settings: Settings,
    telemetry: Telemetry | None = None,
    *,
    migrate: bool | None = None,
    judge_link: JudgeLink | None = None,
) -> Components:
    """Open the database; the components over it are built when they are first used.

    A SQLite database is migrated; PostgreSQL waits for ``oncebox migrate`` unless ``migrate``.

    Raises: ConfigInvalid, StoreError.
    """
    telemetry = telemetry or Telemetry()
    is_sqlite = settings.database.startswith("sqlite:")
    if not is_sqlite:  # a missing or malformed key is reported before connecting
        startup.load_master_key(settings, may_create=False)
    database = startup.connect(settings.database, connections=settings.connections)
    try:
        await startup.prepare(
            database, telemetry, migrate=is_sqlite if migrate is None else migrate
        )
        known = await startup.master_key_id(database)
        key = startup.load_master_key(settings, may_create=is_sqlite and known is None)
        await startup.check_master_key(database, key)
        return Components(
            settings,
            database,
            telemetry,
            key,
            recheck=_recheck_rejected,
            judge_link=judge_link,
        )
    except BaseException:
        await database.close()
        raise


def load_server() -> None:
    """Load what answers; commands that serve nothing need none of it."""
    for name in ("application", "webhooks.endpoint", "smtp.smtp_server"):
        import_module(f"oncebox.server.{name}")


def build_asgi_app(
    components: Components,
    stopping: asyncio.Event,
    tools: Callable[[Any], Any] | None = None,
    drill: Interceptor | None = None,
) -> Any:
    """Return everything a port serves, as one ASGI application.

    ``stopping`` is set when nobody should be kept waiting; ``tools`` makes the agent's tools over
    the API, once somebody asks for them.
    """
    # Imported here, because commands that serve nothing should not wait for it.
    from oncebox.server.application import make_api, make_app  # noqa: PLC0415
    from oncebox.server.webhooks.endpoint import WebhookEndpoint  # noqa: PLC0415

    hooks = WebhookEndpoint(
        components.sources,
        components.intake,
        components.quarantine,
        _document_fetcher(components),
        components.telemetry,
        clock=components.database.clock,
    )
    components.exit_stack.push_async_callback(hooks.close)
    settings = components.settings.http
    if drill is None:
        api = make_api(components, stopping, tools)
        return make_app(api, hooks, settings, components.telemetry, hooks.accept_fast)
    taking = drill.webhooks(hooks)
    express = hooks.accept_fast if taking is hooks else None  # whoever stands between sees them all
    api = make_api(components, stopping, tools, drill.routes)
    return make_app(api, taking, settings, components.telemetry, express)


def _document_fetcher(components: Components) -> Callable[[str], Awaitable[bytes]]:
    """Return what fetches small documents; few sources need one, so it is made when one does."""
    made: list[Egress] = []

    async def fetch(url: str) -> bytes:
        from oncebox.core.egress import Egress  # noqa: PLC0415

        if not made:
            made.append(Egress())
        return await made[0].get(url)

    async def close() -> None:
        for each in made:
            await each.close()

    components.exit_stack.push_async_callback(close)
    return fetch


def build_smtp_server(
    components: Components, sockets: list[socket.socket], drill: Interceptor | None = None
) -> "SmtpServer":
    """Return what receives mail on these sockets."""
    from oncebox.server.smtp.smtp_server import SmtpServer  # noqa: PLC0415 - as above

    return SmtpServer(
        sockets,
        components.settings.smtp,
        components.telemetry,
        directory=components.recipients
        if drill is None
        else drill.addresses(components.recipients),
        post=components.mail_intake if drill is None else drill.mail(components.mail_intake),
        folder=components.settings.folder,
    )


def _recheck_rejected(sources: SourceCache, intake: Intake) -> RecheckRejected:
    """Return a function that verifies rejected requests again, without fetching public keys."""

    async def recheck(rejected: RejectedRequest) -> Sequence[NewDelivery]:
        from oncebox.server.webhooks.request_verification import RejectedRequestCheck  # noqa: PLC0415 - seldom needed
        from oncebox.webhooks.scheme import NO_PUBLIC_KEYS  # noqa: PLC0415

        return await RejectedRequestCheck(sources, intake, NO_PUBLIC_KEYS)(rejected)

    return recheck
