"""Idempotency: a request under a key creates once, whoever crashes, races or comes late."""

import hashlib

import pytest

from oncebox.core.encryption import MasterKey
from oncebox.db.database import Transaction
from oncebox.errors import KeyInvalid, LeaseLost, MasterKeyWrong
from oncebox.ledger import maintenance
from oncebox.ledger.admin import idempotency, tenants
from oncebox.ledger.admin.idempotency import KEPT_FOR, LOST_AFTER
from oncebox.model.admin.idempotency import (
    BodyMismatch,
    FreshRequest,
    IdempotencyResult,
    IdempotentRequest,
    ReplayedResponse,
    RunningRequest,
    StoredResponse,
)
from tests.support.clerk import TENANT, Clerk
from tests.support.interleaved import interleave
from tests.support.office import KEY, Office

ROUTE = "POST /v1/sources"
ANSWER = StoredResponse(201, (("Content-Type", "application/json"),), b'{"key": "CANARY"}')


def _asked(
    key: str = "k1", body: bytes = b"{}", *, tenant: str = TENANT, route: str = ROUTE
) -> IdempotentRequest:
    return IdempotentRequest(
        tenant=tenant, route=route, key=key, body_hash=hashlib.sha256(body).digest()
    )


def _begin(clerk: Clerk, asked: IdempotentRequest | None = None) -> IdempotencyResult:
    return clerk.run(idempotency.begin, KEY, asked or _asked(), clerk.now)


def _fresh(clerk: Clerk, asked: IdempotentRequest | None = None) -> FreshRequest:
    found = _begin(clerk, asked)
    assert isinstance(found, FreshRequest)
    return found


def _finish(clerk: Clerk, fresh: FreshRequest, answer: StoredResponse = ANSWER) -> None:
    clerk.run(idempotency.finish, KEY, fresh, answer, clerk.now)


def test_the_first_answer_is_given_to_every_repeat(clerk: Clerk) -> None:
    _finish(clerk, _fresh(clerk))
    clerk.now += KEPT_FOR - 1

    for _ in range(3):
        found = _begin(clerk)
        assert isinstance(found, ReplayedResponse)
        assert found.response == ANSWER
        assert found.response.headers == ANSWER.headers


def test_another_body_under_the_same_key_is_a_mismatch(clerk: Clerk) -> None:
    fresh = _fresh(clerk)
    other = _asked(body=b"other")

    assert _begin(clerk, other) == BodyMismatch()
    _finish(clerk, fresh)
    assert _begin(clerk, other) == BodyMismatch()


def test_a_repeat_while_the_first_runs_is_told_to_wait(clerk: Clerk) -> None:
    _fresh(clerk)
    clerk.now += 1_000

    assert _begin(clerk) == RunningRequest(LOST_AFTER - 1_000)


@pytest.mark.parametrize(
    "other",
    [_asked("k2"), _asked(tenant="default"), _asked(route="POST /v1/keys"), _asked("K1")],
)
def test_a_key_counts_for_its_tenant_and_route_only(clerk: Clerk, other: IdempotentRequest) -> None:
    _finish(clerk, _fresh(clerk))

    assert isinstance(_begin(clerk, other), FreshRequest)


def test_a_request_whose_process_died_is_taken_over_after_a_bound(clerk: Clerk) -> None:
    lost = _fresh(clerk)
    clerk.now += LOST_AFTER - 1
    assert isinstance(_begin(clerk), RunningRequest)
    clerk.now += 1

    taken = _fresh(clerk)

    assert taken.holder != lost.holder
    _finish(clerk, taken)
    assert isinstance(_begin(clerk), ReplayedResponse)


def test_one_with_another_body_does_not_take_over(clerk: Clerk) -> None:
    _fresh(clerk)
    clerk.now += LOST_AFTER

    assert _begin(clerk, _asked(body=b"other")) == BodyMismatch()


def test_who_lost_the_request_cannot_commit_what_it_created(clerk: Clerk) -> None:
    office = Office(clerk)
    slow = _fresh(clerk)
    clerk.now += LOST_AFTER
    fast = _fresh(clerk)

    def create(tx: Transaction, name: str, fresh: FreshRequest) -> None:
        tenants.create(tx, name, office.deed())
        idempotency.finish(tx, KEY, fresh, ANSWER, clerk.now)

    with pytest.raises(LeaseLost):
        clerk.run(create, "slow", slow)
    clerk.run(create, "fast", fast)
    with pytest.raises(LeaseLost):
        clerk.run(create, "again", fast)

    assert office.tenants() == ["default", TENANT, "fast"]


def test_a_refused_request_may_be_sent_again_with_another_body(clerk: Clerk) -> None:
    clerk.run(idempotency.abandon, _fresh(clerk))

    assert isinstance(_begin(clerk, _asked(body=b"mended")), FreshRequest)


