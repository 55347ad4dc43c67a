"""The API of an opened box, called in the same process by clients with keys of all kinds."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.ledger.admin import api_keys, tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.deliveries.delivery import Accepted
from oncebox.settings import HttpSettings, SendSettings
from tests.support.databases import Place
from tests.support.program import settings

OTHER = "other"


@dataclass
class Api:
    """A box and ways to call it."""

    box: Oncebox
    app: Any
    made: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def home(self) -> str:
        return self.box.settings.tenant

    async def key(self, *scopes: str, tenant: str = "", expires_at: int | None = None) -> str:
        """Return the text of a key with these scopes."""
        tenant = tenant or self.home
        if expires_at is None and (tenant, scopes) in self.made:
            return self.made[tenant, scopes]
        key, text = api_keys.generate(self.deed(tenant), scopes, expires_at=expires_at)
        await self.box.components.ledger.write(api_keys.add, key, text, self.deed(tenant))
        self.made[tenant, scopes] = text
        return text

    async def second_tenant(self) -> None:
        """Make another tenant."""
        await self.box.components.ledger.write(tenants.create, OTHER, self.deed(self.home))

    def deed(self, tenant: str) -> AuditEntry:
        now = self.box.components.ledger.clock()
        return AuditEntry(id=ids.new("aud"), tenant=tenant, at=now, who="test", why="")

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        scopes: tuple[str, ...] = ("admin",),
        tenant: str = "",
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> httpx2.Response:
        """Call the API with a key of these scopes, or with this very text."""
        text = await self.key(*scopes, tenant=tenant) if key is None else key
        given = {"Authorization": f"Bearer {text}"} if text else {}
        if method == "POST" and "Idempotency-Key" not in (headers or {}):
            given["Idempotency-Key"] = f"test-{next(self.numbers)}"
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=True)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(
                method, path, json=body, headers={**given, **(headers or {})}, params=params
            )

    async def add_source(self, name: str, *, tenant: str = "", **fields: Any) -> None:
        """Add a source that takes unsigned requests."""
        table = {"name": name, "scheme": "none", "allow_unsigned": True, "mode": "pull"}
        answer = await self.call("POST", "/v1/sources", {**table, **fields}, tenant=tenant)
        assert answer.status_code == 201, answer.text

    async def accept(self, source: str, key: str, **rest: Any) -> Accepted:
        """Take a delivery of the home tenant in."""
        return await self.box.accept(source, key=key, **rest)


@asynccontextmanager
async def calling(
    place: Place, *, sends: SendSettings | None = None, **http: Any
) -> AsyncIterator[Api]:
    """Open a box and its API."""
    all_settings = msgspec.structs.replace(
        settings(place),
        http=HttpSettings(**http),
        sends=sends or SendSettings(),
        tenant=DEFAULT_TENANT,
    )
    box = Oncebox(settings=all_settings)
    await box.open()
    try:
        yield Api(box, box.asgi())
    finally:
        await box.close()
