"""Keys: found by their text alone, ended for good, and never kept as text."""

import pytest

from oncebox.db.database import Transaction
from oncebox.errors import KeyInvalid, NotFound
from oncebox.ledger.admin import api_keys
from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey
from tests.support.clerk import DAY, HOUR, TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.office import Office


@pytest.fixture
def office(clerk: Clerk) -> Office:
    return Office(clerk)


def _found(office: Office, text: str) -> ApiKey | None:
    return office.clerk.run(api_keys.by_digest, texts.key_digest(text))


def test_a_key_is_found_by_its_text_with_all_it_may(office: Office) -> None:
    key, text = office.key("operator", "worker:shop", expires_at=office.clerk.now + DAY)

    found = _found(office, text)

    assert found == key
    assert found is not None
    assert found.scopes == ("operator", "worker:shop")
    assert found.tenant == TENANT
    assert text.startswith(found.hint)


def test_the_text_of_a_key_is_nowhere_in_the_database(office: Office) -> None:
    _, text = office.key()

    def everything(tx: Transaction) -> str:
        tables = ("oncebox_keys", "oncebox_audit")
        return repr([tx.execute(f"SELECT * FROM {table}") for table in tables])  # noqa: S608

    stored = office.clerk.session.run(everything)
    assert text not in stored
    assert text[10:] not in stored
    assert texts.key_digest(text).hex() in stored or repr(texts.key_digest(text)) in stored


def test_another_text_finds_nothing(office: Office) -> None:
    office.key()

    assert _found(office, texts.make_key_text(bytes(20))) is None


def test_keys_are_listed_per_tenant_oldest_first(office: Office) -> None:
    mine = [office.key()[0].id, office.key()[0].id]
    other = office.key(tenant="default")[0].id

    assert [each.id for each in office.clerk.run(api_keys.list_all, TENANT)] == mine
    assert [each.id for each in office.clerk.run(api_keys.list_all, "default")] == [other]
    assert office.clerk.run(api_keys.list_all, "nobody") == []


def test_a_revoked_key_stays_revoked_and_the_first_time_counts(office: Office) -> None:
    key, text = office.key()
    office.clerk.now += HOUR
    office.revoke(key)
    first = office.clerk.now
    office.clerk.now += HOUR

    again = office.revoke(key)

    found = _found(office, text)
    assert found is not None
    assert found.revoked_at == again.revoked_at == first
    assert found.state(office.clerk.now) == "revoked"
    assert [action for action, _ in office.audit(f"key:{key.id}")] == ["key new", "key revoke"]


def test_a_missing_key_and_a_foreign_one_look_the_same(office: Office) -> None:
    key, text = office.key()

    with pytest.raises(NotFound) as foreign:
        office.revoke(key, tenant="default")
    with pytest.raises(NotFound) as missing:
        office.clerk.run(api_keys.revoke, "key_nothing", office.deed())

    assert str(foreign.value) == str(missing.value)
    found = _found(office, text)
    assert found is not None
    assert found.revoked_at is None


def test_a_key_for_a_tenant_that_nobody_made_is_refused(office: Office) -> None:
    with pytest.raises(NotFound, match="tenant"):
        office.key(tenant="nobody")


def test_a_key_that_would_be_dead_at_birth_is_refused(office: Office) -> None:
    with pytest.raises(KeyInvalid, match="later"):
        office.key(expires_at=office.clerk.now)


def test_no_two_keys_share_a_text(office: Office) -> None:
    made = {office.key()[1] for _ in range(20)}

    assert len(made) == 20


def test_an_older_note_of_use_never_replaces_a_newer_one(office: Office) -> None:
    key, text = office.key()
    now = office.clerk.now

    interleave(
        office.clerk.place,
        lambda tx: api_keys.record_use(tx, key, now + 2),
        lambda tx: api_keys.record_use(tx, key, now + 1),
    )

    found = _found(office, text)
    assert found is not None
    assert found.last_used_at == now + 2


def test_two_who_revoke_one_key_at_once_agree(office: Office) -> None:
    key, _ = office.key()
    one, two = office.deed(), office.deed()

    first, second = interleave(
        office.clerk.place,
        lambda tx: api_keys.revoke(tx, key.id, one),
        lambda tx: api_keys.revoke(tx, key.id, two),
    )

    assert first.revoked_at == second.revoked_at
    assert len(office.audit(f"key:{key.id}")) == 2


def test_a_key_that_was_used_is_not_taken_back(office: Office) -> None:
    used, text = office.key()
    unused, other = office.key()
    office.clerk.run(api_keys.record_use, used, office.clerk.now)

    office.clerk.run(api_keys.discard, used)
    office.clerk.run(api_keys.discard, unused)

    assert _found(office, text) is not None
    assert _found(office, other) is None