def test_only_who_holds_a_request_may_give_it_up(clerk: Clerk) -> None:
    lost = _fresh(clerk)
    clerk.now += LOST_AFTER
    held = _fresh(clerk)

    clerk.run(idempotency.abandon, lost)
    assert isinstance(_begin(clerk), RunningRequest)
    _finish(clerk, held)
    clerk.run(idempotency.abandon, held)

    assert isinstance(_begin(clerk), ReplayedResponse)


def test_a_holder_from_before_cannot_answer_a_request_begun_anew(clerk: Clerk) -> None:
    lost = _fresh(clerk)
    clerk.now += LOST_AFTER
    clerk.run(idempotency.abandon, _fresh(clerk))
    _fresh(clerk, _asked(body=b"another request"))

    with pytest.raises(LeaseLost):
        _finish(clerk, lost)


def test_after_its_time_a_key_is_new_whether_or_not_it_was_swept(clerk: Clerk) -> None:
    _finish(clerk, _fresh(clerk))
    _finish(clerk, _fresh(clerk, _asked("k2")))
    clerk.now += KEPT_FOR

    assert isinstance(_begin(clerk, _asked(body=b"other")), FreshRequest)
    assert clerk.run(maintenance.purge_idempotency_and_secrets, clerk.now) == 1
    assert isinstance(_begin(clerk, _asked("k2", b"other")), FreshRequest)


def test_upkeep_forgets_some_at_a_time_and_nothing_young(clerk: Clerk) -> None:
    for number in range(5):
        _fresh(clerk, _asked(str(number)))
    clerk.now += KEPT_FOR
    _fresh(clerk, _asked("young"))

    assert clerk.run(idempotency.forget, clerk.now, 3) == 3
    assert clerk.run(idempotency.forget, clerk.now, 3) == 2
    assert clerk.run(idempotency.forget, clerk.now, 3) == 0
    assert isinstance(_begin(clerk, _asked("young")), RunningRequest)


def test_an_answer_is_kept_sealed_and_for_its_own_row(clerk: Clerk) -> None:
    """It may hold an API key, which is stored nowhere."""
    _finish(clerk, _fresh(clerk))
    _finish(clerk, _fresh(clerk, _asked("k2")), StoredResponse(200, (), b"other"))
    rows = clerk.session.run(lambda tx: tx.execute("SELECT * FROM oncebox_idempotency"))
    assert "CANARY" not in repr(rows)
    assert "CANARY" not in repr(ANSWER) + repr(ANSWER.__rich_repr__())

    clerk.session.run(
        lambda tx: tx.execute(
            "UPDATE oncebox_idempotency SET answer = "
            "(SELECT answer FROM oncebox_idempotency WHERE key = 'k2') WHERE key = 'k1'"
        )
    )
    with pytest.raises(MasterKeyWrong):
        _begin(clerk)
    with pytest.raises(MasterKeyWrong):
        clerk.run(idempotency.begin, MasterKey(bytes(32)), _asked("k2"), clerk.now)


@pytest.mark.parametrize("key", ["", "x" * 513, "a\nb", "\0"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(KeyInvalid, match="idempotency key"):
        _asked(key)


def test_two_who_begin_at_once_are_one_fresh_and_one_running(clerk: Clerk) -> None:
    first, second = interleave(
        clerk.place,
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
    )

    assert isinstance(first, FreshRequest)
    assert isinstance(second, RunningRequest)


def test_two_takeovers_at_once_are_one(clerk: Clerk) -> None:
    _fresh(clerk)
    clerk.now += LOST_AFTER

    first, second = interleave(
        clerk.place,
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
    )

    assert isinstance(first, FreshRequest)
    assert isinstance(second, RunningRequest)


def test_a_finish_and_a_takeover_at_once_leave_one_creation(clerk: Clerk) -> None:
    slow = _fresh(clerk)
    clerk.now += LOST_AFTER

    _, second = interleave(
        clerk.place,
        lambda tx: idempotency.finish(tx, KEY, slow, ANSWER, clerk.now),
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
    )

    assert not isinstance(second, FreshRequest)
    assert isinstance(_begin(clerk), ReplayedResponse)


def test_a_request_begun_while_another_is_given_up_is_not_lost(clerk: Clerk) -> None:
    refused = _fresh(clerk)

    _, second = interleave(
        clerk.place,
        lambda tx: idempotency.abandon(tx, refused),
        lambda tx: idempotency.begin(tx, KEY, _asked(), clerk.now),
    )

    assert isinstance(second, FreshRequest | RunningRequest)
    if isinstance(second, RunningRequest):
        assert isinstance(_begin(clerk), FreshRequest)
