"""Batches: many sends that are asked for together, and can be asked for again as a whole."""

import hashlib
from collections.abc import Sequence

import msgspec

from oncebox.errors import NotFound
from oncebox.ledger.sends import guards, intents, sends
from oncebox.model.send import Answer, Intended, NewSend, Send, SendReply, SendState, TurnedDown
from oncebox.send_errors import SendDiffers
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "batches.sql")


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is not kept yet."""

    id: str
    tenant: str
    #: what makes two batches the same
    key: bytes
    owner: str | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as it stands."""

    id: str
    tenant: str
    #: fingerprint of the keys of its sends, in their order
    members: bytes
    owner: str | None
    size: int
    created_at: int


class IntendedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to a batch, given only after the commit."""

    batch: Batch
    #: of each send in its order; nothing at all in a conflict
    answers: tuple[Intended, ...] = ()
    #: the key is taken by a batch of other sends: refused, 422
    conflict: bool = False


def intend(
    tx: Transaction, new: NewBatch, wanted: Sequence[NewSend], now: int, *, strict: bool = False
) -> IntendedBatch:
    """Store a batch and its sends in one commit, or tell how they stand: all or none.

    In a strict one, no send may be asked for again otherwise than at first.

    Raises: NotFound, where there is no such transport; SendCoolingDown, SendBudgetSpent;
        SendDiffers.
    """
    members = _members(wanted)
    tx.run(
        _sql.add,
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        members=members,
        owner=new.owner,
        size=len(wanted),
        now=now,
    )
    row = tx.one(_sql.of_key, tenant=new.tenant, key=new.key)
    if row is None:  # it was forgotten between two of our statements
        raise _missing()
    batch = _batch(row)
    if batch.members != members:
        return IntendedBatch(batch=batch, conflict=True)
    answers = [_let_in(told) for told in intents.intend(tx, wanted, now)]
    if strict and any(map(_differs, answers, wanted)):
        raise other_batch()
    rows = [(n, told.send.id) for n, told in enumerate(answers)]
    tx.run_many(_sql.join, rows, batch_id=batch.id, tenant=new.tenant)
    return IntendedBatch(batch=batch, answers=tuple(answers))


def _differs(told: Intended, wanted: NewSend) -> bool:
    """Say whether a send that stays as it is was asked for otherwise."""
    if told.created or told.rearmed:
        return False
    is_conflict = told.answer is Answer.CONFLICT
    return is_conflict or told.drift or told.send.send_at != wanted.send_at


def other_batch() -> SendDiffers:
    """Return the error of a key that is that of other sends."""
    return SendDiffers("this key is that of a batch of other sends; give it a new one")


def _let_in(told: SendReply) -> Intended:
    """Pass on what was told; what raises here leaves nothing of the whole batch."""
    if told is None:
        raise NotFound("there is no such transport; list them with: oncebox transport list")
    if isinstance(told, TurnedDown):
        raise guards.refusal(told)
    return told


def get(tx: Transaction, tenant: str, id_: str, *, owner: str | None = None) -> Batch:
    """Return one batch, and where an owner is named, of that owner.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=tenant, owner=owner)
    if row is None:
        raise _missing()
    return _batch(row)


def sends_of(tx: Transaction, batch: Batch) -> list[Send]:
    """Return the sends of a batch, in their order; those that were forgotten are left out."""
    return [sends.read(row) for row in tx.all(_sql.sends, id=batch.id, tenant=batch.tenant)]


def totals(tx: Transaction, batch: Batch) -> dict[SendState, int]:
    """Return how many sends of a batch are in which state."""
    rows = tx.all(_sql.totals, id=batch.id, tenant=batch.tenant)
    return {SendState(state): int(count) for state, count in rows}


def _members(wanted: Sequence[NewSend]) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode([each.key for each in wanted])).digest()


def _missing() -> NotFound:
    return NotFound("there is no such batch")


def _batch(row: Row) -> Batch:
    id_, tenant, members, owner, size, created_at = row
    return Batch(
        id=id_,
        tenant=tenant,
        members=bytes(members),
        owner=owner,
        size=size,
        created_at=created_at,
    )
