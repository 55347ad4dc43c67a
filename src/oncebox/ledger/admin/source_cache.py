"""SourceCache: sources of the settings file and the database, decrypted, in memory.

The server and the workers look sources up here without waiting for the database. The database is
polled every two seconds for changes; while it does not answer, the last known sources stay.
See docs/decisions/0017-use-short-lived-caches-for-api-keys-and-sources.md.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from oncebox.core.encryption import MasterKey
from oncebox.db.database import Database
from oncebox.errors import ConfigInvalid, OnceboxError, SecretUnavailable, SourceUnknown
from oncebox.errors.http import SourceNotReady, SourcePaused
from oncebox.ledger.admin import sources
from oncebox.ledger.admin.sources import StoredSecret, StoredSource
from oncebox.ledger.periodic_refresh import REFRESH_SECONDS, PeriodicRefresh
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.webhooks import source as webhooks_source
from oncebox.model.webhooks.source import (
    SchemeLookup,
    Source,
    SourceEntry,
    SourceOrigin,
    SourceRefusal,
    SourceSecret,
    SourceState,
    SourceTrouble,
    is_url_segment,
)

if TYPE_CHECKING:  # commands that only read do not load the metrics
    from oncebox.core.metrics import Telemetry

Compiled = TypeVar("Compiled")
SourceTables = Mapping[str, Mapping[str, Any]]


def read_configured(tables: SourceTables, tenant: str, master_key: MasterKey) -> list[StoredSource]:
    """Return the ``[sources.NAME]`` tables as sources of one tenant, checked."""
    found: dict[str, StoredSource] = {}
    for name, table in sorted(tables.items()):
        source = _configured_source(name, dict(table), tenant, master_key)
        if source.public_id in found:
            remedy = f"source {found[source.public_id].name!r} has it too; choose another"
            raise SourceRefusal(name)("public_id", remedy)
        found[source.public_id] = source
    return list(found.values())


def _configured_source(
    name: str, table: dict[str, Any], tenant: str, master_key: MasterKey
) -> StoredSource:
    refuse = SourceRefusal(name)
    texts = _secret_texts(refuse, table.pop("secrets", ()))
    public_id = _configured_public_id(refuse, table.pop("public_id", None), tenant, name)
    parsed = webhooks_source.source_from_table(table, tenant=tenant, name=name, public_id=public_id)
    secrets = tuple(
        _configured_secret(refuse, number, text, tenant, master_key)
        for number, text in enumerate(texts, 1)
    )
    checked = webhooks_source.source_to_table(parsed)
    return StoredSource(tenant, name, public_id, checked, parsed.paused, 0, 0, secrets)


def _secret_texts(refuse: SourceRefusal, value: object) -> list[str]:
    try:
        return [value] if isinstance(value, str) else msgspec.convert(value, list[str])
    except msgspec.ValidationError:
        # The original message is dropped: it might quote a secret.
        remedy = 'write a list of references, such as ["env:STRIPE_SECRET"]'
        raise refuse("secrets", remedy) from None


def _configured_public_id(refuse: SourceRefusal, value: object, tenant: str, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is not None:
        raise refuse("public_id", "write a text")
    if tenant != DEFAULT_TENANT or not is_url_segment(name):
        remedy = "write one that cannot be guessed; make it with: openssl rand -hex 16"
        raise refuse("public_id", remedy)
    return name


def _configured_secret(
    refuse: SourceRefusal, number: int, text: str, tenant: str, master_key: MasterKey
) -> StoredSecret:
    """Name a secret by its position in the file; its value is encrypted in memory too."""
    try:
        return sources.encrypt_secret(
            master_key, tenant=tenant, id_=f"sec_file_{number}", text=text, created_at=0
        )
    except ConfigInvalid as error:
        raise refuse(f"secrets[{number - 1}]", str(error)) from error


#: milliseconds after its retirement in which a secret is checked again
_RECENTLY_RETIRED = 60_000


@dataclass(frozen=True, slots=True)
class SourceDecrypter:
    """Decrypts the secrets of sources; a reference names a file or a variable."""

    master_key: MasterKey
    schemes: SchemeLookup
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    #: whose environment it is
    process: str = sources.SERVICE

    def decrypt(self, stored: StoredSource, origin: SourceOrigin, now: int) -> SourceEntry:
        """Return a stored source with its active secrets decrypted, and what is wrong with it."""
        secrets, troubles = self._decrypt_secrets(stored, now)
        try:
            source = webhooks_source.source_from_table(
                {**stored.table, "paused": stored.paused},
                tenant=stored.tenant,
                name=stored.name,
                public_id=stored.public_id,
                secrets=secrets,
            )
        except ConfigInvalid as error:
            return _unreadable(stored, origin, error)
        if secrets:
            troubles = [_beside_others(each, stored.name, origin) for each in troubles]
        trouble = self._missing_secret(source, any_trouble=bool(troubles))
        if trouble is not None:
            troubles.append(trouble)
        ready = self.schemes.known(source.scheme) and (
            bool(secrets) or self.schemes.keyless(source.scheme)
        )
        return SourceEntry(source=source, origin=origin, ready=ready, troubles=tuple(troubles))

    def _decrypt_secrets(
        self, stored: StoredSource, now: int
    ) -> tuple[list[SourceSecret], list[SourceTrouble]]:
        decrypted, troubles, tenant = [], [], stored.tenant
        for secret in stored.secrets:
            if not secret.is_active(now):
                continue
            try:
                decrypted.append(
                    sources.decrypt_secret(
                        secret,
                        tenant=tenant,
                        master_key=self.master_key,
                        environ=self.environ,
                        process=self.process,
                    )
                )
            except OnceboxError as error:
                troubles.append(SourceTrouble(error.code, str(error), secret.id))
        return decrypted, troubles

    def _missing_secret(self, source: Source, *, any_trouble: bool) -> SourceTrouble | None:
        """Return what a source lacks besides secrets that cannot be decrypted."""
        if not self.schemes.known(source.scheme):
            return SourceTrouble(ConfigInvalid.code, self.schemes.unknown(source.scheme))
        if source.secrets or any_trouble or self.schemes.keyless(source.scheme):
            return None
        message = (
            f"it has no secret; add one with: oncebox source secret add {source.name} --secret -"
        )
        return SourceTrouble(SecretUnavailable.code, message)


@dataclass(frozen=True, slots=True)
class SourceCatalog:
    """All sources at one moment; the settings file wins over the database."""

    configured: Sequence[StoredSource]
    stored: Sequence[StoredSource]
    by_name: Mapping[tuple[str, str], SourceEntry]
    by_public_id: Mapping[str, SourceEntry]

    @classmethod
    def build(
        cls,
        decrypter: SourceDecrypter,
        configured: Sequence[StoredSource],
        stored: Sequence[StoredSource],
        now: int,
        known: Mapping[tuple[str, str], SourceEntry] = MappingProxyType({}),
    ) -> Self:
        """Decrypt the file's sources, then those of the database that the file does not hide.

        Entries in ``known`` are reused unless they may have changed by themselves.
        """

        def entry(source: StoredSource, origin: SourceOrigin) -> SourceEntry:
            before = known.get((source.tenant, source.name))
            if before is not None and not _may_change(source, now):
                return before
            return decrypter.decrypt(source, origin, now)

        names = {(each.tenant, each.name) for each in configured}
        addresses = {each.public_id for each in configured}
        entries = [entry(each, SourceOrigin.FILE) for each in configured]
        for source in stored:
            if (source.tenant, source.name) not in names:
                found = entry(source, SourceOrigin.DATABASE)
                entries.append(_hidden(found) if source.public_id in addresses else found)
        return cls(
            configured=configured,
            stored=stored,
            by_name={(each.source.tenant, each.source.name): each for each in entries},
            # Sources of the file come first in the list and replace others with the same address.
            by_public_id={each.source.public_id: each for each in reversed(entries)},
        )

    def find(self, tenant: str, name: str) -> SourceEntry | None:
        """Return a tenant's source; one of another tenant is not found."""
        return self.by_name.get((tenant, name))

    def all(self, tenant: str | None = None) -> list[SourceEntry]:
        """Return the sources of a tenant, or of all, by name."""
        entries = (self.by_name[each] for each in sorted(self.by_name))
        return [entry for entry in entries if tenant in {None, entry.source.tenant}]

    def secrets(self, tenant: str, name: str) -> tuple[StoredSecret, ...]:
        """Return the secrets of a source as they are stored, retired ones included."""
        for source in (*self.configured, *self.stored):
            if (source.tenant, source.name) == (tenant, name):
                return source.secrets
        return ()


