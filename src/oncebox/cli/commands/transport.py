"""`oncebox transport add|change|list|show|test|pause|resume`: SMTP relays and providers."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from oncebox.cli.configuration_options import (
    FILE_TYPE,
    SECRET_METAVAR,
    check_one_input,
    fetch_secret,
    read_pem,
)
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import audit_entry, audit_options, tenant_of, tenant_option
from oncebox.cli.output import failures
from oncebox.cli.output.send_report import describe_outcome
from oncebox.cli.output.times import ago, duration, iso_time, parse_duration
from oncebox.components import Components
from oncebox.core import clock, ids
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid
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
from oncebox.model.validation import check_name
from oncebox.transports import transport_config as configs
from oncebox.transports.dkim_signing import DkimKey
from oncebox.transports.resend import ResendConfig
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport_config import LogConfig, SmtpConfig, TransportConfig

F = TypeVar("F", bound=Callable[..., Any])

_DKIM_METAVAR = "DOMAIN/SELECTOR=file:PATH"

#: flag, kind of transport, click parameters, help
_CONFIG_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--host", "smtp", {"metavar": "NAME"}, "Mail server."),
    ("--port", "smtp", {"type": click.IntRange(1, 65_535)}, "Port.  [587, or 465 for tls]"),
    ("--security", "smtp", {"type": click.Choice([str(each) for each in RelaySecurity])},
     "TLS mode; none only for a server on this machine.  [starttls]"),
    ("--username", "smtp", {"metavar": "TEXT"}, "User name.  [no login]"),
    ("--password", "smtp", {"metavar": SECRET_METAVAR}, "Password reference; - prompts."),
    ("--greet-as", "smtp", {"metavar": "NAME"}, "EHLO name.  [localhost]"),
    ("--dkim", "smtp", {"metavar": _DKIM_METAVAR, "multiple": True}, "DKIM key. Repeatable."),
    ("--ca", "smtp", {"type": FILE_TYPE, "metavar": "FILE"}, "File with further CA certificates."),
    ("--answer-within", "smtp", {"type": parse_duration, "metavar": "TIME"},
     "Timeout for the final reply; under 10min more outcomes are unknown."),
    ("--greylisted-for", "smtp", {"type": parse_duration, "metavar": "TIME"},
     "Wait before the retry of a greylisted mail."),
    ("--api-key", "resend", {"metavar": SECRET_METAVAR}, "API key reference; - prompts."),
    ("--url", "resend", {"metavar": "URL"}, "API URL.  [https://api.resend.com]"),
    ("--source", "resend", {"metavar": "NAME"}, "Source that receives its webhooks."),
)  # fmt: skip


def transport_options(command: F) -> F:
    """Add the options of a transport: configuration, position, rate and failover group."""
    rate = click.option("--rate", metavar="N[/TIME]", help="Maximum rate, such as 10/1s.")
    position = click.option(
        "--position",
        type=click.IntRange(0, 999_999),
        metavar="N",
        help="Order of use; smallest first.",
    )
    group = click.option(
        "--failover-group",
        metavar="NAME",
        help="Transports of one group take over from each other; '' for none.  [no failover]",
    )
    command = position(rate(group(command)))
    for flag, kind, parameters, meaning in reversed(_CONFIG_OPTIONS):
        command = click.option(flag, help=f"{kind}: {meaning}", **parameters)(command)
    return command


def _new_config(kind: str, typed: Mapping[str, Any]) -> TransportConfig:
    given = _options_of_kind(kind, typed)
    if kind == "smtp":
        if "host" not in given:
            raise click.UsageError("an SMTP transport needs its server: --host smtp.example.com")
        if given.get("security") == RelaySecurity.TLS:
            given.setdefault("port", 465)
        return _smtp_config(SmtpConfig(relay=Relay(host=given["host"])), given)
    if kind == "resend":
        if "api_key" not in given:
            raise click.UsageError("Resend needs an API key: --api-key env:NAME, file:PATH or -")
        return _resend_config(ResendConfig(api_key=""), given)
    return LogConfig()


def _changed_config(config: TransportConfig, typed: Mapping[str, Any]) -> TransportConfig:
    given = _options_of_kind(configs.transport_kind(config), typed)
    if isinstance(config, SmtpConfig):
        return _smtp_config(config, given)
    return _resend_config(config, given) if isinstance(config, ResendConfig) else config


def _with_secrets(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with secrets instead of references; they are stored encrypted."""
    dkim_keys = [each.partition("=")[2] for each in typed["dkim"]]
    check_one_input([typed["password"], typed["api_key"], *dkim_keys])
    found = dict(typed)
    for name in ("password", "api_key"):
        if typed[name] is not None:
            found[name] = fetch_secret(typed[name])
    found["dkim"] = tuple(_parse_dkim(each) for each in typed["dkim"])
    return found


