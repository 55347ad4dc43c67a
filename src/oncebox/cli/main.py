"""`oncebox`: the table of all commands, lazy import of commands, exit codes."""

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from oncebox.cli.output import failures
from oncebox.errors import OnceboxError

if TYPE_CHECKING:  # only shell completion needs it
    from click.shell_completion import CompletionItem

_COMMANDS = "oncebox.cli.commands."


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: where it is defined, as ``module:attribute``, and its line of help."""

    target: str
    help: str


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group of commands."""

    help: str
    commands: Mapping[str, "CommandEntry | GroupEntry"]


def _command(target: str, help_: str) -> CommandEntry:
    return CommandEntry(_COMMANDS + target, help_)


_DELIVERY = GroupEntry("Received deliveries and their state.", {
    "accept": _command("delivery:accept", "Store a delivery, once."),
    "list": _command("delivery:list_", "List deliveries, newest first."),
    "inspect": _command("delivery:inspect", "Show everything known about a delivery."),
    "explain": _command("delivery:explain", "Explain the state of a delivery."),
    "replay": _command("delivery_repair:replay", "Run a done or dead delivery again."),
    "hold": _command("delivery_repair:hold", "Keep a waiting delivery from running."),
    "release": _command("delivery_repair:release", "Let a held delivery run."),
    "drop": _command("delivery_repair:drop", "End held deliveries without running them."),
    "tail": _command("delivery:tail", "Follow new deliveries and state changes."),
})  # fmt: skip
_DEAD = GroupEntry("Deliveries that failed for good.", {
    "list": _command("delivery_repair:list_dead", "List dead deliveries."),
    "replay": _command("delivery_repair:replay_dead", "Run some or all of them again."),
    "seen": _command("delivery_repair:mark_seen", "Acknowledge dead deliveries."),
})  # fmt: skip
_QUARANTINE = GroupEntry("Rejected webhook requests.", {
    "list": _command("quarantine:list_", "List rejected requests, newest first."),
    "show": _command("quarantine:show", "Show a request with its headers and body."),
    "retry": _command("quarantine:retry", "Verify requests again; accept those now valid."),
    "forget": _command("quarantine:forget", "Delete rejected requests."),
})  # fmt: skip
_EVENT = GroupEntry("The event log.", {
    "list": _command("event:list_", "List events, oldest first."),
    "follow": _command("event:follow", "Follow events as they happen."),
})  # fmt: skip
_SOURCE_SECRET = GroupEntry("Signing secrets of a source; several can be active at once.", {
    "add": _command("source:add_secret", "Add a secret beside the others."),
    "list": _command("source:list_secrets", "List the secrets of a source."),
    "retire": _command("source:retire_secret", "Stop accepting a secret."),
})  # fmt: skip
_SOURCE = GroupEntry("Manage webhook sources.", {
    "add": _command("source:add", "Add a source."),
    "list": _command("source:list_", "List sources and whether they accept requests."),
    "show": _command("source:show", "Show a source without its secrets."),
    "set": _command("source:set_", "Change fields of a source."),
    "pause": _command("source:pause", "Stop accepting and processing a source."),
    "resume": _command("source:resume", "Resume a paused source."),
    "remove": _command("source:remove", "Delete a source and its secrets."),
    "secret": _SOURCE_SECRET,
})  # fmt: skip
_KEY = GroupEntry("Manage API keys and the master key.", {
    "new": _command("admin:new_key", "Create an API key and print it once."),
    "list": _command("admin:list_keys", "List API keys without their texts."),
    "revoke": _command("admin:revoke_key", "Revoke an API key."),
    "rotate-master": _command("master_key:rotate_master", "Replace the master key."),
})  # fmt: skip
_TENANT = GroupEntry("Manage tenants.", {
    "new": _command("admin:new_tenant", "Create a tenant."),
    "list": _command("admin:list_tenants", "List all tenants."),
    "quota": _command("admin:set_quota", "Limit the mail that a tenant stores."),
})  # fmt: skip
_DOMAIN = GroupEntry("Manage domains that receive mail.", {
    "add": _command("admin:add_domain", "Accept mail for a domain."),
    "list": _command("admin:list_domains", "List the domains that receive mail."),
    "remove": _command("admin:remove_domain", "Stop accepting mail for a domain."),
})  # fmt: skip
_INBOX = GroupEntry("Inboxes of attempts.", {
    "new": _command("inbox:new", "Create an inbox and print its address."),
    "list": _command("inbox:list_", "List inboxes, newest first."),
    "show": _command("inbox:show", "Show an inbox and what it received."),
    "stats": _command("inbox:stats", "Show figures of a batch of attempts."),
    "close": _command("inbox:close", "Close an inbox."),
    "rotate": _command("inbox:rotate", "Create a new address for the same attempt."),
    "change-policy": _command("inbox:change_policy", "Change the policy of an inbox."),
    "wait": _command("inbox_wait:wait", "Wait for a code, link or message; claim it."),
})  # fmt: skip
_ACTION = GroupEntry("Actions of attempts, each run once.", {
    "list": _command("action:list_", "List actions whose outcome is unknown, or all."),
    "resolve": _command("action:resolve", "Record the outcome of an action."),
})  # fmt: skip
_MESSAGE = GroupEntry("Received messages.", {
    "list": _command("message:list_messages", "List the messages of one or all inboxes."),
    "show": _command("message:show_message", "Show a parsed message."),
    "raw": _command("message:raw_message", "Write a message exactly as it was received."),
    "attachment": _command("message:attachment", "Write an attachment to a file."),
})  # fmt: skip
_ARTIFACT = GroupEntry("Codes and links in received mail.", {
    "list": _command("message:list_artifacts", "List the codes and links of an inbox."),
    "show": _command("message:show_artifact", "Show a code or link without its value."),
    "claim": _command("message:claim_artifact", "Claim a code or link and print its value."),
    "release": _command("message:release_artifact", "Release a claim."),
})  # fmt: skip
_HOOK = GroupEntry("Verify and explain webhook signatures.", {
    "verify": _command("hook:verify", "Verify the signature of a webhook."),
    "schemes": _command("hook:list_schemes", "List the signature schemes."),
})  # fmt: skip
_MAIL = GroupEntry("Parse mail and extract codes and links.", {
    "parse": _command("mail:parse", "Show a parsed mail."),
    "extract": _command("mail:extract", "Extract the code and the link of a mail."),
    "try": _command("mail:try_", "Explain what is extracted from a mail, and why."),
    "authenticate": _command("mail_authenticate:authenticate", "Check SPF, DKIM and DMARC."),
})  # fmt: skip
_LINK = GroupEntry("Check links against an inbox policy.", {
    "check": _command("link:check", "Check whether a link may be handed out."),
})  # fmt: skip
_SEND = GroupEntry("Outgoing mail, each intent sent once.", {
    "mail": _command("send:mail", "Send one mail, once."),
    "list": _command("send:list_", "List sends, newest first."),
    "inspect": _command("send:inspect", "Show everything known about a send."),
    "explain": _command("send:explain", "Explain the state of a send."),
    "resolve": _command("send:resolve", "Record the outcome of a send."),
    "cancel": _command("send:cancel", "Cancel a send that has not started."),
    "resend": _command("send:resend", "Send again what was not sent."),
})  # fmt: skip
_MAILBOX = GroupEntry(
    "Read mailboxes on other servers.",
    {
        "add": _command("mailbox:add", "Add a mailbox."),
        "list": _command("mailbox:list_", "List mailboxes and their state."),
        "show": _command("mailbox:show", "Show a mailbox without its secrets."),
        "test": _command("mailbox:test", "Test a mailbox."),
        "change": _command("mailbox:change", "Replace the configuration of a mailbox."),
        "pause": _command("mailbox:pause", "Stop reading a mailbox."),
        "resume": _command("mailbox:resume", "Resume a mailbox."),
        "resync": _command("mailbox:resync", "Read a mailbox from its beginning."),
        "remove": _command("mailbox:remove", "Forget a mailbox."),
    },
)
_ENDPOINT = GroupEntry("Deliver events to URLs.", {
    "add": _command("endpoint:add", "Add an endpoint and print its secret."),
    "list": _command("endpoint:list_", "List endpoints and their state."),
    "show": _command("endpoint:show", "Show an endpoint and its last answers."),
    "test": _command("endpoint:test", "Send a signed test event."),
    "rotate": _command("endpoint:rotate", "Sign with a new secret."),
    "pause": _command("endpoint:pause", "Stop delivering to an endpoint."),
    "resume": _command("endpoint:resume", "Resume an endpoint."),
    "remove": _command("endpoint:remove", "Forget an endpoint."),
})  # fmt: skip
_TRANSPORT = GroupEntry("Manage transports for outgoing mail.", {
    "add": _command("transport:add", "Add a transport."),
    "list": _command("transport:list_", "List transports and their state."),
    "show": _command("transport:show", "Show a transport without its secrets."),
    "test": _command("transport:test", "Test a transport."),
    "change": _command("transport:change", "Change options of a transport."),
    "pause": _command("transport:pause", "Stop sending through a transport."),
    "resume": _command("transport:resume", "Resume a paused transport."),
    "remove": _command("transport:remove", "Remove a transport that no mail needs."),
})  # fmt: skip
_SUPPRESSION = GroupEntry("Addresses that get no mail.", {
    "add": _command("admin:add_suppression", "Send no more mail to an address."),
    "list": _command("admin:list_suppressions", "List suppressed addresses."),
    "remove": _command("admin:remove_suppression", "Send mail to an address again."),
})  # fmt: skip
_CONFIG = GroupEntry("Show the settings.", {
    "show": _command("config:show", "Show every setting and where it comes from."),
})  # fmt: skip

