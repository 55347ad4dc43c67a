"""`oncebox mailbox add|change|list|show|test|pause|resume|resync|remove`: mail elsewhere."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

import click
import msgspec

from oncebox.cli.configuration_options import (
    FILE_TYPE,
    SECRET_METAVAR,
    check_one_input,
    fetch_secret,
    read_json_table,
    read_pem,
)
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    AuditOptions,
    audit_entry,
    audit_options,
    print_removed,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output import failures
from oncebox.cli.output.times import ago, duration, iso_time, parse_duration
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.notifications import MAILBOXES
from oncebox.mailboxes import mailbox_config as configs
from oncebox.mailboxes.failures import REMEDIES
from oncebox.mailboxes.reader import MailboxFailure, MailboxProbe
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, MailboxOrigin
from oncebox.model.mailboxes.mailbox_fields import (
    SECRET_FIELDS,
    LocalMailboxFields,
    MailboxDraft,
    fields_from_table,
)
from oncebox.schemas.mailboxes import mailbox_schema

F = TypeVar("F", bound=Callable[..., Any])

_KINDS = [str(each) for each in MailboxKind if each is not MailboxKind.PROGRAM]
#: those that need a URL; without a kind it is imap
_KINDS_WITH_URL = (None, "imap", "jmap")

#: flag, click parameters, help
_OPTIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("--kind", {"type": click.Choice(_KINDS)}, "Kind of mailbox.  [imap]"),
    ("--username", {"metavar": "TEXT"}, "User name, if the URL has none."),
    ("--password", {"metavar": SECRET_METAVAR}, "Password reference; - prompts."),
    ("--api-key", {"metavar": SECRET_METAVAR}, "jmap, rest: API key reference."),
    ("--token-command", {"metavar": "COMMAND"}, "Program that prints an access token."),
    ("--token-url", {"metavar": "URL"}, "OAuth token endpoint."),
    ("--client-id", {"metavar": "TEXT"}, "OAuth client id."),
    ("--client-secret", {"metavar": SECRET_METAVAR}, "OAuth client secret reference."),
    ("--refresh-token", {"metavar": SECRET_METAVAR}, "OAuth refresh token reference."),
    ("--scope", {"metavar": "TEXT"}, "OAuth scope."),
    ("--folder", {"metavar": "NAME", "multiple": True},
     "Folder to read; imap: repeatable; gmail: label.  [inbox]"),
    ("--api", {"metavar": "NAME"}, "rest: name of the API, such as agentmail."),
    ("--api-inbox", {"metavar": "ID"}, "rest: id of the inbox at the API."),
    ("--table", {"type": FILE_TYPE, "metavar": "FILE"},
     "rest: JSON file with the table of generic-rest."),
    ("--since", {"metavar": "now|all|DAYS"}, "Where the first read begins.  [now]"),
    ("--ca", {"type": FILE_TYPE, "metavar": "FILE"}, "File with further CA certificates."),
    ("--inbox", {"metavar": "ID"}, "Inbox of all its mail.  [by recipient]"),
    ("--address", {"metavar": "ADDRESS"}, "Mail address of the mailbox."),
    ("--trust-results", {"metavar": "SERVER"},
     "Trust the Authentication-Results of this server (authserv-id)."),
    ("--poll-every", {"type": parse_duration, "metavar": "TIME"},
     "Interval of polls, where the server does not push.  [60s]"),
    ("--push", {"metavar": "SOURCE"}, "Webhook source that brings its mail first."),
    ("--poll-after", {"type": parse_duration, "metavar": "TIME"},
     "Silence of that source after which the mailbox is polled.  [30s]"),
)  # fmt: skip


def mailbox_options(command: F) -> F:
    """Add the options of a mailbox."""
    for flag, parameters, meaning in reversed(_OPTIONS):
        command = click.option(flag, help=meaning, **parameters)(command)
    return command


def _draft(name: str, url: str | None, typed: Mapping[str, Any]) -> MailboxDraft:
    """Return the mailbox of the options; secrets and files are read now.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    check_one_input(typed[each] for each in SECRET_FIELDS)
    given = {each: value for each, value in typed.items() if value not in (None, ())}
    given |= {each: fetch_secret(given[each]) for each in SECRET_FIELDS if each in given}
    for each, read in (("ca", read_pem), ("table", read_json_table)):
        if each in given:
            given[each] = read(given[each])
    if "folder" in given:
        given["folders"] = list(given.pop("folder"))
    fields = fields_from_table(name, given | {"url": url or ""}, LocalMailboxFields)
    return configs.draft_mailbox(name, fields)