class SourceCache(PeriodicRefresh):
    """Finds sources by address and by name; the settings file wins over the database."""

    def __init__(  # noqa: PLR0913 - sources of two origins, and their needs
        self,
        database: Database,
        master_key: MasterKey,
        telemetry: "Telemetry",
        *,
        written: Sequence[StoredSource] = (),
        schemes: SchemeLookup,
        environ: Mapping[str, str] = os.environ,
        process: str = sources.SERVICE,
        every: float = REFRESH_SECONDS,
    ) -> None:
        """Begin with ``written`` (of ``read_configured``); ``refresh`` adds the database's."""
        super().__init__("sources", telemetry, every=every)
        self._database = database
        self._decrypter = SourceDecrypter(master_key, schemes, environ, process)
        self._revision: str | None = None
        self._catalog = SourceCatalog(written, (), {}, {})
        #: compiled sources by public id; removed when their source changes
        self._compiled: dict[str, Any] = {}
        self._refreshing = asyncio.Lock()

    # lookups: never wait for the database

    def at(self, public_id: str, compile_: Callable[[Source], Compiled]) -> Compiled:
        """Return the compiled source of ``/in/{public_id}``; each change is compiled once.

        Raises: SourceUnknown, SourcePaused, SourceNotReady.
        """
        found: Compiled | None = self._compiled.get(public_id)
        if found is not None:
            return found
        entry = self.by_public_id(public_id)
        if entry is None:
            raise SourceUnknown("no source has this address; list them with: oncebox source list")
        if entry.state is not SourceState.READY:
            raise SourcePaused if entry.state is SourceState.PAUSED else SourceNotReady
        try:
            compiled = compile_(entry.source)
        except OnceboxError as error:
            raise SourceNotReady from error
        self._compiled[public_id] = compiled
        return compiled

    def by_public_id(self, public_id: str) -> SourceEntry | None:
        """Return the source of ``/in/{public_id}``."""
        return self._catalog.by_public_id.get(public_id)

    def find(self, tenant: str, name: str) -> SourceEntry | None:
        """Return a tenant's source; one of another tenant is not found."""
        return self._catalog.find(tenant, name)

    def all(self, tenant: str | None = None) -> list[SourceEntry]:
        """Return the sources of a tenant, or of all, by name."""
        return self._catalog.all(tenant)

    def secrets(self, tenant: str, name: str) -> tuple[StoredSecret, ...]:
        """Return the secrets of a source as they are stored, retired ones included."""
        return self._catalog.secrets(tenant, name)

    # staying up to date

    async def refresh(self) -> None:
        """Read what has changed; if that fails, the known sources stay in use."""
        async with self._refreshing:
            known, stored = self._catalog, self._catalog.stored
            changed = await self._database.read(sources.revision) != self._revision
            if changed:
                self._revision, stored = await self._database.read(sources.read_all)
            now = self._database.clock()
            if changed or any(_may_change(each, now) for each in (*known.configured, *stored)):
                # In a thread, since references may lead to files.
                self._replace_catalog(
                    await asyncio.to_thread(
                        SourceCatalog.build,
                        self._decrypter,
                        known.configured,
                        stored,
                        now,
                        {} if changed else known.by_name,
                    )
                )

    def _replace_catalog(self, catalog: SourceCatalog) -> None:
        """Use a new catalog; log new trouble, drop the compiled form of changed sources."""
        for entry in catalog.by_name.values():
            self._telemetry.expect_source(entry.source.name)
            known = self.find(entry.source.tenant, entry.source.name)
            for trouble in entry.troubles:
                if known is None or trouble not in known.troubles:
                    self._telemetry.log.warning(
                        "source_unusable",
                        source=entry.source.name,
                        state=str(entry.state),
                        code=trouble.code,
                        secret=trouble.secret,
                        reason=trouble.message,
                    )
        before, self._catalog = self._catalog.by_public_id, catalog
        self._compiled = {
            public_id: compiled
            for public_id, compiled in self._compiled.items()
            if catalog.by_public_id.get(public_id) is before.get(public_id)
        }
        states = Counter(each.state for each in catalog.by_name.values())
        for state in SourceState:
            self._telemetry.sources.labels(state).set(states[state])