def _parse_rate(typed: str | None) -> TransportRate | None:
    """Parse ``10`` (per second) or ``100/1min``; ``0`` is no limit."""
    if typed is None:
        return None
    count, _, within = typed.partition("/")
    if not count.isdecimal() or len(count) > len("1000000"):
        raise click.BadParameter(
            "write a number, or a number and a time, such as 10 or 100/1min", param_hint="--rate"
        )
    return TransportRate(int(count), max(1, round(parse_duration(within or "1s") * 1000)))


def _options_of_kind(kind: str, typed: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in typed.items() if value not in (None, ())}
    for flag, of_kind, _, _ in _CONFIG_OPTIONS:
        if flag.removeprefix("--").replace("-", "_") in found and of_kind != kind:
            raise click.UsageError(f"{flag} is an option of {of_kind} transports, not of {kind}")
    return found


def _smtp_config(config: SmtpConfig, given: Mapping[str, Any]) -> SmtpConfig:
    relay = {name: given[name] for name in Relay.__struct_fields__ if name in given}
    if "greet_as" in given:
        relay["name"] = given["greet_as"]
    if "security" in relay:
        relay["security"] = RelaySecurity(relay["security"])
    changes = {name: given[name] for name in ("dkim", "answer_within") if name in given}
    if "ca" in given:
        changes["ca"] = read_pem(given["ca"])
    if "greylisted_for" in given:
        changes["greylisted_for"] = round(given["greylisted_for"] * 1000)
    changes["relay"] = msgspec.structs.replace(config.relay, **relay)
    if changes["relay"].username and not changes["relay"].password:
        raise click.UsageError("a login needs a password: --password env:NAME, file:PATH or -")
    return msgspec.structs.replace(config, **changes)


def _resend_config(config: ResendConfig, given: Mapping[str, Any]) -> ResendConfig:
    names = ("api_key", "url", "source")
    return msgspec.structs.replace(config, **{each: given[each] for each in names if each in given})


def _parse_dkim(typed: str) -> DkimKey:
    where, equals, reference = typed.partition("=")
    domain, slash, selector = where.partition("/")
    if not (equals and slash and domain and selector):
        raise click.BadParameter(
            f"write {_DKIM_METAVAR}, or env:NAME or - after the =", param_hint="--dkim"
        )
    return DkimKey(domain=domain, selector=selector, key=fetch_secret(reference))


def _config_lines(config: TransportConfig) -> Iterator[tuple[str, object]]:
    if isinstance(config, SmtpConfig):
        relay = config.relay
        yield ("server", f"{relay.host}:{relay.port}")
        yield ("security", relay.security)
        yield ("login", "yes" if relay.username else "no")
        for each in config.dkim:
            yield ("signs", f"{each.selector}._domainkey.{each.domain}")
        if config.ca:
            yield ("trusts", "additional CA certificates")
    elif isinstance(config, ResendConfig):
        yield ("server", config.url)
        if config.source:
            yield ("webhooks from", config.source)


def _decrypt_config(cipher: SendCipher, transport: ConfiguredTransport) -> TransportConfig:
    plain = transport.config and cipher.decrypt_field(
        "config", transport.tenant, transport.name, transport.config
    )
    return configs.decode_config(plain)


def _transport_record(transport: ConfiguredTransport, now: int) -> dict[str, Any]:
    rate = transport.rate
    names = ("name", "tenant", "kind", "position", "failover_group", "failures", "rests_until",
             "created_at", "changed_at")  # fmt: skip
    return {name: getattr(transport, name) for name in names} | {
        "state": transport.state(now),
        "rate": None if rate is None else {"sends": rate.sends, "within": rate.within / 1000},
    }


_COLUMNS = ("transport", "state", "kind", "position", "failover", "rate", "failures", "note")
#: shown where there is no failover group
_NO_GROUP = "none"


def _transport_row(each: ConfiguredTransport, now: int) -> tuple[object, ...]:
    rate, note = _rate_text(each), _transport_note(each, now)
    group = each.failover_group or _NO_GROUP
    return each.name, each.state(now), each.kind, each.position, group, rate, each.failures, note


