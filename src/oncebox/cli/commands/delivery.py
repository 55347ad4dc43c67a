"""`oncebox delivery accept|list|inspect|explain|tail`: store, list, inspect, follow."""

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import check_one_body, header_option, page_options
from oncebox.cli.output import failures
from oncebox.cli.output.delivery_report import explain_delivery
from oncebox.cli.output.printer import Printer
from oncebox.cli.output.times import ago, duration, iso_time
from oncebox.core import clock
from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind, DeliveryState, Headers
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord, DeliveryTry
from oncebox.settings import Settings

if TYPE_CHECKING:  # read-only commands do not load the components
    from oncebox.cli.reader import Reader
    from oncebox.components import Components
    from oncebox.ledger.ciphers import MailCipher

#: the channel of deliveries stored by this command
CHANNEL = "cli"

_ARRIVAL_TEXT = {
    ArrivalKind.NEW: "new",
    ArrivalKind.DUPLICATE: "duplicate: already {state}, nothing runs twice",
    ArrivalKind.SUSPICIOUS_REPLAY: "suspicious replay: this body is known; stored and {state}",
    ArrivalKind.CONFLICT: "conflict: this key is known with another body; stored and {state}",
}


@click.command(
    "accept",
    epilog=examples(
        'oncebox delivery accept stripe --key evt_1 --type invoice.paid --body \'{"id": "in_1"}\'',
        "oncebox delivery accept github --key 4711 --header 'X-GitHub-Event: push' - < push.json",
    ),
)
@click.argument("source")
@click.argument("stdin", required=False, type=click.Choice(["-"]), metavar="[-]")
@click.option("--key", metavar="KEY", help="Deduplication key.  [hash of the body]")
@click.option(
    "--type", "type_", default="", metavar="TYPE", help="Event type, such as invoice.paid."
)
@header_option
@click.option(
    "--order-key",
    metavar="KEY",
    help="Deliveries with the same order key run one at a time, in order.",
)
@click.option("--body", metavar="TEXT", help="Body.")
@click.option(
    "--body-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the body; - alone reads standard input.",
)
@with_context
def accept(  # noqa: PLR0913 - a delivery has this many properties
    call: CommandContext,
    *,
    source: str,
    stdin: str | None,
    key: str | None,
    type_: str,
    headers: list[tuple[str, str]],
    order_key: str | None,
    body: str | None,
    body_file: Path | None,
) -> int:
    """Store a delivery, once, and print whether it was new.

    When the id is printed, the delivery is on disk. Exit code 4 means that the key is known
    with another body.

    """
    content = _read_body(call.settings(), stdin=stdin, text=body, file=body_file)

    async def work(components: "Components") -> Accepted:
        return await components.intake.accept(
            source,
            key=key,
            body=content,
            headers=headers,
            type_=type_,
            order_key=order_key,
            road=CHANNEL,
        )

    accepted = call.run(work, create=True)
    if call.out.on_terminal:
        cells = [_ARRIVAL_TEXT[accepted.arrival].format(state=accepted.state)]
    else:
        cells = [accepted.arrival, accepted.state, accepted.duplicate_class or ""]
    call.out.result(accepted, accepted.id, *cells, name=accepted.id)
    return failures.CONFLICT if accepted.arrival is ArrivalKind.CONFLICT else failures.OK


def _read_body(
    settings: Settings, *, stdin: str | None, text: str | None, file: Path | None
) -> bytes:
    """Return the body, reading no more than it takes to see that it is too large."""
    check_one_body(stdin, text, file, required=True)
    if text is not None:
        return text.encode("utf-8", "surrogateescape")
    most = settings.limits.body + 1
    if file is None:
        return sys.stdin.buffer.read(most)
    with file.open("rb") as opened:
        return opened.read(most)


DELIVERY_COLUMNS = ("delivery", "state", "source", "type", "key", "tries", "age", "note")


@click.command(
    "list",
    epilog=examples(
        "oncebox delivery list --state held",
        "oncebox delivery list --source stripe --json | jq .key",
    ),
)
@click.option(
    "--state", type=click.Choice([str(state) for state in DeliveryState]), help="Only these."
)
@click.option("--source", metavar="NAME", help="Filter by source.")
@page_options
@with_context
def list_(
    call: CommandContext, *, state: str | None, source: str | None, limit: int, before: str
) -> None:
    """List deliveries, newest first."""
    wanted = DeliveryState(state) if state else None
    print_deliveries(call, state=wanted, source=source, before=before, most=limit)


