"""Sources: one per name and one per address, changed in turn, their secrets sealed and erased."""

from collections.abc import Callable
from typing import Any

import pytest

from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid, NotFound, StateConflict
from oncebox.ledger import maintenance
from oncebox.ledger.admin import sources
from tests.support.clerk import DAY, HOUR, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.office import KEY, STRIPE, Office

CANARY = "whsec_CANARY"


@pytest.fixture
def office(clerk: Clerk) -> Office:
    return Office(clerk)


def _values(office: Office, name: str = "stripe", tenant: str = TENANT) -> list[str]:
    """Return what a source's secrets open to, of those that count."""
    return [
        sources.decrypt_secret(each, tenant=tenant, master_key=KEY, environ={}).value
        for each in office.kept(name, tenant).secrets
        if each.is_active(office.clerk.now)
    ]


def _act(office: Office, verb: str, name: str) -> Callable[[Transaction], object]:
    """Return a change of a source, without its transaction."""
    keeper, deed = office.keeper, office.deed()
    acts: dict[str, Callable[[Transaction], object]] = {
        "add": lambda tx: keeper.add(tx, name, STRIPE, deed),
        "change": lambda tx: keeper.change(tx, name, {"rate": 1}, deed),
        "pause": lambda tx: keeper.pause(tx, name, deed),
        "resume": lambda tx: keeper.resume(tx, name, deed),
        "remove": lambda tx: keeper.remove(tx, name, deed),
        "add_secret": lambda tx: keeper.add_secret(tx, name, "x", deed),
        "retire": lambda tx: keeper.retire_secret(tx, name, "sec_1", deed),
    }
    return acts[verb]


# adding


def test_a_source_is_kept_as_it_was_written(office: Office) -> None:
    table: dict[str, Any] = {**STRIPE, "rate": 5, "order_by": "$.id", "after": {"b": "a"}}

    added = office.add("stripe", {**table, "paused": True, "replay": "hold"}, CANARY, "env:OTHER")

    kept = office.kept()
    assert kept.table == table
    assert (kept.paused, kept.created_at, kept.public_id) == (
        True,
        office.clerk.now,
        added.public_id,
    )
    assert [each.reference for each in kept.secrets] == ["env:OTHER", None]
    assert office.audit("source:stripe") == [("source add", added.public_id)]


def test_for_the_default_tenant_the_address_is_the_name(office: Office) -> None:
    office.add("github", tenant="default")

    assert office.kept("github", "default").public_id == "github"


def test_for_other_tenants_nobody_guesses_the_address(office: Office) -> None:
    addresses = {office.add(f"s{number}").public_id for number in range(20)}

    assert len(addresses) == 20
    assert all(len(each) == 26 and each.isalnum() for each in addresses)


def test_a_name_that_does_not_fit_an_address_gets_another(office: Office) -> None:
    office.add("a/b:c", tenant="default")

    assert len(office.kept("a/b:c", "default").public_id) == 26


def test_an_address_may_be_chosen_and_leads_to_one_source(office: Office) -> None:
    office.add("one", public_id="chosen")

    found = office.clerk.run(sources.by_public_id, "chosen")
    assert (found.tenant, found.name) == (TENANT, "one")
    with pytest.raises(NotFound):
        office.clerk.run(sources.by_public_id, "other")


def test_the_same_name_twice_is_a_conflict(office: Office) -> None:
    office.add("stripe", None, CANARY)

    with pytest.raises(StateConflict, match="already"):
        office.add("stripe", None, "other")

    assert _values(office) == [CANARY]


def test_the_same_name_for_another_tenant_is_another_source(office: Office) -> None:
    office.add("stripe", None, "mine")
    office.add("stripe", None, "theirs", tenant="default")

    assert _values(office) == ["mine"]
    assert _values(office, tenant="default") == ["theirs"]


def test_an_address_is_taken_once_in_the_whole_installation(office: Office) -> None:
    office.add("github", tenant="default")

    with pytest.raises(StateConflict, match="public id is taken"):
        office.add("mine", public_id="github")

    assert [each.name for each in office.all()] == ["github"]


@pytest.mark.parametrize(
    ("table", "named"),
    [({}, "scheme"), ({"scheme": "no-such"}, "no-such"), ({**STRIPE, "rate": 0}, "rate")],
)
def test_a_bad_table_is_refused_and_nothing_is_kept(
    office: Office, table: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigInvalid, match=named):
        office.add("stripe", table, CANARY)

    assert office.all() == []


def test_a_source_for_a_tenant_that_nobody_made_is_refused(office: Office) -> None:
    with pytest.raises(NotFound, match="tenant"):
        office.add(tenant="nobody")


def test_no_secret_stands_in_the_database(office: Office) -> None:
    office.add("stripe", None, CANARY)
    office.add_secret(f"{CANARY}_2")

    def everything(tx: Transaction) -> str:
        tables = ("oncebox_sources", "oncebox_source_secrets", "oncebox_audit")
        return repr([tx.execute(f"SELECT * FROM {table}") for table in tables])  # noqa: S608

    assert "CANARY" not in office.clerk.session.run(everything)
    assert _values(office) == [f"{CANARY}_2", CANARY]


