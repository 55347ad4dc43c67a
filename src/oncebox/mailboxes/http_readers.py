"""Configurations of the HTTP readers, stored encrypted; opening a reader from one."""

import ssl
from typing import assert_never

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.core.connecting import client_tls
from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.api_client import AccessTokenSource
from oncebox.mailboxes.gmail import GmailConfig, GmailReader, check_gmail_config
from oncebox.mailboxes.graph import GraphConfig, GraphReader, check_graph_config
from oncebox.mailboxes.inbox_apis import RestConfig, rest_table
from oncebox.mailboxes.jmap import JmapConfig, JmapReader, check_jmap_config
from oncebox.mailboxes.reader import MailboxReader
from oncebox.mailboxes.rest import RestReader

HttpMailboxConfig = JmapConfig | GmailConfig | GraphConfig | RestConfig


def check_http_config(config: HttpMailboxConfig) -> None:
    """Check a configuration; nothing is connected.

    Raises: ConfigInvalid.
    """
    match config:
        case JmapConfig():
            check_jmap_config(config)
        case GmailConfig():
            check_gmail_config(config)
        case GraphConfig():
            check_graph_config(config)
        case RestConfig():
            rest_table(config)
        case _:
            assert_never(config)
    client_tls(config.ca)


def http_config(**fields: object) -> HttpMailboxConfig:
    """Return a configuration; ``type`` is jmap, gmail, graph or rest.

    Raises: ConfigInvalid.
    """
    try:
        config: HttpMailboxConfig = msgspec.convert(fields, HttpMailboxConfig)
    except msgspec.ValidationError as error:
        # The path of the field and the rule; values are not quoted.
        raise ConfigInvalid(f"the configuration of the mailbox is invalid: {error}") from None
    check_http_config(config)
    return config


def open_http_reader(
    config: HttpMailboxConfig,
    *,
    tokens: AccessTokenSource | None = None,
    tls: ssl.SSLContext | None = None,
    now: Clock = clock.system,
) -> MailboxReader:
    """Return the reader of a configuration; it connects when it is first used.

    Raises: ConfigInvalid.
    """
    match config:
        case JmapConfig():
            return JmapReader(config, tokens=tokens, tls=tls, now=now)
        case GmailConfig():
            return GmailReader(config, tokens=tokens, tls=tls, now=now)
        case GraphConfig():
            return GraphReader(config, tokens=tokens, tls=tls, now=now)
        case RestConfig():
            return RestReader(config, tls=tls, now=now)
        case _:
            assert_never(config)