def print_deliveries(
    call: CommandContext, *, state: DeliveryState | None, source: str | None, before: str, most: int
) -> None:
    """Print deliveries, newest first."""
    with call.reader() as reader:
        found = reader.read(
            inspections.newest,
            reader.settings.tenant,
            state=state,
            source=source,
            before=before,
            most=most,
        )
        now = reader.clock()
    call.out.listing(found, DELIVERY_COLUMNS, lambda facts: delivery_row(facts, now, call.out))


def delivery_row(facts: DeliveryRecord, now: int, out: Printer) -> tuple[object, ...]:
    """Return a delivery as the cells of a line."""
    age = max(0, now - facts.received_at)
    received = duration(age) if out.on_terminal else iso_time(facts.received_at)
    return (
        facts.id, facts.state, facts.source, facts.type, facts.key, facts.tries, received,
        delivery_note(facts),
    )  # fmt: skip


def delivery_note(facts: DeliveryRecord) -> str:
    """Return why a delivery is held, how it ended, or its last error."""
    if facts.state is DeliveryState.HELD:
        return facts.hold_reason or ""
    if facts.state is DeliveryState.DONE:
        return facts.outcome or ""
    return facts.last_error or ""


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
@click.option("--source", metavar="NAME", help="Look the key up in this source only.")
@click.option("--payload", "with_payload", is_flag=True, help="Show headers and body too.")
@with_context
def inspect(call: CommandContext, *, wanted: str, source: str | None, with_payload: bool) -> None:
    """Show everything known about a delivery, by its id or the sender's key.

    A unique beginning of the id is enough. If several deliveries have the key, all are shown.

    """
    with call.reader() as reader:
        now = reader.clock()
        cipher = reader.mail_cipher if with_payload else None
        found = reader.read(_inspect_all, reader.settings.tenant, wanted, source, now, cipher)
    for number, (each, payload) in enumerate(found):
        if call.out.as_json:
            call.out.record(inspection_record(each, payload))
            continue
        if number:
            call.out.line()
        call.out.outline(_inspection_lines(each, payload, now))


@click.command("explain", epilog=examples("oncebox delivery explain dlv_…"))
@click.argument("wanted", metavar="ID_OR_KEY")
@click.option("--source", metavar="NAME", help="Look the key up in this source only.")
@with_context
def explain(call: CommandContext, *, wanted: str, source: str | None) -> None:
    """Explain in plain English the state of a delivery and what happens next."""
    with call.reader() as reader:
        now = reader.clock()
        found = reader.read(_inspect_all, reader.settings.tenant, wanted, source, now, None)
    for each, _ in found:
        sentences = list(explain_delivery(each, now))
        facts = each.delivery
        if call.out.as_json:
            call.out.record({"id": facts.id, "state": facts.state, "sentences": sentences})
            continue
        call.out.line(f"{facts.id}:")
        for sentence in sentences:
            call.out.line(sentence)


def _inspect_all(
    tx: Transaction,
    tenant: str,
    wanted: str,
    source: str | None,
    now: int,
    cipher: "MailCipher | None",
) -> list[tuple[DeliveryInspection, Payload | None]]:
    """Inspect the deliveries with this id or key; with a cipher, headers and bodies too."""
    found = [
        inspections.inspect(tx, tenant, id_, now)
        for id_ in inspections.find(tx, tenant, wanted, source)
    ]
    return [
        (
            each,
            inspections.payload(tx, cipher, tenant, each.delivery.id)
            if cipher and not each.delivery.purged_at
            else None,
        )
        for each in found
    ]


def inspection_record(
    inspection: DeliveryInspection, payload: Payload | None = None
) -> dict[str, Any]:
    """Return an inspection for JSON, with the effects' results as the JSON they are."""
    record: dict[str, Any] = msgspec.to_builtins(inspection)
    for shown, effect in zip(record["effects"], inspection.effects, strict=True):
        shown["result"] = None if effect.result is None else msgspec.json.decode(effect.result)
    if payload is not None:
        record["payload"] = {"headers": payload[0], "body": _body_text(payload[1])}
    return record