# changing


def test_a_change_leaves_the_other_fields_alone(office: Office) -> None:
    office.add("stripe", {**STRIPE, "rate": 5, "late": "run"}, CANARY)
    office.clerk.now += HOUR

    office.change(rate=7, budget=1.5)

    kept = office.kept()
    assert kept.table == {**STRIPE, "rate": 7, "late": "run", "budget": 1.5}
    assert kept.changed_at == kept.created_at + HOUR
    assert _values(office) == [CANARY]
    assert office.audit("source:stripe")[-1] == ("source set", "budget rate")


def test_a_field_that_is_unset_is_as_by_default_again(office: Office) -> None:
    office.add("stripe", {**STRIPE, "rate": 5, "paused": True})

    office.change(unset=["rate", "paused"])

    assert office.kept().table == STRIPE
    assert not office.kept().paused


@pytest.mark.parametrize("field", ["scheme", "colour", "name", "secrets"])
def test_what_cannot_be_unset_is_refused(office: Office, field: str) -> None:
    office.add()

    with pytest.raises(ConfigInvalid, match=field):
        office.change(unset=[field])


def test_a_bad_change_is_refused_and_nothing_changes(office: Office) -> None:
    office.add()
    before = office.kept()

    for changes in ({"rate": 0}, {"scheme": "no-such"}, {"colour": 1}, {"after": {"b": "a"}}):
        with pytest.raises(ConfigInvalid):
            office.change(**changes)

    assert office.kept() == before


def test_pausing_and_resuming_keeps_all_else_and_is_audited_once(office: Office) -> None:
    office.add("stripe", {**STRIPE, "rate": 5}, CANARY)

    for verb in (office.keeper.pause, office.keeper.pause):
        office.clerk.run(verb, "stripe", office.deed())
    assert office.kept().paused
    office.change(rate=6)
    assert office.kept().paused
    office.clerk.run(office.keeper.resume, "stripe", office.deed())

    assert not office.kept().paused
    assert office.kept().table == {**STRIPE, "rate": 6}
    actions = [action for action, _ in office.audit("source:stripe")]
    assert actions == ["source add", "source pause", "source set", "source resume"]


def test_a_removed_source_leaves_no_secret_behind(office: Office) -> None:
    office.add("stripe", None, CANARY)
    office.add("other", None, "stays")

    office.clerk.run(office.keeper.remove, "stripe", office.deed())

    assert [each.name for each in office.all()] == ["other"]
    rows = office.clerk.session.run(
        lambda tx: tx.execute("SELECT source FROM oncebox_source_secrets")
    )
    assert rows == [("other",)]
    office.add("stripe", None, "new")
    assert _values(office) == ["new"]


@pytest.mark.parametrize("verb", ["change", "pause", "resume", "remove", "add_secret", "retire"])
def test_a_missing_source_and_a_foreign_one_look_the_same(office: Office, verb: str) -> None:
    office.add("theirs", None, CANARY, tenant="default")
    told = set()
    for name in ("theirs", "missing"):
        with pytest.raises(NotFound) as caught:
            office.clerk.run(_act(office, verb, name))
        told.add(str(caught.value))

    assert len(told) == 1
    assert _values(office, "theirs", "default") == [CANARY]


@pytest.mark.parametrize("verb", ["add", "change", "pause", "remove", "add_secret", "retire"])
def test_a_source_of_the_file_is_never_changed_from_here(clerk: Clerk, verb: str) -> None:
    office = Office(clerk, written=[(TENANT, "stripe")])

    with pytest.raises(StateConflict, match=r"oncebox\.toml.*change it there"):
        clerk.run(_act(office, verb, "stripe"))

    assert office.all() == []


def test_a_source_that_the_file_hides_can_still_be_removed(clerk: Clerk) -> None:
    Office(clerk).add()
    office = Office(clerk, written=[(TENANT, "stripe")])

    clerk.run(office.keeper.remove, "stripe", office.deed())

    assert office.all() == []


# secrets


def test_the_newest_secret_is_tried_first_and_the_older_still_count(office: Office) -> None:
    office.add("stripe", None, "old")
    office.add_secret("new")

    assert _values(office) == ["new", "old"]


def test_a_retired_secret_counts_no_longer_and_its_value_is_gone(office: Office) -> None:
    office.add("stripe", None, "old")
    (old,) = office.kept().secrets
    office.add_secret("new")

    office.retire(old.id)

    assert _values(office) == ["new"]
    erased = next(each for each in office.kept().secrets if each.id == old.id)
    assert (erased.ciphertext, erased.retired_at) == (None, office.clerk.now)
    assert office.audit("source:stripe")[-1] == ("secret retire", old.id)


