"""Readers of a scripted IMAP server, shared by the tests of pages and of connections."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from oncebox.mailboxes.access_tokens import AccessTokens
from oncebox.mailboxes.imap import ImapReader
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, MailboxPage, PageLimits
from oncebox.testing.imap import RECEIVED_AT, ImapFault, ImapFaultAction, ImapStep, ScriptedImap

LIMITS = PageLimits(within=5.0)
IMPATIENT = PageLimits(within=0.3)
DAY = timedelta(days=1)
NOW = int((RECEIVED_AT + timedelta(hours=1)).timestamp() * 1000)
#: commands that would change something
CHANGES = {"SELECT", "STORE", "EXPUNGE", "COPY", "MOVE", "APPEND", "DELETE", "CREATE", "CLOSE"}


def mail(number: int, size: int = 0) -> bytes:
    return b"Message-ID: <%d@example.com>\r\n\r\n%s\r\n" % (number, b"x" * size)


def config(server: ScriptedImap, **fields: Any) -> ImapConfig:
    given: dict[str, Any] = {
        "host": server.host, "port": server.port, "security": ImapSecurity.NONE,
        "username": "ann", "password": "secret", "since": "all", **fields,
    }  # fmt: skip
    return ImapConfig(**given)


@asynccontextmanager
async def opened(
    server: ScriptedImap,
    *,
    tokens: AccessTokens | None = None,
    tls: ssl.SSLContext | None = None,
    now: int = NOW,
    lasting: float = 60.0,
    refused_before: int = 0,
    **fields: Any,
) -> AsyncIterator[ImapReader]:
    """Read a server; it must not have been changed."""
    reader = ImapReader(
        config(server, **fields),
        tokens=tokens,
        tls=tls,
        now=lambda: now,
        lasting=lasting,
        refused_before=refused_before,
    )
    try:
        yield reader
    finally:
        await reader.close()
    assert not {each.partition(" ")[0] for each in server.commands} & CHANGES


async def read_all(
    reader: ImapReader, cursor: str | None = None, limits: PageLimits = LIMITS
) -> tuple[list[FetchedMail], MailboxPage]:
    """Read until there is no more."""
    mails: list[FetchedMail] = []
    for _ in range(200):
        page = await reader.fetch(cursor, limits)
        mails += page.mails
        cursor = page.cursor
        if not page.has_more:
            return mails, page
    raise AssertionError("there is always more")


async def failure_of(reader: ImapReader, limits: PageLimits = LIMITS) -> MailboxFailure:
    with pytest.raises(MailboxFailure) as failed:
        await reader.fetch(None, limits)
    return failed.value


def sends(step: ImapStep, data: bytes) -> ImapFault:
    return ImapFault(step=step, action=ImapFaultAction.SEND, data=data)
