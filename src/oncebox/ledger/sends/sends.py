"""Sends as stored: get, find, list, tries, bodies; the event of each final state."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.ledger.events import event_log
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.model.events import EventType, NewEvent
from oncebox.model.sends.send import ClaimedSend, OnUnknown, Retention, Send, SendState, SendTry
from oncebox.model.sends.transports import ProviderStatus, SendPhase

_sql = load(__package__, "sends.sql")

#: a tenant and an id
SendRef = tuple[str, str]
#: sorts after every id
_AFTER_ALL_IDS = "~"
#: states that have an index of their own, because few sends end in them
_RARE = {
    SendState.UNKNOWN,
    SendState.FAILED,
    SendState.SUPPRESSED,
    SendState.CANCELLED,
    SendState.EXPIRED,
}
_OPEN = {SendState.PENDING, SendState.CLAIMED, SendState.SENDING}
#: if so few sends are open, all of them are read
_FEW = 500


def _enum_values(kind: type[StrEnum]) -> Mapping[str | None, StrEnum | None]:
    return {None: None, **{str(each): each for each in kind}}


_FIELDS = Send.__struct_fields__
_BYTES_PLACES = tuple(_FIELDS.index(name) for name in ("key", "protected", "content"))
#: places of enum columns with their values by text; calling the enum takes ten times as long
_ENUM_PLACES = tuple(
    (_FIELDS.index(name), _enum_values(kind))
    for name, kind in (
        ("state", SendState),
        ("on_unknown", OnUnknown),
        ("repeat_mode", OnUnknown),
        ("phase", SendPhase),
        ("retention", Retention),
        ("delivery", ProviderStatus),
    )
)
_FLAG_PLACES = tuple(_FIELDS.index(name) for name in ("pinned", "must_sign"))


def get(tx: Transaction, tenant: str, id_: str, *, owner: str | None = None) -> Send:
    """Return one send; with an owner, only one of that owner.

    Raises: NotFound.
    """
    found = by_ids(tx, [(tenant, id_)]).get((tenant, id_))
    if found is None or owner not in {None, found.owner}:
        raise not_found()
    return found


def by_ids(tx: Transaction, places: Iterable[SendRef]) -> dict[SendRef, Send]:
    """Return sends by tenant and id; missing ones are left out."""
    sends = map(to_send, tx.many(_sql.by_ids, sorted(set(places))))
    return {(each.tenant, each.id): each for each in sends}


def not_in_progress(tx: Transaction, places: Iterable[SendRef]) -> list[Send]:
    """Return those of some sends that are neither pending nor in progress."""
    return [to_send(row) for row in tx.many(_sql.moved_on, sorted(set(places)))]


def find(tx: Transaction, tenant: str, name: str) -> list[str]:
    """Return the ids of sends by our id or its beginning, a Message-ID, or the provider's id."""
    name = find_id(tx, IdKind.SEND, tenant, name)
    return [row[0] for row in tx.all(_sql.named, tenant=tenant, name=name)]


class SendFilter(NamedTuple):
    """Filter of a list of sends; None matches all."""

    tenant: str
    state: SendState | None = None
    transport: str | None = None
    owner: str | None = None

    def matches(self, send: Send) -> bool:
        """Say whether a send is wanted."""
        return (
            send.tenant == self.tenant
            and self.state in {None, send.state}
            and self.transport in {None, send.transport}
            and self.owner in {None, send.owner}
        )


def newest(
    tx: Transaction, wanted: SendFilter, *, before: str = _AFTER_ALL_IDS, most: int = 50
) -> list[Send]:
    """Return sends, newest first."""
    if wanted.state in _OPEN:
        few = tx.all(_sql.open, tenant=wanted.tenant, most=_FEW + 1)
        if len(few) <= _FEW:
            found = [each for each in by_ids(tx, few).values() if wanted.matches(each)]
            found.sort(key=lambda each: each.id, reverse=True)
            return [each for each in found if each.id < before][:most]
    where = {**wanted._asdict(), "before": before, "most": most}
    if wanted.state in _RARE:
        rows = tx.all(_sql.newest_in_state, **where)
    elif wanted.owner is not None:
        rows = tx.all(_sql.newest_of_owner, **where)
    else:
        del where["owner"]
        rows = tx.all(_sql.newest, **where)
    return [to_send(row) for row in rows]


