"""The HTTP readers beside the fakes of what they read."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from oncebox.mailboxes.gmail import GmailConfig, GmailReader
from oncebox.mailboxes.graph import GraphConfig, GraphReader
from oncebox.mailboxes.inbox_apis import KNOWN_APIS, RestConfig
from oncebox.mailboxes.jmap import JmapConfig, JmapReader
from oncebox.mailboxes.reader import MailboxPage, MailboxReader, PageLimits
from oncebox.mailboxes.rest import RestReader
from oncebox.testing.gmail import FakeGmail
from oncebox.testing.graph import FakeGraph
from oncebox.testing.inbox_apis import (
    INBOX,
    FakeAgentMail,
    FakeMailhook,
    FakeMailosaur,
    FakeMailpit,
    FakeMailSlurp,
)
from oncebox.testing.jmap import FakeJmap
from oncebox.testing.mailbox_server import FakeMailbox

#: read once: loading certificates takes longer than most tests
TLS = ssl.create_default_context()
BEGIN = 1_900_000_000_000
LIMITS = PageLimits(mails=10, within=20)


@dataclass
class FakeClock:
    """A clock that tests set."""

    at: int = BEGIN

    def __call__(self) -> int:
        return self.at


@dataclass(frozen=True)
class Peer:
    """One kind of server, and its reader."""

    name: str
    fake: Callable[..., Any]
    #: mail that arrives while a first listing goes on is given by the changes, too
    overlaps: bool = False

    def reader(
        self, url: str, *, since: Any = "all", now: Callable[[], int], **options: Any
    ) -> MailboxReader:
        """Return a reader of the fake at an address."""
        shared: dict[str, Any] = {"tls": options.pop("tls", TLS), "now": now}
        tokens = {"tokens": options.pop("tokens")} if "tokens" in options else {}
        match self.name:
            case "jmap":
                fields = {"api_token": "key", **options}
                config = JmapConfig(url=f"{url}/jmap/session", since=since, **fields)
                return JmapReader(config, ping=1, **shared, **tokens)
            case "gmail":
                gmail = GmailConfig(url=url, access_token="key", since=since, **options)
                return GmailReader(gmail, **shared, **tokens)
            case "graph":
                graph = GraphConfig(url=f"{url}/v1.0", access_token="key", since=since, **options)
                return GraphReader(graph, **shared, **tokens)
        key = "" if self.name == "mailpit" else "key"
        if "page_size" in options:
            table = structs.replace(KNOWN_APIS[self.name].table, page_size=options.pop("page_size"))
            auth = table.auth if key else "none"
            options |= {"api": "generic-rest", "table": structs.replace(table, auth=auth)}
        rest = {"api": self.name, "url": url, "inbox": INBOX, "key": key, **options}
        return RestReader(RestConfig(since=since, **rest), **shared)

    def expire(self, fake: FakeMailbox) -> None:
        """Let the server forget cursors or page tokens."""
        if isinstance(fake, FakeGmail):
            fake.forget_history()
            fake.expire_tokens()
        elif isinstance(fake, FakeGraph):
            fake.expire_links()
        elif isinstance(fake, FakeJmap):
            fake.forget_changes()
        else:
            fake.token_epoch += 1  # type: ignore[attr-defined]

    @property
    def is_rest(self) -> bool:
        """Whether it is an API that knows only timestamps."""
        return self.name not in {"jmap", "gmail", "graph"}


PEERS = [
    Peer("jmap", FakeJmap, overlaps=True),
    Peer("gmail", FakeGmail),
    Peer("graph", FakeGraph),
    Peer("agentmail", FakeAgentMail),
    Peer("mailosaur", FakeMailosaur),
    Peer("mailslurp", FakeMailSlurp),
    Peer("mailhook", FakeMailhook),
    Peer("mailpit", FakeMailpit),
]


@dataclass
class Store:
    """What a worker would have stored: mails by their ids, with the cursor."""

    cursor: str | None = None
    given: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    has_more: bool = True

    def commit(self, page: MailboxPage) -> None:
        """Store a page with its cursor."""
        self.cursor = page.cursor
        self.has_more = page.has_more
        self.given += [each.provider_id for each in page.mails]
        self.skipped += [(each.provider_id, each.code) for each in page.skipped]


async def drain(reader: MailboxReader, store: Store, limits: PageLimits = LIMITS) -> None:
    """Read until the server has no more."""
    for _ in range(1000):
        store.commit(await reader.fetch(store.cursor, limits))
        if not store.has_more:
            return
    message = "the pages have no end"
    raise AssertionError(message)


def mail(number: int, size: int = 0) -> bytes:
    """Return a mail."""
    text = f"From: Shop <shop@example.com>\r\nSubject: number {number}\r\n"
    text += f"Message-ID: <{number}@example.com>\r\n\r\nYour code is {number:06d}.\r\n"
    return text.encode() + b"x" * size


def provider_id(peer: Peer, id_: str) -> str:
    """Return the id of a mail as a reader gives it."""
    return f"{'rest' if peer.is_rest else peer.name}:{id_}"