def _may_change(source: StoredSource, now: int) -> bool:
    """Say whether a source may change by itself: a file is replaced, a secret is retired."""
    return any(
        (secret.reference or "").startswith("file:")
        or (secret.retired_at is not None and secret.retired_at > now - _RECENTLY_RETIRED)
        for secret in source.secrets
    )


def _hidden(entry: SourceEntry) -> SourceEntry:
    message = "its public id is used by a source of the settings file; change one of them"
    trouble = SourceTrouble(ConfigInvalid.code, message)
    troubles = entry.troubles if trouble in entry.troubles else (*entry.troubles, trouble)
    return SourceEntry(source=entry.source, origin=entry.origin, ready=False, troubles=troubles)


def _beside_others(trouble: SourceTrouble, name: str, origin: SourceOrigin) -> SourceTrouble:
    """Return the trouble of one secret of a source that others work for."""
    message = f"{trouble.message}; its other secrets work"
    if origin is SourceOrigin.DATABASE:
        remedy = f"oncebox source secret retire {name} {trouble.secret}"
        message = f"{message}, and if this one is not needed: {remedy}"
    return msgspec.structs.replace(trouble, message=message)


def _unreadable(stored: StoredSource, origin: SourceOrigin, error: ConfigInvalid) -> SourceEntry:
    """Return a paused source for a table that cannot be used, as one of a newer version."""
    name, public_id = stored.name, stored.public_id
    source = Source(
        tenant=stored.tenant, name=name, public_id=public_id, scheme="unreadable", paused=True
    )
    trouble = SourceTrouble(error.code, str(error))
    return SourceEntry(source=source, origin=origin, ready=False, troubles=(trouble,))
