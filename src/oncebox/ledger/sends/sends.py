"""Sends as they stand: one, by whatever name, many, and how their tries went."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from oncebox.errors import NotFound
from oncebox.model.evidence import Told
from oncebox.model.outcome import Phase
from oncebox.model.send import OnUnknown, Retention, Send, SendState, SendTry
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "sends.sql")

#: rings when there is something to send, or a send has changed
SENDS = "sends"
#: a tenant and an id
Place = tuple[str, str]
#: what comes after every id
_END = "~"


def _words(kind: type[StrEnum]) -> Mapping[str | None, StrEnum | None]:
    return {None: None, **{str(each): each for each in kind}}


#: columns that hold a word, and the words that there are; asking an enum takes ten times as long
_WORDS = (
    ("state", _words(SendState)),
    ("on_unknown", _words(OnUnknown)),
    ("again", _words(OnUnknown)),
    ("phase", _words(Phase)),
    ("retention", _words(Retention)),
    ("delivery", _words(Told)),
)


def get(tx: Transaction, tenant: str, id_: str, *, owner: str | None = None) -> Send:
    """Return one send, and where an owner is named, of that owner.

    Raises: NotFound.
    """
    found = by_ids(tx, [(tenant, id_)]).get((tenant, id_))
    if found is None or owner not in {None, found.owner}:
        raise missing()
    return found


def by_ids(tx: Transaction, places: Iterable[Place]) -> dict[Place, Send]:
    """Return sends by tenant and id; those that are not there are left out."""
    sends = map(read, tx.many(_sql.by_ids, sorted(set(places))))
    return {(each.tenant, each.id): each for each in sends}


def moved_on(tx: Transaction, places: Iterable[Place]) -> list[Send]:
    """Return those of some sends that neither wait nor are under way."""
    return [read(row) for row in tx.many(_sql.moved_on, sorted(set(places)))]


def by_keys(tx: Transaction, keys: Iterable[tuple[str, bytes]]) -> dict[tuple[str, bytes], Send]:
    """Return sends by tenant and key."""
    sends = map(read, tx.many(_sql.by_keys, sorted(set(keys))))
    return {(each.tenant, each.key): each for each in sends}


def find(tx: Transaction, tenant: str, name: str) -> list[str]:
    """Return the ids of sends by an id of ours, a Message-ID, or what a provider calls them."""
    return [row[0] for row in tx.all(_sql.named, tenant=tenant, name=name)]


class Wanted(NamedTuple):
    """Which sends of a tenant somebody wants to see; None is any."""

    tenant: str
    state: SendState | None = None
    transport: str | None = None
    owner: str | None = None


def newest(tx: Transaction, wanted: Wanted, *, before: str = _END, most: int = 50) -> list[Send]:
    """Return sends, newest first."""
    rows = tx.all(_sql.newest, **wanted._asdict(), before=before, most=most)
    return [read(row) for row in rows]


def doubtful(tx: Transaction, tenant: str, most: int = 50) -> list[Send]:
    """Return sends in doubt, the oldest first."""
    return [read(row) for row in tx.all(_sql.doubtful, tenant=tenant, most=most)]


def count_doubtful(tx: Transaction) -> int:
    """Return how many sends of all tenants wait for evidence or a person."""
    row = tx.one(_sql.count_doubtful)
    return row[0] if row else 0


def tries(tx: Transaction, tenant: str, id_: str) -> list[SendTry]:
    """Return the tries at one send."""
    return [_try(row) for row in tx.all(_sql.tries, tenant=tenant, id=id_)]


def bodies(tx: Transaction, sends: Sequence[Send]) -> dict[str, tuple[bytes, bytes]]:
    """Return what sends say and who they go to, sealed, by id."""
    rows = tx.many(_sql.bodies, sorted((each.id, each.body_id) for each in sends))
    return {id_: (bytes(message), bytes(envelope)) for id_, message, envelope in rows}


def missing() -> NotFound:
    """Return the error of a send that is not there."""
    return NotFound("there is no such send; list them with: oncebox send list")


def read(row: Row) -> Send:
    """Return a send from its columns, in the order of its fields."""
    values = dict(zip(Send.__struct_fields__, row, strict=True))
    for name in ("key", "protected", "content"):
        values[name] = bytes(values[name])
    for name, words in _WORDS:
        values[name] = words[values[name]]
    return Send(**values)


def _try(row: Row) -> SendTry:
    values = dict(zip(SendTry.__struct_fields__, row, strict=True))
    values["phase"] = Phase(values["phase"]) if values["phase"] else None
    return SendTry(**values)
