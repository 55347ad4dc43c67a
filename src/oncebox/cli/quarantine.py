"""``oncebox quarantine``: requests that were not believed, and checking them again."""

from collections.abc import Sequence

import click

from oncebox import ids
from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.deeds import require_why, signed
from oncebox.cli.words import duration, moment
from oncebox.errors import NotFound, OnceboxError
from oncebox.ledger.deliveries import quarantine, redaction
from oncebox.ledger.office.audit import Deed
from oncebox.model.delivery import Accepted
from oncebox.model.quarantine import Kept, Listed

_COLUMNS = ("request", "class", "source", "reason", "age", "bytes")
#: what comes after every id
_END = "~"


@click.command(
    "list", epilog=examples("oncebox quarantine list --source stripe --json | jq .reason")
)
@click.option("--source", metavar="NAME", help="Only of this source.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@with_call
def list_(call: Call, *, source: str | None, limit: int, before: str) -> None:
    """Show rejected requests, newest first."""

    async def work(rooms: Rooms) -> tuple[list[Listed], int]:
        found = await rooms.database.read(
            quarantine.newest, rooms.settings.tenant, source=source, before=before, most=limit
        )
        return found, rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(each)
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(_COLUMNS, [_cells(call, each, now) for each in found])


@click.command("show", epilog=examples("oncebox quarantine show rej_…"))
@click.argument("wanted", metavar="ID")
@with_call
def show(call: Call, *, wanted: str) -> None:
    """Show a rejected request with its headers and body.

    Values that may be secrets are not shown; they are kept sealed.

    """

    async def work(rooms: Rooms) -> Kept:
        return await rooms.database.read(quarantine.get, rooms.settings.tenant, wanted)

    kept = call.run(work)
    body = kept.body.decode("utf-8", "backslashreplace")
    if call.out.as_json:
        call.out.record({
            "id": kept.id, "source": kept.source, "reason": kept.reason, "sighting": kept.sighting,
            "received_at": kept.received_at, "method": kept.method, "url": kept.url,
            "headers": kept.headers, "body": body,
        })  # fmt: skip
        return
    call.out.outline([
        ("request", kept.id),
        ("source", kept.source),
        ("rejected", kept.reason, kept.sighting),
        ("received", moment(kept.received_at), kept.method, kept.url),
        *(("header", name, value) for name, value in kept.headers),
        ("body", body),
    ])  # fmt: skip


@click.command(
    "retry", epilog=examples("oncebox quarantine retry rej_… --why 'the secret was wrong'")
)
@click.argument("wanted", metavar="ID…", nargs=-1, required=True)
@signed
@with_call
def retry(call: Call, *, wanted: tuple[str, ...], who: str, why: str | None) -> int:
    """Check rejected requests again, with the secrets of today.

    What is good now is taken in like any arrival, once, and leaves the quarantine. What is not
    stays; the exit code is then 1.

    """
    reason = require_why(why)

    async def work(rooms: Rooms) -> int:
        worst = failures.OK
        for each in wanted:
            try:
                accepted = await _admit(rooms, each, _deed(rooms, who, reason))
            except OnceboxError as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.tell(error, as_json=call.out.as_json))
            else:
                _print(call, each, accepted)
        return worst

    return call.run(work)


@click.command("forget")
@click.argument("wanted", metavar="ID…", nargs=-1, required=True)
@signed
@with_call
def forget(call: Call, *, wanted: tuple[str, ...], who: str, why: str | None) -> int:
    """Throw rejected requests away."""
    reason = require_why(why)

    async def work(rooms: Rooms) -> int:
        worst = failures.OK
        for each in wanted:
            try:
                await rooms.database.write(quarantine.forget, each, _deed(rooms, who, reason))
            except NotFound as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.tell(error, as_json=call.out.as_json))
        return worst

    return call.run(work)


async def _admit(rooms: Rooms, id_: str, deed: Deed) -> list[Accepted]:
    """Check a request again and accept what it holds."""
    kept = await rooms.database.read(quarantine.get, rooms.settings.tenant, id_)
    verified = await rooms.judge(redaction.unseal(kept, rooms.master_key))
    accepted = await rooms.database.write(quarantine.admit, id_, verified, deed)
    rooms.desk.ring()
    return accepted


def _deed(rooms: Rooms, who: str, why: str) -> Deed:
    return Deed(
        id=ids.new("aud"),
        tenant=rooms.settings.tenant,
        at=rooms.database.clock(),
        who=who,
        why=why,
    )


def _cells(call: Call, each: Listed, now: int) -> tuple[object, ...]:
    age = max(0, now - each.received_at)
    received = duration(age) if call.out.on_terminal else moment(each.received_at)
    return (each.id, each.sighting, each.source, each.reason, received, each.size)


def _print(call: Call, id_: str, accepted: Sequence[Accepted]) -> None:
    for each in accepted:
        if call.out.as_json:
            call.out.record({"request": id_, "delivery": each.id, "arrival": each.arrival})
        elif not call.out.quiet:
            call.out.line(id_, each.arrival, each.id, each.state)
