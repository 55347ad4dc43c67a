"""The office: everything the connections of one mail server share."""

import asyncio
from typing import Protocol

import msgspec

from oncebox.edge.smtp.certificate import Certificate
from oncebox.edge.smtp.rules import Rules
from oncebox.edge.smtp.spool import Spool
from oncebox.edge.smtp.watch import Watch
from oncebox.ledger.inboxes.directory import Place
from oncebox.model.delivery import Accepted
from oncebox.model.envelope import Envelope
from oncebox.telemetry import Telemetry


class BrokenOff(Exception):
    """The conversation ends here, after a last word or without one; only tests want that."""

    def __init__(self, reply: bytes = b"") -> None:
        """Take the last word; without one the connection is cut."""
        super().__init__()
        self.reply = reply


class Directory(Protocol):
    """Knows what addresses lead to."""

    def glance(self, local: str, domain: str) -> Place | None:
        """Return what is known at once; None: ask with ``find``."""

    async def find(self, local: str, domain: str) -> Place:
        """Ask the database."""


class Post(Protocol):
    """Stores mail."""

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when it is on disk.

        Raises: BrokenOff, where a test wants that.
        """

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Return what is done when it is on disk."""


class Office(msgspec.Struct, frozen=True):
    """Everything the connections of one server share."""

    rules: Rules
    watch: Watch
    directory: Directory
    post: Post
    spool: Spool
    telemetry: Telemetry
    #: none: TLS is not offered
    tls: Certificate | None
