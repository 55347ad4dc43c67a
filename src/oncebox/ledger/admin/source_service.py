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
from oncebox.ledger.admin.sources import StoredSecret, StoredSource
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.webhooks import source as webhooks_source
from oncebox.model.webhooks.source import SchemeLookup
from oncebox.model.webhooks.source_checks import is_url_segment

_ID_BYTES = 16
#: secrets of one source that count at the same time
_MOST_SECRETS = 20


class SourceService:
    """The verbs by which people change sources; after one of them, have the book refreshed.

    Every verb raises StateConflict for a source that is written in ``oncebox.toml``.
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
        """Keep sources; ``written`` are tenant and name of those in the file."""
        self._master_key = master_key
        self._schemes = schemes
        self._configured = written
        self._new_id = new_id
        self._random = random

    def add(  # noqa: PLR0913 - a source simply has this many sides
        self,
        tx: Transaction,
        name: str,
        table: Mapping[str, Any],
        deed: audit.AuditEntry,
        *,
        public_id: str | None = None,
        texts: Sequence[str] = (),
        references: bool = False,
    ) -> StoredSource:
        """Keep a new source; ``texts`` are its secrets, or where allowed references to them."""
        self._refuse_configured(deed.tenant, name)
        tenants.require(tx, deed.tenant)
        _refuse_references(texts, allowed=references)
        kept = self._new_source(
            deed, name, table, public_id or self._new_public_id(deed.tenant, name), texts
        )
        sources.add(tx, kept)
        audit.record(tx, deed, "source add", f"source:{name}", kept.public_id)
        return kept

    def change(
        self,
        tx: Transaction,
        name: str,
        changes: Mapping[str, Any],
        deed: audit.AuditEntry,
        *,
        unset: Collection[str] = (),
    ) -> None:
        """Change fields of a source; those of ``unset`` are again as they are by default."""
        before = self._locked_source(tx, name, deed)
        for field in unset:
            if field not in webhooks_source.SOURCE_FIELDS or field == "scheme":
                raise ConfigInvalid(f"{field[:100]!r} is no field that can be unset")
        kept = {field: value for field, value in before.table.items() if field not in unset}
        paused = before.paused and "paused" not in unset
        table, paused = self._checked(before, {**kept, "paused": paused, **changes})
        sources.change(tx, before, table, paused=paused, now=deed.at)
        fields = " ".join(sorted({*changes, *unset}))
        audit.record(tx, deed, "source set", f"source:{name}", fields)

    def pause(self, tx: Transaction, name: str, deed: audit.AuditEntry) -> None:
        """Stop taking in and working on a source."""
        self._set_paused(tx, name, deed, "source pause", paused=True)

    def resume(self, tx: Transaction, name: str, deed: audit.AuditEntry) -> None:
        """Go on with a source."""
        self._set_paused(tx, name, deed, "source resume", paused=False)

    def remove(self, tx: Transaction, name: str, deed: audit.AuditEntry) -> None:
        """Forget a source and its secrets; what it delivered stays.

        Also one that the file hides. Raises: NotFound, StateConflict.
        """
        if (deed.tenant, name) in self._configured and not sources.exists(tx, deed.tenant, name):
            self._refuse_configured(deed.tenant, name)
        sources.remove(tx, deed.tenant, name)
        audit.record(tx, deed, "source remove", f"source:{name}")

    def add_secret(
        self,
        tx: Transaction,
        name: str,
        text: str,
        deed: audit.AuditEntry,
        *,
        references: bool = False,
    ) -> StoredSecret:
        """Keep one more secret; it is tried before the older ones."""
        _refuse_references([text], allowed=references)
        source = self._locked_source(tx, name, deed)
        if sum(secret.is_active(deed.at) for secret in source.secrets) >= _MOST_SECRETS:
            raise StateConflict(f"the source has {_MOST_SECRETS} secrets already; retire one first")
        secret = self._new_secret(deed, text)
        sources.add_secret(tx, deed.tenant, name, secret)
        audit.record(tx, deed, "secret add", f"source:{name}", secret.id)
        return secret

    def retire_secret(
        self, tx: Transaction, name: str, id_: str, deed: audit.AuditEntry, *, at: int | None = None
    ) -> None:
        """Let a secret count no longer, at once or from a moment on."""
        self._locked_source(tx, name, deed)
        end = deed.at if at is None else max(at, deed.at)
        sources.retire_secret(tx, deed.tenant, name, id_, at=end, now=deed.at)
        audit.record(tx, deed, "secret retire", f"source:{name}", id_)

    def _locked_source(self, tx: Transaction, name: str, deed: audit.AuditEntry) -> StoredSource:
        """Take the turn and return a source that may be changed here."""
        self._refuse_configured(deed.tenant, name)
        sources.lock_changes(tx)
        return sources.by_name(tx, deed.tenant, name)

    def _refuse_configured(self, tenant: str, name: str) -> None:
        if (tenant, name) in self._configured:
            raise StateConflict(
                f"source {name} is written in the settings file (oncebox.toml), which wins and is "
                "never changed from here; change it there"
            )

    def _new_source(
        self,
        deed: audit.AuditEntry,
        name: str,
        table: Mapping[str, Any],
        public_id: str,
        texts: Sequence[str],
    ) -> StoredSource:
        empty = StoredSource(deed.tenant, name, public_id, {}, False, deed.at, deed.at, ())  # noqa: FBT003 - a row
        checked, paused = self._checked(empty, table)
        kept = tuple(self._new_secret(deed, text) for text in texts)
        return StoredSource(deed.tenant, name, public_id, checked, paused, deed.at, deed.at, kept)

    def _checked(
        self, source: StoredSource, table: Mapping[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        """Return a table in the form it is kept in, and whether the source is paused."""
        parsed = webhooks_source.source_from_table(
            table, tenant=source.tenant, name=source.name, public_id=source.public_id
        )
        if not self._schemes.known(parsed.scheme):
            raise ConfigInvalid(
                f"there is no scheme {parsed.scheme!r}; write another, or install its plugin"
            )
        kept = webhooks_source.source_to_table(parsed)
        return kept, bool(kept.pop("paused", False))

    def _new_secret(self, deed: audit.AuditEntry, text: str) -> StoredSecret:
        return sources.encrypt_secret(
            self._master_key,
            tenant=deed.tenant,
            id_=self._new_id("sec"),
            text=text,
            created_at=deed.at,
        )

    def _set_paused(
        self, tx: Transaction, name: str, deed: audit.AuditEntry, action: str, *, paused: bool
    ) -> None:
        before = self._locked_source(tx, name, deed)
        if before.paused is not paused:
            sources.change(tx, before, before.table, paused=paused, now=deed.at)
            audit.record(tx, deed, action, f"source:{name}")

    def _new_public_id(self, tenant: str, name: str) -> str:
        """Return a public id: the name itself, or what nobody guesses for other tenants."""
        if tenant == DEFAULT_TENANT and is_url_segment(name):
            return name
        return b32encode(self._random(_ID_BYTES)).decode().rstrip("=").lower()


def _refuse_references(texts: Sequence[str], *, allowed: bool) -> None:
    """Keep who calls from afar from having this host's files and variables read."""
    if not allowed and any(sources.is_reference(text) for text in texts):
        raise ConfigInvalid(
            "references to variables and files are taken at the terminal and in the settings "
            "file only; send the secret itself"
        )
