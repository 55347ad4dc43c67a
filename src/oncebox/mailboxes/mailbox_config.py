"""Mailbox configurations, built from fields and stored encrypted; opening and probing a reader."""

import asyncio
import hashlib
import shlex
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.access_tokens import (
    AccessTokens,
    TokenCommand,
    TokenSource,
    TokenUrl,
    check_token_source,
)
from oncebox.mailboxes.gmail import GmailConfig
from oncebox.mailboxes.graph import GraphConfig
from oncebox.mailboxes.http_readers import http_config, open_http_reader
from oncebox.mailboxes.imap import ImapReader
from oncebox.mailboxes.imap_config import ImapConfig, imap_config
from oncebox.mailboxes.inbox_apis import RestConfig
from oncebox.mailboxes.jmap import JmapConfig
from oncebox.mailboxes.reader import (
    MailboxFailure,
    MailboxPage,
    MailboxProbe,
    MailboxReader,
    PageLimits,
)
from oncebox.model.mailboxes.mailbox_fields import MailboxDraft, MailboxFields, check_fields
from oncebox.model.validation import check_name

ReaderConfig = ImapConfig | JmapConfig | GmailConfig | GraphConfig | RestConfig


class MailboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a mailbox is read."""

    reader: ReaderConfig
    #: where access tokens come from; those of IMAP are part of its own configuration
    token: TokenSource | None = None
    #: digest of the refresh token that was written by its owner, if the endpoint replaced it
    written_token: str = ""

    @property
    def kind(self) -> str:
        """The kind of the mailbox, as in its row."""
        return str(self.reader.__struct_config__.tag)

    @property
    def account(self) -> str:
        """The server and the account, without secrets."""
        if isinstance(self.reader, ImapConfig):
            return f"{self.reader.username} at {self.reader.host}"
        return self.reader.account

    @property
    def token_url(self) -> TokenUrl | None:
        """The token endpoint, if there is one."""
        source = self.reader.token if isinstance(self.reader, ImapConfig) else self.token
        return source if isinstance(source, TokenUrl) else None


# from fields

#: fields of a mailbox, and what they are called in the configuration of its reader
_HTTP_NAMES = {
    "jmap": {"url": "url", "username": "username", "password": "password", "api_key": "api_token"},
    "gmail": {"url": "url", "username": "user"},
    "graph": {"url": "url", "username": "user"},
    "rest": {"url": "url", "username": "username", "api_key": "key", "api": "api",
             "api_inbox": "inbox", "table": "table"},
}  # fmt: skip
_FOLDER_NAMES = {"jmap": "folder", "gmail": "label", "graph": "folder"}


def draft_mailbox(name: str, fields: MailboxFields) -> MailboxDraft:
    """Check the name and all fields of a mailbox; nothing is connected.

    Raises: ConfigInvalid.
    """
    check_name(name, "mailbox")
    check_fields(name, fields)
    config = _build_config(fields)
    return MailboxDraft(
        name=name, fields=fields, account=config.account, config=encode_config(config)
    )


def _build_config(fields: MailboxFields) -> MailboxConfig:
    token = _token_source(fields)
    shared: dict[str, Any] = {"since": fields.since, "ca": fields.ca}
    if fields.kind == "imap":
        imap = imap_config(
            fields.url,
            username=fields.username or None,
            password=fields.password or None,
            token=None if token is None else msgspec.to_builtins(token),
            folders=fields.folders or None,
            **shared,
        )
        return MailboxConfig(reader=imap)
    if token is not None:
        check_token_source(token)
    elif fields.kind in {"gmail", "graph"}:
        raise ConfigInvalid(
            f"{fields.kind} needs access tokens: token_url with client_id and refresh_token, or on "
            "the machine of the service token_command"
        )
    for name, reader_name in _HTTP_NAMES[fields.kind].items():
        if value := getattr(fields, name):
            shared[reader_name] = value
    if fields.folders:
        shared[_FOLDER_NAMES[fields.kind]] = fields.folders[0]
    return MailboxConfig(reader=http_config(type=fields.kind, **shared), token=token)


def _token_source(fields: MailboxFields) -> TokenSource | None:
    command: str = getattr(fields, "token_command", "")
    if command:
        try:
            words = tuple(shlex.split(command))
        except ValueError:
            raise ConfigInvalid("the token command has an open quotation mark; close it") from None
        return TokenCommand(words=words or ("",))
    if not fields.token_url:
        return None
    return TokenUrl(
        url=fields.token_url,
        client_id=fields.client_id,
        client_secret=fields.client_secret,
        refresh_token=fields.refresh_token,
        scope=fields.scope,
    )


# stored

_DECODER = msgspec.json.Decoder(MailboxConfig)


def encode_config(config: MailboxConfig) -> bytes:
    """Return a configuration as it is encrypted."""
    return msgspec.json.encode(config)


def decode_config(data: bytes) -> MailboxConfig:
    """Return a decrypted configuration.

    Raises: ConfigInvalid.
    """
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError:
        # The decoder's message may quote a password.
        raise ConfigInvalid(
            "the configuration of the mailbox is invalid; write it again with: "
            "oncebox mailbox change"
        ) from None


# refresh tokens that the endpoint replaces


def _with_refresh_token(config: MailboxConfig, refresh_token: str) -> MailboxConfig:
    """Return a configuration with another refresh token, and from which one that was issued."""
    source = config.token_url
    if source is None:
        return config
    written = config.written_token or _digest(source.refresh_token)
    source = msgspec.structs.replace(source, refresh_token=refresh_token)
    if isinstance(config.reader, ImapConfig):
        reader = msgspec.structs.replace(config.reader, token=source)
        return msgspec.structs.replace(config, reader=reader, written_token=written)
    return msgspec.structs.replace(config, token=source, written_token=written)


def with_stored_token(written: bytes, stored: bytes) -> bytes:
    """Return a configuration as its owner writes it, with the refresh token that replaced its own.

    That is the stored one, as long as the owner has not written another. Both are decrypted.
    """
    new = decode_config(written)
    try:
        known = decode_config(stored)
    except ConfigInvalid:
        return written
    own, newest = new.token_url, known.token_url
    if own is None or newest is None or known.written_token != _digest(own.refresh_token):
        return written
    return encode_config(_with_refresh_token(new, newest.refresh_token))


def _digest(refresh_token: str) -> str:
    return hashlib.sha256(refresh_token.encode()).hexdigest()


# readers

#: stores a configuration in which the refresh token is another
KeepConfig = Callable[[bytes], Awaitable[object]]

#: seconds of a probe, below the deadline of a client
_PROBE_WITHIN = 20.0


async def probe_mailbox(config: bytes, keep: KeepConfig) -> MailboxProbe:
    """Connect and log in with a decrypted configuration; read no mail.

    Raises: ConfigInvalid, MailboxFailure, and what ``keep`` raises.
    """
    reader = open_reader(decode_config(config), keep)
    try:
        async with asyncio.timeout(_PROBE_WITHIN):
            return await reader.probe()
    except TimeoutError:
        raise MailboxFailure("timed_out") from None
    finally:
        await reader.close()


def _begin_no_later(reader: ReaderConfig, days: int) -> ReaderConfig:
    """Return the configuration of a reader whose first page has the mail of so many days."""
    if reader.since == "all":
        return reader
    begin = days if reader.since == "now" else max(days, reader.since)
    return msgspec.structs.replace(reader, since=begin)


def open_reader(
    config: MailboxConfig,
    keep: KeepConfig,
    *,
    begin_days: int | None = None,
    refused_before: int = 0,
) -> MailboxReader:
    """Return the reader of a configuration; it connects when it is first used.

    ``keep`` stores the configuration when the token endpoint has replaced the refresh token. With
    ``begin_days`` the first page has at least the mail of so many days; ``refused_before`` is how
    often the server refused the next mail.

    Raises: ConfigInvalid.
    """
    reader = config.reader if begin_days is None else _begin_no_later(config.reader, begin_days)

    async def keep_token(refresh_token: str) -> None:
        await keep(encode_config(_with_refresh_token(config, refresh_token)))

    if isinstance(reader, ImapConfig):
        return ImapReader(reader, on_new_refresh_token=keep_token, refused_before=refused_before)
    if config.token is None:
        return open_http_reader(reader)
    tokens = AccessTokens(config.token, on_new_refresh_token=keep_token)
    return _TokenReader(reader, tokens)


class _TokenReader:
    """A reader with access tokens of its own, closed with it."""

    def __init__(
        self, config: JmapConfig | GmailConfig | GraphConfig | RestConfig, tokens: AccessTokens
    ) -> None:
        self._tokens = tokens
        self._reader = open_http_reader(config, tokens=tokens)

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        return await self._reader.fetch(cursor, limits)

    async def wait(self, seconds: float) -> bool:
        return await self._reader.wait(seconds)

    async def probe(self) -> MailboxProbe:
        return await self._reader.probe()

    async def close(self) -> None:
        await self._reader.close()
        await self._tokens.close()
