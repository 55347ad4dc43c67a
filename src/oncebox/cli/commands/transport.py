"""`oncebox transport add|change|list|show|test|pause|resume`: SMTP relays and providers."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from oncebox.cli import options
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import audit_entry, audit_options, tenant_of, tenant_option
from oncebox.cli.output import failures
from oncebox.cli.output.send_report import describe_outcome
from oncebox.cli.output.times import ago, duration, iso_time, parse_duration
from oncebox.components import Components
from oncebox.core import clock, ids
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid
from oncebox.ledger.admin import sources
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.notifications import SENDS
from oncebox.ledger.sends import transports
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import Send, SendState
from oncebox.model.sends.transports import (
    LOG_TRANSPORT,
    ConfiguredTransport,
    NewTransport,
    NotSent,
    TransportRate,
)
from oncebox.transports import transport_config as configs
from oncebox.transports.resend import ResendConfig
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport_config import (
    DkimKey,
    LogConfig,
    SmtpConfig,
    TransportConfig,
    open_transport,
)

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("smtp", "resend", "log")
_SECRET_METAVAR = "env:NAME|file:PATH|-"  # noqa: S105 - how it is typed, not one
_DKIM_METAVAR = "DOMAIN/SELECTOR=file:PATH"
_FILE_TYPE = click.Path(exists=True, dir_okay=False, path_type=Path)
#: milliseconds
_MILLISECONDS = 1_000

#: what is typed, which kind it is for, and where it goes
_CONFIG_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--host", "smtp", {"metavar": "NAME"}, "Mail server."),
    ("--port", "smtp", {"type": click.IntRange(1, 65_535)}, "Port.  [587, or 465 for tls]"),
    ("--security", "smtp", {"type": click.Choice([str(each) for each in RelaySecurity])},
     "TLS mode; none only for a server on this machine.  [starttls]"),
    ("--username", "smtp", {"metavar": "TEXT"}, "User name.  [no login]"),
    ("--password", "smtp", {"metavar": _SECRET_METAVAR}, "Password reference; - prompts."),
    ("--greet-as", "smtp", {"metavar": "NAME"}, "EHLO name.  [localhost]"),
    ("--dkim", "smtp", {"metavar": _DKIM_METAVAR, "multiple": True},
     "DKIM key. Repeatable."),
    ("--ca", "smtp", {"type": _FILE_TYPE, "metavar": "FILE"}, "File with further CA certificates."),
    ("--answer-within", "smtp", {"type": parse_duration, "metavar": "TIME"},
     "Timeout for the final reply; under 10min more outcomes are unknown."),
    ("--greylisted-for", "smtp", {"type": parse_duration, "metavar": "TIME"},
     "Wait before the second try."),
    ("--api-key", "resend", {"metavar": _SECRET_METAVAR}, "API key reference; - prompts."),
    ("--url", "resend", {"metavar": "URL"}, "API URL.  [https://api.resend.com]"),
    ("--source", "resend", {"metavar": "NAME"}, "Source that receives its webhooks."),
)  # fmt: skip
_TLS_PORT = 465


def config_options(command: F) -> F:
    """Add an option for everything that a transport can be configured with."""
    for flag, kind, rest, meaning in reversed(_CONFIG_OPTIONS):
        command = click.option(flag, help=f"{kind}: {meaning}", **rest)(command)
    return command


def ranking_options(command: F) -> F:
    """Add when a transport is taken, and how much may leave by it."""
    position = click.option(
        "--position",
        type=click.IntRange(0, 999_999),
        metavar="N",
        help="Order of use; smallest first.",
    )
    rate = click.option("--rate", metavar="N[/TIME]", help="Maximum rate, such as 10/1s.")
    return position(rate(command))


def new_config(kind: str, typed: Mapping[str, Any]) -> TransportConfig:
    """Return the configuration of a new transport.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    given = _options_of_kind(kind, typed)
    if kind == "smtp":
        if "host" not in given:
            raise click.UsageError("a mail server has a name: --host smtp.example.com")
        if given.get("security") == RelaySecurity.TLS:
            given.setdefault("port", _TLS_PORT)
        return _smtp_config(SmtpConfig(relay=Relay(host=given["host"])), given)
    if kind == "resend":
        if "api_key" not in given:
            raise click.UsageError("Resend needs a key: --api-key env:NAME, file:PATH or -")
        return _resend_config(ResendConfig(api_key=""), given)
    return LogConfig()


