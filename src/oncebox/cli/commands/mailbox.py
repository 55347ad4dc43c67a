"""`oncebox mailbox add|change|list|show|test|pause|resume|resync|remove`: mail elsewhere."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from oncebox.cli import options
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
from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid
from oncebox.ledger.admin import sources
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import MailboxCipher
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.notifications import MAILBOXES
from oncebox.mailboxes import mailbox_config as configs
from oncebox.mailboxes.access_tokens import TokenCommand, TokenSource, TokenUrl
from oncebox.mailboxes.http_readers import http_config
from oncebox.mailboxes.imap_config import imap_config
from oncebox.mailboxes.mailbox_config import MailboxConfig
from oncebox.mailboxes.reader import MailboxFailure, MailboxProbe
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, NewMailbox

F = TypeVar("F", bound=Callable[..., Any])

_SECRET_METAVAR = "env:NAME|file:PATH|-"  # noqa: S105 - a placeholder in the help
_FILE_TYPE = click.Path(exists=True, dir_okay=False, path_type=Path)
_MAX_NAME_LENGTH = 100
_KINDS = [str(each) for each in MailboxKind if each is not MailboxKind.PROGRAM]
_SECRETS = ("password", "api_key", "client_secret", "refresh_token")
_MILLISECONDS = 1000

#: flag, click parameters, help
_OPTIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("--kind", {"type": click.Choice(_KINDS)}, "Kind of mailbox.  [imap]"),
    ("--username", {"metavar": "TEXT"}, "User name, if the URL has none."),
    ("--password", {"metavar": _SECRET_METAVAR}, "Password reference; - prompts."),
    ("--api-key", {"metavar": _SECRET_METAVAR}, "jmap, rest: API key reference."),
    ("--token-command", {"metavar": "COMMAND"}, "Program that prints an access token."),
    ("--token-url", {"metavar": "URL"}, "OAuth token endpoint."),
    ("--client-id", {"metavar": "TEXT"}, "OAuth client id."),
    ("--client-secret", {"metavar": _SECRET_METAVAR}, "OAuth client secret reference."),
    ("--refresh-token", {"metavar": _SECRET_METAVAR}, "OAuth refresh token reference."),
    ("--scope", {"metavar": "TEXT"}, "OAuth scope."),
    ("--folder", {"metavar": "NAME", "multiple": True},
     "Folder to read; imap: repeatable; gmail: label.  [inbox]"),
    ("--api", {"metavar": "NAME"}, "rest: name of the API, such as agentmail."),
    ("--api-inbox", {"metavar": "ID"}, "rest: id of the inbox at the API."),
    ("--since", {"metavar": "now|all|DAYS"}, "Where the first read begins.  [now]"),
    ("--ca", {"type": _FILE_TYPE, "metavar": "FILE"}, "File with further CA certificates."),
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


# configuration


def _config(url: str | None, typed: Mapping[str, Any]) -> MailboxConfig:
    """Return the configuration of the options; secrets are read now.

    Raises: ConfigInvalid.
    """
    if sum(typed[name] == "-" for name in _SECRETS) > 1:
        raise click.UsageError("standard input holds only one secret; give the others by file:")
    given = {name: value for name, value in typed.items() if value not in (None, ())}
    given |= {name: _fetch_secret(given[name]) for name in _SECRETS if name in given}
    kind = given.get("kind", "imap")
    token = _token_source(given)
    ca = _read_pem(given["ca"]) if "ca" in given else ""
    shared = {"since": _since(given.get("since", "now")), "ca": ca}
    if kind == "imap":
        fields = {
            "username": given.get("username"),
            "password": given.get("password"),
            "token": None if token is None else msgspec.to_builtins(token),
            "folders": list(given["folder"]) if "folder" in given else None,
        }
        return MailboxConfig(reader=imap_config(url or "", **fields, **shared))
    return MailboxConfig(reader=http_config(type=kind, **_http_fields(kind, url, given), **shared),
                         token=token)  # fmt: skip


def _http_fields(kind: str, url: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "jmap": {"username": "username", "password": "password", "api_key": "api_token"},
        "gmail": {"username": "user"},
        "graph": {"username": "user"},
        "rest": {"api": "api", "api_inbox": "inbox", "api_key": "key", "username": "username"},
    }[kind]
    folder = {"jmap": "folder", "gmail": "label", "graph": "folder"}.get(kind)
    fields = {field: given[name] for name, field in names.items() if name in given}
    if url:
        fields["url"] = url
    if folder and "folder" in given:
        fields[folder] = given["folder"][0]
    return fields


def _token_source(given: Mapping[str, Any]) -> TokenSource | None:
    if "token_command" in given:
        return TokenCommand(words=tuple(shlex.split(given["token_command"])))
    if "token_url" not in given:
        return None
    if "client_id" not in given or "refresh_token" not in given:
        raise click.UsageError("a token endpoint needs --client-id and --refresh-token")
    names = ("client_id", "client_secret", "refresh_token", "scope")
    return TokenUrl(
        url=given["token_url"], **{name: given[name] for name in names if name in given}
    )


def _since(typed: str) -> str | int:
    if typed in {"now", "all"}:
        return typed
    if not typed.isdecimal():
        raise click.BadParameter("write now, all or a number of days", param_hint="--since")
    return int(typed)


def _fetch_secret(typed: str) -> str:
    text = options.read_secret(typed)
    sources.check_secret(text)
    return sources.resolve_reference(text, os.environ) if sources.is_reference(text) else text


def _read_pem(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeError) as error:
        raise ConfigInvalid(
            f"the certificates in {path} cannot be read; give them in PEM format"
        ) from error


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= _MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise ConfigInvalid(
            f"the name of a mailbox has 1 to {_MAX_NAME_LENGTH} printable characters, and no "
            "blank at its ends"
        )


def _new_mailbox(
    components: Components, tenant: str, name: str, config: MailboxConfig, typed: Mapping[str, Any]
) -> NewMailbox:
    cipher = components.mailbox_cipher
    times = {
        field: round(typed[field] * _MILLISECONDS)
        for field in ("poll_every", "poll_after")
        if typed[field] is not None
    }
    return NewMailbox(
        name=name,
        kind=MailboxKind(config.kind),
        account=config.account,
        config=cipher.encrypt(tenant, name, configs.encode_config(config)),
        address=typed["address"] or "",
        authserv=(typed["trust_results"] or "").lower(),
        inbox_id=typed["inbox"],
        push_source=typed["push"],
        **times,
    )


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
    _check_name(name)
    config = _config(url, typed)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> Mailbox:
        _require_inbox(tx, entry.tenant, typed["inbox"])
        new = _new_mailbox(components, entry.tenant, name, config, typed)
        return mailboxes.add(tx, ids.new("mbx"), new, entry)

    _change_mailbox(call, write, "added", {"tenant": tenant, "who": who, "why": why}, create=True)


@click.command("change")
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
    """Replace the whole configuration of a mailbox; its cursor stays."""
    config = _config(url, typed)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> Mailbox:
        _require_inbox(tx, entry.tenant, typed["inbox"])
        known = mailboxes.get(tx, entry.tenant, name)
        new = _new_mailbox(components, entry.tenant, name, config, typed)
        return mailboxes.change(tx, new, entry, seen=known.changed_at)

    _change_mailbox(call, write, "changed", {"tenant": tenant, "who": who, "why": why})


def _require_inbox(tx: Transaction, tenant: str, inbox_id: str | None) -> None:
    if inbox_id is not None:
        inboxes.get(tx, Requester(tenant=tenant), inbox_id)


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List mailboxes, their state, and when they were last read."""
    with call.reader() as reader:
        found, now = reader.read(mailboxes.of_tenant, tenant_of(reader, tenant)), reader.clock()
    if call.out.as_json:
        for each in found:
            call.out.record(_record(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        columns = ("mailbox", "state", "kind", "account", "messages", "last read", "note")
        call.out.table(columns, [_row(each, now) for each in found])


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show a mailbox without its secrets: state, cursor version and figures."""
    with call.reader() as reader:
        found = reader.read(mailboxes.get, tenant_of(reader, tenant), name)
        now = reader.clock()
    if call.out.as_json:
        call.out.record(_record(found, now))
    else:
        call.out.outline(list(_lines(found, now)))


@click.command("test")
@click.argument("name")
@tenant_option
@with_context
def test(call: CommandContext, *, name: str, tenant: str | None) -> int:
    """Connect and log in; read no mail. The exit code is 1 if that fails."""

    async def work(components: Components) -> MailboxProbe | MailboxFailure:
        found = await components.database.read(mailboxes.get, tenant_of(components, tenant), name)
        if found.kind is MailboxKind.PROGRAM:
            raise ConfigInvalid(
                "a program polls this mailbox, and the service cannot; see: oncebox mailbox show"
            )
        reader = configs.open_reader(_decrypt(components.mailbox_cipher, found))
        try:
            return await reader.probe()
        except MailboxFailure as failure:
            return failure
        finally:
            await reader.close()

    return _print_probe(call, name, call.run(work))


def _print_probe(call: CommandContext, name: str, probed: MailboxProbe | MailboxFailure) -> int:
    if isinstance(probed, MailboxFailure):
        record = {"name": name, "works": False, "code": probed.code}
        call.out.result(record, name, "does not work", probed.code)
        return failures.ERROR
    folders = f"{len(probed.folders)} folders" if probed.folders else "logged in"
    record = {"name": name, "works": True, **msgspec.to_builtins(probed)}
    call.out.result(record, name, "works", folders, " ".join(probed.capabilities))
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
        await components.database.write(mailboxes.remove, name, entry)

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


def _decrypt(cipher: MailboxCipher, found: Mailbox) -> MailboxConfig:
    return configs.decode_config(cipher.decrypt(found.tenant, found.name, found.config))


# output


def _record(found: Mailbox, now: int) -> dict[str, Any]:
    names = ("name", "tenant", "id", "account", "address", "inbox_id", "push_source", "paused",
             "failures", "failure", "failed_at", "polled_at", "succeeded_at", "remaining",
             "cursor_version", "first_message_at", "created_at", "changed_at")  # fmt: skip
    return {name: getattr(found, name) for name in names} | {
        "kind": str(found.kind),
        "state": found.state(now),
        "figures": msgspec.to_builtins(found.figures),
    }


def _row(found: Mailbox, now: int) -> tuple[object, ...]:
    read = ago(found.succeeded_at, now) if found.succeeded_at else "never"
    return (found.name, found.state(now), found.kind, found.account, found.figures.messages, read,
            _note(found, now))  # fmt: skip


def _note(found: Mailbox, now: int) -> str:
    if found.paused is not None and found.paused != "operator":
        return f"{found.paused}; fix it, then run: oncebox mailbox resume {found.name}"
    if found.failures and found.due_at is not None:
        return f"{found.failure}; next try {ago(found.due_at, now)}"
    if found.remaining:
        return f"{found.remaining} mails to read"
    return ""


def _lines(found: Mailbox, now: int) -> Iterator[tuple[str, object]]:
    yield ("mailbox", found.name)
    yield ("tenant", found.tenant)
    yield ("kind", found.kind)
    yield ("account", found.account)
    yield ("state", found.state(now))
    if note := _note(found, now):
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
