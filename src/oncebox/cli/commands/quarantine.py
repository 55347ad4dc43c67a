"""`oncebox quarantine`: rejected webhook requests; show, verify again, delete."""

from collections.abc import Sequence

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import audit_options_with_reason, require_reason
from oncebox.cli.output import failures
from oncebox.cli.output.times import duration, iso_time
from oncebox.components import Components
from oncebox.core import ids
from oncebox.errors import InputRefused, NotFound, OnceboxError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import quarantine
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import Accepted
from oncebox.model.webhooks.quarantine import QuarantineEntry

_COLUMNS = ("request", "class", "source", "reason", "age", "bytes")
#: what comes after every id
_AFTER_ALL_IDS = "~"


@click.command(
    "list", epilog=examples("oncebox quarantine list --source stripe --json | jq .reason")
)
@click.option("--source", metavar="NAME", help="Filter by source.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option(
    "--before", metavar="ID", default=_AFTER_ALL_IDS, help="Continue the list below this id."
)
@with_context
def list_(call: CommandContext, *, source: str | None, limit: int, before: str) -> None:
    """List rejected requests, newest first."""
    with call.reader() as reader:
        found = reader.read(
            quarantine.newest, reader.settings.tenant, source=source, before=before, most=limit
        )
        now = reader.clock()
    if call.out.as_json:
        for each in found:
            call.out.record(each)
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(_COLUMNS, [_rejected_row(call, each, now) for each in found])


@click.command("show", epilog=examples("oncebox quarantine show rej_…"))
@click.argument("wanted", metavar="ID")
@with_context
def show(call: CommandContext, *, wanted: str) -> None:
    """Show a rejected request with its headers and body.

    Values that may be secrets are stored encrypted and not shown.

    """
    with call.reader() as reader:
        tenant = reader.settings.tenant
        id_ = reader.read(find_id, IdKind.REQUEST, tenant, wanted)
        kept = reader.read(quarantine.get, tenant, id_)
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
        ("received", iso_time(kept.received_at), kept.method, kept.url),
        *(("header", name, value) for name, value in kept.headers),
        ("body", body),
    ])  # fmt: skip


@click.command(
    "retry", epilog=examples("oncebox quarantine retry rej_… --why 'the secret was wrong'")
)
@click.argument("wanted", metavar="ID…", nargs=-1, required=True)
@audit_options_with_reason
@with_context
def retry(call: CommandContext, *, wanted: tuple[str, ...], who: str, why: str | None) -> int:
    """Verify rejected requests again with the current secrets.

    Valid requests are accepted like any other, once, and leave the quarantine. Invalid ones stay;
    the exit code is then 1.

    """
    reason = require_reason(why)

    async def work(components: Components) -> int:
        worst = failures.OK
        for typed in wanted:
            try:
                each = await _request_id(components, typed)
                accepted = await _verify_and_accept(
                    components, each, _audit_entry(components, who, reason)
                )
            except OnceboxError as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.print_error(error, as_json=call.out.as_json))
            else:
                _print_admitted(call, each, accepted)
        return worst

    return call.run(work)


@click.command("forget")
@click.argument("wanted", metavar="ID…", nargs=-1, required=True)
@audit_options_with_reason
@with_context
def forget(call: CommandContext, *, wanted: tuple[str, ...], who: str, why: str | None) -> int:
    """Delete rejected requests."""
    reason = require_reason(why)

    async def work(components: Components) -> int:
        worst = failures.OK
        for typed in wanted:
            try:
                each = await _request_id(components, typed)
                await components.database.write(
                    quarantine.discard, each, _audit_entry(components, who, reason)
                )
            except (NotFound, InputRefused) as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.print_error(error, as_json=call.out.as_json))
        return worst

    return call.run(work)


async def _request_id(components: Components, typed: str) -> str:
    return await components.database.read(
        find_id, IdKind.REQUEST, components.settings.tenant, typed
    )


async def _verify_and_accept(components: Components, id_: str, entry: AuditEntry) -> list[Accepted]:
    """Check a request again and accept what it holds."""
    kept = await components.database.read(quarantine.get, components.settings.tenant, id_)
    verified = await components.recheck_rejected(quarantine.restore(kept, components.master_key))
    accepted = await components.database.write(quarantine.admit, id_, verified, entry)
    components.ledger.notify(DUE)
    return accepted


def _audit_entry(components: Components, who: str, why: str) -> AuditEntry:
    return AuditEntry(
        id=ids.new("aud"),
        tenant=components.settings.tenant,
        at=components.database.clock(),
        who=who,
        why=why,
    )


def _rejected_row(call: CommandContext, each: QuarantineEntry, now: int) -> tuple[object, ...]:
    age = max(0, now - each.received_at)
    received = duration(age) if call.out.on_terminal else iso_time(each.received_at)
    return (each.id, each.sighting, each.source, each.reason, received, each.size)


def _print_admitted(call: CommandContext, id_: str, accepted: Sequence[Accepted]) -> None:
    for each in accepted:
        if call.out.as_json:
            call.out.record({"request": id_, "delivery": each.id, "arrival": each.arrival})
        elif not call.out.quiet:
            call.out.line(id_, each.arrival, each.id, each.state)
