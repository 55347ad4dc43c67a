"""Evidence: provider events matched to sends: acceptance, delivery status, suppression.

An event counts for a send that this transport transmitted, identified by the provider's id or else
by our tag. Any other event changes nothing.
See docs/decisions/0033-use-signed-provider-webhooks-as-delivery-evidence.md.
"""

from collections.abc import Sequence

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.ledger.events import event_log
from oncebox.ledger.sends import lifecycle, sends
from oncebox.model.events import EventType
from oncebox.model.sends.send import SendReport
from oncebox.model.sends.transports import (
    SUPPRESSION_REASONS,
    ProviderEvent,
    ProviderEventResult,
    ProviderStatus,
    SendAccepted,
)

_sql = load(__package__, "evidence.sql")

#: the position of an event in its batch, and the send it is about
_SendByPosition = dict[int, str]


def record_evidence(
    tx: Transaction, events: Sequence[ProviderEvent], now: int
) -> list[ProviderEventResult]:
    """Record provider events; return the result of each."""
    about = _match_sends(tx, events)
    found = [(events[position], about[position]) for position in sorted(about)]
    proven = _record_acceptance(tx, found, now)
    changed_status = _record_delivery_status(tx, found, now)
    listed = _suppress_recipients(tx, found, now)
    return [
        ProviderEventResult()
        if (id_ := about.get(position)) is None
        else ProviderEventResult(
            id_,
            id_ in proven,
            (id_, event.status) in changed_status,
            _count_suppressed(listed, id_, event),
        )
        for position, event in enumerate(events)
    ]


def record_evidence_batches(
    tx: Transaction, events: Sequence[Sequence[ProviderEvent]], now: int
) -> list[list[ProviderEventResult]]:
    """Record the events of several webhooks, each perhaps for several transports."""
    results = iter(record_evidence(tx, [each for some in events for each in some], now))
    return [[next(results) for _ in some] for some in events]


def _match_sends(tx: Transaction, events: Sequence[ProviderEvent]) -> _SendByPosition:
    """Return the sends that events are about.

    The provider's id takes precedence over our tag: any account of the provider can set a tag.
    """
    named = [
        (position, each.tenant, each.transport, each.provider_id)
        for position, each in enumerate(events)
    ]
    known: _SendByPosition = dict(tx.many(_sql.known, named))
    tagged = [(*row, events[row[0]].send_id) for row in named if row[0] not in known]
    by_tag: _SendByPosition = dict(tx.many(_sql.tagged, tagged))
    about = {
        position: id_
        for position, id_ in {**by_tag, **known}.items()
        if events[position].send_id in {"", id_}
    }
    return _without_rivals(events, about)


def _without_rivals(events: Sequence[ProviderEvent], about: _SendByPosition) -> _SendByPosition:
    """Drop events that give one send two provider ids; the first one counts."""
    names: dict[str, str] = {}
    return {
        position: about[position]
        for position in sorted(about)
        if names.setdefault(about[position], events[position].provider_id)
        == events[position].provider_id
    }


def _record_acceptance(
    tx: Transaction, found: Sequence[tuple[ProviderEvent, str]], now: int
) -> set[str]:
    """Record acceptance; return the sends for which that was new."""
    first = {id_: event for event, id_ in reversed(found)}
    proof = [
        SendReport(
            tenant=event.tenant,
            id=id_,
            fence=0,
            outcome=SendAccepted(provider_id=event.provider_id),
        )
        for id_, event in sorted(first.items())
    ]
    settled = lifecycle.settle(tx, proof, now) if proof else []
    adopted = [(event.tenant, id_, event.provider_id) for id_, event in sorted(first.items())]
    tx.run_many(_sql.adopt, adopted)
    return {each.send.id for each in settled if each is not None and each.counted}


def _record_delivery_status(
    tx: Transaction, found: Sequence[tuple[ProviderEvent, str]], now: int
) -> set[tuple[str, ProviderStatus]]:
    """Record delivery statuses that are stronger than the stored one."""
    strongest: dict[str, ProviderEvent] = {}
    for event, id_ in found:
        last = strongest.get(id_)
        if last is None or last.status.strength < event.status.strength:
            strongest[id_] = event
    rows = [
        (event.tenant, id_, event.provider_id, str(event.status), event.status.strength, event.at)
        for id_, event in sorted(strongest.items())
    ]
    changed = {id_ for (id_,) in tx.many(_sql.tell, rows)}
    stored = sends.by_ids(tx, [(strongest[id_].tenant, id_) for id_ in changed])
    fields = ("delivery", "event_type", "transport", "message_id", "provider_id")
    event_log.record(
        tx,
        [
            sends.send_event(stored[ref], EventType.SEND_DELIVERY, now, *fields)
            for ref in sorted(stored)
        ],
    )
    return {(id_, strongest[id_].status) for id_ in changed}


def _suppress_recipients(
    tx: Transaction, found: Sequence[tuple[ProviderEvent, str]], now: int
) -> set[tuple[str, bytes]]:
    """Suppress recipients, each once per send and reason.

    So a repeated event does not undo what an operator did since.
    """
    rows = {
        (event.tenant, id_, each.fingerprint): (event, each.address)
        for event, id_ in sorted(found, key=lambda pair: pair[0].status.strength)
        if event.status in SUPPRESSION_REASONS
        for each in event.recipients
    }
    notes = [(*ref, event.status.strength) for ref, (event, _) in sorted(rows.items())]
    noted = {
        (tenant, id_, bytes(fingerprint)) for tenant, id_, fingerprint in tx.many(_sql.note, notes)
    }
    fresh = [
        (*ref, address, SUPPRESSION_REASONS[event.status])
        # in the order of their keys, to avoid deadlocks
        for ref, (event, address) in sorted(rows.items(), key=lambda item: item[0][::2])
        if ref in noted
    ]
    return {
        (id_, bytes(fingerprint)) for id_, fingerprint in tx.many(_sql.suppress, fresh, now=now)
    }


def _count_suppressed(listed: set[tuple[str, bytes]], id_: str, event: ProviderEvent) -> int:
    return sum(
        (id_, each.fingerprint) in listed
        for each in event.recipients
        if event.status in SUPPRESSION_REASONS
    )