def test_a_secret_may_be_retired_later_and_is_erased_then(office: Office) -> None:
    office.add("stripe", None, "old")
    (old,) = office.kept().secrets
    office.retire(old.id, at=office.clerk.now + DAY)

    office.clerk.now += DAY - 1
    assert _values(office) == ["old"]
    assert office.clerk.run(maintenance.purge_idempotency_and_secrets, office.clerk.now) == 0
    office.clerk.now += 1
    assert _values(office) == []
    assert office.clerk.run(maintenance.purge_idempotency_and_secrets, office.clerk.now) == 1

    assert office.kept().secrets[0].ciphertext is None


def test_an_end_is_brought_forward_and_never_put_off(office: Office) -> None:
    office.add("stripe", None, "old")
    (old,) = office.kept().secrets
    start = office.clerk.now

    office.retire(old.id, at=start + DAY)
    office.retire(old.id, at=start + HOUR)
    office.retire(old.id, at=start + DAY)
    assert office.kept().secrets[0].retired_at == start + HOUR
    office.retire(old.id)

    assert office.kept().secrets[0].retired_at == start


def test_a_secret_of_another_source_is_not_found(office: Office) -> None:
    office.add("stripe", None, "mine")
    office.add("other", None, "its")
    (its,) = office.kept("other").secrets

    with pytest.raises(NotFound, match="no such secret"):
        office.retire(its.id)

    assert _values(office, "other") == ["its"]


def test_a_source_has_so_many_secrets_and_no_more(office: Office) -> None:
    office.add()
    for number in range(20):
        office.add_secret(f"secret-{number}")

    with pytest.raises(StateConflict, match="retire one first"):
        office.add_secret("one too many")
    office.retire(office.kept().secrets[0].id)
    office.add_secret("fits again")

    assert _values(office)[0] == "fits again"


def test_a_secret_in_use_is_kept_in_exactly_one_way(office: Office) -> None:
    """The database itself refuses a row that could never be opened."""
    office.add()
    kept = sources.StoredSecret("sec_1", None, None, 1)

    with pytest.raises(Exception, match="refused"):
        office.clerk.run(sources.add_secret, TENANT, "stripe", kept)


@pytest.mark.parametrize("text", ["env:ONCEBOX_MASTER_KEY", "file:/etc/passwd"])
def test_who_calls_from_afar_cannot_have_files_and_variables_read(
    office: Office, text: str
) -> None:
    office.add()
    deed = office.deed()

    with pytest.raises(ConfigInvalid, match="at the terminal"):
        office.clerk.run(office.keeper.add_secret, "stripe", text, deed)
    with pytest.raises(ConfigInvalid, match="at the terminal"):
        office.clerk.run(office.keeper.add, "other", STRIPE, deed, texts=[text])

    assert [each.secrets for each in office.all()] == [()]


# at the same time


def test_two_who_add_one_source_at_once_add_one(office: Office) -> None:
    one, two = office.deed(), office.deed()

    with pytest.raises(StateConflict, match="already"):
        interleave(
            office.clerk.place,
            lambda tx: office.keeper.add(tx, "both", STRIPE, one, texts=["first"]),
            lambda tx: office.keeper.add(tx, "both", STRIPE, two, texts=["second"]),
        )

    assert _values(office, "both") == ["first"]


def test_two_who_want_one_address_at_once_are_told_apart(office: Office) -> None:
    mine, theirs = office.deed(), office.deed("default")

    with pytest.raises(StateConflict, match="public id is taken"):
        interleave(
            office.clerk.place,
            lambda tx: office.keeper.add(tx, "mine", STRIPE, mine, public_id="hooks"),
            lambda tx: office.keeper.add(tx, "hooks", STRIPE, theirs),
        )

    assert [each.name for each in office.all()] == ["mine"]


def test_two_changes_at_once_are_both_kept(office: Office) -> None:
    office.add()
    one, two = office.deed(), office.deed()

    interleave(
        office.clerk.place,
        lambda tx: office.keeper.change(tx, "stripe", {"rate": 5}, one),
        lambda tx: office.keeper.change(tx, "stripe", {"tries": 3}, two),
    )

    assert office.kept().table == {**STRIPE, "rate": 5, "tries": 3}


def test_a_secret_added_while_its_source_goes_is_not_left_behind(office: Office) -> None:
    office.add()
    one, two = office.deed(), office.deed()

    with pytest.raises(NotFound):
        interleave(
            office.clerk.place,
            lambda tx: office.keeper.remove(tx, "stripe", one),
            lambda tx: office.keeper.add_secret(tx, "stripe", CANARY, two),
        )

    rows = office.clerk.session.run(lambda tx: tx.execute("SELECT id FROM oncebox_source_secrets"))
    assert rows == []


def test_every_change_gives_a_new_revision(office: Office) -> None:
    seen = [office.clerk.run(sources.revision)]

    def note() -> None:
        seen.append(office.clerk.run(sources.revision))

    office.add("stripe", None, CANARY)
    note()
    office.change(rate=1)
    note()
    office.clerk.run(office.keeper.pause, "stripe", office.deed())
    note()
    id_ = office.add_secret("more").id
    note()
    office.retire(id_)
    note()
    office.clerk.run(office.keeper.remove, "stripe", office.deed())
    note()

    assert len(set(seen)) == len(seen)
