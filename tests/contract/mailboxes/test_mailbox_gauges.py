"""Gauges of mailboxes: how long a read is overdue, when one succeeded, what remains, pauses."""

import msgspec
import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.mailboxes.mailboxes import PageToStore
from oncebox.ledger.transactions import Ledger
from oncebox.model.mailboxes.mailbox import MailboxKind, MailboxOrigin, MailboxProgress, PageCounts
from oncebox.workers.maintenance.mailbox_gauges import MailboxGauges
from tests.contract.mailboxes.test_mailboxes import NEW, added, claimed, entry
from tests.support.clerk import TENANT, Clerk

PROGRESS = MailboxProgress(
    tenant=TENANT,
    name="support",
    kind=MailboxKind.IMAP,
    origin=MailboxOrigin.DATABASE,
    paused=None,
    succeeded_at=None,
    remaining=None,
    poll_every=60_000,
    poll_after=30_000,
    pushed_at=None,
    changed_at=1_000_000,
)


@pytest.mark.parametrize(
    ("changes", "lag"),
    [
        ({}, 40_000),
        ({"succeeded_at": 1_090_000}, 0),
        ({"succeeded_at": 1_010_000}, 30_000),
        ({"succeeded_at": 10_000}, 40_000),
        ({"pushed_at": 1_060_000}, 10_000),
        ({"pushed_at": 1_099_000}, 0),
        ({"paused": "login_refused"}, 0),
        ({"kind": MailboxKind.PROGRAM}, 0),
        ({"poll_every": 3_600_000}, 0),
    ],
)
def test_the_lag_is_what_a_read_is_overdue_by_its_schedule(
    changes: dict[str, object], lag: int
) -> None:
    assert msgspec.structs.replace(PROGRESS, **changes).lag(1_100_000) == lag


async def test_the_gauges_show_each_mailbox_until_it_is_removed(
    database: Database, clerk: Clerk
) -> None:
    telemetry = Telemetry()
    gauges = MailboxGauges(Ledger(database), telemetry)
    labels = f'{{mailbox="support",tenant="{TENANT}"}}'

    def shown(name: str) -> float:
        (line,) = [each for each in telemetry.scrape().splitlines() if each.startswith(name)]
        assert labels in line
        return float(line.split()[-1])

    one = added(clerk)
    await gauges.look()
    assert (shown("oncebox_mailbox_last"), shown("oncebox_mailbox_paused")) == (0, 0)
    assert shown("oncebox_mailbox_lag_seconds") > 3600, "it was added long ago, by this clock"

    _, lease = claimed(clerk)
    page = PageToStore(0, "c1", (), PageCounts(remaining=7))
    clerk.run(mailboxes.store_page, lease, page, clerk.now)
    clerk.run(mailboxes.pause, one.name, entry(clerk))
    await gauges.look()
    assert shown("oncebox_mailbox_last") == clerk.now / 1000
    assert (shown("oncebox_mailbox_remaining"), shown("oncebox_mailbox_paused")) == (7, 1)
    assert shown("oncebox_mailbox_lag_seconds") == 0

    clerk.run(mailboxes.remove, one.name, entry(clerk))
    await gauges.look()
    assert labels not in telemetry.scrape()


async def test_a_mailbox_that_is_not_in_the_settings_any_more_is_not_shown(
    database: Database, clerk: Clerk
) -> None:
    added(clerk, msgspec.structs.replace(NEW, origin=MailboxOrigin.FILE))
    for declared, is_shown in (((), False), ({(TENANT, "support")}, True)):
        telemetry = Telemetry()
        await MailboxGauges(Ledger(database), telemetry, declared).look()

        assert ('mailbox="support"' in telemetry.scrape()) is is_shown