def _inspection_lines(inspection: DeliveryInspection, payload: Payload | None, now: int) -> Lines:
    """Return an inspection as lines, each beginning with its name."""
    facts = inspection.delivery
    yield from _delivery_lines(facts, now)
    for each in inspection.tries:
        when = _time_and_age(each.ended_at, now)
        yield ("try", each.fence, each.outcome, when, each.worker, each.error)
    yield from _traceback_lines(inspection.tries)
    for effect in inspection.effects:
        when = _time_and_age(effect.ended_at or effect.started_at, now)
        result = effect.error or (effect.result or b"").decode()
        yield ("effect", effect.name, effect.state, when, f"safe={effect.safe}", result)
    for seen in inspection.duplicates:
        times = f"{seen.count} time{'s' if seen.count > 1 else ''}"
        last = _time_and_age(seen.last_at, now)
        yield ("sighting", seen.duplicate_class, times, last, f"by {seen.road}")
    for example in inspection.examples:
        when, channel = _time_and_age(example.at, now), f"by {example.road}"
        yield (
            "example",
            example.duplicate_class,
            when,
            channel,
            example.verdict,
            example.secret_id,
        )
    for entry in inspection.audit:
        when = _time_and_age(entry.at, now)
        yield ("audit", entry.action, when, entry.who, entry.why, entry.detail)
    if payload is not None:
        for name, value in payload[0]:
            yield ("header", name, value)
        yield ("body", _body_text(payload[1]))
    yield ("next action", inspection.next_action)


def _traceback_lines(tries: Sequence[DeliveryTry]) -> Lines:
    """Return the last traceback: each error, then its frames down to where it was raised."""
    last = next((each.traceback for each in reversed(tries) if each.traceback), None)
    for chain in last.split("; from ") if last else ():
        error, _, frames = chain.partition(" at ")
        yield ("traceback", error)
        for frame in frames.split(" > "):
            yield ("frame", frame)


def _delivery_lines(facts: DeliveryRecord, now: int) -> Lines:
    yield ("delivery", facts.id)
    yield ("source", facts.source)
    yield ("key", facts.key)
    if facts.variant:
        yield ("variant", facts.variant)
    if facts.type:
        yield ("type", facts.type)
    outcome = facts.outcome if facts.outcome != facts.state else None
    yield ("state", facts.state, *([outcome] if outcome else []))
    received = _time_and_age(facts.received_at, now)
    yield ("received", received, f"by {facts.road}", f"{facts.size} bytes")
    yield from _evidence_lines(facts, now)
    if facts.lane is not None:
        number = f"number {facts.sequence}" if facts.sequence is not None else ""
        late = "late" if facts.late else ""
        yield ("lane", facts.lane, f"position {facts.lane_position}", number, late)
    yield ("tries", facts.tries)
    yield from _schedule_lines(facts, now)
    if facts.last_error:
        yield ("last error", facts.last_error)


def _evidence_lines(facts: DeliveryRecord, now: int) -> Lines:
    """Return the verdict on a delivery, and where its body is."""
    if facts.verdict or facts.secret_id:
        yield ("signed", facts.verdict, f"by {facts.secret_id}" if facts.secret_id else "")
    if facts.replay_of is not None:
        yield ("replay of", facts.replay_of)
    if facts.is_element:
        end = facts.start + facts.size
        yield ("part of", facts.payload_id, f"bytes {facts.start} to {end}")
    if facts.purged_at is not None:
        yield ("body", "no longer kept", _time_and_age(facts.purged_at, now))


def _schedule_lines(facts: DeliveryRecord, now: int) -> Lines:
    """Return what a delivery waits for, or when it ended."""
    if facts.state is DeliveryState.PROCESSING and facts.due_at is not None:
        word = "expires" if facts.due_at > now else "expired"
        yield ("lease", f"{word} {ago(facts.due_at, now)}", facts.worker)
    elif facts.state is DeliveryState.HELD:
        since = _time_and_age(facts.held_at, now) if facts.held_at is not None else ""
        yield ("held", facts.hold_reason, since)
    elif facts.ended_at is not None:
        yield ("ended", _time_and_age(facts.ended_at, now))
    elif facts.is_waiting(now) and facts.due_at is not None:
        yield ("waits", f"for {facts.waits_for} until {_time_and_age(facts.due_at, now)}")
    elif facts.due_at is None:
        yield ("due", "when it is the first of its lane")
    else:
        yield ("due", _time_and_age(facts.due_at, now))


def _time_and_age(then: int, now: int) -> str:
    return f"{iso_time(then)} ({ago(then, now)})"


def _body_text(body: bytes) -> str:
    """Return a body as text; bytes that are not UTF-8 are escaped."""
    return body.decode("utf-8", "backslashreplace")


