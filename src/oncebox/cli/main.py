"""``oncebox``: finds the command, runs it, and turns failures into exit codes."""

import sys
from collections.abc import Sequence

import click

from oncebox.cli import failures
from oncebox.cli.lazy import LazyGroup
from oncebox.errors import OnceboxError

_DELIVERY = {
    "accept": ("oncebox.cli.accept:accept", "Store a delivery, once."),
    "list": ("oncebox.cli.listing:list_", "Show deliveries, newest first."),
    "inspect": ("oncebox.cli.inspect:inspect", "Show all that is known of a delivery."),
    "replay": ("oncebox.cli.deeds:replay", "Run a done or dead delivery again."),
    "hold": ("oncebox.cli.deeds:hold", "Keep a waiting delivery from running."),
    "release": ("oncebox.cli.deeds:release", "Let a held delivery run."),
    "tail": ("oncebox.cli.tail:tail", "Follow new deliveries and changes of state."),
}
_DEAD = {
    "list": ("oncebox.cli.dead:list_", "Show deliveries that were given up."),
    "replay": ("oncebox.cli.dead:replay", "Run some or all of them again."),
    "seen": ("oncebox.cli.dead:seen", "Say that you have seen them."),
}
_QUARANTINE = {
    "list": ("oncebox.cli.quarantine:list_", "Show rejected requests, newest first."),
    "show": ("oncebox.cli.quarantine:show", "Show one with its headers and body."),
    "retry": ("oncebox.cli.quarantine:retry", "Check one again, and take it in if it is good."),
    "forget": ("oncebox.cli.quarantine:forget", "Throw some away."),
}
_EVENT = {
    "list": ("oncebox.cli.event:list_", "Show events, oldest first."),
    "follow": ("oncebox.cli.event:follow", "Follow events as they happen."),
}
_SOURCE = {
    "add": ("oncebox.cli.source:add", "Add a source."),
    "list": ("oncebox.cli.source:list_", "Show sources, and whether they take requests."),
    "show": ("oncebox.cli.source:show", "Show all about a source except its secrets."),
    "set": ("oncebox.cli.source:set_", "Change fields of a source."),
    "pause": ("oncebox.cli.source:pause", "Stop taking in and working on a source."),
    "resume": ("oncebox.cli.source:resume", "Go on with a source."),
    "remove": ("oncebox.cli.source:remove", "Forget a source and its secrets."),
    "secret": ("oncebox.cli.main:secret", "The secrets of a source."),
}
_SECRET = {
    "add": ("oncebox.cli.source_secret:add", "Add a secret beside the others."),
    "list": ("oncebox.cli.source_secret:list_", "Show which secrets there are."),
    "retire": ("oncebox.cli.source_secret:retire", "Let a secret count no longer."),
}
_KEY = {
    "new": ("oncebox.cli.key:new", "Make a key and print it, this once."),
    "list": ("oncebox.cli.key:list_", "Show keys, never their texts."),
    "revoke": ("oncebox.cli.key:revoke", "End a key for good."),
}
_TENANT = {
    "new": ("oncebox.cli.tenant:new", "Make a tenant."),
    "list": ("oncebox.cli.tenant:list_", "Show all tenants."),
}
_DOMAIN = {
    "add": ("oncebox.cli.domain:add", "Take mail for a domain."),
    "list": ("oncebox.cli.domain:list_", "Show the domains that mail is taken for."),
    "remove": ("oncebox.cli.domain:remove", "Take no more mail for a domain."),
}
_INBOX = {
    "new": ("oncebox.cli.inbox:new", "Make an inbox and print its address."),
    "list": ("oncebox.cli.inbox:list_", "Show inboxes, newest first."),
    "show": ("oncebox.cli.inbox:show", "Show all about an inbox, and what came of it."),
    "close": ("oncebox.cli.inbox:close", "Close an inbox for good."),
    "rotate": ("oncebox.cli.inbox:rotate", "Make a new address for the same attempt."),
    "wait": ("oncebox.cli.inbox_wait:wait", "Wait for a code or a link, and claim it."),
}
_ACTION = {
    "list": ("oncebox.cli.action:list_", "Show actions in doubt, or all."),
    "resolve": ("oncebox.cli.action:resolve", "Say what became of an action in doubt."),
}
_MESSAGE = {
    "list": ("oncebox.cli.message:list_", "Show the messages of an inbox."),
    "show": ("oncebox.cli.message:show", "Show all that was read of a message."),
    "raw": ("oncebox.cli.message:raw", "Write a message exactly as it was received."),
}
_ARTIFACT = {
    "list": ("oncebox.cli.artifact:list_", "Show the codes and links of an inbox."),
    "show": ("oncebox.cli.artifact:show", "Show all about one but what it says."),
    "claim": ("oncebox.cli.artifact:claim", "Claim one and print what it says."),
    "release": ("oncebox.cli.artifact:release", "Take one back from who has claimed it."),
}
_HOOK = {
    "verify": ("oncebox.cli.hook:verify", "Say whether a webhook's signature holds."),
    "schemes": ("oncebox.cli.hook:list_", "List the ways that providers sign."),
}
_MAIL = {
    "parse": ("oncebox.cli.mail:parse", "Show what is read from a mail."),
    "extract": ("oncebox.cli.mail_extract:extract", "Find the code and the link of a mail."),
    "try": ("oncebox.cli.mail_extract:try_", "Explain what is found in one mail, and why."),
    "authenticate": ("oncebox.cli.mail_sender:authenticate", "Say who sent a mail."),
}
_LINK = {
    "check": ("oncebox.cli.link:check", "Say whether a link may be handed out."),
}
_SEND = {
    "mail": ("oncebox.cli.send_mail:mail", "Send one mail, once."),
    "list": ("oncebox.cli.send:list_", "Show sends, newest first."),
    "inspect": ("oncebox.cli.send:inspect", "Show all that is known of a send."),
    "explain": ("oncebox.cli.send:explain", "Say why a send stands where it stands."),
    "resolve": ("oncebox.cli.send_deeds:resolve", "Say what became of a send in doubt."),
    "cancel": ("oncebox.cli.send_deeds:cancel", "Call a send off in time."),
    "resend": ("oncebox.cli.send_deeds:resend", "Try again what was not sent."),
}
_TRANSPORT = {
    "add": ("oncebox.cli.transport:add", "Add a way by which mail leaves."),
    "list": ("oncebox.cli.transport:list_", "Show transports, and whether they work."),
    "show": ("oncebox.cli.transport:show", "Show all about one except its secrets."),
    "test": ("oncebox.cli.transport_test:test", "See whether mail would leave this way."),
    "change": ("oncebox.cli.transport:change", "Change what is typed, keep the rest."),
    "pause": ("oncebox.cli.transport:pause", "Let nothing more leave this way."),
    "resume": ("oncebox.cli.transport:resume", "Let mail leave again."),
}
_SUPPRESSION = {
    "add": ("oncebox.cli.suppression:add", "Let an address get no more mail."),
    "list": ("oncebox.cli.suppression:list_", "Show addresses that get no mail."),
    "remove": ("oncebox.cli.suppression:remove", "Let an address get mail again."),
}
_CONFIG = {
    "show": ("oncebox.cli.config_show:show", "Show every setting and where it comes from."),
}
_ALL = {
    "delivery": ("oncebox.cli.main:delivery", "What came in, and what became of it."),
    "dead": ("oncebox.cli.main:dead", "What was given up."),
    "hook": ("oncebox.cli.main:hook", "Webhook signatures: verify and explain them."),
    "mail": ("oncebox.cli.main:mail", "How mail is read."),
    "link": ("oncebox.cli.main:link", "Which links may be handed out."),
    "source": ("oncebox.cli.main:source", "Where deliveries come from."),
    "inbox": ("oncebox.cli.main:inbox", "Addresses for attempts."),
    "action": ("oncebox.cli.main:action", "What attempts do once."),
    "domain": ("oncebox.cli.main:domain", "Which domains mail is taken for."),
    "key": ("oncebox.cli.main:key", "Who may call the service."),
    "tenant": ("oncebox.cli.main:tenant", "Who shares this installation."),
    "quarantine": ("oncebox.cli.main:quarantine", "Requests that were not believed."),
    "event": ("oncebox.cli.main:event", "What happened, in one sequence."),
    "message": ("oncebox.cli.main:message", "What came to inboxes."),
    "artifact": ("oncebox.cli.main:artifact", "Codes and links, each granted once."),
    "send": ("oncebox.cli.main:send", "Mail that goes out, each intent once."),
    "transport": ("oncebox.cli.main:transport", "The ways by which mail leaves."),
    "suppression": ("oncebox.cli.main:suppression", "Addresses that get no mail."),
    "serve": ("oncebox.cli.serve:serve", "Serve HTTP and run the handlers of a program."),
    "worker": ("oncebox.cli.worker:worker", "Run the handlers of a program."),
    "mcp": ("oncebox.cli.mcp:mcp", "Give an agent its tools, over stdin and stdout."),
    "migrate": ("oncebox.cli.migrate:migrate", "Bring the database to this version."),
    "backup": ("oncebox.cli.backup:backup", "Copy everything into one file, while it runs."),
    "restore": ("oncebox.cli.restore:restore", "Put a backup in place, with sending paused."),
    "doctor": ("oncebox.cli.doctor:doctor", "Look for what is wrong, and say what helps."),
    "demo": ("oncebox.cli.demo.command:demo", "Play accidents, and count what comes of them."),
    "config": ("oncebox.cli.main:config", "Which settings hold, and where they come from."),
    "completion": ("oncebox.cli.completion:completion", "Let a shell complete what you type."),
}


