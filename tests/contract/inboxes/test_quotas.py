"""Quotas: what inboxes and tenants store is counted exactly, and limited."""

import pytest

from oncebox.errors import NotFound
from oncebox.errors.mail import QuotaExceeded
from oncebox.ledger import maintenance
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import quotas
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.ledger.inboxes.recipient_directory import RecipientStatus, StorageLimits, look_up
from oncebox.model.admin.access import TenantStorage
from oncebox.model.deliveries.delivery import (
    CommitHook,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.inboxes.inbox import InboxOptions
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.settings import InboxSettings
from tests.support.clerk import DAY, TENANT, Clerk
from tests.support.letters import FILE, Mailroom, mail
from tests.support.office import Office


@pytest.fixture
def room(clerk: Clerk) -> Mailroom:
    return Mailroom(clerk)


def _file(room: Mailroom, raw: bytes, inbox: str = "inb_1") -> None:
    (delivery,) = room.claimed(raw, inbox)
    ending = Settlement(
        delivery=delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.HANDLED,
        commit_hook=CommitHook(FILE, room.filing(delivery)),
    )
    room.clerk.settle(ending)


def _stored(room: Mailroom) -> tuple[int, dict[str, int]]:
    """Return what the tenant stores, and its inboxes."""
    rows = room.clerk.run(lambda tx: tx.execute("SELECT id, stored_bytes FROM oncebox_inboxes"))
    found = room.clerk.run(quotas.storage, TENANT, 0)
    return found.stored_bytes, {str(id_): int(size) for id_, size in rows}


def test_mail_counts_when_it_is_filed_also_as_a_copy(room: Mailroom) -> None:
    room.add_inbox("inb_2")
    raws = [
        mail(text="x" * 100),
        mail(text="x" * 100) + b"\r\n",
        mail(text="y", message_id="<2@x>"),
    ]
    for raw in raws:
        _file(room, raw)
    _file(room, raws[0], "inb_2")
    sizes = [len(raw) for raw in raws]

    total, inboxes = _stored(room)
    assert inboxes == {"inb_1": sum(sizes), "inb_2": sizes[0]}
    assert total == sum(sizes) + sizes[0]


def test_mail_no_longer_counts_when_its_raw_bytes_are_deleted(room: Mailroom) -> None:
    _file(room, mail(text="x" * 100))
    room.clerk.now += 10 * DAY
    _file(room, mail(message_id="<2@x>"))
    cutoffs = {(maintenance.ANY_TENANT, MAIL_SOURCE): room.clerk.now - DAY}
    for _ in range(2):
        room.clerk.purge_bodies(cutoffs)

    size = len(mail(message_id="<2@x>"))
    assert _stored(room) == (size, {"inb_1": size})


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (StorageLimits(), RecipientStatus.OPEN),
        (StorageLimits(inbox=10_000, tenant=10_000), RecipientStatus.OPEN),
        (StorageLimits(inbox=100), RecipientStatus.FULL),
        (StorageLimits(tenant=100), RecipientStatus.FULL),
    ],
)
def test_an_inbox_that_stores_as_much_as_it_may_is_full(
    room: Mailroom, limits: StorageLimits, status: RecipientStatus
) -> None:
    address = _with_domain(room)
    _file(room, mail(text="x" * 100))
    found = room.clerk.run(look_up, [address], 0, limits)

    assert found[address].route.status is status


def test_a_tenant_has_a_limit_of_its_own_instead_of_the_default(room: Mailroom) -> None:
    office = Office(room.clerk)
    address = _with_domain(room)
    _file(room, mail(text="x" * 100))
    found = []
    for own in (100, 0, None):
        room.clerk.run(quotas.set_quota, own, office.deed())
        route = room.clerk.run(look_up, [address], 0, StorageLimits(tenant=50))[address].route
        found.append(route.status)

    assert found == [RecipientStatus.FULL, RecipientStatus.OPEN, RecipientStatus.FULL]
    assert room.clerk.run(quotas.storage_of_all, 50)[TENANT].quota_bytes == 50
    assert ("tenant quota", "bytes: 100") in office.audit(f"tenant:{TENANT}")


def test_a_tenant_that_nobody_made_has_no_limit(clerk: Clerk) -> None:
    with pytest.raises(NotFound):
        clerk.run(quotas.set_quota, 1, Office(clerk).deed(tenant="nobody"))


def test_a_full_tenant_gets_no_more_inboxes_but_keeps_those_it_has(room: Mailroom) -> None:
    office, requester = Office(room.clerk), Requester(tenant=TENANT)
    service = InboxService(InboxSettings(), home=TENANT, tenant_bytes=1_000)
    first = room.clerk.run(
        service.allocate, requester, [InboxOptions(attempt_id="a")], room.clerk.now
    )
    room.clerk.run(quotas.set_quota, 100, office.deed())
    _file(room, mail(text="x" * 100))
    again = room.clerk.run(
        service.allocate, requester, [InboxOptions(attempt_id="a")], room.clerk.now
    )

    assert again[0].inbox.id == first[0].inbox.id
    with pytest.raises(QuotaExceeded, match=f"oncebox tenant quota {TENANT}"):
        room.clerk.run(service.allocate, requester, [InboxOptions()], room.clerk.now)


@pytest.mark.parametrize(
    ("stored", "quota", "full", "nearly"),
    [(0, 0, False, False), (10**9, 0, False, False), (89, 100, False, False),
     (90, 100, False, True), (100, 100, True, True)],
)  # fmt: skip
def test_a_limit_of_zero_is_none(stored: int, quota: int, full: bool, nearly: bool) -> None:
    found = TenantStorage("t", stored, quota)

    assert (found.is_full, found.is_nearly_full) == (full, nearly)


def _with_domain(room: Mailroom) -> str:
    """Let the tenant have the domain of its inbox; return the address of that."""
    domain = f"INSERT INTO oncebox_domains VALUES ('oncebox.test', '{TENANT}', NULL, 0)"  # noqa: S608
    room.clerk.run(lambda tx: tx.execute(domain))
    return "inb_1@oncebox.test"
