"""The source book: every source with its secrets opened, in memory, a few seconds old at most.

Who takes requests or works on them looks here and never waits for the store. The database is
asked every two seconds whether anything changed; if it cannot answer, what is known stays.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from oncebox.errors import ConfigInvalid, OnceboxError, SecretUnavailable, StoreError
from oncebox.ledger.office import secrets, sources
from oncebox.ledger.office.sources import KeptSecret, KeptSource
from oncebox.model import source_table
from oncebox.model.source import (
    Entry,
    Origin,
    Schemes,
    Source,
    SourceSecret,
    SourceState,
    Trouble,
)
from oncebox.seal import MasterKey
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

#: seconds after which a change is seen by every process
SEEN_WITHIN = 2.0
#: milliseconds for which a secret that was retired is looked at once more
_LOOK_BACK = 60_000


class SourceBook:
    """Finds sources by address and by name; the settings file wins over the database."""

    def __init__(  # noqa: PLR0913 - it brings two kinds of sources and their needs together
        self,
        database: Database,
        master_key: MasterKey,
        telemetry: Telemetry,
        *,
        written: Sequence[KeptSource] = (),
        schemes: Schemes,
        environ: Mapping[str, str] = os.environ,
        every: float = SEEN_WITHIN,
    ) -> None:
        """Hold ``written`` (from ``filed.read``) and whatever the database has, once loaded."""
        self._database = database
        self._master_key = master_key
        self._telemetry = telemetry
        self._written = written
        self._schemes = schemes
        self._environ = environ
        self._every = every
        self._revision: str | None = None
        self._kept: list[KeptSource] = []
        self._by_name: dict[tuple[str, str], Entry] = {}
        self._by_public_id: dict[str, Entry] = {}
        self._refreshing = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    # looks: never wait

    def at(self, public_id: str) -> Entry | None:
        """Return the source that listens at ``/in/{public_id}``."""
        return self._by_public_id.get(public_id)

    def find(self, tenant: str, name: str) -> Entry | None:
        """Return a tenant's source; one of another tenant is not there."""
        return self._by_name.get((tenant, name))

    def all(self, tenant: str | None = None) -> list[Entry]:
        """Return the sources of a tenant, or of all, by name."""
        entries = (self._by_name[each] for each in sorted(self._by_name))
        return [entry for entry in entries if tenant in {None, entry.source.tenant}]

    def secrets(self, tenant: str, name: str) -> tuple[KeptSecret, ...]:
        """Return the secrets of a source as they are kept, retired ones included."""
        for kept in (*self._written, *self._kept):
            if (kept.tenant, kept.name) == (tenant, name):
                return kept.secrets
        return ()

    # staying up to date

    async def refresh(self) -> None:
        """Read what changed, as after a change in this process.

        Raises: StoreError; what is known stays in use.
        """
        async with self._refreshing:
            changed = await self._database.read(sources.revision) != self._revision
            if changed:
                self._revision, self._kept = await self._database.read(sources.everything)
            now = self._database.clock()
            moving = any(_moves(kept, now) for kept in (*self._written, *self._kept))
            if changed or moving:
                self._take(await asyncio.to_thread(self._open_all, now, anew=changed))

    def start(self) -> None:
        """Stay up to date from now on; call it after the first ``refresh``."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop staying up to date."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.refresh()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:  # a book that is never refreshed again would be worse
                self._telemetry.log.exception("sources_not_refreshed")

    def _take(self, entries: Sequence[Entry]) -> None:
        """Put new entries in place of the old, and tell what stopped working."""
        for entry in entries:
            before = self.find(entry.source.tenant, entry.source.name)
            for trouble in entry.troubles:
                if before is None or trouble not in before.troubles:
                    self._telemetry.log.warning(
                        "source_trouble",
                        source=entry.source.name,
                        state=str(entry.state),
                        code=trouble.code,
                        secret=trouble.secret,
                    )
        self._by_name = {(each.source.tenant, each.source.name): each for each in entries}
        # The file's come first, and are put in last.
        self._by_public_id = {each.source.public_id: each for each in reversed(entries)}
        states = Counter(each.state for each in entries)
        for state in SourceState:
            self._telemetry.sources.labels(state).set(states[state])

    # opening: in a thread, since references may lead to files

    def _open_all(self, now: int, *, anew: bool) -> list[Entry]:
        """Open the file's sources, then those of the database that the file does not hide."""
        names = {(each.tenant, each.name) for each in self._written}
        addresses = {each.public_id for each in self._written}
        entries = [self._entry(each, Origin.FILE, now, anew=anew) for each in self._written]
        for kept in self._kept:
            if (kept.tenant, kept.name) not in names:
                entry = self._entry(kept, Origin.DATABASE, now, anew=anew)
                entries.append(_hidden(entry) if kept.public_id in addresses else entry)
        return entries

    def _entry(self, kept: KeptSource, origin: Origin, now: int, *, anew: bool) -> Entry:
        """Return the entry that is known, or a new one where it may have changed."""
        known = self._by_name.get((kept.tenant, kept.name))
        if known is not None and not anew and not _moves(kept, now):
            return known
        return self._open(kept, origin, now)

    def _open(self, kept: KeptSource, origin: Origin, now: int) -> Entry:
        opened, troubles = self._open_secrets(kept, now)
        try:
            source = source_table.parse(
                {**kept.table, "paused": kept.paused},
                tenant=kept.tenant,
                name=kept.name,
                public_id=kept.public_id,
                secrets=opened,
            )
        except ConfigInvalid as error:
            return _unreadable(kept, origin, error)
        trouble = self._missing(source, any_trouble=bool(troubles))
        if trouble is not None:
            troubles.append(trouble)
        ready = self._schemes.known(source.scheme) and (
            bool(opened) or self._schemes.keyless(source.scheme)
        )
        return Entry(source=source, origin=origin, ready=ready, troubles=tuple(troubles))

    def _open_secrets(self, kept: KeptSource, now: int) -> tuple[list[SourceSecret], list[Trouble]]:
        opened, troubles = [], []
        for secret in kept.secrets:
            if not secret.counts(now):
                continue
            try:
                opened.append(
                    secrets.opened(
                        secret,
                        tenant=kept.tenant,
                        master_key=self._master_key,
                        environ=self._environ,
                    )
                )
            except OnceboxError as error:
                troubles.append(Trouble(error.code, str(error), secret.id))
        return opened, troubles

    def _missing(self, source: Source, *, any_trouble: bool) -> Trouble | None:
        """Say what a source lacks besides secrets that do not open."""
        if not self._schemes.known(source.scheme):
            message = f"there is no scheme {source.scheme!r}; write another, or install its plugin"
            return Trouble(ConfigInvalid.code, message)
        if source.secrets or any_trouble or self._schemes.keyless(source.scheme):
            return None
        message = (
            f"it has no secret; add one with: oncebox source secret add {source.name} --secret -"
        )
        return Trouble(SecretUnavailable.code, message)


def _moves(kept: KeptSource, now: int) -> bool:
    """Say whether a source may change by itself: a file is replaced, a secret's time passes."""
    return any(
        (secret.reference or "").startswith("file:")
        or (secret.retired_at is not None and secret.retired_at > now - _LOOK_BACK)
        for secret in kept.secrets
    )


def _hidden(entry: Entry) -> Entry:
    message = "its public id is used by a source of the settings file; change one of them"
    trouble = Trouble(ConfigInvalid.code, message)
    troubles = entry.troubles if trouble in entry.troubles else (*entry.troubles, trouble)
    return Entry(source=entry.source, origin=entry.origin, ready=False, troubles=troubles)


def _unreadable(kept: KeptSource, origin: Origin, error: ConfigInvalid) -> Entry:
    """Return a source whose table cannot be used, as one written by a newer version; it rests."""
    source = Source(
        tenant=kept.tenant,
        name=kept.name,
        public_id=kept.public_id,
        scheme="unreadable",
        paused=True,
    )
    trouble = Trouble(error.code, str(error))
    return Entry(source=source, origin=origin, ready=False, troubles=(trouble,))
