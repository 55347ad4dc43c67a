"""Sources as the database keeps them: what a person wrote, and secrets that are sealed.

Changes follow one another in the whole installation: each takes its turn first, so what it
reads afterwards stays true until its commit.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from oncebox.errors import NotFound, StateConflict
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "sources.sql")

_SOURCE_COLUMNS = 7


class KeptSecret(msgspec.Struct, frozen=True):
    """A secret as it is kept: sealed, or as a reference; never its value."""

    id: str
    sealed: bytes | None
    reference: str | None
    created_at: int
    retired_at: int | None = None

    def __repr__(self) -> str:
        """Show which one it is and where it is kept."""
        return f"KeptSecret(id={self.id!r}, reference={self.reference!r})"

    def counts(self, now: int) -> bool:
        """Say whether requests may still be signed with it."""
        return self.retired_at is None or self.retired_at > now


class KeptSource(msgspec.Struct, frozen=True):
    """A source as it is kept; ``table`` is what a person wrote."""

    tenant: str
    name: str
    public_id: str
    table: dict[str, Any]
    paused: bool
    created_at: int
    changed_at: int
    #: newest first, which is the order in which they are tried
    secrets: tuple[KeptSecret, ...]


def revision(tx: Transaction) -> str:
    """Return what is different after every change of any source."""
    row = tx.one(_sql.revision)
    return str(row[0]) if row else ""


def everything(tx: Transaction) -> tuple[str, list[KeptSource]]:
    """Return all sources of the installation, at least as new as the revision beside them."""
    before = revision(tx)
    return before, list(_gathered(tx.all(_sql.everything)))


def by_name(tx: Transaction, tenant: str, name: str) -> KeptSource:
    """Return one source.

    Raises: NotFound.
    """
    found = list(_gathered(tx.all(_sql.by_name, tenant=tenant, name=name)))
    if not found:
        message = "there is no such source; list them with: oncebox source list"
        raise NotFound(message)
    return found[0]


def is_there(tx: Transaction, tenant: str, name: str) -> bool:
    """Say whether the database has a source."""
    return bool(tx.all(_sql.by_name, tenant=tenant, name=name))


def by_public_id(tx: Transaction, public_id: str) -> KeptSource:
    """Return the source an address leads to.

    Raises: NotFound.
    """
    row = tx.one(_sql.by_public_id, public_id=public_id)
    return by_name(tx, *(row or ("", "")))


def take_turn(tx: Transaction) -> None:
    """Wait until nobody else changes a source, and keep others from it until the commit."""
    tx.run(_sql.take_turn)


def add(tx: Transaction, new: KeptSource) -> None:
    """Keep a new source and its secrets.

    Raises: StateConflict, when its name or public id is taken.
    """
    take_turn(tx)
    added = tx.run(
        _sql.add,
        tenant=new.tenant,
        name=new.name,
        public_id=new.public_id,
        settings=_json(new.table),
        paused=int(new.paused),
        now=new.created_at,
    )
    if not added:
        raise StateConflict(_taken(tx, new))
    for secret in new.secrets:
        add_secret(tx, new.tenant, new.name, secret)


def change(
    tx: Transaction, before: KeptSource, table: dict[str, Any], *, paused: bool, now: int
) -> None:
    """Write a source anew; whoever calls has taken the turn before reading it.

    Raises: NotFound.
    """
    changed = tx.run(
        _sql.change,
        tenant=before.tenant,
        name=before.name,
        settings=_json(table),
        paused=int(paused),
        now=now,
    )
    if not changed:
        by_name(tx, before.tenant, before.name)


def remove(tx: Transaction, tenant: str, name: str) -> None:
    """Forget a source and its secrets; its deliveries stay.

    Raises: NotFound.
    """
    take_turn(tx)
    by_name(tx, tenant, name)
    tx.run(_sql.remove_secrets, tenant=tenant, name=name)
    tx.run(_sql.remove, tenant=tenant, name=name)


def add_secret(tx: Transaction, tenant: str, name: str, secret: KeptSecret) -> None:
    """Keep one more secret.

    Raises: NotFound.
    """
    take_turn(tx)
    added = tx.run(
        _sql.add_secret,
        id=secret.id,
        tenant=tenant,
        name=name,
        sealed=secret.sealed,
        reference=secret.reference,
        now=secret.created_at,
    )
    if not added:
        by_name(tx, tenant, name)


def retire_secret(tx: Transaction, tenant: str, name: str, id_: str, *, at: int, now: int) -> None:
    """Let a secret count no longer than until ``at``; its value is erased then.

    Raises: NotFound.
    """
    take_turn(tx)
    if all(secret.id != id_ for secret in by_name(tx, tenant, name).secrets):
        message = (
            f"the source has no such secret; list them with: oncebox source secret list {name}"
        )
        raise NotFound(message)
    tx.run(_sql.retire_secret, tenant=tenant, name=name, id=id_, at=at)
    erase_retired(tx, now)


def erase_retired(tx: Transaction, now: int) -> int:
    """Erase the values of secrets whose time has passed; return how many there were."""
    return tx.run(_sql.erase_retired, now=now)


def _gathered(rows: Sequence[Row]) -> Iterator[KeptSource]:
    """Make one source of all rows that tell of it and its secrets."""
    for head, group in groupby(rows, key=lambda row: row[:_SOURCE_COLUMNS]):
        tenant, name, public_id, settings, paused, created_at, changed_at = head
        kept = (row[_SOURCE_COLUMNS:] for row in group)
        yield KeptSource(
            tenant,
            name,
            public_id,
            msgspec.json.decode(settings, type=dict[str, Any]),
            bool(paused),
            created_at,
            changed_at,
            tuple(KeptSecret(*each) for each in kept if each[0] is not None),
        )


def _taken(tx: Transaction, new: KeptSource) -> str:
    if is_there(tx, new.tenant, new.name):
        return (
            f"there is a source {new.name} already; change it with: oncebox source set {new.name}"
        )
    return "this public id is taken; choose another one with --public-id"


def _json(table: dict[str, Any]) -> str:
    return msgspec.json.encode(table).decode()
