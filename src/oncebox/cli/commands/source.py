"""`oncebox source` and `oncebox source secret`: webhook sources, their options and secrets."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import click

from oncebox.cli import options
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options,
    print_removed,
    require_source,
    source_entry,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output.printer import to_json
from oncebox.cli.output.times import iso_time, parse_duration
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.admin.source_service import SourceService
from oncebox.ledger.admin.sources import StoredSecret
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.model.webhooks import source as webhooks_source
from oncebox.model.webhooks.source import SourceEntry

F = TypeVar("F", bound=Callable[..., Any])


def _pairs_callback(
    name: str,
) -> Callable[[click.Context, click.Parameter, Any], dict[str, Any] | None]:
    def pairs(
        _ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
    ) -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for text in value:
            left, equals, right = text.partition("=")
            if not (left and equals):
                raise click.BadParameter(f"write {name}", param=param)
            found[left] = _parse_value(right) if param.name == "options" else right
        return found or None

    return pairs


def _parse_value(text: str) -> Any:
    """Read a scheme's option: numbers, true, false and lists as JSON, all else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _choice(*words: str) -> dict[str, Any]:
    return {"type": click.Choice(words)}


def _repeatable_pairs(metavar: str) -> dict[str, Any]:
    return {"multiple": True, "metavar": metavar, "callback": _pairs_callback(metavar)}


#: each field of the table, as it is typed
_FIELD_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--option", "options", _repeatable_pairs("NAME=VALUE"),
     "Option of the scheme, such as header=X-Sig."),
    ("--public-url", "public_url", {"metavar": "URL"}, "URL the provider calls."),
    ("--late", "late", _choice("hold", "run"), "Policy for authentic requests that are late."),
    ("--replay", "replay", _choice("hold", "run", "drop"), "Policy for a known body, new id."),
    ("--redelivery", "redelivery", _choice("rearm", "count"), "Policy for repeats after failure."),
    ("--order-by", "order_by", {"metavar": "PATH"}, "Run one at a time per value, in order."),
    ("--sequence", "sequence", {"metavar": "PATH"}, "Field with a rising number."),
    ("--stale", "stale", _choice("skip", "run"), "Policy for a number below the last."),
    ("--gap-wait", "gap_wait", {"type": parse_duration, "metavar": "TIME"},
     "How long to wait for a missing number."),
    ("--after", "after", _repeatable_pairs("TYPE=EARLIER"), "This type waits for the other."),
    ("--after-wait", "after_wait", {"type": parse_duration, "metavar": "TIME"},
     "How long it waits."),
    ("--tries", "tries", {"type": int, "metavar": "N"}, "Tries of one delivery."),
    ("--budget", "budget", {"type": parse_duration, "metavar": "TIME"}, "Time for all tries."),
    ("--first-wait", "first_wait", {"type": parse_duration, "metavar": "TIME"},
     "Longest wait before the second try."),
    ("--longest-wait", "longest_wait", {"type": parse_duration, "metavar": "TIME"},
     "Longest wait before any try."),
    ("--rate", "rate", {"type": int, "metavar": "N"}, "Maximum starts per second."),
    ("--concurrency", "concurrency", {"type": int, "metavar": "N"}, "Maximum handlers at a time."),
    ("--retention", "retention", {"type": int, "metavar": "DAYS"}, "Days to keep bodies."),
    ("--mode", "mode", _choice("handler", "pull"), "handler: run by a worker; pull: by the API."),
    ("--cidr", "cidrs", {"multiple": True, "metavar": "NET"}, "Allowed client network."),
    ("--expect", "expect", _repeatable_pairs("PATH=VALUE"), "Value a request must contain."),
    ("--allow-unsigned/--signed-only", "allow_unsigned", {"default": None}, "For scheme none."),
    ("--inbound/--no-inbound", "inbound", {"default": None},
     "Mail in its requests goes to inboxes.  [as the scheme says]"),
    ("--inbox", "inbox", {"metavar": "ID"}, "Inbox of all its mail.  [by recipient]"),
)  # fmt: skip


def _field_options(command: F) -> F:
    """Add an option for every field of a source's table except its scheme."""
    for flag, name, rest, meaning in reversed(_FIELD_OPTIONS):
        command = click.option(flag, name, help=meaning, **rest)(command)
    return command


def _source_record(
    entry: SourceEntry, secrets: Sequence[StoredSecret] | None = None
) -> dict[str, Any]:
    """Return a source for JSON; ``settings`` is the table as in ``oncebox.toml``."""
    source = entry.source
    found: dict[str, Any] = {
        "name": source.name,
        "tenant": source.tenant,
        "state": entry.state,
        "scheme": source.scheme,
        "public_id": source.public_id,
        "path": f"/in/{source.public_id}",
        "origin": entry.origin,
        "troubles": entry.troubles,
        "settings": webhooks_source.source_to_table(source),
    }
    if secrets is not None:
        found["secrets"] = [_secret_record(each) for each in secrets]
    return found


