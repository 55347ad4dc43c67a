"""Arrivals: hands what is in a judged request to the ledger, each event once."""

import asyncio
import hashlib

from oncebox.edge.hooks.door import Door
from oncebox.edge.hooks.judgement import Judged
from oncebox.errors import InputRefused
from oncebox.ledger.deliveries.intake import Element, Intake, Shared, Sides
from oncebox.model.arrival import check_key, check_sequence
from oncebox.model.delivery import NewDelivery
from oncebox.signature.field import field
from oncebox.signature.reading import Event
from oncebox.signature.request import Request
from oncebox.signature.verification import Freshness

ROAD = "hook"


async def store(intake: Intake, door: Door, request: Request, judged: Judged) -> None:
    """Return when every event of the request is on disk.

    Raises: InputRefused, StoreUnavailable.
    """
    name = door.source.name
    if _is_sliced(judged):
        elements, shared = _elements(door, request, judged), _shared(door, request, judged)
        await intake.accept_many(name, elements, body=request.body, **shared)
    elif len(judged.events) == 1:
        await intake.accept(name, **_sides(door, request, judged, judged.events[0]))
    else:
        every = (_sides(door, request, judged, event) for event in judged.events)
        await asyncio.gather(*(intake.accept(name, **sides) for sides in every))


def draft(intake: Intake, door: Door, request: Request, judged: Judged) -> NewDelivery:
    """Return what ``store`` would store of a request with one event.

    Raises: InputRefused.
    """
    return intake.draft(door.source.name, **_sides(door, request, judged, judged.events[0]))


def drafts(intake: Intake, door: Door, request: Request, judged: Judged) -> list[NewDelivery]:
    """Return what ``store`` would store.

    Raises: InputRefused.
    """
    name = door.source.name
    if not _is_sliced(judged):
        every = (_sides(door, request, judged, event) for event in judged.events)
        return [intake.draft(name, **sides) for sides in every]
    elements, shared = _elements(door, request, judged), _shared(door, request, judged)
    found = intake.drafts(name, elements, body=request.body, **shared)
    return [each for each in found if isinstance(each, NewDelivery)]


def _is_sliced(judged: Judged) -> bool:
    """Say whether the events are parts of the body; some stand there only in an encoded form."""
    return judged.batch and all(event.content is None for event in judged.events)


def _sides(door: Door, request: Request, judged: Judged, event: Event) -> Sides:
    body = request.body if event.content is None else event.content
    order_key, sequence = _place(door, body)
    return {
        **_shared(door, request, judged),
        "key": event.id,
        "body": body,
        "type_": event.type,
        "fingerprint": event.fingerprint,
        "unsigned": not event.id_signed,
        "order_key": order_key,
        "sequence": sequence,
        "echo_of": None,
    }


def _elements(door: Door, request: Request, judged: Judged) -> list[Element]:
    return [_element(door, request, event) for event in judged.events]


def _shared(door: Door, request: Request, judged: Judged) -> Shared:
    source = door.source
    late = judged.verdict.freshness is Freshness.LATE
    return {
        "headers": request.headers,
        "road": ROAD,
        "tenant": source.tenant,
        "redelivery": source.redelivery,
        "on_replay": source.replay,
        "verdict": judged.verdict.freshness.value,
        "secret_id": judged.secret_id,
        "hold_reason": "late" if late and door.late == "hold" else None,
        "rules": door.lanes,
    }


def _element(door: Door, request: Request, event: Event) -> Element:
    body = request.body[event.start : event.start + event.size]
    order_key, sequence = _place(door, body)
    return Element(
        start=event.start,
        size=event.size,
        key=event.id,
        type=event.type,
        fingerprint=event.fingerprint,
        unsigned=not event.id_signed,
        order_key=order_key,
        sequence=sequence,
    )


def _place(door: Door, body: bytes) -> tuple[str | None, int | None]:
    """Return the lane of an event and its number there; odd values never cost the event."""
    source = door.source
    if source.order_by is None:
        return None, None
    key = field(body, source.order_by)
    if key is None or key == "":
        return None, None
    return _plain(str(key)), _number(field(body, source.sequence) if source.sequence else None)


def _plain(key: str) -> str:
    try:
        check_key(key)
    except InputRefused:
        return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return key


def _number(value: str | int | None) -> int | None:
    """Return a sequence number; providers write them as numbers and as text."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None  # noqa: PLR2004 - what 64 bits hold
    if value is None:
        return None
    try:
        check_sequence(value)
    except InputRefused:
        return None
    return value
