"""Attempts through both clients, against a real service on both databases."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.errors import ActionHeld, ActionInFlight, ActionMisused
from oncebox.client.sync import Client
from oncebox.client.sync.attempts import Action
from oncebox.errors import LeaseLost, NotDone, NotFound
from oncebox.errors.mail import ResendLimitReached
from oncebox.model.deliveries.effects import NO_RESULT, Done
from oncebox.schemas.inboxes import Policy
from tests.client.conftest import Speaker
from tests.support.running import Running


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.url, service.key, timeout=10) as made:
        yield made


def lost(client: Client, name: str, safe: str | Callable[..., Any] = "once") -> Action:
    """Begin an action whose program is never heard of again."""
    action = client.attempt("signup-42").action(name, safe=safe, lease=1).begin()
    time.sleep(1.1)
    return action


class World:
    """The other side: it honours keys, and can be asked."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.calls = 0

    def make(self, idempotency_key: str) -> str:
        self.calls += 1
        return self.made.setdefault(idempotency_key, "acc_1")

    def find(self, idempotency_key: str) -> Done:
        if idempotency_key not in self.made:
            raise NotDone
        return Done(self.made[idempotency_key])


# blocks


def test_a_block_is_done_once_and_the_next_gets_its_result(client: Client) -> None:
    attempt = client.attempt("signup-42")
    ran = []
    for _ in range(2):
        with attempt.action("verify", safe="once") as action:
            if action.go:
                ran.append(action.key)
                action.done({"account": 7})
        assert (action.state, action.go, action.result) == ("done", False, {"account": 7})

    assert len(ran) == 1
    assert attempt.stats().actions["done"] == 1


def test_the_end_of_a_block_says_that_it_is_done(client: Client) -> None:
    attempt = client.attempt("signup-42")
    with attempt.action("verify") as action:
        assert action.go
    again = attempt.action("verify").begin()

    assert (again.state, again.result) == ("done", None)


def test_an_error_that_proves_nothing_leaves_the_action_in_doubt(client: Client) -> None:
    attempt = client.attempt("signup-42")
    with pytest.raises(ValueError, match="odd"), attempt.action("verify", lease=1):
        raise ValueError("odd")
    with pytest.raises(ActionInFlight):
        attempt.action("verify").begin()
    time.sleep(1.1)
    command = "oncebox action resolve signup-42 verify --done --why "
    with pytest.raises(ActionHeld, match=command), attempt.action("verify"):
        pass


def test_an_error_that_proves_that_nothing_happened_says_so(client: Client) -> None:
    attempt = client.attempt("signup-42")
    with pytest.raises(NotDone), attempt.action("verify"):
        raise NotDone

    assert attempt.action("verify").begin().go


def test_a_long_block_keeps_its_lease(client: Client) -> None:
    attempt = client.attempt("signup-42")
    with attempt.action("verify", lease=1) as action:
        time.sleep(1.6)
        with pytest.raises(ActionInFlight):
            attempt.action("verify").begin()
        assert not action.lost


def test_a_second_agent_waits_for_the_first_and_gets_its_result(client: Client) -> None:
    attempt = client.attempt("signup-42")
    first = attempt.action("verify").begin()

    async def race() -> Any:
        async with AsyncClient(client._runner.url, _key(client)) as other:
            second = other.attempt("signup-42").action("verify", wait=10)
            waiting = asyncio.create_task(second.begin())
            await asyncio.sleep(0.2)
            await asyncio.to_thread(first.done, "the first's")
            return (await waiting).result

    assert asyncio.run(race()) == "the first's"


def test_who_is_told_to_look_says_what_it_found(client: Client) -> None:
    lost(client, "verify", "verify")
    with client.attempt("signup-42").action("verify", safe="verify") as action:
        assert (action.state, action.go) == ("look", False)
        action.not_done()
        action.begin()
        assert action.go
        action.done("at last")

    assert client.attempt("signup-42").action("verify").begin().result == "at last"


def test_a_stale_holder_proves_but_does_not_deny(client: Client) -> None:
    stale = lost(client, "verify", "idempotent")
    second = client.attempt("signup-42").action("verify", safe="idempotent").begin()
    with pytest.raises(LeaseLost):
        stale.not_done()
    with pytest.raises(LeaseLost):
        stale.heartbeat()
    stale.done("proof")

    assert second.go
    assert client.attempt("signup-42").action("verify").begin().result == "proof"


