"""Read-only queries on deliveries: find, list, inspect, payload, overdue and dead counts, audit."""

from collections.abc import Iterable

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.admin import audit
from oncebox.ledger.ciphers import MailCipher
from oncebox.ledger.deliveries import effects
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.model.deliveries.delivery import DeliveryState, Headers
from oncebox.model.deliveries.inspection import (
    DeliveryInspection,
    DeliveryRecord,
    DeliveryTry,
    DuplicateCount,
    DuplicateExample,
    next_step,
)
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.model.validation import key_digest

_sql = load(__package__, "inspections.sql")

_AFTER_ALL_IDS = "~"
#: states that have an index of their own, because few deliveries are in them
_RARE = {DeliveryState.DEAD, DeliveryState.HELD, DeliveryState.FAILED}
#: of a source with so few deliveries all are read, for there is no index of a source by id
_FEW = 500
_DEFAULT_TENANT = "default"


def find(tx: Transaction, tenant: str, wanted: str, source: str | None = None) -> list[str]:
    """Return the ids meant by one of our ids, its beginning, or a source's own key."""
    id_ = find_id(tx, IdKind.DELIVERY, tenant, wanted)
    if tx.one(_sql.by_id, tenant=tenant, id=id_):
        return [id_]
    within = [source] if source else sources(tx, tenant)
    found = [
        str(id_)
        for each in within
        for (id_,) in tx.all(
            _sql.ids_by_key,
            tenant=tenant,
            source=each,
            key=wanted,
            key_digest=key_digest(tenant, each, wanted),
        )
    ]
    if not found:
        raise NotFound(
            "there is no delivery with that id or key; list them with: oncebox delivery list"
        )
    return found


def inspect(tx: Transaction, tenant: str, id_: str, now: int) -> DeliveryInspection:
    """Return everything known of one delivery."""
    facts = read_facts(tx, tenant, id_)
    journal = effects.of_delivery(tx, tenant, id_)
    return DeliveryInspection(
        delivery=facts,
        tries=[DeliveryTry(*row) for row in tx.all(_sql.tries, tenant=tenant, id=id_)],
        effects=journal,
        duplicates=[DuplicateCount(*row) for row in tx.all(_sql.sightings, tenant=tenant, id=id_)],
        examples=[_example(row) for row in tx.all(_sql.examples, tenant=tenant, id=id_)],
        audit=audit.for_target(tx, tenant, id_),
        next_action=next_step(facts, journal, now),
    )


def read_facts(tx: Transaction, tenant: str, id_: str) -> DeliveryRecord:
    """Return the facts of one delivery."""
    row = tx.one(_sql.by_id, tenant=tenant, id=id_)
    if row is None:
        raise NotFound("there is no such delivery")
    return _facts(row)


def newest(
    tx: Transaction,
    tenant: str,
    *,
    state: DeliveryState | None = None,
    source: str | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[DeliveryRecord]:
    """Return deliveries, newest first."""
    if source and state not in _RARE:
        few = tx.all(_sql.of_source, tenant=tenant, source=source, most=_FEW + 1)
        if len(few) <= _FEW:
            found = several(tx, tenant, (id_ for (id_,) in few if id_ < before))
            return [each for each in reversed(found) if state in {None, each.state}][:most]
    walk = _sql.newest if tenant == _DEFAULT_TENANT else _sql.newest_of_tenant
    rows = tx.all(
        _sql.in_state if state in _RARE else walk,
        tenant=tenant,
        state=str(state) if state else None,
        source=source,
        before=before,
        most=most,
    )
    # A delivery may have changed its state since its id was read.
    return several(tx, tenant, (id_ for (id_,) in rows))[::-1]


def since(tx: Transaction, tenant: str, after: str, most: int) -> list[DeliveryRecord]:
    """Return deliveries that came after another, oldest first."""
    walk = _sql.since if tenant == _DEFAULT_TENANT else _sql.since_of_tenant
    rows = tx.all(walk, tenant=tenant, after=after, most=most)
    return several(tx, tenant, (id_ for (id_,) in rows))


def several(tx: Transaction, tenant: str, ids: Iterable[str]) -> list[DeliveryRecord]:
    """Return the facts of some deliveries, by id; those that do not exist are left out."""
    rows = tx.many(_sql.several, [(id_,) for id_ in sorted(set(ids))], tenant=tenant)
    return [_facts(row) for row in sorted(rows, key=lambda row: str(row[0]))]


def in_work(tx: Transaction, tenant: str, most: int) -> list[str]:
    """Return the ids of deliveries in progress, of each source at most so many."""
    return [
        str(id_)
        for source in sources(tx, tenant)
        for (id_,) in tx.all(_sql.in_work, tenant=tenant, source=source, most=most)
    ]


def audited_since(tx: Transaction, tenant: str, after: str, most: int) -> tuple[str, list[str]]:
    """Return the targets of audit entries after another, and the id of the last entry."""
    rows = tx.all(_sql.touched, tenant=tenant, after=after, most=most)
    return (str(rows[-1][0]) if rows else after), [str(target) for _, target in rows]


def last_audit_id(tx: Transaction) -> str:
    """Return the id of the newest audit entry of all tenants; empty if there is none."""
    row = tx.one(_sql.last_audit_record)
    return str(row[0]) if row else ""


def overdue(tx: Transaction, tenant: str, source: str, before: int) -> tuple[int, int | None]:
    """Return how many deliveries of a source are overdue and unclaimed, and since when."""
    rows = tx.all(_sql.overdue, tenant=tenant, source=source, before=before)
    since_when = [oldest for _, oldest in rows if oldest is not None]
    return sum(count for count, _ in rows), min(since_when, default=None)


def payload(tx: Transaction, vault: MailCipher, tenant: str, id_: str) -> tuple[Headers, bytes]:
    """Return headers and body as they arrived; of a batch, its own part of the body."""
    row = tx.one(_sql.payload, tenant=tenant, id=id_)
    if row is None:
        raise NotFound("this delivery's body is no longer kept")
    source, payload_id, headers, whole, start, size = row
    if source == MAIL_SOURCE:
        whole = vault.decrypt(whole, vaults.mail_aad(tenant, payload_id))
    return msgspec.json.decode(headers, type=Headers), whole[start : start + size]


def sources(tx: Transaction, tenant: str) -> list[str]:
    """Return every source that has deliveries."""
    return [str(source) for (source,) in tx.all(_sql.sources, tenant=tenant)]


def count_dead_and_held(tx: Transaction, tenant: str) -> dict[str, int]:
    """Return how many deliveries are dead and how many are held."""
    return {str(state): int(count) for state, count in tx.all(_sql.attention, tenant=tenant)}


def _facts(row: Row) -> DeliveryRecord:
    values = list(row)
    values[7], values[10] = DeliveryState(values[7]), bool(values[10])
    return DeliveryRecord(*values)


def _example(row: Row) -> DuplicateExample:
    values = (*row[:-1], msgspec.json.decode(row[-1], type=Headers))
    return DuplicateExample(*values)
