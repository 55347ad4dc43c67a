"""Workers that fetch: completed or failed, kept by heartbeats, fenced, and each effect once."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.errors import WorkMisused
from oncebox.client.sync import Client
from oncebox.errors import (
    EffectMisused,
    EffectNameReused,
    EffectOutcomeUnknown,
    NotDone,
    NotFound,
    Permanent,
    Transient,
)
from oncebox.model.deliveries.effects import NO_RESULT, Done
from tests.client.conftest import Speaker
from tests.client.shifts import SOURCE, work
from tests.support.lossy import lossy
from tests.support.running import Running
from tests.support.scripted import Heard

Do = Callable[..., Awaitable[Any]]


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    """A client, and a source to fetch from."""
    with Client(service.url, service.key) as client:
        client.sources.add(SOURCE, "none", allow_unsigned=True, mode="pull")
        yield client


def _take_over(client: Client, id_: str) -> None:
    """Claim a delivery whose worker seems to be gone, as soon as its lease has run out."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for each in client.deliveries.claim(SOURCE, wait=1, worker="other").deliveries:
            assert each.id == id_
            return
    pytest.fail("nobody could take over")


def test_work_that_ends_well_is_completed_and_the_next_is_fetched(
    service: Running, client: Client, speaker: Speaker
) -> None:
    ids = [service.accept(SOURCE, f"k{n}", body=b'{"n": %d}' % n, type="made").id for n in range(3)]
    seen = []

    async def handler(each: Any, _do: Do) -> None:
        seen.append((each.id, each.source, each.type, each.json["n"]))

    work(speaker.kind, service, handler)

    assert seen == [(id_, SOURCE, "made", n) for n, id_ in enumerate(ids)]
    assert {client.deliveries.inspect(id_).delivery.state for id_ in ids} == {"done"}


