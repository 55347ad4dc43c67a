"""A server that takes webhooks, on a free port, with sources as a test wants them."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec

from oncebox.components import Components
from oncebox.core import ids
from oncebox.core.egress import Egress
from oncebox.errors import NotFound
from oncebox.ledger.admin import audit, tenants
from oncebox.model.deliveries.delivery import Delivery
from oncebox.server.http.http_server import HttpServer, listen
from oncebox.server.http.request_context import Receive, Scope, Send, request_context
from oncebox.server.webhooks.endpoint import WebhookEndpoint
from oncebox.server.webhooks.inbound_mail import InboundReceiver, MailFetcher
from oncebox.settings import HttpSettings, LimitSettings
from oncebox.wiring import open_components
from tests.support.clerk import TENANT, Clerk
from tests.support.databases import Place
from tests.support.program import settings

SECRET = "canary-of-the-signing-secret"
HTTP = HttpSettings(port=0, body=64 * 1024, mail_body=1024 * 1024)
#: bytes of one mail
LARGEST_MAIL = 512 * 1024


def github(body: bytes, delivery: str = "d-1", *, secret: str = SECRET) -> dict[str, str]:
    """Return the headers GitHub would send."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "x-hub-signature-256": f"sha256={signature}",
        "x-github-delivery": delivery,
        "x-github-event": "push",
        "content-type": "application/json",
    }


class HookServer:
    """The server, a client of it, and a clerk who looks at its ledger."""

    def __init__(
        self,
        rooms: Components,
        clerk: Clerk,
        client: httpx2.AsyncClient,
        hooks: WebhookEndpoint,
        port: int,
    ) -> None:
        """Hold what ``serving`` opened."""
        self.rooms = rooms
        self.clerk = clerk
        self.client = client
        self.hooks = hooks
        self.port = port

    async def source(
        self,
        name: str,
        scheme: str | None = None,
        *secrets: str,
        tenant: str = TENANT,
        **table: Any,
    ) -> None:
        """Add a source; its scheme is its name unless given."""
        deed = _deed(self.rooms, tenant)
        await self.rooms.database.write(
            self.rooms.source_service.add,
            name,
            {"scheme": scheme or name, **table},
            deed,
            public_id=name,
            texts=secrets or (SECRET,),
            references=True,
        )
        await self.rooms.sources.refresh()

    async def add_secret(self, name: str, text: str) -> None:
        """Add a secret to a source."""
        deed = _deed(self.rooms, TENANT)
        await self.rooms.database.write(self.rooms.source_service.add_secret, name, text, deed)
        await self.rooms.sources.refresh()

    def claim(self, source: str) -> list[Delivery]:
        """Lease what is due."""
        self.clerk.now = self.rooms.database.clock()
        return self.clerk.claim(source=source)

    async def post(
        self, path: str, body: bytes | dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Send a webhook."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(f"/in/{path}", content=content, headers=headers or {})

    async def post_github(
        self, body: dict[str, Any], delivery: str = "d-1", *, path: str = "github"
    ) -> httpx2.Response:
        """Send what GitHub would send."""
        content = json.dumps(body).encode()
        return await self.post(path, content, github(content, delivery))


def _deed(rooms: Components, tenant: str) -> audit.AuditEntry:
    now = rooms.database.clock()
    return audit.AuditEntry(id=ids.new("aud"), tenant=tenant, at=now, who="test", why="test")


async def _nothing_here(scope: Scope, _receive: Receive, _send: Send) -> None:
    request_context(scope).refuse(NotFound)


def endpoint(rooms: Components, egress: Egress) -> WebhookEndpoint:
    """Return the webhook endpoint of a box."""
    return WebhookEndpoint(
        rooms.sources,
        rooms.intake,
        rooms.quarantine,
        egress.get,
        rooms.telemetry,
        clock=rooms.database.clock,
        inbound=InboundReceiver(
            rooms.ledger,
            rooms.recipients,
            rooms.mail_intake,
            MailFetcher(lambda: egress, clock=rooms.database.clock),
            rooms.telemetry,
            largest=LARGEST_MAIL,
        ),
    )


@asynccontextmanager
async def serving(
    place: Place,
    *,
    local: Sequence[str] = (),
    http: HttpSettings = HTTP,
    egress: Egress | None = None,
) -> AsyncIterator[HookServer]:
    """Serve webhooks from a database."""
    chosen = msgspec.structs.replace(settings(place), limits=LimitSettings())
    rooms = await open_components(chosen, migrate=True)
    await rooms.database.write(tenants.create, TENANT, _deed(rooms, TENANT))
    await rooms.sources.refresh()
    egress = egress or Egress(local=local)
    hooks = endpoint(rooms, egress)
    sockets = listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    clerk = Clerk(place)
    async with (
        HttpServer(_nothing_here, sockets, http, rooms.telemetry, hooks),
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield HookServer(rooms, clerk, client, hooks, port)
    await hooks.close()
    await egress.close()
    clerk.close()
    await rooms.close()
