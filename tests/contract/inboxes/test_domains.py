"""Domains: each one somebody's in the whole installation, and one that is there by itself."""

import pytest

from oncebox.errors import ConfigInvalid, NotFound, StateConflict
from oncebox.errors.mail import AddressInvalid, DomainTaken
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.model.inboxes.inbox import InboxOptions
from oncebox.settings import InboxSettings
from tests.support.clerk import TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.mailroom import MailRoom

NAME = "inbox.example.com"


@pytest.fixture
def room(clerk: Clerk) -> MailRoom:
    return MailRoom(clerk)


def test_a_domain_is_added_listed_audited_and_removed(room: MailRoom) -> None:
    added = room.add_domain("Inbox.Example.COM")
    listed = room.domains()
    room.remove_domain("INBOX.example.com")

    assert (added.name, added.tenant, added.catch_all) == (NAME, TENANT, None)
    assert listed == [NAME, "oncebox.test"]
    assert room.domains() == ["oncebox.test"]
    audited = [action for action, _ in room.office.audit(f"domain:{NAME}")]
    assert audited == ["domain add", "domain remove"]


def test_a_domain_is_one_tenants_and_nobody_learns_whose(room: MailRoom) -> None:
    room.add_domain(NAME)
    said = set()
    for tenant in (TENANT, "default"):
        with pytest.raises(DomainTaken) as taken:
            room.add_domain(NAME, tenant)
        said.add(str(taken.value))

    assert len(said) == 1
    assert room.domains("default") == []


@pytest.mark.parametrize("name", ["a.inbox.example.com", "example.com", "x.oncebox.test"])
def test_a_domain_above_or_below_another_tenants_is_refused(room: MailRoom, name: str) -> None:
    room.add_domain(NAME)

    with pytest.raises(DomainTaken):
        room.add_domain(name, "default")
    assert room.domains("default") == []


def test_a_tenant_may_have_subdomains_of_its_own_and_names_that_only_end_alike(
    room: MailRoom,
) -> None:
    room.add_domain(NAME)
    room.add_domain(f"a.{NAME}")
    room.add_domain(f"other{NAME}", "default")

    assert room.domains() == [f"a.{NAME}", NAME, "oncebox.test"]
    assert room.domains("default") == [f"other{NAME}"]


def test_two_who_add_a_domain_and_its_subdomain_at_once_are_one_and_a_refusal(
    room: MailRoom,
) -> None:
    mine, theirs = room.office.deed(), room.office.deed("default")
    add = room.postmaster.add_domain

    with pytest.raises(DomainTaken):
        interleave(
            room.clerk.place,
            lambda tx: add(tx, NAME, Requester(tenant=TENANT), mine, catch_all=False),
            lambda tx: add(tx, f"a.{NAME}", Requester(tenant="default"), theirs, catch_all=False),
        )

    assert (NAME in room.domains(), room.domains("default")) == (True, [])


def test_two_who_add_one_domain_at_once_are_one_and_a_refusal(room: MailRoom) -> None:
    mine, theirs = room.office.deed(), room.office.deed("default")
    add = room.postmaster.add_domain

    with pytest.raises(DomainTaken):
        interleave(
            room.clerk.place,
            lambda tx: add(tx, NAME, Requester(tenant=TENANT), mine, catch_all=False),
            lambda tx: add(tx, NAME, Requester(tenant="default"), theirs, catch_all=False),
        )

    assert (NAME in room.domains(), NAME in room.domains("default")) == (True, False)


def test_a_missing_domain_and_a_foreign_one_look_the_same(room: MailRoom) -> None:
    room.add_domain(NAME)
    said = set()
    for name, tenant in ((NAME, "default"), ("missing.test", TENANT), ("no domain", TENANT)):
        with pytest.raises(NotFound) as missing:
            room.remove_domain(name, tenant)
        said.add(str(missing.value))

    assert len(said) == 1
    assert NAME in room.domains()


def test_what_is_no_domain_is_refused(room: MailRoom) -> None:
    with pytest.raises(AddressInvalid):
        room.add_domain("not a domain")


def test_a_domain_of_a_tenant_that_nobody_made_is_refused(room: MailRoom) -> None:
    with pytest.raises(NotFound, match="tenant"):
        room.add_domain(NAME, "nobody")


# the default one


def test_the_default_domain_is_there_by_itself_for_its_tenant_only(room: MailRoom) -> None:
    assert room.domains() == ["oncebox.test"]
    assert room.domains("default") == []
    with pytest.raises(DomainTaken):
        room.add_domain("oncebox.test", "default")


def test_the_default_domain_stays(room: MailRoom) -> None:
    room.make()

    with pytest.raises(StateConflict, match="ONCEBOX_INBOXES__DOMAIN"):
        room.remove_domain("oncebox.test")
    assert room.domains() == ["oncebox.test"]


def test_two_first_inboxes_at_once_share_the_default_domain(room: MailRoom) -> None:
    now, asker = room.clerk.now, Requester(tenant=TENANT)

    interleave(
        room.clerk.place,
        lambda tx: room.postmaster.allocate(tx, asker, [InboxOptions()], now),
        lambda tx: room.postmaster.allocate(tx, asker, [InboxOptions()], now),
    )

    assert room.count() == 2


def test_a_default_domain_that_is_none_is_said_at_the_start() -> None:
    with pytest.raises(ConfigInvalid, match=r"inboxes\.domain"):
        InboxService(InboxSettings(domain="not a domain"), home=TENANT)


# the rest of a domain


@pytest.mark.parametrize("name", [NAME, "oncebox.test"])
def test_a_catch_all_is_an_inbox_of_the_domain_for_ever(room: MailRoom, name: str) -> None:
    domain = room.add_domain(name, catch_all=True)

    inbox = room.get(domain.catch_all or "")
    assert (inbox.domain, inbox.active_until, inbox.label) == (name, None, "catch-all")


def test_the_default_domain_gets_one_catch_all(room: MailRoom) -> None:
    room.make()
    room.add_domain("oncebox.test", catch_all=True)

    with pytest.raises(DomainTaken):
        room.add_domain("oncebox.test", catch_all=True)
    assert room.count() == 2