def _secret_record(secret: StoredSecret) -> dict[str, Any]:
    """Return a secret for JSON: its id and where it is stored, never its value."""
    return {
        "id": secret.id,
        "kept": secret.reference or "sealed",
        "created_at": secret.created_at or None,
        "retired_at": secret.retired_at,
    }


def _source_row(entry: SourceEntry) -> tuple[object, ...]:
    source = entry.source
    address = f"/in/{source.public_id}"
    return (source.name, entry.state, source.scheme, address, entry.origin, entry.note)


def _source_lines(
    entry: SourceEntry, secrets: Sequence[StoredSecret]
) -> Iterator[tuple[object, ...]]:
    source = entry.source
    yield ("source", source.name)
    yield ("tenant", source.tenant)
    yield ("state", entry.state)
    for trouble in entry.troubles:
        yield ("trouble", trouble.code, trouble.message, trouble.secret)
    yield ("address", f"/in/{source.public_id}")
    yield ("written in", entry.origin)
    for field, value in webhooks_source.source_to_table(source).items():
        yield (field, value if isinstance(value, str) else to_json(value))
    for secret in secrets:
        id_, stored, added, retired = _secret_row(secret)
        since = f"retired {retired}" if retired else added and f"added {added}"
        yield ("secret", id_, stored, since)


def _secret_row(secret: StoredSecret) -> tuple[str, str, str, str]:
    return (
        secret.id,
        secret.reference or "sealed",
        iso_time(secret.created_at) if secret.created_at else "",
        "" if secret.retired_at is None else iso_time(secret.retired_at),
    )


#: a change of one source: ``(service, tx, name, audit entry)``
SourceChange = Callable[[SourceService, Transaction, str, AuditEntry], object]


@click.command(
    "add",
    epilog=examples(
        "oncebox source add stripe --scheme stripe --secret env:STRIPE_SECRET",
        "oncebox source add github --scheme github --secret - < secret.txt",
        "oncebox source add shop --scheme generic-hmac --option header=X-Sig --secret -",
        "oncebox source add mail --scheme postmark-inbound --secret env:POSTMARK_LOGIN",
    ),
)
@click.argument("name")
@click.option("--scheme", required=True, metavar="NAME", help="Signature scheme.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="env:NAME|file:PATH|-",
    help="Secret: env:NAME or file:PATH; - prompts or reads standard input. Repeatable.",
)
@click.option("--public-id", metavar="TEXT", help="Listen at /in/TEXT.  [the name]")
@_field_options
@tenant_option
@audit_options
@with_context
def add(
    call: CommandContext,
    /,
    *,
    name: str,
    secrets: tuple[str, ...],
    public_id: str | None,
    **typed: Any,
) -> None:
    """Add a source; it listens at /in/NAME within seconds.

    For tenants other than `default` it listens at a random path, which is printed.
    Without a secret it is not ready, and requests get 503.
    """
    if secrets.count("-") > 1:
        raise click.UsageError(
            "standard input holds one secret; add others with: oncebox source secret add"
        )
    texts = [options.read_secret(each) for each in secrets]
    table, audited = _split_fields(typed)

    def change(service: SourceService, tx: Transaction, name: str, entry: AuditEntry) -> object:
        return service.add(
            tx, name, table, entry, public_id=public_id, texts=texts, references=True
        )

    _change_source(call, name, change, "added", create=True, **audited)
    options.explain_variables(secrets)


@click.command(
    "set",
    epilog=examples(
        "oncebox source set stripe --rate 20 --order-by '$.data.object.id'",
        "oncebox source set stripe --unset rate",
    ),
)
@click.argument("name")
@click.option("--scheme", metavar="NAME", help="Signature scheme.")
@_field_options
@click.option(
    "--unset", multiple=True, metavar="FIELD", help="Reset a field to its default. Repeatable."
)
@tenant_option
@audit_options
@with_context
def set_(call: CommandContext, /, *, name: str, unset: tuple[str, ...], **typed: Any) -> None:
    """Change fields of a source; the others stay as they are.

    A repeatable option replaces all its values.
    """
    changes, audited = _split_fields(typed)
    fields = tuple(each.replace("-", "_") for each in unset)
    if not (changes or fields):
        raise click.UsageError("say what to change, such as --rate 20")

    def change(service: SourceService, tx: Transaction, name: str, entry: AuditEntry) -> None:
        service.change(tx, name, changes, entry, unset=fields)

    changed = _change_source(call, name, change, "changed", **audited)
    options.explain_variables(each.reference or "" for each in changed.source.secrets)


@click.command("pause")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def pause(call: CommandContext, /, *, name: str, **audited: Any) -> None:
    """Stop accepting and processing a source; senders are asked to retry."""
    _change_source(call, name, SourceService.pause, "paused", **audited)


@click.command("resume")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def resume(call: CommandContext, /, *, name: str, **audited: Any) -> None:
    """Resume a paused source."""
    _change_source(call, name, SourceService.resume, "resumed", **audited)