def list_unknown(tx: Transaction, tenant: str, most: int = 50) -> list[Send]:
    """Return sends of unknown outcome, oldest first."""
    return [to_send(row) for row in tx.all(_sql.doubtful, tenant=tenant, most=most)]


def count_unknown(tx: Transaction) -> int:
    """Return how many sends of all tenants have an unknown outcome and are not repeated."""
    row = tx.one(_sql.count_doubtful)
    return row[0] if row else 0


def tries(tx: Transaction, tenant: str, id_: str) -> list[SendTry]:
    """Return the tries at one send."""
    return [_to_try(row) for row in tx.all(_sql.tries, tenant=tenant, id=id_)]


def with_bodies(tx: Transaction, sends: Iterable[Send]) -> list[ClaimedSend]:
    """Return sends with their encrypted bodies, by id; those without a body are left out."""
    by_id = {each.id: each for each in sends}
    rows = tx.many(_sql.bodies, sorted((each.id, each.body_id) for each in by_id.values()))
    return [
        ClaimedSend(by_id[id_], bytes(message), bytes(envelope))
        for id_, message, envelope in sorted(rows)
    ]


def not_found() -> NotFound:
    """Return the error for a send that does not exist."""
    return NotFound("there is no such send; list them with: oncebox send list")


def to_send(row: Row) -> Send:
    """Return a send from its columns, in the order of its fields."""
    values = [*row]
    for place in _BYTES_PLACES:
        values[place] = bytes(values[place])
    for place in _FLAG_PLACES:
        values[place] = bool(values[place])
    for place, words in _ENUM_PLACES:
        values[place] = words[values[place]]
    return Send(**dict(zip(_FIELDS, values, strict=True)))


def _to_try(row: Row) -> SendTry:
    values = dict(zip(SendTry.__struct_fields__, row, strict=True))
    values["phase"] = SendPhase(values["phase"]) if values["phase"] else None
    return SendTry(**values)


_EVENT_TYPES = {
    SendState.SENT: EventType.SEND_SENT,
    SendState.FAILED: EventType.SEND_FAILED,
    SendState.UNKNOWN: EventType.SEND_UNKNOWN,
    SendState.SUPPRESSED: EventType.SEND_SUPPRESSED,
    SendState.CANCELLED: EventType.SEND_CANCELLED,
    SendState.EXPIRED: EventType.SEND_EXPIRED,
    SendState.LOGGED: EventType.SEND_LOGGED,
}


_EVENT_FIELDS = ("state", "event_type", "transport", "message_id", "provider_id", "tries", "code")


def record_events(tx: Transaction, sends: Iterable[Send], now: int) -> None:
    """Record the event of sends that have just ended or become unknown."""
    event_log.record(tx, end_events(sends, now))


def end_events(sends: Iterable[Send], now: int) -> list[NewEvent]:
    """Return the event of each send that has ended or become unknown."""
    # A send that is repeated automatically needs nobody's attention.
    ended = [each for each in sends if each.state in _EVENT_TYPES and each.repeat_mode is None]
    return [send_event(each, _EVENT_TYPES[each.state], now, *_EVENT_FIELDS) for each in ended]


def send_event(send: Send, type_: EventType, now: int, *fields: str) -> NewEvent:
    """Return an event about a send, with these fields of it as data."""
    return NewEvent(
        id=ids.new("evt"),
        tenant=send.tenant,
        type=type_,
        attempt_id=send.attempt_id,
        subject_id=send.id,
        at=now,
        data={name: getattr(send, name) for name in fields},
    )
