"""What can be typed about a transport, and the configuration that is made of it."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from oncebox.cli import source_options
from oncebox.cli.durations import seconds
from oncebox.errors import ConfigInvalid
from oncebox.ledger.office import secrets
from oncebox.model.transport import Rate
from oncebox.transport.email.config import (
    DkimKey,
    LogConfig,
    ResendConfig,
    SmtpConfig,
    TransportConfig,
)
from oncebox.transport.email.relay import Relay, Security

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("smtp", "resend", "log")
_SECRET = "env:NAME|file:PATH|-"  # noqa: S105 - how it is typed, not one
_DKIM = "DOMAIN/SELECTOR=file:PATH"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
#: milliseconds
_SECOND = 1_000

#: what is typed, which kind it is for, and where it goes
_OPTIONS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("--host", "smtp", {"metavar": "NAME"}, "The mail server."),
    ("--port", "smtp", {"type": click.IntRange(1, 65_535)}, "Its port.  [587, or 465 for tls]"),
    ("--security", "smtp", {"type": click.Choice([str(each) for each in Security])},
     "How TLS begins; none is for a server on this machine.  [starttls]"),
    ("--username", "smtp", {"metavar": "TEXT"}, "Who logs in.  [nobody]"),
    ("--password", "smtp", {"metavar": _SECRET}, "Where the password is; - asks for it."),
    ("--greet-as", "smtp", {"metavar": "NAME"}, "What we call ourselves.  [localhost]"),
    ("--dkim", "smtp", {"metavar": _DKIM, "multiple": True}, "A key that signs. Repeatable."),
    ("--ca", "smtp", {"type": _FILE, "metavar": "FILE"}, "Certificates to trust besides."),
    ("--answer-within", "smtp", {"type": seconds, "metavar": "TIME"},
     "For the answer to the dot; less than 10min makes doubt."),
    ("--greylisted-for", "smtp", {"type": seconds, "metavar": "TIME"}, "Before a second try."),
    ("--api-key", "resend", {"metavar": _SECRET}, "Where the key is; - asks for it."),
    ("--url", "resend", {"metavar": "URL"}, "The API.  [https://api.resend.com]"),
    ("--source", "resend", {"metavar": "NAME"}, "The source that its webhooks come to."),
)  # fmt: skip
_TLS_PORT = 465


def fields(command: F) -> F:
    """Add an option for everything that a transport can be configured with."""
    for flag, kind, rest, meaning in reversed(_OPTIONS):
        command = click.option(flag, help=f"{kind}: {meaning}", **rest)(command)
    return command


def ranked(command: F) -> F:
    """Add when a transport is taken, and how much may leave by it."""
    position = click.option(
        "--position", type=click.IntRange(0, 999_999), metavar="N", help="Smaller is taken first."
    )
    rate = click.option("--rate", metavar="N[/TIME]", help="Sends begun at most, such as 10/1s.")
    return position(rate(command))


def first(kind: str, typed: Mapping[str, Any]) -> TransportConfig:
    """Return the configuration of a new transport.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    given = _given(kind, typed)
    if kind == "smtp":
        if "host" not in given:
            message = "a mail server has a name: --host smtp.example.com"
            raise click.UsageError(message)
        if given.get("security") == Security.TLS:
            given.setdefault("port", _TLS_PORT)
        return _smtp(SmtpConfig(relay=Relay(host=given["host"])), given)
    if kind == "resend":
        if "api_key" not in given:
            message = "Resend needs a key: --api-key env:NAME, file:PATH or -"
            raise click.UsageError(message)
        return _resend(ResendConfig(api_key=""), given)
    return LogConfig()


def changed(config: TransportConfig, typed: Mapping[str, Any]) -> TransportConfig:
    """Return a configuration with what was typed in it, and the rest as it was.

    Raises: ConfigInvalid, SecretUnavailable.
    """
    if isinstance(config, SmtpConfig):
        return _smtp(config, _given("smtp", typed))
    if isinstance(config, ResendConfig):
        return _resend(config, _given("resend", typed))
    _given("log", typed)
    return config


def fetched(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed with the secrets it points to; they are sealed, not looked up later.

    Raises: SecretUnavailable.
    """
    named = [typed["password"], typed["api_key"], *(each.partition("=")[2] for each in
             typed["dkim"])]  # fmt: skip
    if named.count("-") > 1:
        message = "standard input holds one secret; give the others by env: or file:"
        raise click.UsageError(message)
    found = dict(typed)
    for name in ("password", "api_key"):
        if typed[name] is not None:
            found[name] = _secret(typed[name])
    found["dkim"] = tuple(_dkim(each) for each in typed["dkim"])
    return found


def rate(typed: str | None) -> Rate | None:
    """Read ``10`` (a second) or ``100/1min``; ``0`` is no limit."""
    if typed is None:
        return None
    count, _, within = typed.partition("/")
    if not count.isdecimal() or len(count) > len("1000000"):
        message = "write a number, or a number and a time, such as 10 or 100/1min"
        raise click.BadParameter(message, param_hint="--rate")
    return Rate(int(count), max(1, round(seconds(within or "1s") * _SECOND)))


def _given(kind: str, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was typed, which must all be of this kind."""
    found = {name: value for name, value in typed.items() if value not in (None, ())}
    for flag, of_kind, _, _ in _OPTIONS:
        if _name(flag) in found and of_kind != kind:
            message = f"{flag} is for transports of the kind {of_kind}, not {kind}"
            raise click.UsageError(message)
    return found


def _smtp(config: SmtpConfig, given: Mapping[str, Any]) -> SmtpConfig:
    relay = {name: given[name] for name in Relay.__struct_fields__ if name in given}
    if "greet_as" in given:
        relay["name"] = given["greet_as"]
    if "security" in relay:
        relay["security"] = Security(relay["security"])
    rest: dict[str, Any] = {"relay": msgspec.structs.replace(config.relay, **relay)}
    if "dkim" in given:
        rest["dkim"] = given["dkim"]
    if "ca" in given:
        rest["ca"] = _pem(given["ca"])
    if "answer_within" in given:
        rest["answer_within"] = given["answer_within"]
    if "greylisted_for" in given:
        rest["greylisted_for"] = round(given["greylisted_for"] * _SECOND)
    if rest["relay"].username and not rest["relay"].password:
        message = "who logs in needs a password: --password env:NAME, file:PATH or -"
        raise click.UsageError(message)
    return msgspec.structs.replace(config, **rest)


def _resend(config: ResendConfig, given: Mapping[str, Any]) -> ResendConfig:
    names = ("api_key", "url", "source")
    return msgspec.structs.replace(config, **{each: given[each] for each in names if each in given})


def _secret(typed: str) -> str:
    """Return the secret that was pointed to.

    Raises: SecretUnavailable, ConfigInvalid.
    """
    text = source_options.secret(typed)
    secrets.check_text(text)
    return secrets.fetched(text, os.environ) if secrets.is_reference(text) else text


def _dkim(typed: str) -> DkimKey:
    where, equals, reference = typed.partition("=")
    domain, slash, selector = where.partition("/")
    if not (equals and slash and domain and selector):
        message = f"write {_DKIM}, or env:NAME or - behind the ="
        raise click.BadParameter(message, param_hint="--dkim")
    return DkimKey(domain=domain, selector=selector, key=_secret(reference))


def _pem(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeError) as error:
        message = f"the certificates in {path} cannot be read; give them in PEM"
        raise ConfigInvalid(message) from error


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def lines(config: TransportConfig) -> Iterator[tuple[str, object]]:
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