@click.command("remove")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def remove(call: CommandContext, /, *, name: str, **audited: Any) -> None:
    """Delete a source and its secrets; its deliveries stay."""

    async def work(components: Components) -> None:
        entry = audit_entry(components, **audited)
        await components.database.write(components.source_service.remove, name, entry)

    call.run(work)
    print_removed(call, name)


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List sources, whether they accept requests, and if not, why.

    References to variables are resolved in the environment of this command.
    """
    with call.reader() as reader:
        found = reader.sources().all(tenant_of(reader, tenant))
    columns = ("source", "state", "scheme", "address", "written in", "note")
    call.out.listing(
        found, columns, _source_row, record=_source_record, name=lambda entry: entry.source.name
    )


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show a source without its secrets.

    References to variables are resolved in the environment of this command.
    """
    with call.reader() as reader:
        sources, owner = reader.sources(), tenant_of(reader, tenant)
    entry, secrets = require_source(sources.find(owner, name)), sources.secrets(owner, name)
    if call.out.as_json:
        call.out.record(_source_record(entry, secrets))
    else:
        call.out.outline(_source_lines(entry, secrets))


def _split_fields(typed: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a source that were given, and the options for the audit log."""
    audited = {name: typed[name] for name in ("tenant", "who", "why")}
    fields = {name: value for name, value in typed.items() if name not in audited}
    return {name: value for name, value in fields.items() if value not in (None, ())}, audited


def _change_source(
    call: CommandContext,
    name: str,
    change: SourceChange,
    done: str,
    *,
    create: bool = False,
    **audited: Any,
) -> SourceEntry:
    """Change a source in one commit, print it as it is then, and return it."""

    async def work(components: Components) -> SourceEntry:
        entry = audit_entry(components, **audited)
        await components.database.write(
            lambda tx: change(components.source_service, tx, name, entry)
        )
        return await source_entry(components, entry.tenant, name)

    found = call.run(work, create=create)
    record = {**_source_record(found), "action": done}
    address = f"/in/{found.source.public_id}"
    call.out.result(record, name, done, found.state, address, found.note, name=name)
    return found


@click.command(
    "add",
    epilog=examples(
        "oncebox source secret add stripe --secret env:STRIPE_SECRET_2",
        "oncebox source secret add stripe --secret - < secret.txt",
    ),
)
@click.argument("name", metavar="SOURCE")
@click.option("--secret", "typed", required=True, metavar="env:NAME|file:PATH|-",
              help="Secret: env:NAME or file:PATH; - prompts or reads standard input.")  # fmt: skip
@tenant_option
@audit_options
@with_context
def add_secret(call: CommandContext, /, *, name: str, typed: str, **audited: Any) -> None:
    """Add a secret; it is tried first, and the older ones stay valid."""
    text = options.read_secret(typed)

    async def work(components: Components) -> tuple[StoredSecret, SourceEntry]:
        entry = audit_entry(components, **audited)
        secret = await components.database.write(
            components.source_service.add_secret, name, text, entry, references=True
        )
        return secret, await source_entry(components, entry.tenant, name)

    secret, source = call.run(work)
    record = {**_secret_record(secret), "source": name, "state": source.state}
    call.out.result(record, secret.id, "added", source.state, source.note, name=secret.id)
    options.explain_variables([typed])


@click.command("list")
@click.argument("name", metavar="SOURCE")
@tenant_option
@with_context
def list_secrets(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """List the secrets of a source and where they are stored, never their values."""
    with call.reader() as reader:
        sources, owner = reader.sources(), tenant_of(reader, tenant)
    require_source(sources.find(owner, name))
    found = sources.secrets(owner, name)
    columns = ("secret", "kept", "added", "retired")
    call.out.listing(found, columns, _secret_row, record=_secret_record)


@click.command(
    "retire", epilog=examples("oncebox source secret retire stripe sec_… --in 24h --why rotated")
)
@click.argument("name", metavar="SOURCE")
@click.argument("wanted", metavar="ID")
@click.option(
    "--in", "later", type=parse_duration, metavar="TIME", help="Retire it after this time."
)
@tenant_option
@audit_options
@with_context
def retire_secret(
    call: CommandContext, /, *, name: str, wanted: str, later: float | None, **audited: Any
) -> None:
    """Stop accepting a secret and erase its value."""

    async def work(components: Components) -> SourceEntry:
        entry = audit_entry(components, **audited)
        at = entry.at + round((later or 0) * 1000)
        id_ = await components.database.read(find_id, IdKind.SECRET, entry.tenant, wanted)
        await components.database.write(
            components.source_service.retire_secret, name, id_, entry, at=at
        )
        return await source_entry(components, entry.tenant, name)

    source = call.run(work)
    record = {"id": wanted, "source": name, "state": source.state, "action": "retired"}
    call.out.result(record, wanted, "retired", source.state, source.note)
