"""Mail that is filed into the inboxes of an opened box, past the worker."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.ledger.deliveries import deduplication, leases
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import new_message
from oncebox.model.inboxes.received_mail import MAIL_SOURCE, SenderVerdict
from tests.support.letters import add_inbox, envelope, posted


@dataclass
class Sorter:
    """Puts mail into inboxes of a box."""

    box: Oncebox

    @property
    def database(self) -> Any:
        """The box's own."""
        return self.box.components.database

    async def add_inbox(
        self,
        inbox_id: str,
        owner: str | None = None,
        tenant: str = "",
        policy: InboxPolicy | None = None,
    ) -> None:
        """Add an inbox, of a key if one is named."""
        postgres = self.database.kind == "postgres"
        tenant = tenant or self.box.settings.tenant
        await self.database.write(
            add_inbox, inbox_id, tenant=tenant, owner=owner, policy=policy, postgres=postgres
        )

    async def file(
        self, inbox_id: str, *raws: bytes, tenant: str = "", address: str = ""
    ) -> list[str]:
        """File mails, sent to an address if one is named; return the ids of their messages."""
        tenant, now = tenant or self.box.settings.tenant, self.database.clock()
        new = [each for raw in raws for each in posted(raw, inbox_id, now=now, tenant=tenant)]
        await self.database.write(deduplication.accept, new, now)
        who = leases.DeliveryClaimant(tenant, MAIL_SOURCE, "test", 30_000, 8, 1_000_000)
        claimed = await self.database.write(leases.claim, who, 1000, now)
        said = envelope(inbox_id, tenant=tenant)
        to = said.recipients[0]
        to = replace(to, address=address) if address else to
        filings = [
            new_message(
                each,
                to,
                said,
                parsed=parse(each.body, ParseLimits()),
                verdict=SenderVerdict(),
                mismatch="",
                ids=(ids.new("msg"), ids.new("evt")),
            )
            for each in claimed
        ]
        filed = await self.database.write(
            messages.file, filings, now, cipher=self.box.components.mail_cipher
        )
        self.box.components.ledger.notify(MESSAGES, EVENTS)
        return [each.message_id for each in filed]
