"""The office by hand: tenants, keys, sources and requests, in time the test owns."""

from collections.abc import Sequence
from typing import Any

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.ledger.admin import api_keys, sources, tenants
from oncebox.ledger.admin import audit as admin_audit
from oncebox.ledger.admin.source_service import SourceService
from oncebox.ledger.admin.sources import StoredSecret, StoredSource
from oncebox.model.admin.access import ApiKey
from oncebox.model.webhooks.source import SchemeLookup
from tests.support.clerk import TENANT, Clerk

KEY = MasterKey(bytes(range(32)))
#: every scheme but ``no-such`` is known, and two need no secret
SCHEMES = SchemeLookup(
    known=lambda name: name != "no-such",
    keyless={"none", "aws-sns"}.__contains__,
    unknown=lambda name: f"there is no scheme {name!r}",
)
STRIPE = {"scheme": "stripe"}


class Office:
    """Every verb of the office, at the clerk's time."""

    def __init__(self, clerk: Clerk, *, written: Sequence[tuple[str, str]] = ()) -> None:
        """Work beside a clerk, for a tenant that is there."""
        self.clerk = clerk
        self.keeper = SourceService(KEY, schemes=SCHEMES, written=written)
        if "acme" not in self.tenants():
            self.clerk.run(tenants.create, TENANT, self.deed())

    def deed(self, tenant: str = TENANT, why: str = "because") -> admin_audit.AuditEntry:
        """Return who does something, and why."""
        return admin_audit.AuditEntry(
            id=ids.new("aud"), tenant=tenant, at=self.clerk.now, who="eve", why=why
        )

    def tenants(self) -> list[str]:
        """Return the names of all tenants."""
        return [each.name for each in self.clerk.run(tenants.list_all)]

    def key(
        self,
        *scopes: str,
        tenant: str = TENANT,
        expires_at: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key."""
        deed = self.deed(tenant)
        key, text = api_keys.generate(deed, scopes or ["admin"], expires_at=expires_at)
        self.clerk.run(api_keys.add, key, text, deed)
        return key, text

    def revoke(self, key: ApiKey, tenant: str = TENANT) -> ApiKey:
        """End a key."""
        return self.clerk.run(api_keys.revoke, key.id, self.deed(tenant))

    def add(
        self,
        name: str = "stripe",
        table: dict[str, Any] | None = None,
        *texts: str,
        tenant: str = TENANT,
        public_id: str | None = None,
    ) -> StoredSource:
        """Add a source."""
        return self.clerk.run(
            self.keeper.add,
            name,
            STRIPE if table is None else table,
            self.deed(tenant),
            public_id=public_id,
            texts=texts,
            references=True,
        )

    def change(
        self, name: str = "stripe", unset: Sequence[str] = (), tenant: str = TENANT, **changes: Any
    ) -> None:
        """Change a source."""
        self.clerk.run(self.keeper.change, name, changes, self.deed(tenant), unset=unset)

    def add_secret(self, text: str, name: str = "stripe", tenant: str = TENANT) -> StoredSecret:
        """Add a secret."""
        deed = self.deed(tenant)
        return self.clerk.run(self.keeper.add_secret, name, text, deed, references=True)

    def retire(
        self, id_: str, name: str = "stripe", tenant: str = TENANT, at: int | None = None
    ) -> None:
        """Retire a secret."""
        self.clerk.run(self.keeper.retire_secret, name, id_, self.deed(tenant), at=at)

    def kept(self, name: str = "stripe", tenant: str = TENANT) -> StoredSource:
        """Return a source as it is kept."""
        return self.clerk.run(sources.by_name, tenant, name)

    def all(self) -> list[StoredSource]:
        """Return every source of the installation."""
        return self.clerk.run(sources.read_all)[1]

    def audit(self, target: str, tenant: str = TENANT) -> list[tuple[str, str]]:
        """Return what was done to a thing, and the details."""
        return [
            (each.action, each.detail)
            for each in self.clerk.run(admin_audit.for_target, tenant, target)
        ]
