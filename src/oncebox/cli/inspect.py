"""``oncebox delivery inspect``: everything known of a delivery, and what to do next."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.words import ago, moment
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.vault import Vault
from oncebox.model.delivery import Headers, State
from oncebox.model.effect import Effect
from oncebox.model.inspection import Example, Facts, Inspection
from oncebox.store.database import Transaction

Payload = tuple[Headers, bytes]
Lines = Iterator[tuple[object, ...]]


@click.command(
    "inspect",
    epilog=examples(
        "oncebox delivery inspect evt_1 --source stripe",
        "oncebox delivery inspect evt_1 --json | jq -r .next_action",
    ),
)
@click.argument("wanted", metavar="ID_OR_KEY")
@click.option("--source", metavar="NAME", help="Look for the key in this source only.")
@click.option("--payload", "with_payload", is_flag=True, help="Show headers and body too.")
@with_call
def inspect(call: Call, *, wanted: str, source: str | None, with_payload: bool) -> None:
    """Show all that is known of a delivery: by our id, or by the sender's own key.

    Where a key means several deliveries, all are shown.

    """

    async def work(rooms: Rooms) -> tuple[list[tuple[Inspection, Payload | None]], int]:
        now = rooms.database.clock()
        found = await rooms.database.read(
            _inspect_all,
            rooms.settings.tenant,
            wanted,
            source,
            now,
            vault=rooms.vault if with_payload else None,
        )
        return found, now

    found, now = call.run(work)
    for number, (each, payload) in enumerate(found):
        if call.out.as_json:
            call.out.record(as_record(each, payload))
            continue
        if number:
            call.out.line()
        call.out.outline(_lines(each, payload, now))


def _inspect_all(
    tx: Transaction, tenant: str, wanted: str, source: str | None, now: int, *, vault: Vault | None
) -> list[tuple[Inspection, Payload | None]]:
    """Inspect what is meant; with a vault, headers and bodies too."""
    found = [
        inspections.inspect(tx, tenant, id_, now)
        for id_ in inspections.find(tx, tenant, wanted, source)
    ]
    return [(each, _payload(tx, vault, each.delivery) if vault else None) for each in found]


def _payload(tx: Transaction, vault: Vault, facts: Facts) -> Payload | None:
    return None if facts.purged_at else inspections.payload(tx, vault, facts.tenant, facts.id)


def as_record(inspection: Inspection, payload: Payload | None = None) -> dict[str, Any]:
    """Return an inspection for JSON, with the effects' results as the JSON they are."""
    record: dict[str, Any] = msgspec.to_builtins(inspection)
    for shown, effect in zip(record["effects"], inspection.effects, strict=True):
        shown["result"] = None if effect.result is None else msgspec.json.decode(effect.result)
    if payload is not None:
        record["payload"] = {"headers": payload[0], "body": _readable(payload[1])}
    return record


def _lines(inspection: Inspection, payload: Payload | None, now: int) -> Lines:
    """Tell an inspection line by line, each beginning with what it is about."""
    facts = inspection.delivery
    yield from _head(facts, now)
    for each in inspection.tries:
        when = _when(each.ended_at, now)
        yield ("try", each.fence, each.outcome, when, each.worker, each.error)
    for effect in inspection.effects:
        yield _effect(effect, now)
    for seen in inspection.sightings:
        times = f"{seen.count} time{'s' if seen.count > 1 else ''}"
        yield ("sighting", seen.sighting, times, _when(seen.last_at, now), f"by {seen.road}")
    for example in inspection.examples:
        yield ("example", example.sighting, _when(example.at, now), *_how(example))
    for deed in inspection.audit:
        yield ("audit", deed.action, _when(deed.at, now), deed.who, deed.why, deed.detail)
    if payload is not None:
        for name, value in payload[0]:
            yield ("header", name, value)
        yield ("body", _readable(payload[1]))
    yield ("next action", inspection.next_action)


def _head(facts: Facts, now: int) -> Lines:
    yield ("delivery", facts.id)
    yield ("source", facts.source)
    yield ("key", facts.key)
    if facts.variant:
        yield ("variant", facts.variant)
    if facts.type:
        yield ("type", facts.type)
    yield ("state", facts.state, *([facts.outcome] if facts.outcome else []))
    yield ("received", _when(facts.received_at, now), f"by {facts.road}", f"{facts.size} bytes")
    yield from _evidence(facts, now)
    if facts.lane is not None:
        number = f"number {facts.sequence}" if facts.sequence is not None else ""
        late = "late" if facts.late else ""
        yield ("lane", facts.lane, f"position {facts.lane_position}", number, late)
    yield ("tries", facts.tries)
    yield from _standing(facts, now)
    if facts.last_error:
        yield ("last error", facts.last_error)


def _evidence(facts: Facts, now: int) -> Lines:
    """Tell what speaks for and against a delivery, and where its body is."""
    if facts.verdict or facts.secret_id:
        yield ("signed", facts.verdict, f"by {facts.secret_id}" if facts.secret_id else "")
    if facts.replay_of is not None:
        yield ("replay of", facts.replay_of)
    if facts.is_element:
        end = facts.start + facts.size
        yield ("part of", facts.payload_id, f"bytes {facts.start} to {end}")
    if facts.purged_at is not None:
        yield ("body", "no longer kept", _when(facts.purged_at, now))


def _standing(facts: Facts, now: int) -> Lines:
    """Tell what a delivery waits for, or since when it has ended."""
    if facts.state is State.PROCESSING and facts.due_at is not None:
        yield ("lease", f"{_ends(facts.due_at, now)} {ago(facts.due_at, now)}", facts.worker)
    elif facts.state is State.HELD:
        since = _when(facts.held_at, now) if facts.held_at is not None else ""
        yield ("held", facts.hold_reason, since)
    elif facts.ended_at is not None:
        yield ("ended", _when(facts.ended_at, now))
    elif facts.is_waiting(now) and facts.due_at is not None:
        yield ("waits", f"for {facts.waits_for} until {_when(facts.due_at, now)}")
    elif facts.due_at is None:
        yield ("due", "when it is the first of its lane")
    else:
        yield ("due", _when(facts.due_at, now))


def _ends(due_at: int, now: int) -> str:
    return "expires" if due_at > now else "expired"


def _effect(effect: Effect, now: int) -> tuple[object, ...]:
    when = _when(effect.ended_at or effect.started_at, now)
    result = "" if effect.result is None else effect.result.decode()
    return (
        "effect",
        effect.name,
        effect.state,
        when,
        f"safe={effect.safe}",
        effect.error or result,
    )


def _how(example: Example) -> tuple[object, ...]:
    """Tell how a repeat came: its road, its verdict and which secret had signed it."""
    return (f"by {example.road}", example.verdict, example.secret_id)


def _when(then: int, now: int) -> str:
    return f"{moment(then)} ({ago(then, now)})"


def _readable(body: bytes) -> str:
    """Return a body as text; bytes that are no UTF-8 are spelled out."""
    return body.decode("utf-8", "backslashreplace")
