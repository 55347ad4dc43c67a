"""Codes and links that come into the inboxes of an opened box, for those who wait there."""

import hashlib
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import deduplication, leases
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.model.inboxes.message import new_message
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.workers.mail.mail_processor import build_artifacts
from tests.support.finds import Letter, parsed, verdict
from tests.support.letters import envelope, posted
from tests.support.sorter import Sorter


class Arrivals(Sorter):
    """Files letters as the worker does, with what was found in them."""

    async def post(self, inbox_id: str, *, at: int | None = None) -> None:
        """Take a mail in, and leave it unread."""
        now = self.database.clock() if at is None else at
        raw = hashlib.sha256(ids.new("raw").encode()).hexdigest().encode()
        new = posted(raw, inbox_id, now=now, tenant=self.box.settings.tenant)
        await self.database.write(deduplication.accept, new, now)

    async def bring(self, inbox_id: str, *letters: Letter) -> list[str]:
        """File letters in one commit; return the ids of their messages."""
        tenant, now = self.box.settings.tenant, self.database.clock()
        for _ in letters:
            await self.post(inbox_id)
        who = leases.DeliveryClaimant(tenant, MAIL_SOURCE, "test", 30_000, 8, 1_000_000)
        claimed = await self.database.write(leases.claim, who, 1000, now + 1_000)
        said = envelope(inbox_id, tenant=tenant)
        strongbox = self.box.components.artifact_cipher
        filings = []
        for each, letter in zip(claimed, letters, strict=True):
            at = each.received_at if letter.received_at is None else letter.received_at
            delivery = msgspec.structs.replace(each, received_at=at)
            read, judged = parsed(letter), verdict(letter)
            found = build_artifacts(strongbox, tenant, inbox_id, read, judged)
            filings.append(
                new_message(
                    delivery, said.recipients[0], said,
                    parsed=read, verdict=judged, mismatch=letter.mismatch,
                    ids=(ids.new("msg"), ids.new("evt")), artifacts=found,
                )
            )  # fmt: skip
        filed = await self.database.write(
            messages.file, filings, now, cipher=self.box.components.mail_cipher
        )
        await self.database.write(_read)
        self.box.components.ledger.notify(MESSAGES, EVENTS)
        return [each.message_id for each in filed]


def _read(tx: Transaction) -> None:
    tx.execute(
        "UPDATE oncebox_deliveries SET state = 'done', due_at = NULL WHERE state = 'processing'"
    )


def code_of(answer: Any) -> str:
    """Return the code that a wait was granted."""
    told = answer.json()
    assert told["status"] == "granted", told
    value: str = told["grant"]["value"]
    return value
