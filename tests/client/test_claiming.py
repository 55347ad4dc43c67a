"""Claims that wait: whatever happens to their connections, the same wish is told again."""

import time
from typing import Any

import pytest

from oncebox.client.core import work
from oncebox.client.errors import ServiceUnreachable
from oncebox.client.sync import Client
from oncebox.errors import NotFound, RequestKeyReused
from tests.client.conftest import Speaker
from tests.support.scripted import Script, answer, cut, late, problem, scripted, silence

EMPTY: dict[str, Any] = {"deliveries": [], "lease": 30.0}
WORK: dict[str, Any] = {
    "deliveries": [
        {
            "id": "dlv_1",
            "source": "jobs",
            "key": "k",
            "type": "made",
            "fence": 1,
            "tries": 1,
            "late": False,
            "verdict": "",
            "lane": None,
            "sequence": None,
            "received_at": 1,
            "give_up_at": 2,
            "headers": [["X-A", "b"]],
            "body": "eyJhIjogMX0=",
        }
    ],
    "lease": 30.0,
}


def _keys(script: Script) -> set[str]:
    return {each.json["request_key"] for each in script.heard}


def test_work_arrives_with_its_bytes(speaker: Speaker) -> None:
    with scripted(answer(WORK)) as script:
        claimed = speaker.ask(
            script.url, lambda c: c.deliveries.claim(["jobs"], limit=2, lease=9, worker="w-1")
        )

    (delivery,) = claimed.deliveries
    assert (delivery.body, delivery.headers) == (b'{"a": 1}', [("X-A", "b")])
    wish = script.heard[0].json
    assert len(wish.pop("request_key")) >= 8
    assert wish == {"sources": ["jobs"], "worker": "w-1", "limit": 2, "wait": 0.0, "lease": 9}


def test_a_lost_claim_is_told_again_under_the_same_key(speaker: Speaker) -> None:
    with scripted(cut(), problem("commit_unknown", 503, retry_safe=True), answer(WORK)) as script:
        claimed = speaker.ask(script.url, lambda c: c.deliveries.claim())

    assert len(claimed.deliveries) == 1
    assert len(script.heard) == 3
    assert len(_keys(script)) == 1


def test_a_claim_waits_on_the_other_side(speaker: Speaker) -> None:
    began = time.monotonic()
    with scripted(late(1, answer(WORK))) as script:
        speaker.ask(script.url, lambda c: c.deliveries.claim(wait=3600), timeout=0.5)

    assert time.monotonic() - began >= 1
    assert [each.json["wait"] for each in script.heard] == [45.0]


def test_where_long_polls_are_cut_short_ones_take_over(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_LONGEST_POLL", 8.0)
    with scripted(cut(), cut(), cut(), answer(EMPTY), answer(WORK)) as script:
        speaker.ask(script.url, lambda c: c.deliveries.claim(wait=60))

    assert [each.json["wait"] for each in script.heard] == [8.0, 4.0, 2.0, 0.0, 0.0]
    assert len(_keys(script)) == 1


def test_an_empty_hand_is_shown_when_the_wait_is_over(speaker: Speaker) -> None:
    began = time.monotonic()
    with scripted(answer(EMPTY)) as script:
        claimed = speaker.ask(script.url, lambda c: c.deliveries.claim(wait=1))

    assert claimed.deliveries == []
    assert 1 <= time.monotonic() - began < 20
    assert len(script.heard) < 50  # a service that stops answers early, and is not rushed at


def test_a_claim_ends_at_its_deadline(speaker: Speaker) -> None:
    began = time.monotonic()
    with scripted(silence()) as script, pytest.raises(Exception, match="no answer") as caught:
        speaker.ask(script.url, lambda c: c.deliveries.claim(wait=0.5), timeout=1)

    assert time.monotonic() - began < 8
    assert caught.value.retry_safe  # type: ignore[attr-defined]
    assert len(_keys(script)) == 1


def test_retry_after_is_honoured_by_claims_too(speaker: Speaker) -> None:
    busy = problem("too_many_requests", 429, retry_safe=True, retry_after="1")
    with scripted(busy, answer(WORK)) as script:
        speaker.ask(script.url, lambda c: c.deliveries.claim())

    assert script.pauses[0] >= 1


def test_a_worker_takes_a_new_key_for_each_fetch_but_not_for_a_lost_one() -> None:
    busy = problem("database_busy", 503, retry_safe=True)
    ended = answer({"state": "done", "due_at": None})
    with (
        scripted(busy, busy, cut(), answer(WORK), ended, answer(EMPTY)) as script,
        Client(script.url, "obx_x", timeout=0.2) as client,
    ):
        for work in client.deliveries.work("jobs", idle=3):
            with work:
                pass
            break
        for work in client.deliveries.work("jobs", idle=0):
            pytest.fail(f"there should be no more work, but {work!r}")

    claims = [each for each in script.heard if each.path.endswith("/claim")]
    keys = [each.json["request_key"] for each in claims]
    assert len(claims) == 5
    assert len(set(keys[:4])) == 1
    assert keys[4] not in keys[:4]


def test_a_worker_whose_key_was_used_for_other_sources_takes_a_new_one(speaker: Speaker) -> None:
    with scripted(problem("request_key_reused", 422), answer(EMPTY)) as script:
        speaker.ask(script.url, lambda c: c.deliveries.work(idle=0.2))

    assert len(_keys(script)) >= 2


def test_a_claim_of_ones_own_key_is_told_that_it_was_used(speaker: Speaker) -> None:
    with scripted(problem("request_key_reused", 422)) as script, pytest.raises(RequestKeyReused):
        speaker.ask(script.url, lambda c: c.deliveries.claim(request_key="request-1"))

    assert _keys(script) == {"request-1"}


def test_a_worker_that_asks_for_what_is_not_there_does_not_wait(speaker: Speaker) -> None:
    with scripted(problem("not_found", 404)) as script, pytest.raises(NotFound):
        speaker.ask(script.url, lambda c: c.deliveries.work("nothing"))

    assert len(script.heard) == 1


def test_a_shift_that_may_idle_only_so_long_ends_with_the_trouble_it_had(speaker: Speaker) -> None:
    with scripted(cut()) as script, pytest.raises(ServiceUnreachable):
        speaker.ask(
            script.url, lambda c: c.within(1.5).deliveries.work("jobs", idle=2.5), timeout=1.5
        )

    assert len(_keys(script)) == 1
