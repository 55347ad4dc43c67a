"""A resync begins no later than the reading of the mailbox did, whatever it reads at first."""

from datetime import UTC, datetime, timedelta

import pytest

from oncebox.core import clock, ids
from oncebox.core.encryption import MasterKey
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import MailboxCipher
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.mailboxes.mailboxes import PageToStore
from oncebox.ledger.transactions import Ledger
from oncebox.mailboxes.mailbox_config import MailboxConfig, encode_config
from oncebox.mailboxes.reader import PageLimits
from oncebox.model.mailboxes.mailbox import MailboxKind, MailboxLease, NewMailbox
from oncebox.testing.imap import ScriptedImap
from oncebox.workers.mailboxes.routing import open_mailbox
from tests.mailboxes.imap_box import config, mail
from tests.support.clerk import DAY, LEASE, TENANT, Clerk

CIPHER = MailboxCipher(MasterKey(bytes(range(32))))


def entry(clerk: Clerk) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=clerk.now, who="t", why="")


@pytest.mark.parametrize(("since", "found"), [("now", [2, 3]), (0, [2, 3]), ("all", [1, 2, 3])])
async def test_a_resync_reads_the_mail_that_arrived_since_the_mailbox_was_added(
    clerk: Clerk, imap: ScriptedImap, since: str | int, found: list[int]
) -> None:
    """Mail that waited while the mailbox was paused is not passed over."""
    clerk.now = clock.system() - 3 * DAY
    added_at = datetime.fromtimestamp(clerk.now / 1000, UTC)
    sealed = encode_config(MailboxConfig(reader=config(imap, since=since)))
    new = NewMailbox(
        name="support",
        kind=MailboxKind.IMAP,
        account="ann",
        config=CIPHER.encrypt(TENANT, "support", sealed),
    )
    clerk.run(mailboxes.add, "mbx_1", new, entry(clerk))
    (one,) = clerk.run(mailboxes.claim, "w1", LEASE, 10, clerk.now)
    lease = MailboxLease(id=one.id, tenant=TENANT, fence=one.fence)
    clerk.run(mailboxes.store_page, lease, PageToStore(0, "c1"), clerk.now)
    imap.add(mail(1), received_at=added_at - timedelta(days=30))
    imap.add(mail(2), received_at=added_at + timedelta(minutes=5))
    imap.add(mail(3), received_at=added_at + timedelta(days=2))
    clerk.now += 3 * DAY
    resynced = clerk.run(mailboxes.resync, "support", entry(clerk))

    database = clerk.place.open()
    reader = open_mailbox(Ledger(database), CIPHER, resynced)
    try:
        page = await reader.fetch(None, PageLimits(within=5.0))
    finally:
        await reader.close()
        await database.close()

    assert [each.raw for each in page.mails] == [mail(number) for number in found]