def _transport_lines(transport: ConfiguredTransport, now: int) -> Iterator[tuple[str, object]]:
    yield ("transport", transport.name)
    yield ("tenant", transport.tenant)
    yield ("kind", transport.kind)
    yield ("state", transport.state(now))
    if note := _transport_note(transport, now):
        yield ("note", note)
    yield ("position", transport.position)
    yield ("failover group", transport.failover_group or _NO_GROUP)
    yield ("rate", _rate_text(transport) or "no limit")
    yield ("failures", transport.failures)
    yield ("changed", f"{iso_time(transport.changed_at)} ({ago(transport.changed_at, now)})")


def _transport_note(transport: ConfiguredTransport, now: int) -> str:
    if transport.kind == LOG_TRANSPORT:
        return "stores mail and sends none"
    if transport.state(now) == "resting" and transport.rests_until is not None:
        return f"rests after failures; one send tries it {ago(transport.rests_until, now)}"
    return ""


def _rate_text(transport: ConfiguredTransport) -> str:
    if transport.rate is None:
        return ""
    return f"{transport.rate.sends} in {duration(transport.rate.within)}"


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
@click.option(
    "--kind", required=True, type=click.Choice(["smtp", "resend", "log"]), help="Kind of transport."
)
@transport_options
@tenant_option
@audit_options
@with_context
def add(  # noqa: PLR0913 - options
    call: CommandContext,
    /,
    *,
    name: str,
    kind: str,
    position: int | None,
    rate: str | None,
    failover_group: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Add a transport; mail that names none uses the first one.

    If a transport fails, mail that did not name it moves to another one of the same
    --failover-group; without a group it waits. Mail that was to be signed with a DKIM key moves
    only to a transport with a key for its domain, or to Resend, which signs by itself.

    Passwords and keys are read now and stored encrypted. If a file or variable changes later, run:
    oncebox transport change.
    """
    config = _new_config(kind, _with_secrets(typed))
    _check_config(name, config)
    limit, group = _parse_rate(rate), _check_group(failover_group or "", kind)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        new = NewTransport(
            name=name,
            kind=kind,
            config=_encrypt_config(components, entry.tenant, name, config),
            position=position or 0,
            rate=limit if limit and limit.sends else None,
            failover_group=group,
            signs=configs.signing_domains(config),
        )
        return transports.add(tx, new, entry)

    _change_transport(call, write, "added", tenant, who=who, why=why, create=True)


@click.command(
    "change",
    epilog=examples(
        "oncebox transport change relay --password file:/run/secrets/smtp",
        "oncebox transport change relay --rate 100/1min --position 1",
        "oncebox transport change relay --failover-group main",
    ),
)
@click.argument("name")
@transport_options
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
    failover_group: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Change the given options of a transport and reset its circuit breaker."""
    if {position, rate, failover_group} == {None} and not any(typed.values()):
        raise click.UsageError("give an option to change, such as --rate 100/1min")
    given, limit = _with_secrets(typed), _parse_rate(rate)

    def write(components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        known = transports.get(tx, entry.tenant, name)
        config = _changed_config(_decrypt_config(components.send_cipher, known), given)
        _check_config(name, config)
        new = NewTransport(
            name=name,
            kind=known.kind,
            config=_encrypt_config(components, entry.tenant, name, config),
            position=known.position if position is None else position,
            rate=known.rate if limit is None else limit if limit.sends else None,
            failover_group=_check_group(
                known.failover_group if failover_group is None else failover_group, known.kind
            ),
            signs=configs.signing_domains(config),
        )
        return transports.change(tx, new, entry, seen=known.changed_at)

    _change_transport(call, write, "changed", tenant, who=who, why=why)


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List transports in order of use, their state and failover group.

    Until one is added, mail goes to `log`, which stores it and sends nothing.
    """
    with call.reader() as reader:
        found, now = reader.read(transports.of_tenant, tenant_of(reader, tenant)), reader.clock()
    if call.out.as_json:
        for each in found:
            call.out.record(_transport_record(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        call.out.table(_COLUMNS, [_transport_row(each, now) for each in found])


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show a transport without its secrets."""
    with call.reader() as reader:
        found = reader.read(transports.get, tenant_of(reader, tenant), name)
        now = reader.clock()
        config = _decrypt_config(reader.send_cipher, found)
    if call.out.as_json:
        settings = [{"name": label, "value": value} for label, value in _config_lines(config)]
        call.out.record({**_transport_record(found, now), "settings": settings})
    else:
        call.out.outline([*_transport_lines(found, now), *_config_lines(config)])


@click.command("pause")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def pause(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Stop sending through a transport; its mail waits, sends in flight finish."""
    _pause(call, name, "paused", tenant, who=who, why=why)


@click.command("resume")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def resume(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Resume a paused transport."""
    _pause(call, name, "resumed", tenant, who=who, why=why)


def _pause(
    call: CommandContext, name: str, done: str, tenant: str | None, *, who: str, why: str
) -> None:
    def write(_components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        return transports.pause(tx, name, entry, paused=done == "paused")

    _change_transport(call, write, done, tenant, who=who, why=why)


@click.command(
    "remove",
    epilog=examples(
        "oncebox transport change relay --position 100",
        "oncebox transport remove relay --why 'replaced by resend'",
    ),
)
@click.argument("name")
@tenant_option
@audit_options
@with_context
def remove(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Remove a transport with its passwords and signing keys.

    Refused while mail needs it: mail that waits for it, is on its way, or has an unknown outcome.
    Mail that names a removed transport is refused. Without any transport, mail goes to `log`, which
    sends nothing.
    """

    def write(_components: Components, tx: Transaction, entry: AuditEntry) -> ConfiguredTransport:
        return transports.remove(tx, name, entry)

    _change_transport(call, write, "removed", tenant, who=who, why=why)


#: a change of one transport, in one commit
_TransportChange = Callable[[Components, Transaction, AuditEntry], ConfiguredTransport]


def _change_transport(  # noqa: PLR0913 - options
    call: CommandContext,
    write: _TransportChange,
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
        call.out.record({**_transport_record(found, now), "action": done})
    elif call.out.quiet:
        call.out.line(found.name)
    else:
        call.out.line(found.name, done, found.kind)


def _check_config(name: str, config: TransportConfig) -> None:
    check_name(name, "transport")
    configs.open_transport(config)


def _check_group(name: str, kind: str) -> str:
    """Return the failover group of a transport; empty if it has none."""
    if name:
        check_name(name, "failover group")
    if name and kind == LOG_TRANSPORT:
        raise ConfigInvalid("a log transport sends nothing, so it has no failover group; omit it")
    return name


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
_LOG_TEXT = "it stores mail and sends none"
_SENT_STATES = {SendState.SENT, SendState.LOGGED}


class _TestResult(NamedTuple):
    transport: ConfiguredTransport
    failure: NotSent | None
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
    """Connect and log in without sending mail: SMTP up to NOOP, Resend an empty request.

    With --to one mail is sent, through the ledger like any other, so a service or worker must run.
    The exit code is 1 if the test fails, or if the outcome is unknown.
    """

    async def work(components: Components) -> _TestResult:
        owner = tenant_of(components, tenant)
        found = await components.database.read(transports.get, owner, name)
        transport = configs.open_transport(_decrypt_config(components.send_cipher, found))
        try:
            failure = await transport.probe(clock.steady() + _CONNECT_WITHIN)
        finally:
            await transport.close()
        if failure is not None or to is None:
            return _TestResult(found, failure, None)
        text = "This is a test mail, sent to check that this transport works.\n"
        intent = Intent(
            email=Email(sender=sender, to=to, subject=f"Test of {name}", text=text),
            event_type="oncebox.transport_test",
            entity_id=ids.new("tst"),
            transport=name,
        )
        intended = await components.outbox.send(SendOrigin(tenant=owner), intent)
        return _TestResult(
            found, None, await components.outbox.outcomes.wait(intended.send, within)
        )

    return _print_test_result(call, call.run(work))


def _print_test_result(call: CommandContext, tested: _TestResult) -> int:
    transport, failure, send = tested
    works = failure is None and (send is None or send.state in _SENT_STATES)
    outcome = failure or send
    if call.out.as_json:
        call.out.record({
            "name": transport.name,
            "works": works,
            "code": outcome.code if outcome else None,
            "phase": outcome.phase if outcome else None,
            "reply": outcome.reply if outcome else 0,
            "send": send.id if send else None,
            "state": send.state if send else None,
        })  # fmt: skip
    elif not call.out.quiet:
        call.out.line(transport.name, *_test_result_cells(tested))
    return failures.OK if works else failures.ERROR


def _test_result_cells(tested: _TestResult) -> tuple[object, ...]:
    transport, failure, send = tested
    if failure is not None:
        return ("does not work", describe_outcome(failure.code, failure.phase, failure.reply))
    if send is None:
        is_log = transport.kind == LOG_TRANSPORT
        return ("works", _LOG_TEXT if is_log else "connected and logged in; nothing was sent")
    if send.state in _SENT_STATES:
        accepted = send.provider_id or "the mail was accepted"
        return ("works", send.id, _LOG_TEXT if send.state is SendState.LOGGED else accepted)
    if send.state is SendState.PENDING and not send.tries:
        return ("not claimed", send.id, "run: oncebox serve; see: oncebox send explain")
    return (send.state, send.id, describe_outcome(send.code, send.phase, send.reply))