def test_an_action_is_not_ended_by_who_does_not_hold_it(client: Client) -> None:
    attempt = client.attempt("signup-42")
    unbegun = attempt.action("verify")
    with pytest.raises(ActionMisused):
        unbegun.done()
    attempt.action("verify").begin().done(1)
    with pytest.raises(ActionMisused):
        unbegun.begin().done(2)
    with pytest.raises(ActionMisused):
        attempt.action("verify", safe="perhaps")
    with pytest.raises(ActionMisused):
        attempt.do("verify", print, timeout=60)


def test_an_async_block_is_stopped_when_its_lease_is_lost(service: Running) -> None:
    async def act() -> None:
        async with AsyncClient(service.url, service.key) as client:
            attempt = client.attempt("signup-42")
            async with attempt.action("verify", lease=1) as action:
                await client.attempts.not_done("signup-42", "verify", 1)
                await asyncio.sleep(10)
            assert action.go

    with pytest.raises(LeaseLost):
        asyncio.run(act())


# functions


def test_a_function_is_called_once(service: Running, speaker: Speaker) -> None:
    world = World()

    def ask() -> Any:
        return speaker.ask(
            service.url, lambda c: c.attempt("a").do("make", world.make), key=service.key
        )

    assert [ask(), ask()] == ["acc_1", "acc_1"]
    assert world.calls == 1


def test_a_repeat_can_tell_that_the_result_was_not_stored(
    service: Running, speaker: Speaker, client: Client
) -> None:
    def ask() -> Any:
        return speaker.ask(
            service.url, lambda c: c.attempt("a").do("make", object), key=service.key
        )

    def ask_null() -> Any:
        return speaker.ask(
            service.url, lambda c: c.attempt("a").do("null", lambda: None), key=service.key
        )

    ask()
    ask_null()

    assert ask() is NO_RESULT
    assert client.attempt("a").action("make").begin().result is NO_RESULT
    assert ask_null() is None


@pytest.mark.parametrize("happened", [True, False])
def test_a_function_that_was_lost_is_looked_for(
    service: Running, speaker: Speaker, client: Client, happened: bool
) -> None:
    world = World()
    action = lost(client, "make", world.find)
    if happened:
        world.make(action.key)
    found = speaker.ask(
        service.url,
        lambda c: c.attempt("signup-42").do("make", world.make, safe=world.find),
        key=service.key,
    )

    assert (found, world.calls) == ("acc_1", 1)


def test_a_function_that_honours_its_key_is_repeated(
    service: Running, speaker: Speaker, client: Client
) -> None:
    world = World()
    world.make(lost(client, "make", "idempotent").key)
    found = speaker.ask(
        service.url, lambda c: c.attempt("signup-42").do("make", world.make), key=service.key
    )

    assert (found, world.calls, len(world.made)) == ("acc_1", 2, 1)


def test_a_function_without_a_key_is_held(
    service: Running, speaker: Speaker, client: Client
) -> None:
    lost(client, "make")
    with pytest.raises(ActionHeld):
        speaker.ask(service.url, lambda c: c.attempt("signup-42").do("make", dict), key=service.key)


def test_a_function_that_proves_it_did_nothing_may_run_again(
    service: Running, speaker: Speaker
) -> None:
    def ask(function: Callable[[], Any]) -> Any:
        return speaker.ask(
            service.url, lambda c: c.attempt("a").do("make", function), key=service.key
        )

    def refuse() -> None:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        ask(refuse)

    assert ask(object) is not None
    assert ask(lambda: 1) is NO_RESULT


# resends


def test_a_resend_is_granted_and_then_refused(service: Running, speaker: Speaker) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    ask(lambda c: c.inboxes.create(attempt_id="a", policy=Policy(resends=1)))
    granted = ask(lambda c: c.attempt("a").request_resend(idempotency_key="k1"))
    again = ask(lambda c: c.attempt("a").request_resend(idempotency_key="k1"))
    with pytest.raises(ResendLimitReached, match="wait for the mail that was sent"):
        ask(lambda c: c.attempt("a").request_resend())
    stats = ask(lambda c: c.attempt("a").stats())

    assert (granted.number, granted.left, again) == (1, 0, granted)
    assert (stats.resends.granted, stats.resends.left, stats.inboxes) == (1, 0, 1)
    assert ask(lambda c: c.inboxes.attempt_stats("a")) == stats
    batch = ask(lambda c: c.attempts.batch_stats("a"))
    assert (batch.prefix, batch.attempts, batch.inboxes, batch.resends) == ("a", 1, 1, 1)
    with pytest.raises(NotFound):
        ask(lambda c: c.attempt("nothing").request_resend())


def _key(client: Client) -> str:
    header: str = client._runner._http.headers["authorization"]
    return header.removeprefix("Bearer ")
