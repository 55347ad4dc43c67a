"""The mail room by hand: domains and inboxes, in time the test owns and with its own dice."""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from oncebox.db.database import Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.allocation import AllocatedInbox, InboxService
from oncebox.model.inboxes.addresses import Domain
from oncebox.model.inboxes.inbox import Inbox, InboxOptions
from oncebox.settings import InboxSettings
from tests.support.clerk import TENANT, Clerk
from tests.support.office import Office

#: seconds
LIFETIME, DRAINING = 3_600, 900
ALL = Requester(tenant=TENANT)


def agent(key: str, tenant: str = TENANT) -> Requester:
    """Return an agent, who sees what its key made."""
    return Requester(tenant=tenant, key=key, sees_all=False)


class MailRoom:
    """Every verb of the postmaster, at the clerk's time."""

    def __init__(self, clerk: Clerk, *, random: Callable[[int], bytes] = os.urandom) -> None:
        """Work beside a clerk, for a tenant that is there."""
        self.clerk = clerk
        self.office = Office(clerk)
        settings = InboxSettings(lifetime=LIFETIME, draining=DRAINING)
        self.postmaster = InboxService(settings, home=TENANT, random=random)

    def make(self, asker: Requester = ALL, **wish: Any) -> Inbox:
        """Make one inbox, or get the one that is there."""
        return self.made(InboxOptions(**wish), asker=asker)[0].inbox

    def made(self, *wishes: InboxOptions, asker: Requester = ALL) -> list[AllocatedInbox]:
        """Make inboxes in one commit."""
        return self.clerk.run(self.postmaster.allocate, asker, wishes, self.clerk.now)

    def get(self, id_: str, asker: Requester = ALL) -> Inbox:
        """Return an inbox as it is now."""
        return self.clerk.run(inboxes.get, asker, id_)

    def close(self, id_: str, drain: int | None = None, asker: Requester = ALL) -> Inbox:
        """Close an inbox."""
        return self.clerk.run(self.postmaster.close, asker, id_, drain, self.clerk.now)

    def rotate(self, id_: str, drain: int | None = None, asker: Requester = ALL) -> Inbox:
        """Rotate an inbox."""
        return self.clerk.run(self.postmaster.rotate, asker, id_, drain, self.clerk.now)

    def add_domain(self, name: str, tenant: str = TENANT, *, catch_all: bool = False) -> Domain:
        """Add a domain."""
        return self.clerk.run(
            self.postmaster.add_domain,
            name,
            Requester(tenant=tenant),
            self.office.deed(tenant),
            catch_all=catch_all,
        )

    def remove_domain(self, name: str, tenant: str = TENANT) -> None:
        """Remove a domain."""
        self.clerk.run(self.postmaster.remove_domain, name, self.office.deed(tenant))

    def domains(self, tenant: str = TENANT) -> list[str]:
        """Return the names of a tenant's domains."""
        return [each.name for each in self.clerk.run(self.postmaster.domains, tenant)]

    def turn(self, most: int = 500) -> inboxes.ExpiryResult:
        """Take the steps that are due."""
        return self.clerk.run(inboxes.expire, self.postmaster.draining, self.clerk.now, most)

    def file(self, id_: str, *, matched: int = 1, cursor: int = 1) -> None:
        """Let messages be in an inbox."""
        mark = "?" if self.clerk.place.kind == "sqlite" else "%s"

        def filed(tx: Transaction) -> None:
            statement = (
                "UPDATE oncebox_inboxes SET cursor = cursor + M, matched = matched + M, "
                "first_message_at = COALESCE(first_message_at, M), last_message_at = M WHERE id = M"
            )
            now = self.clerk.now
            tx.execute(statement.replace("M", mark), [cursor, matched, now, now, id_])

        self.clerk.session.run(filed)

    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the events in the order of their ids: type, inbox, data."""

        def read(tx: Transaction) -> list[tuple[str, str, dict[str, Any]]]:
            rows = tx.execute("SELECT type, inbox_id, data FROM oncebox_events ORDER BY id")
            return [(kind, id_, msgspec.json.decode(data)) for kind, id_, data in rows]

        return self.clerk.session.run(read)

    def told(self, *types: str) -> list[tuple[str, str]]:
        """Return which events were recorded of which inbox, creations apart unless asked for."""
        return [
            (kind, id_)
            for kind, id_, _ in self.events()
            if (kind in types if types else kind != "inbox.created")
        ]

    def count(self) -> int:
        """Return how many inboxes there are."""
        return int(
            self.clerk.session.run(
                lambda tx: tx.execute("SELECT COUNT(*) FROM oncebox_inboxes")[0][0]
            )
        )
