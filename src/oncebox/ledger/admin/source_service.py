"""SourceService: add, change, pause and remove sources and secrets, each change audited."""

import os
from base64 import b32encode
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid, StateConflict
from oncebox.ledger.admin import audit, sources, tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.admin.sources import StoredSecret, StoredSource
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.webhooks import source as webhooks_source
from oncebox.model.webhooks.source import SchemeLookup, is_url_segment

#: secrets of one source that are active at the same time
_MOST_SECRETS = 20


class SourceService:
    """Changes of sources by operators; refresh the ``SourceCache`` after each.

    Every method raises StateConflict for a source that is written in ``oncebox.toml``.
    """

    def __init__(
        self,
        master_key: MasterKey,
        *,
        schemes: SchemeLookup,
        written: Collection[tuple[str, str]] = (),
        new_id: ids.NewId = ids.new,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Refuse changes of ``written``: tenant and name of the sources in the file."""
        self._master_key = master_key
        self._schemes = schemes
        self._configured = written
        self._new_id = new_id
        self._random = random

    def add(  # noqa: PLR0913 - a source has this many properties
        self,
        tx: Transaction,
        name: str,
        table: Mapping[str, Any],
        entry: AuditEntry,
        *,
        public_id: str | None = None,
        texts: Sequence[str] = (),
        references: bool = False,
    ) -> StoredSource:
        """Store a new source; ``texts`` are its secrets, or references if these are allowed."""
        self._refuse_configured(entry.tenant, name)
        tenants.require(tx, entry.tenant)
        if not references:
            sources.refuse_references(texts)
        public_id = public_id or self._new_public_id(entry.tenant, name)
        checked, paused = self._checked(entry.tenant, name, public_id, table)
        secrets = tuple(self._new_secret(entry, text) for text in texts)
        new = StoredSource(
            entry.tenant, name, public_id, checked, paused, entry.at, entry.at, secrets
        )
        sources.add(tx, new)
        audit.record(tx, entry, "source add", f"source:{name}", public_id)
        return new

    def change(
        self,
        tx: Transaction,
        name: str,
        changes: Mapping[str, Any],
        entry: AuditEntry,
        *,
        unset: Collection[str] = (),
    ) -> None:
        """Change fields of a source; fields in ``unset`` get their defaults again."""
        before = self._locked_source(tx, name, entry)
        for field in unset:
            if field not in webhooks_source.SOURCE_FIELDS or field == "scheme":
                raise ConfigInvalid(f"{field[:100]!r} is no field that can be unset")
        unchanged = {field: value for field, value in before.table.items() if field not in unset}
        paused = before.paused and "paused" not in unset
        table, paused = self._checked(
            before.tenant, name, before.public_id, {**unchanged, "paused": paused, **changes}
        )
        sources.change(tx, before, table, paused=paused, now=entry.at)
        fields = " ".join(sorted({*changes, *unset}))
        audit.record(tx, entry, "source set", f"source:{name}", fields)

    def pause(self, tx: Transaction, name: str, entry: AuditEntry) -> None:
        """Stop accepting and processing a source."""
        self._set_paused(tx, name, entry, "source pause", paused=True)

    def resume(self, tx: Transaction, name: str, entry: AuditEntry) -> None:
        """Resume a paused source."""
        self._set_paused(tx, name, entry, "source resume", paused=False)

    def remove(self, tx: Transaction, name: str, entry: AuditEntry) -> None:
        """Delete a source and its secrets, also one that the file hides; its deliveries stay."""
        if (entry.tenant, name) in self._configured and not sources.exists(tx, entry.tenant, name):
            self._refuse_configured(entry.tenant, name)
        sources.remove(tx, entry.tenant, name)
        audit.record(tx, entry, "source remove", f"source:{name}")

    def add_secret(
        self, tx: Transaction, name: str, text: str, entry: AuditEntry, *, references: bool = False
    ) -> StoredSecret:
        """Store one more secret; it is tried before the older ones."""
        if not references:
            sources.refuse_references([text])
        source = self._locked_source(tx, name, entry)
        if sum(secret.is_active(entry.at) for secret in source.secrets) >= _MOST_SECRETS:
            raise StateConflict(f"the source has {_MOST_SECRETS} secrets already; retire one first")
        secret = self._new_secret(entry, text)
        sources.add_secret(tx, entry.tenant, name, secret)
        audit.record(tx, entry, "secret add", f"source:{name}", secret.id)
        return secret

    def retire_secret(
        self, tx: Transaction, name: str, id_: str, entry: AuditEntry, *, at: int | None = None
    ) -> None:
        """Stop accepting a secret, now or from a later time on."""
        self._locked_source(tx, name, entry)
        end = entry.at if at is None else max(at, entry.at)
        sources.retire_secret(tx, entry.tenant, name, id_, at=end, now=entry.at)
        audit.record(tx, entry, "secret retire", f"source:{name}", id_)

    def _locked_source(self, tx: Transaction, name: str, entry: AuditEntry) -> StoredSource:
        """Lock sources against other changes; return one that may be changed here."""
        self._refuse_configured(entry.tenant, name)
        sources.lock_changes(tx)
        return sources.by_name(tx, entry.tenant, name)

    def _refuse_configured(self, tenant: str, name: str) -> None:
        if (tenant, name) in self._configured:
            raise StateConflict(
                f"source {name} is written in the settings file (oncebox.toml), which wins and is "
                "never changed from here; change it there"
            )

    def _checked(
        self, tenant: str, name: str, public_id: str, table: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        """Return a table in its stored form, and whether the source is paused."""
        parsed = webhooks_source.source_from_table(
            table, tenant=tenant, name=name, public_id=public_id
        )
        if not self._schemes.known(parsed.scheme):
            raise ConfigInvalid(self._schemes.unknown(parsed.scheme))
        stored = webhooks_source.source_to_table(parsed)
        return stored, bool(stored.pop("paused", False))

    def _new_secret(self, entry: AuditEntry, text: str) -> StoredSecret:
        return sources.encrypt_secret(
            self._master_key,
            tenant=entry.tenant,
            id_=self._new_id("sec"),
            text=text,
            created_at=entry.at,
        )

    def _set_paused(
        self, tx: Transaction, name: str, entry: AuditEntry, action: str, *, paused: bool
    ) -> None:
        before = self._locked_source(tx, name, entry)
        if before.paused is not paused:
            sources.change(tx, before, before.table, paused=paused, now=entry.at)
            audit.record(tx, entry, action, f"source:{name}")

    def _new_public_id(self, tenant: str, name: str) -> str:
        """Return the name itself, or for other tenants an id that cannot be guessed."""
        if tenant == DEFAULT_TENANT and is_url_segment(name):
            return name
        return b32encode(self._random(16)).decode().rstrip("=").lower()
