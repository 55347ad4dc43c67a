"""Inboxes: which addresses there are, who made them, and how they stand."""

from collections.abc import Iterable

import msgspec

from oncebox.errors import NotFound
from oncebox.model.inbox import Inbox, InboxPolicy, InboxState
from oncebox.model.inbox_stats import AttemptStats
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "inboxes.sql")

#: an attempt and a label, which together name one inbox
Pair = tuple[str, str]
#: what comes after every id
_END = "~"


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what they may see: everything of the tenant, or what their key made."""

    tenant: str
    #: the key that asks; none: somebody at the terminal
    key: str | None = None
    sees_all: bool = True

    @property
    def owner(self) -> str | None:
        """The only owner whose inboxes may be seen; None is any."""
        return None if self.sees_all else self.key or ""


class NewInbox(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox that is not kept yet."""

    id: str
    email: str
    attempt_id: str | None
    label: str
    active_until: int | None
    metadata: dict[str, str]
    policy: InboxPolicy
    rotated_from: str | None = None

    @property
    def pair(self) -> Pair | None:
        """What makes it the only one of its attempt."""
        return None if self.attempt_id is None else (self.attempt_id, self.label)


def add(tx: Transaction, asker: Asker, new: Iterable[NewInbox], now: int) -> list[Inbox]:
    """Keep new inboxes; return those that were kept.

    The others have an address that was given out before, an attempt that has an inbox of that
    label, or a domain that is not the tenant's.
    """
    # One order for all, so that two who make the same inboxes do not wait for each other.
    ordered = sorted(new, key=lambda each: (each.attempt_id or "", each.label, each.id))
    rows = [_values(each) for each in ordered]
    kept = tx.many(_sql.add, rows, tenant=asker.tenant, owner=asker.key, now=now)
    ids = {row[0] for row in kept}
    return [_fresh(asker, each, now) for each in ordered if each.id in ids]


def of_attempts(tx: Transaction, tenant: str, pairs: Iterable[Pair]) -> dict[Pair, Inbox]:
    """Return the inboxes that attempts have now."""
    rows = tx.many(_sql.of_attempts, sorted(set(pairs)), tenant=tenant)
    found = map(_inbox, rows)
    return {(each.attempt_id or "", each.label): each for each in found}


def get(tx: Transaction, asker: Asker, id_: str) -> Inbox:
    """Return one inbox.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=asker.tenant, owner=asker.owner)
    if row is None:
        message = "there is no such inbox; list them with: oncebox inbox list"
        raise NotFound(message)
    return _inbox(row)


def newest(
    tx: Transaction,
    asker: Asker,
    *,
    attempt_id: str | None = None,
    state: InboxState | None = None,
    before: str = _END,
    most: int = 50,
) -> list[Inbox]:
    """Return inboxes, newest first."""
    where = {"tenant": asker.tenant, "state": state, "before": before, "most": most}
    if attempt_id is not None:
        query, where = _sql.newest_of_attempt, {**where, "attempt_id": attempt_id}
        return [_inbox(row) for row in tx.all(query, owner=asker.owner, **where)]
    if asker.owner is not None:
        return [_inbox(row) for row in tx.all(_sql.newest_of_owner, owner=asker.owner, **where)]
    return [_inbox(row) for row in tx.all(_sql.newest, **where)]


def close(tx: Transaction, asker: Asker, id_: str, until: int, now: int) -> bool:
    """Let an open inbox take mail until a moment and no longer; say whether it ended now."""
    name = {"id": id_, "tenant": asker.tenant, "owner": asker.owner}
    if until > now:
        tx.run(_sql.drain, until=until, **name)
        return False
    return bool(tx.run(_sql.close, now=now, **name))


def succeed(tx: Transaction, asker: Asker, id_: str, successor: str) -> bool:
    """Let another inbox take the place of this one; False if it is not there or has another."""
    return bool(
        tx.run(
            _sql.succeed,
            id=id_,
            tenant=asker.tenant,
            owner=asker.owner,
            successor=successor,
        )
    )


def attempt_stats(tx: Transaction, asker: Asker, attempt_id: str) -> AttemptStats:
    """Return what came of an attempt.

    Raises: NotFound, when it has no inbox.
    """
    rows = tx.all(_sql.totals, tenant=asker.tenant, attempt_id=attempt_id, owner=asker.owner)
    if not rows:
        message = "there is no such attempt"
        raise NotFound(message)
    return AttemptStats(
        attempt_id=attempt_id,
        states={InboxState(row[0]): int(row[1]) for row in rows},
        messages=sum(int(row[2]) for row in rows),
        duplicates=sum(int(row[3]) for row in rows),
        matched=sum(int(row[4]) for row in rows),
        created_at=min(row[5] for row in rows),
        first_message_at=min((row[6] for row in rows if row[6] is not None), default=None),
        last_message_at=max((row[7] for row in rows if row[7] is not None), default=None),
        missed=sum(int(row[8]) for row in rows),
    )


def _values(new: NewInbox) -> Row:
    return (
        new.id,
        new.email,
        new.email,
        new.email.rpartition("@")[2],
        new.attempt_id,
        new.label,
        new.active_until,
        msgspec.json.encode(new.metadata),
        msgspec.json.encode(new.policy),
        new.rotated_from,
    )


def _fresh(asker: Asker, new: NewInbox, now: int) -> Inbox:
    """Return an inbox as it is when it was just made."""
    return Inbox(
        id=new.id,
        tenant=asker.tenant,
        email=new.email,
        attempt_id=new.attempt_id,
        label=new.label,
        owner=asker.key,
        state=InboxState.ACTIVE,
        created_at=now,
        active_until=new.active_until,
        due_at=new.active_until,
        ended_at=None,
        metadata=new.metadata,
        policy=new.policy,
        cursor=0,
        duplicates=0,
        matched=0,
        first_message_at=None,
        last_message_at=None,
        missed_at=None,
        rotated_from=new.rotated_from,
        rotated_to=None,
    )


def _inbox(row: Row) -> Inbox:
    values = dict(zip(Inbox.__struct_fields__, row, strict=True))
    values["state"] = InboxState(values["state"])
    values["metadata"] = msgspec.json.decode(values["metadata"], type=dict[str, str])
    values["policy"] = msgspec.json.decode(values["policy"], type=InboxPolicy)
    return Inbox(**values)