#: every command, by the section of the help it is listed in
SECTIONS: Mapping[str, Mapping[str, CommandEntry | GroupEntry]] = {
    "Run": {
        "serve": _command("serve:serve", "Serve HTTP and SMTP and run a program's handlers."),
        "worker": _command("serve:worker", "Run a program's handlers."),
        "mcp": _command("mcp:mcp", "Serve the tools of an agent over stdin and stdout."),
        "demo": CommandEntry("oncebox.cli.demo.command:demo", "Run failure scenarios."),
    },
    "Inspect": {
        "delivery": _DELIVERY,
        "event": _EVENT,
        "hook": _HOOK,
        "doctor": _command("doctor:doctor", "Check the installation and suggest fixes."),
        "config": _CONFIG,
    },
    "Repair": {
        "dead": _DEAD,
        "quarantine": _QUARANTINE,
        "action": _ACTION,
    },
    "Mail": {
        "inbox": _INBOX,
        "message": _MESSAGE,
        "artifact": _ARTIFACT,
        "send": _SEND,
        "mailbox": _MAILBOX,
        "transport": _TRANSPORT,
        "suppression": _SUPPRESSION,
        "domain": _DOMAIN,
        "mail": _MAIL,
        "link": _LINK,
    },
    "Administration": {
        "source": _SOURCE,
        "endpoint": _ENDPOINT,
        "key": _KEY,
        "tenant": _TENANT,
        "migrate": _command("database:migrate_database", "Migrate the database."),
        "backup": _command("database:backup", "Back up a running installation to one file."),
        "restore": _command("database:restore", "Restore a backup, with sending paused."),
        "completion": _command("completion:completion", "Print the completion of a shell."),
    },
}
_ROOT = GroupEntry(
    "Oncebox: deliveries arrive at least once, their effects happen once.",
    {name: entry for section in SECTIONS.values() for name, entry in section.items()},
)