#: seconds between two queries for changes
_POLL_INTERVAL = 0.1
#: seconds for which a commit may come late and still be seen
_LATE_COMMIT_WINDOW = 2.0
#: deliveries read at once, and unfinished ones that are kept in view
_PAGE, _MAX_OPEN = 1_000, 10_000
_ENDED = {DeliveryState.DONE, DeliveryState.DEAD}


@click.command("tail")
@click.option("--source", metavar="NAME", help="Filter by source.")
@click.option("--last", type=click.IntRange(0, 1000), default=10, show_default=True, metavar="N",
              help="Print the last N deliveries first.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print the last deliveries and exit.")
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop after so many seconds.")  # fmt: skip
@with_context
def tail(
    call: CommandContext, *, source: str | None, last: int, once: bool, seconds: float | None
) -> None:
    """Follow new deliveries and state changes until ^C.

    The database is polled ten times a second; of several changes in between, only the last is
    shown.
    """
    with suppress(KeyboardInterrupt), call.reader() as reader:
        for facts in _follow_changes(reader, last, 0 if once else seconds):
            if source in {None, facts.source}:
                note = delivery_note(facts)
                cells = (facts.id, facts.state, facts.source, facts.type, facts.key, note)
                call.out.result(facts, iso_time(reader.clock()), *cells, name=facts.id)


def _follow_changes(reader: "Reader", last: int, seconds: float | None) -> Iterator[DeliveryRecord]:
    """Yield the last deliveries, then every change found, until the time has passed."""
    end = None if seconds is None else clock.steady() + seconds
    view = DeliveryView(reader.settings.tenant)
    yield from reader.read(view.begin, last)
    while end is None or clock.steady() < end:
        time.sleep(_POLL_INTERVAL)
        yield from reader.read(view.changes, clock.steady())


class DeliveryView:
    """What has been shown: the newest deliveries, and older ones as long as they are open."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._shown: dict[str, tuple[object, ...]] = {}
        self._last_audit_id = ""
        #: the newest id at each of the last looks; new ones are sought from the oldest of them
        self._newest: deque[tuple[float, str]] = deque([(0.0, "")])

    def begin(self, tx: Transaction, last: int) -> list[DeliveryRecord]:
        """Return the last deliveries, oldest first, and take the rest as known."""
        found = inspections.newest(tx, self._tenant, most=max(1, last))[::-1]
        self._last_audit_id = inspections.last_audit_id(tx)
        self._newest[0] = (0.0, found[-1].id if found else "")
        self._changed_since_shown(found)
        return found if last else []

    def changes(self, tx: Transaction, now: float) -> list[DeliveryRecord]:
        """Return what is new or has changed since the last look."""
        fresh = self._new_deliveries(tx)
        open_ = set(self._shown) - {facts.id for facts in fresh}
        open_.update(inspections.in_work(tx, self._tenant, _PAGE))
        self._last_audit_id, touched = inspections.audited_since(
            tx, self._tenant, self._last_audit_id, _PAGE
        )
        open_.update(touched)
        news = self._changed_since_shown([*fresh, *inspections.several(tx, self._tenant, open_)])
        self._move_on(now, fresh)
        return news

    def _new_deliveries(self, tx: Transaction) -> list[DeliveryRecord]:
        """Return what came since the oldest remembered look; a late commit is among it."""
        found: list[DeliveryRecord] = []
        after = self._newest[0][1]
        while page := inspections.since(tx, self._tenant, after, _PAGE):
            found += page
            after = page[-1].id
        return found

    def _changed_since_shown(self, found: Iterable[DeliveryRecord]) -> list[DeliveryRecord]:
        news = []
        for facts in sorted(found, key=lambda facts: facts.id):
            mark = (facts.state, facts.fence, facts.outcome, facts.hold_reason, facts.rearms)
            if self._shown.get(facts.id) != mark:
                news.append(facts)
            self._shown[facts.id] = mark
        return news

    def _move_on(self, now: float, fresh: list[DeliveryRecord]) -> None:
        """Remember this look, and forget what has ended and is older than all that are kept."""
        if fresh:
            self._newest.append((now, max(fresh[-1].id, self._newest[-1][1])))
        while len(self._newest) > 1 and self._newest[1][0] < now - _LATE_COMMIT_WINDOW:
            self._newest.popleft()
        floor = self._newest[0][1]
        for id_ in [id_ for id_ in self._shown if id_ <= floor]:
            if self._shown[id_][0] in _ENDED or len(self._shown) > _MAX_OPEN:
                del self._shown[id_]