def test_work_that_raises_is_failed_with_its_reason_and_the_worker_goes_on(
    service: Running, client: Client, speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = (service.accept(SOURCE, key).id for key in ("bad", "good"))

    async def handler(each: Any, _do: Do) -> None:
        if each.id == bad and each.delivery.tries == 1:
            message = "no\nluck"
            raise ValueError(message)

    work(speaker.kind, service, handler, tries=3)
    found = client.deliveries.inspect(bad)

    assert [each.error for each in found.tries] == ["ValueError: no luck"]
    assert found.delivery.state == client.deliveries.inspect(good).delivery.state == "done"
    assert any("ValueError: no luck" in each.message for each in caplog.records)


def test_a_permanent_failure_is_given_up_and_a_transient_one_waits_as_told(
    service: Running, client: Client, speaker: Speaker
) -> None:
    hopeless, later = (service.accept(SOURCE, key).id for key in ("hopeless", "later"))

    async def handler(each: Any, _do: Do) -> None:
        if each.id == hopeless:
            message = "wrong shape"
            raise Permanent(message)
        message = "not now"
        raise Transient(message, retry_after=3600)

    work(speaker.kind, service, handler)
    dead = client.deliveries.inspect(hopeless).delivery
    failed = client.deliveries.inspect(later).delivery

    assert (dead.state, dead.last_error) == ("dead", "permanent: wrong shape")
    assert failed.state == "failed"
    assert failed.not_before is not None
    assert failed.not_before - failed.accepted_at >= 3_600_000


def test_heartbeats_keep_the_lease_for_as_long_as_the_work_takes(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = service.accept(SOURCE, "slow").id
    others: list[Any] = []

    async def handler(_each: Any, do: Do) -> None:
        for number in range(4):
            await do(f"wait {number}", time.sleep, 0.6)
        others.extend(client.deliveries.claim(SOURCE).deliveries)

    work(speaker.kind, service, handler, lease=1.5)
    found = client.deliveries.inspect(id_)

    assert others == []
    assert (found.delivery.state, found.delivery.tries) == ("done", 1)


def test_a_stale_worker_cannot_settle(service: Running, client: Client) -> None:
    """Its heartbeats end at its time limit, somebody takes over, and its word counts no more."""
    id_ = service.accept(SOURCE, "slow").id
    mine = next(client.deliveries.work(SOURCE, lease=1, time_limit=0.1, idle=0))
    with mine:
        _take_over(client, id_)
    found = client.deliveries.inspect(id_)

    assert mine.ended is None
    assert (found.delivery.state, found.delivery.worker) == ("processing", "other")
    assert found.tries[-1].outcome == "proof"


async def test_work_whose_lease_is_lost_is_stopped(service: Running, client: Client) -> None:
    """Async only: a thread cannot be stopped."""
    id_ = service.accept(SOURCE, "slow").id
    async with AsyncClient(service.url, service.key) as mine:
        async for each in mine.deliveries.work(SOURCE, lease=1, idle=0):
            client.deliveries.complete(id_, each.delivery.fence)
            client.deliveries.replay(id_, why="behind its back")
            _take_over(client, id_)
            async with each:
                await asyncio.Event().wait()
            break

    assert each.lost
    assert client.deliveries.inspect(id_).delivery.worker == "other"


async def test_overlong_work_is_stopped_and_fails(service: Running, client: Client) -> None:
    id_ = service.accept(SOURCE, "slow").id
    async with AsyncClient(service.url, service.key) as mine:
        async for each in mine.deliveries.work(SOURCE, time_limit=0.2, idle=0):
            async with each:
                await asyncio.Event().wait()
            break
    found = client.deliveries.inspect(id_)

    assert found.delivery.state == "failed"
    assert found.tries[0].error == "TimeoutError"


async def test_a_plain_function_that_outlives_its_time_is_proof_when_it_ends(
    service: Running, client: Client
) -> None:
    """Async only: meanwhile nobody may take its call for over, and its success is kept."""
    id_ = service.accept(SOURCE, "slow").id
    states: list[str] = []
    goes_on = threading.Event()

    def charge() -> str:
        goes_on.wait(20)
        return "at last"

    async with AsyncClient(service.url, service.key) as mine:
        async for each in mine.deliveries.work(SOURCE, idle=0):
            async with each:
                await each.do("charge", charge, safe=Done, timeout=0.2)
            states.append(client.deliveries.inspect(id_).effects[0].state)
            goes_on.set()
            until = time.monotonic() + 10
            while client.deliveries.inspect(id_).effects[0].state != "done":
                assert time.monotonic() < until
                await asyncio.sleep(0.05)
            break
    (effect,) = client.deliveries.inspect(id_).effects

    assert states == ["unknown"]
    assert (effect.state, effect.result) == ("done", "at last")


def test_a_program_that_is_stopped_gives_its_work_back_at_once(
    service: Running, client: Client
) -> None:
    id_ = service.accept(SOURCE, "k").id
    with pytest.raises(KeyboardInterrupt), next(client.deliveries.work(SOURCE, idle=0)):
        raise KeyboardInterrupt
    found = client.deliveries.inspect(id_)

    assert (found.delivery.state, found.tries[0].error) == ("failed", "KeyboardInterrupt")


def test_work_is_used_once_and_inside_with(service: Running, client: Client) -> None:
    for key in ("a", "b"):
        service.accept(SOURCE, key)
    shift = client.deliveries.work(SOURCE, idle=0)
    first = next(shift)
    with pytest.raises(WorkMisused, match="inside"):
        first.do("x", print)
    with first:
        pass
    with pytest.raises(WorkMisused, match="before"), first:
        pass
    with pytest.raises(WorkMisused, match="inside"):
        first.do("x", print)
    next(shift)
    with pytest.raises(WorkMisused, match="use the work"):
        next(shift)


# effects


def test_an_effect_happens_once_however_often_the_work_is_tried(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = service.accept(SOURCE, "k").id
    calls: list[str] = []
    results: list[Any] = []

    def create(title: str, *, idempotency_key: str) -> dict[str, str]:
        calls.append(idempotency_key)
        return {"title": title}

    async def handler(each: Any, do: Do) -> None:
        results.append(await do("open-issue", create, title="Paid"))
        if each.delivery.tries < 3:
            message = "after the effect"
            raise ValueError(message)

    work(speaker.kind, service, handler, tries=3)
    found = client.deliveries.inspect(id_)

    assert results == [{"title": "Paid"}] * 3
    assert len(calls) == 1
    assert calls[0].startswith("once_")
    assert found.delivery.state == "done"
    assert [(each.name, each.state, each.safe) for each in found.effects] == [
        ("open-issue", "done", "idempotent")
    ]


def _crashed_during_an_effect(
    service: Running, client: Client, *, safe: str, timeout: float = 0.1
) -> str:
    """Leave a delivery as a worker does that died while it made a call."""
    id_ = service.accept(SOURCE, "k").id
    (mine,) = client.deliveries.claim(SOURCE, lease=1).deliveries
    begun = client.deliveries.effects.begin(id_, "charge", mine.fence, safe=safe, timeout=timeout)  # type: ignore[arg-type]
    assert begun.go
    time.sleep(1.1)
    return id_


def test_an_effect_in_doubt_holds_the_delivery_for_a_person(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = _crashed_during_an_effect(service, client, safe="once")
    calls: list[int] = []

    async def handler(_each: Any, do: Do) -> None:
        with pytest.raises(EffectOutcomeUnknown):
            await do("charge", lambda: calls.append(1))

    work(speaker.kind, service, handler)
    found = client.deliveries.inspect(id_)

    assert calls == []
    assert found.delivery.state == "held"
    assert (found.effects[0].state, found.effects[0].safe) == ("unknown", "once")
    assert found.next_action.startswith("needs a person: charge unknown")


@pytest.mark.parametrize("results", [{"charge": {"id": "ch_1"}}, {"charge": None}, None])
def test_a_released_effect_returns_the_result_a_person_gave_or_none(
    service: Running, client: Client, speaker: Speaker, results: dict[str, Any] | None
) -> None:
    id_ = _crashed_during_an_effect(service, client, safe="once")
    found: list[Any] = []

    async def handler(_each: Any, do: Do) -> None:
        found.append(await do("charge", dict))

    async def unknown(_each: Any, do: Do) -> None:
        with suppress(EffectOutcomeUnknown):
            await do("charge", dict)

    work(speaker.kind, service, unknown)
    speaker.ask(
        service.url,
        lambda c: c.deliveries.release(id_, why="x", effects={"charge": "done"}, results=results),
        key=service.key,
    )
    work(speaker.kind, service, handler)

    assert found == [NO_RESULT if results is None else results["charge"]]


def test_a_later_try_can_tell_that_a_result_was_not_stored(
    service: Running, speaker: Speaker, client: Client
) -> None:
    service.accept(SOURCE, "k")
    found: list[Any] = []

    async def handler(each: Any, do: Do) -> None:
        found.append(await do("make", object))
        if each.delivery.tries < 2:
            raise Transient

    work(speaker.kind, service, handler, tries=2)

    assert found[1] is NO_RESULT


def test_an_idempotent_effect_is_repeated_with_the_same_key(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = _crashed_during_an_effect(service, client, safe="idempotent")
    keys: list[str] = []

    async def handler(_each: Any, do: Do) -> None:
        def charge(idempotency_key: str) -> str:
            keys.append(idempotency_key)
            return "charged"

        assert await do("charge", charge) == "charged"

    work(speaker.kind, service, handler)

    assert len(keys) == 1
    assert client.deliveries.inspect(id_).delivery.state == "done"


@pytest.mark.parametrize("happened", [True, False])
def test_an_effect_in_doubt_is_verified_where_the_other_side_can_be_asked(
    service: Running, client: Client, speaker: Speaker, happened: bool
) -> None:
    id_ = _crashed_during_an_effect(service, client, safe="verify", timeout=1)
    calls: list[str] = []

    def charge() -> str:
        calls.append("called")
        return "now"

    def ask(idempotency_key: str) -> Done:
        calls.append(idempotency_key[:5])
        if happened:
            return Done("before")
        raise NotDone

    async def handler(_each: Any, do: Do) -> None:
        calls.append(await do("charge", charge, safe=ask))

    began = time.monotonic()
    work(speaker.kind, service, handler)
    found = client.deliveries.inspect(id_)

    assert calls == (["once_", "before"] if happened else ["once_", "called", "now"])
    assert found.delivery.state == "done"
    assert found.effects[0].result == ("before" if happened else "now")
    assert time.monotonic() - began >= 0.5  # the lost call could still have been under way


def test_a_call_that_proves_it_did_not_happen_is_made_again(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = service.accept(SOURCE, "k").id
    calls: list[int] = []

    def charge() -> None:
        calls.append(1)
        if len(calls) == 1:
            message = "refused"
            raise ConnectionRefusedError(message)

    async def handler(_each: Any, do: Do) -> None:
        await do("charge", charge)

    work(speaker.kind, service, handler, tries=2)

    assert len(calls) == 2
    assert client.deliveries.inspect(id_).delivery.state == "done"


def test_a_result_that_cannot_be_stored_is_done_without_it(
    service: Running, client: Client, speaker: Speaker
) -> None:
    for number, result in enumerate([object(), "x" * 2_000_000]):
        id_ = service.accept(SOURCE, f"k{number}").id

        async def handler(_each: Any, do: Do, result: object = result) -> None:
            assert await do("make", lambda: result) is result

        work(speaker.kind, service, handler)
        (effect,) = client.deliveries.inspect(id_).effects
        assert (effect.state, effect.result) == ("done", None)


@pytest.mark.parametrize(
    ("misuse", "error"),
    [
        (lambda do: [do("x", int), do("x", int)], EffectNameReused),
        (lambda do: [do("x", int, timeout=30)], EffectMisused),
        (lambda do: [do("x", int, safe="maybe")], EffectMisused),
    ],
    ids=["twice", "too long", "no choice"],
)
def test_an_effect_that_cannot_be_kept_is_refused_for_good(
    service: Running,
    client: Client,
    speaker: Speaker,
    misuse: Callable[[Do], list[Awaitable[Any]]],
    error: type[Exception],
) -> None:
    id_ = service.accept(SOURCE, "k").id
    raised: list[BaseException] = []

    async def handler(_each: Any, do: Do) -> None:
        try:
            for each in misuse(do):
                await each
        except Exception as caught:
            raised.append(caught)
            raise

    work(speaker.kind, service, handler)

    assert [type(each) for each in raised] == [error]
    assert client.deliveries.inspect(id_).delivery.state == "dead"


# the line


@pytest.mark.parametrize("number", range(5))
def test_whichever_answer_is_lost_the_effect_happens_once_and_the_work_is_done(
    service: Running, client: Client, speaker: Speaker, number: int
) -> None:
    """The fetch, the beginning, the end of the effect, the completion, and the next fetch."""
    id_ = service.accept(SOURCE, "k").id
    calls: list[int] = []

    async def handler(_each: Any, do: Do) -> None:
        await do("charge", lambda: calls.append(1))

    with lossy(service.url, lambda at, _heard: at == number) as proxy:
        work(speaker.kind, service, handler, url=proxy.url)
    found = client.deliveries.inspect(id_)

    assert len(proxy.lost) == 1
    assert len(calls) == 1
    assert (found.delivery.state, found.delivery.tries) == ("done", 1)


def test_every_other_answer_may_be_lost(service: Running, client: Client, speaker: Speaker) -> None:
    ids = [service.accept(SOURCE, f"k{number}").id for number in range(5)]
    calls: list[str] = []

    async def handler(each: Any, do: Do) -> None:
        await do("charge", lambda: calls.append(each.id))

    with lossy(service.url, lambda at, _heard: at % 2 == 0) as proxy:
        work(speaker.kind, service, handler, url=proxy.url)

    assert sorted(calls) == sorted(ids)
    assert {client.deliveries.inspect(id_).delivery.state for id_ in ids} == {"done"}


def test_a_call_that_was_not_made_is_not_in_doubt_though_its_beginning_was_never_answered(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = service.accept(SOURCE, "k").id
    calls: list[int] = []
    tries: list[int] = []

    async def handler(each: Any, do: Do) -> None:
        tries.append(each.delivery.tries)
        await do("charge", lambda: calls.append(1), timeout=1)

    def loses(_at: int, heard: Heard) -> bool:
        return tries == [1] and heard.method == "POST" and "/effects/" in heard.path

    with lossy(service.url, loses) as proxy:
        work(speaker.kind, service, handler, url=proxy.url, tries=2, lease=1.5)
    found = client.deliveries.inspect(id_)

    assert (tries, calls) == ([1, 2], [1])
    assert found.delivery.state == "done"
    assert found.tries[0].error is not None
    assert found.tries[0].error.startswith(("service_unreachable:", "deadline_passed:"))


def test_a_beginning_that_never_arrives_says_nothing_of_an_earlier_call(
    service: Running, client: Client, speaker: Speaker
) -> None:
    id_ = _crashed_during_an_effect(service, client, safe="once")
    calls: list[int] = []
    tries: list[int] = []

    async def handler(each: Any, do: Do) -> None:
        tries.append(each.delivery.tries)
        await do("charge", lambda: calls.append(1), timeout=1)

    def cuts(_at: int, heard: Heard) -> bool:
        if tries == [2] and heard.method == "POST" and "/effects/" in heard.path:
            raise ConnectionError  # before the service has heard anything
        return False

    with lossy(service.url, cuts) as proxy:
        work(speaker.kind, service, handler, url=proxy.url, tries=2, lease=1.5)
    found = client.deliveries.inspect(id_)

    assert (tries, calls) == ([2, 3], [])
    assert (found.delivery.state, found.effects[0].state) == ("held", "unknown")


def test_heartbeats_end_with_the_work(service: Running, client: Client) -> None:
    service.accept(SOURCE, "k")
    with next(client.deliveries.work(SOURCE, idle=0)):
        assert "oncebox-heartbeat" in [each.name for each in threading.enumerate()]
    until = time.monotonic() + 10
    while "oncebox-heartbeat" in [each.name for each in threading.enumerate()]:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_worker_waits_for_a_service_that_is_away(
    service: Running, client: Client, speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def handler(each: Any, _do: Do) -> None:
        seen.append(each.id)

    service.stop()
    working = threading.Thread(
        target=work, args=(speaker.kind, service, handler), kwargs={"tries": 1}, daemon=True
    )
    working.start()
    time.sleep(0.5)
    service.start()
    id_ = service.accept(SOURCE, "k").id
    working.join(30)

    assert seen == [id_]
    assert not working.is_alive()


def test_a_worker_without_a_source_to_pull_is_told_at_once(
    service: Running, client: Client, speaker: Speaker
) -> None:
    client.sources.change(SOURCE, mode="handler")
    with pytest.raises(NotFound):
        work(speaker.kind, service, None)  # type: ignore[arg-type]


def test_a_worker_that_names_no_source_finds_nothing_where_none_is_pulled(
    client: Client,
) -> None:
    client.sources.change(SOURCE, mode="handler")
    assert client.deliveries.claim(wait=0).deliveries == []