# commands


@click.command(
    "add",
    epilog=examples(
        "oncebox mailbox add support imaps://ann%40example.com@imap.example.com \\",
        "    --password env:IMAP_PASSWORD --inbox inb_…",
        "oncebox mailbox add work --kind gmail --token-command 'gcloud auth print-access-token'",
        "oncebox mailbox add tests --kind rest --api mailpit http://127.0.0.1:8025 --inbox inb_…",
    ),
)
@click.argument("name")
@click.argument("url", required=False)
@mailbox_options
@tenant_option
@audit_options
@with_context
def add(
    call: CommandContext,
    /,
    *,
    name: str,
    url: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Read the mail of a mailbox on another server into an inbox.

    Only mail that arrives from now on is read; --since says otherwise. Nothing is deleted or
    marked as read there. Mail goes to --inbox, or to the inboxes of its recipients.

    Passwords and keys are read now and stored encrypted.
    """
    draft = _draft(name, url, typed)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> Mailbox:
        return components.mailbox_service.add(tx, draft, entry)

    _change_mailbox(call, write, "added", {"tenant": tenant, "who": who, "why": why}, create=True)


@click.command(
    "change",
    epilog=examples(
        "oncebox mailbox change support imaps://ann@imap.example.com:9993 \\",
        "    --password file:password --ca ca.pem --inbox inb_…",
    ),
)
@click.argument("name")
@click.argument("url", required=False)
@mailbox_options
@tenant_option
@audit_options
@with_context
def change(
    call: CommandContext,
    /,
    *,
    name: str,
    url: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Replace the whole configuration of a mailbox; its cursor stays.

    What is not given gets its default: give the URL, the password and all other options again.
    """
    if url is None and typed["kind"] in _KINDS_WITH_URL:
        raise click.UsageError(
            "change replaces the whole configuration: give the URL, the password and all other "
            "options again"
        )
    draft = _draft(name, url, typed)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> Mailbox:
        return components.mailbox_service.change(tx, draft, entry)

    _change_mailbox(call, write, "changed", {"tenant": tenant, "who": who, "why": why})


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List mailboxes, their state, and when they were last read."""
    with call.reader() as reader:
        found, now = reader.read(mailboxes.of_tenant, tenant_of(reader, tenant)), reader.clock()
        written = reader.settings.mailboxes.keys()
    if call.out.as_json:
        for each in found:
            call.out.record(_record(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        columns = ("mailbox", "state", "kind", "account", "messages", "last read", "note")
        call.out.table(columns, [_row(each, now, written) for each in found])


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show a mailbox without its secrets: state, cursor version and figures."""
    with call.reader() as reader:
        found = reader.read(mailboxes.get, tenant_of(reader, tenant), name)
        now, written = reader.clock(), reader.settings.mailboxes.keys()
    if call.out.as_json:
        call.out.record(_record(found, now))
    else:
        call.out.outline(list(_lines(found, now, written)))


@click.command("test")
@click.argument("name")
@tenant_option
@with_context
def test(call: CommandContext, *, name: str, tenant: str | None) -> int:
    """Connect and log in; read no mail. The exit code is 1 if that fails."""

    async def work(components: Components) -> MailboxProbe | MailboxFailure:
        database, service = components.database, components.mailbox_service
        found = await database.read(mailboxes.get, tenant_of(components, tenant), name)

        async def keep(config: bytes) -> None:
            await database.write(service.keep_token, found, config, database.clock())

        try:
            return await configs.probe_mailbox(service.decrypt(found), keep)
        except MailboxFailure as failure:
            return failure

    return _print_probe(call, name, call.run(work))


def _print_probe(call: CommandContext, name: str, probed: MailboxProbe | MailboxFailure) -> int:
    if isinstance(probed, MailboxFailure):
        remedy = REMEDIES.get(probed.code, "").replace("`", "")
        record = {"name": name, "works": False, "code": probed.code, "remedy": remedy}
        call.out.result(record, name, "does not work", probed.code, remedy)
        return failures.ERROR
    count = len(probed.folders)
    folders = f"{count} folder{'' if count == 1 else 's'}" if count else "logged in"
    record = {"name": name, "works": True, **msgspec.to_builtins(probed)}
    call.out.result(record, name, "works", folders)
    return failures.OK


def _operation(name: str, done: str, verb: Any, meaning: str) -> click.Command:
    @click.argument("name")
    @tenant_option
    @audit_options
    @with_context
    def command(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
        def write(_components: Components, tx: Transaction, entry: AuditEntry) -> Mailbox:
            changed: Mailbox = verb(tx, name, entry)
            return changed

        _change_mailbox(call, write, done, {"tenant": tenant, "who": who, "why": why})

    return click.command(name, help=meaning)(command)


pause = _operation("pause", "paused", mailboxes.pause, "Stop reading a mailbox.")
resume = _operation(
    "resume", "resumed", mailboxes.resume, "Read a mailbox at once, after a pause or a failure."
)
resync = _operation(
    "resync",
    "resynchronised",
    mailboxes.resync,
    "Read a mailbox from its beginning; mail that was read before is recognised.",
)


@click.command("remove")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def remove(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Stop reading a mailbox and forget it; its messages stay."""

    async def work(components: Components) -> None:
        entry = audit_entry(components, tenant, who=who, why=why)
        await components.database.write(components.mailbox_service.remove, name, entry)

    call.run(work)
    print_removed(call, name)


_Change = Callable[[Components, Transaction, AuditEntry], Mailbox]


def _change_mailbox(
    call: CommandContext, write: _Change, done: str, audited: AuditOptions, *, create: bool = False
) -> None:
    async def work(components: Components) -> tuple[Mailbox, int]:
        tenant, who, why = audited["tenant"], audited["who"], audited["why"]
        entry = audit_entry(components, tenant, who=who, why=why)
        found = await components.database.write(lambda tx: write(components, tx, entry))
        components.database.notify(MAILBOXES)
        return found, entry.at

    found, now = call.run(work, create=create)
    if call.out.as_json:
        call.out.record({**_record(found, now), "action": done})
    elif call.out.quiet:
        call.out.line(found.name)
    else:
        call.out.line(found.name, done, found.kind, found.account)


# output


def _record(found: Mailbox, now: int) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(mailbox_schema(found, now))
    return {"tenant": found.tenant, **shown}


def _row(found: Mailbox, now: int, written: Collection[str]) -> tuple[object, ...]:
    read = ago(found.succeeded_at, now) if found.succeeded_at else "never"
    return (found.name, found.state(now), found.kind, found.account, found.figures.messages, read,
            _note(found, now, written))  # fmt: skip


def _note(found: Mailbox, now: int, written: Collection[str]) -> str:
    if found.origin is MailboxOrigin.FILE and found.name not in written:
        return f"not in the settings, so not read; forget it: oncebox mailbox remove {found.name}"
    if found.paused is not None and found.paused != "operator":
        return f"{found.paused}; fix it, then run: oncebox mailbox resume {found.name}"
    if found.failures and found.due_at is not None:
        return f"{found.failure}; next try {ago(found.due_at, now)}"
    if found.remaining:
        return f"{found.remaining} mails to read"
    return ""


def _lines(found: Mailbox, now: int, written: Collection[str]) -> Iterator[tuple[str, object]]:
    yield ("mailbox", found.name)
    yield ("tenant", found.tenant)
    yield ("kind", found.kind)
    yield ("account", found.account)
    yield ("state", found.state(now))
    yield ("origin", found.origin)
    if note := _note(found, now, written):
        yield ("note", note)
    if found.kind is not MailboxKind.PROGRAM:
        yield ("inbox", found.inbox_id or "by recipient")
    if found.push_source:
        yield ("push", f"{found.push_source}, polled after {duration(found.poll_after)} of silence")
    yield ("read", f"{iso_time(found.succeeded_at)} ({ago(found.succeeded_at, now)})"
           if found.succeeded_at else "never")  # fmt: skip
    yield ("cursor version", found.cursor_version)
    if found.first_message_at is not None:
        yield ("time to first message", duration(found.first_message_at - found.created_at))
    for name, count in msgspec.structs.asdict(found.figures).items():
        yield (name.replace("_", " "), count)
