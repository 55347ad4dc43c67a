"""Tenants: made once, told apart, and one that is always there."""

import pytest

from oncebox.errors import KeyInvalid, NotFound, StateConflict
from oncebox.ledger.admin import tenants
from oncebox.model.admin.access import Tenant
from tests.support.clerk import START, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.office import Office


@pytest.fixture
def office(clerk: Clerk) -> Office:
    return Office(clerk)


def test_the_default_tenant_is_always_there(clerk: Clerk) -> None:
    assert clerk.run(tenants.list_all) == [Tenant("default", 0)]
    clerk.run(tenants.require, "default")


def test_a_tenant_is_made_and_audited(office: Office) -> None:
    assert office.clerk.run(tenants.list_all) == [Tenant("default", 0), Tenant(TENANT, START)]
    office.clerk.run(tenants.require, TENANT)
    assert office.audit(f"tenant:{TENANT}") == [("tenant new", "")]


@pytest.mark.parametrize("name", ["default", TENANT])
def test_a_tenant_is_made_once(office: Office, name: str) -> None:
    with pytest.raises(StateConflict, match="already"):
        office.clerk.run(tenants.create, name, office.deed())

    assert office.tenants() == ["default", TENANT]


@pytest.mark.parametrize("name", ["", "-a", "A", "a b", "a/b", "x" * 64, "a\n", "é"])
def test_a_name_that_is_none_is_refused(office: Office, name: str) -> None:
    with pytest.raises(KeyInvalid):
        office.clerk.run(tenants.create, name, office.deed())


def test_a_tenant_that_nobody_made_is_not_found(office: Office) -> None:
    with pytest.raises(NotFound, match="oncebox tenant new"):
        office.clerk.run(tenants.require, "nobody")


def test_two_who_make_one_tenant_at_once_make_one(office: Office) -> None:
    one, two = office.deed(), office.deed()

    with pytest.raises(StateConflict):
        interleave(
            office.clerk.place,
            lambda tx: tenants.create(tx, "both", one),
            lambda tx: tenants.create(tx, "both", two),
        )

    assert office.tenants() == ["default", TENANT, "both"]
