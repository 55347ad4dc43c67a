"""`oncebox quarantine`: rejected webhook requests; show, verify again, delete."""

from collections.abc import Awaitable, Callable

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import audit_entry, audit_options_with_reason, page_options, require_reason
from oncebox.cli.output import failures
from oncebox.cli.output.times import duration, iso_time
from oncebox.components import Components
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import quarantine
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.ledger.notifications import DUE
from oncebox.model.webhooks.quarantine import QuarantineEntry

_COLUMNS = ("request", "class", "source", "reason", "age", "bytes")


@click.command(
    "list", epilog=examples("oncebox quarantine list --source stripe --json | jq .reason")
)
@click.option("--source", metavar="NAME", help="Filter by source.")
@page_options
@with_context
def list_(call: CommandContext, *, source: str | None, limit: int, before: str) -> None:
    """List rejected requests, newest first."""
    with call.reader() as reader:
        found = reader.read(
            quarantine.newest, reader.settings.tenant, source=source, before=before, most=limit
        )
        now = reader.clock()
    call.out.listing(found, _COLUMNS, lambda each: _rejected_row(call, each, now))


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
        request = reader.read(quarantine.get, tenant, id_)
    body = request.body.decode("utf-8", "backslashreplace")
    if call.out.as_json:
        call.out.record({
            "id": request.id, "source": request.source, "reason": request.reason,
            "sighting": request.duplicate_class, "received_at": request.received_at,
            "method": request.method, "url": request.url, "headers": request.headers, "body": body,
        })  # fmt: skip
        return
    call.out.outline([
        ("request", request.id),
        ("source", request.source),
        ("rejected", request.reason, request.duplicate_class),
        ("received", iso_time(request.received_at), request.method, request.url),
        *(("header", name, value) for name, value in request.headers),
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

    async def admit(components: Components, id_: str, entry: AuditEntry) -> None:
        rejected = await components.database.read(quarantine.get, entry.tenant, id_)
        verified = await components.recheck_rejected(
            quarantine.restore(rejected, components.master_key)
        )
        accepted = await components.database.write(quarantine.admit, id_, verified, entry)
        components.ledger.notify(DUE)
        for each in accepted:
            record = {"request": id_, "delivery": each.id, "arrival": each.arrival}
            call.out.result(record, id_, each.arrival, each.id, each.state)

    return _apply_to_all(call, wanted, admit, who=who, why=require_reason(why))


@click.command("forget")
@click.argument("wanted", metavar="ID…", nargs=-1, required=True)
@audit_options_with_reason
@with_context
def forget(call: CommandContext, *, wanted: tuple[str, ...], who: str, why: str | None) -> int:
    """Delete rejected requests."""

    async def discard(components: Components, id_: str, entry: AuditEntry) -> None:
        await components.database.write(quarantine.discard, id_, entry)

    return _apply_to_all(call, wanted, discard, who=who, why=require_reason(why))


def _apply_to_all(
    call: CommandContext,
    wanted: tuple[str, ...],
    change: Callable[[Components, str, AuditEntry], Awaitable[None]],
    *,
    who: str,
    why: str,
) -> int:
    """Change requests one by one; return the exit code."""

    async def work(components: Components) -> int:
        worst = failures.OK
        for typed in wanted:
            entry = audit_entry(components, None, who=who, why=why)
            try:
                id_ = await components.database.read(find_id, IdKind.REQUEST, entry.tenant, typed)
                await change(components, id_, entry)
            except OnceboxError as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.print_error(error, as_json=call.out.as_json))
        return worst

    return call.run(work)


def _rejected_row(call: CommandContext, each: QuarantineEntry, now: int) -> tuple[object, ...]:
    age = max(0, now - each.received_at)
    received = duration(age) if call.out.on_terminal else iso_time(each.received_at)
    return (each.id, each.duplicate_class, each.source, each.reason, received, each.size)