def _groups(words: str, group: GroupEntry) -> Iterator[tuple[str, GroupEntry]]:
    yield words, group
    for name, entry in group.commands.items():
        if isinstance(entry, GroupEntry):
            yield from _groups(f"{words} {name}".strip(), entry)


#: names and lines of help, by the words before them
GROUPS = {
    words: {name: entry.help for name, entry in group.commands.items()}
    for words, group in _groups("", _ROOT)
}


#: words that other programs use for these commands
_OTHER_WORDS = {
    "help": ["oncebox --help"],
    "run": ["oncebox serve"],
    "start": ["oncebox serve"],
    "version": ["oncebox --version"],
}


class LazyGroup(click.Group):
    """A group that shows help and suggestions from its table and imports only what runs."""

    def __init__(self, *args: Any, entry: GroupEntry, **kwargs: Any) -> None:
        """Take the group's table."""
        super().__init__(*args, **kwargs)
        self._table = entry.commands

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._table)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or build a group from its table."""
        entry = self._table.get(cmd_name)
        if isinstance(entry, GroupEntry):
            return LazyGroup(cmd_name, entry=entry, help=entry.help)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; suggest others if there is none."""
        name = args[0]
        if name not in self._table and not name.startswith("-") and not ctx.resilient_parsing:
            self._refuse(ctx, name)
        return super().resolve_command(ctx, args)

    def _refuse(self, ctx: click.Context, name: str) -> NoReturn:
        above = "" if ctx.parent is None else f"{ctx.command_path.partition(' ')[2]} "
        others = [f"oncebox {words} {name}" for words, table in GROUPS.items() if name in table]
        if above:
            # A word that other groups have is meant as it is: ``resume`` is not ``remove``.
            commands = [] if others else self._similar(name, above)
        else:
            commands = _OTHER_WORDS.get(name) or self._similar(name, above) or others
        hint = f"; did you mean: {', '.join(commands)}" if commands else ""
        raise click.UsageError(f"there is no command {f'oncebox {above}{name}'!r}{hint}", ctx)

    def _similar(self, name: str, above: str) -> list[str]:
        found = difflib.get_close_matches(name, self._table, n=3, cutoff=0.65)
        return [f"oncebox {above}{each}" for each in found]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Complete from the table, without importing the commands."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - as above

        commands = [
            CompletionItem(name, help=entry.help)
            for name, entry in self._table.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands; those of the program in sections."""
        sections = SECTIONS if self._table is _ROOT.commands else {"Commands": self._table}
        width = max(map(len, self._table))
        for title, commands in sections.items():
            with formatter.section(title):
                rows = [(name.ljust(width), entry.help) for name, entry in commands.items()]
                formatter.write_dl(rows)


@click.group(
    cls=LazyGroup, entry=_ROOT, context_settings={"max_content_width": 100}, help=_ROOT.help
)
@click.version_option(package_name="oncebox", prog_name="oncebox", message="%(prog)s %(version)s")
@click.option("--database", metavar="URL", help="Database URL (ONCEBOX_DATABASE_URL).")
@click.option("--data-dir", metavar="DIR", help="Data folder (ONCEBOX_DATA_DIR).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def root(**_options: object) -> None:
    """Run a command; the shared options may stand before or after it."""


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    as_json = "--json" in arguments
    try:
        code = root.main(list(arguments), prog_name="oncebox", standalone_mode=False)
    except OnceboxError as error:
        return failures.print_error(error, as_json=as_json)
    except PermissionError as error:
        return failures.print_permission_error(error, as_json=as_json)
    except click.ClickException as error:
        return failures.print_usage_error(error, as_json=as_json)
    except click.Abort:
        return failures.INTERRUPTED
    return code if isinstance(code, int) else failures.OK


def main() -> None:
    """Run the command that was typed."""
    for stream in (sys.stdout, sys.stderr):
        # A character the terminal cannot show is spelled out, never a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))
