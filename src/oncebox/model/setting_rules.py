"""Types of settings, and rules for single settings that their type alone does not express."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from oncebox.errors import OnceboxError
from oncebox.model.admin.access import check_tenant
from oncebox.model.inboxes.addresses import domain_key, parse_mailbox
from oncebox.model.public_internet import parse_allowed_hosts

#: days of it in milliseconds fit into 64 bits
MAX_NUMBER = 10_000_000_000
Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBER)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
#: about a century
MAX_SECONDS = 3_000_000_000
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
PositiveSeconds = Annotated[float, msgspec.Meta(gt=0, le=MAX_SECONDS)]
HostName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9.-]{0,253}$")]
Url = Annotated[str, msgspec.Meta(pattern=r"^(https?://[!-~]+)?$")]

#: what a setting must be, by its type; numbers are described by their bounds
TYPE_DESCRIPTIONS = {
    str: "text",
    bool: "true or false",
    HostName: "a host name, such as mail.example.com",
    Url: "a URL, such as https://hooks.example.com",
}

_HOST = re.compile(r"[A-Za-z0-9._:%-]{0,253}")
_HOST_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,260}")
_DATABASE_URL = re.compile(r"sqlite:///[^\s].*|postgres(ql)?://.*")
#: an IPv4 address, or any address in brackets, and optionally a port
_NAME_SERVER = re.compile(r"(?:([0-9.]+)|\[([0-9a-fA-F:.]+)\])(?::([0-9]{1,5}))?")
_LAST_PORT = 65_535
#: MiB that a process needs to start
_PARSER_MEMORY, _WORKER_MEMORY = 64, 256


class SettingRule(NamedTuple):
    """What a value must be beside its type; an empty text is always allowed."""

    expected: str
    holds: Callable[[Any], bool]


def _accepted_by(check: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            check(text)
        except (OnceboxError, ValueError):
            return False
        return True

    return holds


def _each(holds: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: all(holds(part.strip()) for part in text.split(",") if part.strip())


def _zero_or_at_least(least: int) -> SettingRule:
    return SettingRule(
        f"0 or a whole number, at least {least}", lambda number: number == 0 or number >= least
    )


def _is_name_server(text: str) -> bool:
    found = _NAME_SERVER.fullmatch(text)
    address, port = (found[1] or found[2], found[3]) if found else (text, None)
    return int(port or 0) <= _LAST_PORT and _accepted_by(ipaddress.ip_address)(address)


_LISTEN = SettingRule(
    "an address to listen on, such as 127.0.0.1", lambda text: _HOST.fullmatch(text) is not None
)

#: by the name of the setting
SETTING_RULES: Mapping[str, SettingRule] = {
    "tenant": SettingRule(
        "a name of small letters, digits and . _ -, such as acme", _accepted_by(check_tenant)
    ),
    "database_url": SettingRule(
        "sqlite:///path/to/file.db or postgresql://user:password@host/name",
        lambda text: _DATABASE_URL.fullmatch(text) is not None,
    ),
    "http.host": _LISTEN,
    "smtp.host": _LISTEN,
    "http.hosts": SettingRule(
        "host names, separated by commas",
        _each(lambda text: _HOST_NAME.fullmatch(text) is not None),
    ),
    "http.proxies": SettingRule(
        "addresses or networks, separated by commas, such as 10.0.0.0/8",
        _each(_accepted_by(lambda text: ipaddress.ip_network(text, strict=False))),
    ),
    "egress.allow": SettingRule(
        "networks and hosts, separated by commas, such as 10.0.0.0/8, app.internal:3000",
        _accepted_by(parse_allowed_hosts),
    ),
    "inboxes.domain": SettingRule("a domain, such as inbox.example.com", _accepted_by(domain_key)),
    "mail.dns_servers": SettingRule(
        "name servers, separated by commas, such as 9.9.9.9, [::1]:5353", _each(_is_name_server)
    ),
    "sends.sender": SettingRule(
        "an address, such as Acme <hello@acme.com>", _accepted_by(parse_mailbox)
    ),
    "parser.memory": _zero_or_at_least(_PARSER_MEMORY),
    "worker.memory_limit": _zero_or_at_least(_WORKER_MEMORY),
}