def changed_config(config: TransportConfig, typed: Mapping[str, Any]) -> TransportConfig:
    """Return a configuration with what was typed in it, and the rest as it was.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    if isinstance(config, SmtpConfig):
        return _smtp_config(config, _options_of_kind("smtp", typed))
    if isinstance(config, ResendConfig):
        return _resend_config(config, _options_of_kind("resend", typed))
    _options_of_kind("log", typed)
    return config


def with_secrets(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed with the secrets it points to; they are sealed, not looked up later.

    Raises: SecretUnavailable.
    """
    named = [typed["password"], typed["api_key"], *(each.partition("=")[2] for each in
             typed["dkim"])]  # fmt: skip
    if named.count("-") > 1:
        raise click.UsageError("standard input holds one secret; give the others by env: or file:")
    found = dict(typed)
    for name in ("password", "api_key"):
        if typed[name] is not None:
            found[name] = _fetch_secret(typed[name])
    found["dkim"] = tuple(_parse_dkim(each) for each in typed["dkim"])
    return found


def parse_rate(typed: str | None) -> TransportRate | None:
    """Read ``10`` (a second) or ``100/1min``; ``0`` is no limit."""
    if typed is None:
        return None
    count, _, within = typed.partition("/")
    if not count.isdecimal() or len(count) > len("1000000"):
        raise click.BadParameter(
            "write a number, or a number and a time, such as 10 or 100/1min", param_hint="--rate"
        )
    return TransportRate(int(count), max(1, round(parse_duration(within or "1s") * _MILLISECONDS)))


