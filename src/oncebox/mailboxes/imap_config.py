"""IMAP configurations, stored encrypted: server, login, folders, and where reading begins."""

from functools import lru_cache
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from oncebox.core.connecting import client_tls, is_host, is_loopback
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.access_tokens import TokenSource, check_token_source
from oncebox.mailboxes.imap_connection import ImapSecurity

_PORTS = {ImapSecurity.TLS: 993, ImapSecurity.STARTTLS: 143, ImapSecurity.NONE: 143}
_SCHEMES = {"imaps": ImapSecurity.TLS, "imap": ImapSecurity.STARTTLS}


class ImapConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="imap"):
    """A mailbox on an IMAP server."""

    host: str
    username: str
    #: 0: the usual one
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 0
    security: ImapSecurity = ImapSecurity.TLS
    #: a password, or a source of access tokens
    password: str = ""
    token: TokenSource | None = None
    folders: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=100)] = ("INBOX",)
    #: mail from now on, of so many days, or all
    since: Literal["now", "all"] | Annotated[int, msgspec.Meta(ge=0, le=36_500)] = "now"
    #: mails of a folder that are read again after its UIDVALIDITY changed
    newest: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000
    #: PEM certificates trusted in addition to the system's
    ca: str = ""
    #: seconds until IDLE is renewed; servers end it after 30 minutes, networks often after 5
    idle_for: Annotated[float, msgspec.Meta(gt=0, le=1_740)] = 240.0
    #: seconds between polls where there is no IDLE, and of all folders but the first
    poll_every: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 60.0

    @property
    def listening_port(self) -> int:
        """The port of the server."""
        return self.port or _PORTS[self.security]

    def __repr__(self) -> str:
        return f"ImapConfig({self.host}:{self.listening_port}, {self.security})"


def imap_config(url: str, **fields: Any) -> ImapConfig:
    """Return the configuration of a URL such as ``imaps://ann%40example.com@imap.example.com``.

    A path is a folder. ``imap://`` requires STARTTLS; ``fields`` are those of `ImapConfig`.

    Raises: ConfigInvalid.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 0
    except ValueError:
        raise ConfigInvalid(f"the URL is invalid; {_URL_FORM}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment:
        raise ConfigInvalid(f"the URL is invalid; {_URL_FORM}")
    if parts.password is not None:
        raise ConfigInvalid("a URL is shown in lists and logs: give the password apart from it")
    given = {
        "host": parts.hostname,
        "port": port,
        "security": _SCHEMES[parts.scheme],
        "username": unquote(parts.username or ""),
        **({"folders": [unquote(parts.path.strip("/"))]} if parts.path.strip("/") else {}),
        **{name: value for name, value in fields.items() if value is not None},
    }
    try:
        config = msgspec.convert({"type": "imap", **given}, ImapConfig)
    except msgspec.ValidationError as error:
        # The path of the field and the rule; values are not quoted.
        raise ConfigInvalid(f"the configuration of the mailbox is invalid: {error}") from None
    check_imap_config(config)
    return config


_URL_FORM = "write one such as imaps://ann%40example.com@imap.example.com/INBOX"


#: one context for all mailboxes with the same certificates: each holds the system's, some 100 KB
trusted_certificates = lru_cache(maxsize=64)(client_tls)


def check_imap_config(config: ImapConfig) -> None:
    """Check a configuration; a password is never sent in the clear.

    Raises: ConfigInvalid.
    """
    if not is_host(config.host):
        raise ConfigInvalid("a mailbox needs a host, such as imap.example.com")
    if config.security is ImapSecurity.NONE and not is_loopback(config.host):
        raise ConfigInvalid(
            "a password is never sent without TLS; use imaps:// or imap:// with STARTTLS"
        )
    if not config.username or bool(config.password) == (config.token is not None):
        raise ConfigInvalid(
            "a mailbox needs a user name, and either a password or a source of access tokens"
        )
    if any(not 0 < len(each) <= 255 or not each.isprintable() for each in config.folders):  # noqa: PLR2004
        raise ConfigInvalid("a folder needs a name of 1 to 255 printable characters")
    if len(set(config.folders)) != len(config.folders):
        raise ConfigInvalid("a folder is named twice; name each once")
    if any({"\0", "\r", "\n", "\x01"} & set(each) for each in (config.username, config.password)):
        raise ConfigInvalid("a user name or password has control characters; write it again")
    if config.token is not None:
        check_token_source(config.token)
    trusted_certificates(config.ca)
