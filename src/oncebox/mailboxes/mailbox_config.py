"""Mailbox configurations, stored encrypted; opening the reader of one."""

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.access_tokens import AccessTokens, TokenSource
from oncebox.mailboxes.gmail import GmailConfig
from oncebox.mailboxes.graph import GraphConfig
from oncebox.mailboxes.http_readers import check_http_config, open_http_reader
from oncebox.mailboxes.imap import ImapReader
from oncebox.mailboxes.imap_config import ImapConfig, check_imap_config
from oncebox.mailboxes.inbox_apis import RestConfig
from oncebox.mailboxes.jmap import JmapConfig
from oncebox.mailboxes.reader import MailboxPage, MailboxProbe, MailboxReader, PageLimits

ReaderConfig = ImapConfig | JmapConfig | GmailConfig | GraphConfig | RestConfig


class MailboxConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a mailbox is read."""

    reader: ReaderConfig
    #: where access tokens come from; those of IMAP are part of its own configuration
    token: TokenSource | None = None

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


def check_config(config: MailboxConfig) -> None:
    """Check a configuration; nothing is connected.

    Raises: ConfigInvalid.
    """
    if isinstance(config.reader, ImapConfig):
        check_imap_config(config.reader)
    else:
        check_http_config(config.reader)


def open_reader(config: MailboxConfig) -> MailboxReader:
    """Return the reader of a configuration; it connects when it is first used.

    Raises: ConfigInvalid.
    """
    if isinstance(config.reader, ImapConfig):
        return ImapReader(config.reader)
    if config.token is None:
        return open_http_reader(config.reader)
    return _TokenReader(config.reader, AccessTokens(config.token))


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