def _options_of_kind(kind: str, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed, which must all be of this kind."""
    found = {name: value for name, value in typed.items() if value not in (None, ())}
    for flag, of_kind, _, _ in _CONFIG_OPTIONS:
        if _option_name(flag) in found and of_kind != kind:
            raise click.UsageError(f"{flag} is for transports of the kind {of_kind}, not {kind}")
    return found


def _smtp_config(config: SmtpConfig, given: Mapping[str, Any]) -> SmtpConfig:
    relay = {name: given[name] for name in Relay.__struct_fields__ if name in given}
    if "greet_as" in given:
        relay["name"] = given["greet_as"]
    if "security" in relay:
        relay["security"] = RelaySecurity(relay["security"])
    rest: dict[str, Any] = {"relay": msgspec.structs.replace(config.relay, **relay)}
    if "dkim" in given:
        rest["dkim"] = given["dkim"]
    if "ca" in given:
        rest["ca"] = _read_pem(given["ca"])
    if "answer_within" in given:
        rest["answer_within"] = given["answer_within"]
    if "greylisted_for" in given:
        rest["greylisted_for"] = round(given["greylisted_for"] * _MILLISECONDS)
    if rest["relay"].username and not rest["relay"].password:
        raise click.UsageError("who logs in needs a password: --password env:NAME, file:PATH or -")
    return msgspec.structs.replace(config, **rest)


def _resend_config(config: ResendConfig, given: Mapping[str, Any]) -> ResendConfig:
    names = ("api_key", "url", "source")
    return msgspec.structs.replace(config, **{each: given[each] for each in names if each in given})


def _fetch_secret(typed: str) -> str:
    """Return the secret that was pointed to.

    Raises: SecretUnavailable, ConfigInvalid.
    """
    text = options.read_secret(typed)
    sources.check_secret(text)
    return sources.resolve_reference(text, os.environ) if sources.is_reference(text) else text


def _parse_dkim(typed: str) -> DkimKey:
    where, equals, reference = typed.partition("=")
    domain, slash, selector = where.partition("/")
    if not (equals and slash and domain and selector):
        raise click.BadParameter(
            f"write {_DKIM_METAVAR}, or env:NAME or - behind the =", param_hint="--dkim"
        )
    return DkimKey(domain=domain, selector=selector, key=_fetch_secret(reference))


def _read_pem(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeError) as error:
        raise ConfigInvalid(
            f"the certificates in {path} cannot be read; give them in PEM"
        ) from error


def _option_name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def config_lines(config: TransportConfig) -> Iterator[tuple[str, object]]:
    """Tell a configuration line by line, without its secrets."""
    if isinstance(config, SmtpConfig):
        relay = config.relay
        yield ("server", f"{relay.host}:{relay.port}")
        yield ("security", relay.security)
        yield ("login", "yes" if relay.username else "no")
        for each in config.dkim:
            yield ("signs", f"{each.selector}._domainkey.{each.domain}")
        if config.ca:
            yield ("trusts", "certificates of its own")
    elif isinstance(config, ResendConfig):
        yield ("server", config.url)
        if config.source:
            yield ("told by", config.source)


TRANSPORT_COLUMNS = ("transport", "state", "kind", "position", "rate", "failures", "note")


def decrypt_config(cipher: SendCipher, transport: ConfiguredTransport) -> TransportConfig:
    """Return the configuration of a transport.

    Raises: ConfigInvalid, MasterKeyWrong.
    """
    encrypted = transport.config
    if encrypted is None:
        return configs.decode_config(None)
    config = cipher.decrypt_field("config", transport.tenant, transport.name, encrypted)
    return configs.decode_config(config)


def transport_record(transport: ConfiguredTransport, now: int) -> dict[str, Any]:
    """Return a transport for JSON."""
    rate = transport.rate
    return {
        "name": transport.name,
        "tenant": transport.tenant,
        "kind": transport.kind,
        "state": transport.state(now),
        "position": transport.position,
        "rate": None if rate is None else {"sends": rate.sends, "within": rate.within / 1000},
        "failures": transport.failures,
        "rests_until": transport.rests_until,
        "created_at": transport.created_at,
        "changed_at": transport.changed_at,
    }


def transport_row(transport: ConfiguredTransport, now: int) -> tuple[object, ...]:
    """Return a transport as the cells of a line."""
    return (
        transport.name,
        transport.state(now),
        transport.kind,
        transport.position,
        _rate_text(transport),
        transport.failures,
        transport_note(transport, now),
    )


def transport_lines(transport: ConfiguredTransport, now: int) -> Iterator[tuple[str, object]]:
    """Tell a transport line by line, each beginning with what it is about."""
    yield ("transport", transport.name)
    yield ("tenant", transport.tenant)
    yield ("kind", transport.kind)
    yield ("state", transport.state(now))
    if said := transport_note(transport, now):
        yield ("note", said)
    yield ("position", transport.position)
    yield ("rate", _rate_text(transport) or "no limit")
    yield ("failures", transport.failures)
    yield ("changed", f"{iso_time(transport.changed_at)} ({ago(transport.changed_at, now)})")


def transport_note(transport: ConfiguredTransport, now: int) -> str:
    """Say what somebody should know who wonders why no mail leaves."""
    if transport.kind == "log":
        return "stores mail and sends none"
    if transport.state(now) == "resting" and transport.rests_until is not None:
        return f"rests after failures; one send tries it {ago(transport.rests_until, now)}"
    return ""


def _rate_text(transport: ConfiguredTransport) -> str:
    if transport.rate is None:
        return ""
    return f"{transport.rate.sends} in {duration(transport.rate.within)}"


_MAX_NAME_LENGTH = 100


@click.command(
    "add",
    epilog=examples(
        "oncebox transport add relay --kind smtp --host smtp.example.com --username app \\",
        "    --password env:SMTP_PASSWORD",
        "oncebox transport add resend --kind resend --api-key - < key.txt",
        "oncebox transport add here --kind smtp --host 127.0.0.1 --port 2525 --security none",
    ),
)
@click.argument("name")
@click.option("--kind", required=True, type=click.Choice(KINDS), help="By what.")
@config_options
@ranking_options
@tenant_option
@audit_options
@with_context
def add(  # noqa: PLR0913 - a transport simply has this many sides
    call: CommandContext,
    /,
    *,
    name: str,
    kind: str,
    position: int | None,
    rate: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Add a way by which mail leaves; mail that names none takes the first.

    Passwords and keys are read now and kept sealed; a file or variable that changes later is not
    seen, give it anew with: oncebox transport change.
    """
    config = new_config(kind, with_secrets(typed))
    _check_config(name, config)
    limit = parse_rate(rate)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        new = NewTransport(
            name=name,
            kind=kind,
            config=_encrypt_config(components, entry.tenant, name, config),
            position=position or 0,
            rate=limit if limit and limit.sends else None,
        )
        return transports.add(tx, new, entry)

    _change_transport(call, write, "added", tenant, who=who, why=why, create=True)


@click.command(
    "change",
    epilog=examples(
        "oncebox transport change relay --password file:/run/secrets/smtp",
        "oncebox transport change relay --rate 100/1min --position 1",
    ),
)
@click.argument("name")
@config_options
@ranking_options
@tenant_option
@audit_options
@with_context
def change(  # noqa: PLR0913 - as above
    call: CommandContext,
    /,
    *,
    name: str,
    position: int | None,
    rate: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Change the given options of a transport and reset its circuit breaker."""
    if position is None and rate is None and not any(typed.values()):
        raise click.UsageError("say what to change, such as --rate 100/1min")
    given, limit = with_secrets(typed), parse_rate(rate)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        known = transports.get(tx, entry.tenant, name)
        config = changed_config(decrypt_config(components.send_cipher, known), given)
        _check_config(name, config)
        new = NewTransport(
            name=name,
            kind=known.kind,
            config=_encrypt_config(components, entry.tenant, name, config),
            position=known.position if position is None else position,
            rate=known.rate if limit is None else limit if limit.sends else None,
        )
        return transports.change(tx, new, entry, seen=known.changed_at)

    _change_transport(call, write, "changed", tenant, who=who, why=why)


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List transports in order of use, and their state.

    Until one is added, mail goes to `log`, which stores it and sends nothing.
    """
    with call.reader() as reader:
        found, now = reader.read(transports.of_tenant, tenant_of(reader, tenant)), reader.clock()
    if call.out.as_json:
        for each in found:
            call.out.record(transport_record(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        call.out.table(TRANSPORT_COLUMNS, [transport_row(each, now) for each in found])


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show a transport without its secrets."""
    with call.reader() as reader:
        found = reader.read(transports.get, tenant_of(reader, tenant), name)
        now = reader.clock()
        config = decrypt_config(reader.send_cipher, found)
    if call.out.as_json:
        settings = [{"name": label, "value": value} for label, value in config_lines(config)]
        call.out.record({**transport_record(found, now), "settings": settings})
    else:
        call.out.outline([*transport_lines(found, now), *config_lines(config)])


@click.command("pause")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def pause(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Stop sending through a transport; its mail waits, sends in flight finish."""

    def write(_components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        return transports.pause(tx, name, entry)

    _change_transport(call, write, "paused", tenant, who=who, why=why)


@click.command("resume")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def resume(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Resume a paused transport."""

    def write(_components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        return transports.pause(tx, name, entry, paused=False)

    _change_transport(call, write, "resumed", tenant, who=who, why=why)


#: what is written about one transport, in one commit
TransportChange = Callable[[Components, Transaction, AuditEntry], ConfiguredTransport]


def _change_transport(  # noqa: PLR0913 - what, whose, who and why
    call: CommandContext,
    write: TransportChange,
    done: str,
    tenant: str | None,
    *,
    who: str,
    why: str,
    create: bool = False,
) -> None:
    async def work(components: Components) -> tuple[ConfiguredTransport, int]:
        entry = audit_entry(components, tenant, who=who, why=why)
        found = await components.database.write(lambda tx: write(components, tx, entry))
        components.database.notify(SENDS)
        return found, entry.at

    found, now = call.run(work, create=create)
    if call.out.as_json:
        call.out.record({**transport_record(found, now), "action": done})
    elif call.out.quiet:
        call.out.line(found.name)
    else:
        call.out.line(found.name, done, found.kind)


def _check_config(name: str, config: TransportConfig) -> None:
    """Refuse what can never send, before it is kept.

    Raises: ConfigInvalid, SigningInvalid.
    """
    if not 1 <= len(name) <= _MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise ConfigInvalid(
            f"a transport is called by 1 to {_MAX_NAME_LENGTH} printable characters"
        )
    configs.open_transport(config)


def _encrypt_config(
    components: Components, tenant: str, name: str, config: TransportConfig
) -> bytes | None:
    if isinstance(config, LogConfig):
        return None
    return components.send_cipher.encrypt_field(
        "config", tenant, name, configs.encode_config(config)
    )


#: seconds for a connection and a login
_CONNECT_WITHIN = 30.0
_TEST_EVENT_TYPE = "oncebox.transport_test"
_LOG_TEXT = "it stores mail and sends none"
_SENT_STATES = {SendState.SENT, SendState.LOGGED}
_TEST_TEXT = "This is a test mail: it was sent to see whether mail leaves this way.\n"


class _TestResult(NamedTuple):
    way: ConfiguredTransport
    trouble: NotSent | None
    send: Send | None


@click.command(
    "test",
    epilog=examples(
        "oncebox transport test relay",
        "oncebox transport test relay --to ann@example.com --from hello@example.com",
    ),
)
@click.argument("name")
@click.option("--to", metavar="ADDRESS", help="Send one test mail to this address.")
@click.option("--from", "sender", default="", metavar="ADDRESS", help="Sender.  [sends.sender]")
@click.option("--within", type=parse_duration, default="60s", show_default=True, metavar="TIME",
              help="How long to wait for the outcome.")  # fmt: skip
@tenant_option
@with_context
def test(
    call: CommandContext,
    *,
    name: str,
    to: str | None,
    sender: str,
    within: float,
    tenant: str | None,
) -> int:
    """Connect and log in as for a mail, and send none: SMTP up to NOOP, Resend a harmless request.

    With --to one mail is sent, through the ledger like any other, so a service or worker must run.
    The exit code is 1 if it does not work, or if the outcome is unknown.
    """

    async def work(components: Components) -> _TestResult:
        owner = tenant_of(components, tenant)
        found = await components.database.read(transports.get, owner, name)
        way = open_transport(decrypt_config(components.send_cipher, found))
        try:
            trouble = await way.probe(clock.steady() + _CONNECT_WITHIN)
        finally:
            await way.close()
        if trouble is not None or to is None:
            return _TestResult(found, trouble, None)
        intent = Intent(
            email=Email(sender=sender, to=to, subject=f"Test of {name}", text=_TEST_TEXT),
            event_type=_TEST_EVENT_TYPE,
            entity_id=ids.new("tst"),
            transport=name,
        )
        intended = await components.outbox.send(SendOrigin(tenant=owner), intent)
        return _TestResult(
            found, None, await components.outbox.outcomes.wait(intended.send, within)
        )

    return _print_test_result(call, call.run(work))


def _print_test_result(call: CommandContext, tested: _TestResult) -> int:
    way, trouble, send = tested
    works = trouble is None and (send is None or send.state in _SENT_STATES)
    if call.out.as_json:
        call.out.record({
            "name": way.name,
            "works": works,
            "code": trouble.code if trouble else send.code if send else None,
            "phase": trouble.phase if trouble else send.phase if send else None,
            "reply": trouble.reply if trouble else send.reply if send else 0,
            "send": send.id if send else None,
            "state": send.state if send else None,
        })  # fmt: skip
    elif not call.out.quiet:
        call.out.line(way.name, *_test_result_cells(tested))
    return failures.OK if works else failures.ERROR


def _test_result_cells(tested: _TestResult) -> tuple[object, ...]:
    way, trouble, send = tested
    if trouble is not None:
        return ("does not work", describe_outcome(trouble.code, trouble.phase, trouble.reply))
    if send is None:
        log = way.kind == LOG_TRANSPORT
        return ("works", _LOG_TEXT if log else "connected and logged in; nothing was sent")
    if send.state in _SENT_STATES:
        taken = send.provider_id or "the mail was taken"
        return ("works", send.id, _LOG_TEXT if send.state is SendState.LOGGED else taken)
    if send.state is SendState.PENDING and not send.tries:
        return ("not claimed", send.id, "run: oncebox serve; see: oncebox send explain")
    return (send.state, send.id, describe_outcome(send.code, send.phase, send.reply))