@click.group(cls=LazyGroup, commands_in=_ALL, context_settings={"max_content_width": 100})
@click.version_option(package_name="oncebox", prog_name="oncebox", message="%(prog)s %(version)s")
@click.option("--database", metavar="URL", help="The database (ONCEBOX_DATABASE_URL).")
@click.option("--data-dir", metavar="DIR", help="The data folder (ONCEBOX_DATA_DIR).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def root(**_options: object) -> None:
    """Oncebox: deliveries arrive at least once, their effects happen once.

    The options below may stand here or after the command.
    """


@click.group(cls=LazyGroup, commands_in=_DELIVERY)
def delivery() -> None:
    """What came in, and what became of it."""


@click.group(cls=LazyGroup, commands_in=_DEAD)
def dead() -> None:
    """What was given up."""


@click.group(cls=LazyGroup, commands_in=_HOOK)
def hook() -> None:
    """Webhook signatures: verify and explain them."""


@click.group(cls=LazyGroup, commands_in=_MAIL)
def mail() -> None:
    """How mail is read."""


@click.group(cls=LazyGroup, commands_in=_LINK)
def link() -> None:
    """Which links may be handed out."""


@click.group(cls=LazyGroup, commands_in=_SOURCE)
def source() -> None:
    """Where deliveries come from, and how each is checked and worked."""


@click.group(cls=LazyGroup, commands_in=_SECRET)
def secret() -> None:
    """The secrets of a source: several at a time, so that one can follow another."""


@click.group(cls=LazyGroup, commands_in=_KEY)
def key() -> None:
    """Who may call the service, what for and until when."""


@click.group(cls=LazyGroup, commands_in=_TENANT)
def tenant() -> None:
    """Who shares this installation."""


@click.group(cls=LazyGroup, commands_in=_DOMAIN)
def domain() -> None:
    """Which domains mail is taken for."""


@click.group(cls=LazyGroup, commands_in=_INBOX)
def inbox() -> None:
    """Addresses for attempts, and what came of them."""


@click.group(cls=LazyGroup, commands_in=_ACTION)
def action() -> None:
    """What attempts do once, and what a person says of those in doubt."""


@click.group(cls=LazyGroup, commands_in=_MESSAGE)
def message() -> None:
    """What came to inboxes."""


@click.group(cls=LazyGroup, commands_in=_ARTIFACT)
def artifact() -> None:
    """Codes and links that came by mail, each granted once."""


@click.group(cls=LazyGroup, commands_in=_QUARANTINE)
def quarantine() -> None:
    """Requests that were not believed."""


@click.group(cls=LazyGroup, commands_in=_EVENT)
def event() -> None:
    """What happened, in one sequence."""


@click.group(cls=LazyGroup, commands_in=_SEND)
def send() -> None:
    """Mail that goes out, each intent once; and what a person says of those in doubt."""


@click.group(cls=LazyGroup, commands_in=_TRANSPORT)
def transport() -> None:
    """The ways by which mail leaves; until there is one, mail is stored and not sent."""


@click.group(cls=LazyGroup, commands_in=_SUPPRESSION)
def suppression() -> None:
    """Addresses that get no mail."""


@click.group(cls=LazyGroup, commands_in=_CONFIG)
def config() -> None:
    """Which settings hold, and where they come from."""


#: commands and groups of them, by what is typed before them
GROUPS = {
    "": _ALL,
    "delivery": _DELIVERY,
    "dead": _DEAD,
    "hook": _HOOK,
    "mail": _MAIL,
    "link": _LINK,
    "source": _SOURCE,
    "source secret": _SECRET,
    "key": _KEY,
    "tenant": _TENANT,
    "quarantine": _QUARANTINE,
    "domain": _DOMAIN,
    "inbox": _INBOX,
    "event": _EVENT,
    "message": _MESSAGE,
    "action": _ACTION,
    "artifact": _ARTIFACT,
    "send": _SEND,
    "transport": _TRANSPORT,
    "suppression": _SUPPRESSION,
    "config": _CONFIG,
}


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    as_json = "--json" in arguments
    try:
        code = root.main(list(arguments), prog_name="oncebox", standalone_mode=False)
    except OnceboxError as error:
        return failures.tell(error, as_json=as_json)
    except PermissionError as error:
        return failures.tell_forbidden(error, as_json=as_json)
    except click.ClickException as error:
        return failures.tell_misuse(error, as_json=as_json)
    except click.Abort:
        return failures.INTERRUPTED
    return code if isinstance(code, int) else failures.OK


def main() -> None:
    """Run the command that was typed."""
    for stream in (sys.stdout, sys.stderr):
        # A character the terminal cannot show is spelled out, never a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))
