"""The log of failed tries: what failed, where, and what happens next; never what a sender wrote."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from oncebox.core.logging import loggable_key, traceback_fields
from oncebox.errors import EffectOutcomeUnknown, Permanent
from oncebox.model.deliveries.delivery import Delivery, Hold
from oncebox.workers.deliveries.once import Once
from tests.support.databases import Place
from tests.support.program import SOURCE, Program

#: what a mail or a webhook brought, and nothing of which may be logged
CANARY = "canary-of-a-sender"


def charge(delivery: Delivery) -> None:
    """Fail as code deep below a handler does: with the words of somebody else."""
    message = f"no such customer: {delivery.text}"
    raise LookupError(message)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged; every test sees that no sender's words are."""
    caplog.set_level(logging.DEBUG)
    return caplog


def told(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the lines about failed handlers, and see that nothing else of them is told."""
    assert CANARY not in log.text
    lines = [each for each in log.records if each.name == "oncebox" and not each.exc_info]
    facts: list[dict[str, Any]] = [each.msg for each in lines if isinstance(each.msg, dict)]
    return [each for each in facts if each["event"] == "handler_failed"]


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_every_failed_try_is_logged_with_its_traceback(
    place: Place, log: pytest.LogCaptureFixture, plain: bool
) -> None:
    program = Program(place, retry={"tries": 3})

    async def waiting(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)
        charge(delivery)

    def blocking(delivery: Delivery, once: Once) -> None:
        charge(delivery)

    program.box.on(SOURCE)(blocking if plain else waiting)
    async with program.running():
        seen = await program.handled("evt_1", body=CANARY, type=CANARY)

    lines = told(log)
    assert [each["key"] for each in lines] == ["evt_1"] * 3
    assert CANARY in str(seen.delivery.last_error)  # this is where its words are
    assert [each["tries"] for each in lines] == [1, 2, 3]
    assert [each["next"] for each in lines] == ["retry", "retry", "given_up"]
    assert [each["outcome"] for each in lines] == ["failed", "failed", "tries_used_up"]
    assert [each["level"] for each in lines] == ["warning", "warning", "error"]
    assert [each["due"] is None for each in lines] == [False, False, True]
    for each in lines:
        assert (each["delivery"], each["source"]) == (seen.delivery.id, SOURCE)
        assert each["error"] == "LookupError"
        handler = "blocking" if plain else "waiting"
        assert (
            f"test_handler_log.py:{_line(blocking if plain else waiting)} in " in each["traceback"]
        )
        assert f"{handler} > " in each["traceback"]
        assert each["traceback"].endswith(
            f"{__file__}:{charge.__code__.co_firstlineno + 3} in charge"
        )


def _line(handler: Any) -> int:
    """Return the last line of a handler, which calls what fails."""
    return max(int(line) for _, _, line in handler.__code__.co_lines() if line)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
async def test_a_handler_over_its_limit_is_logged_with_the_place_where_it_was(
    place: Place, log: pytest.LogCaptureFixture, plain: bool
) -> None:
    program = Program(place, retry={"tries": 1})
    end = threading.Event()

    async def sleeping(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(60)

    def stuck(delivery: Delivery, once: Once) -> None:
        end.wait(60)

    program.box.on(SOURCE, limit=0.05)(stuck if plain else sleeping)
    async with program.running():
        await program.handled()
        end.set()

    (line,) = told(log)
    assert (line["error"], line["next"]) == ("TimeoutError", "given_up")
    assert f"{'stuck' if plain else 'sleeping'} > " in line["traceback"]


async def test_what_is_held_or_given_up_at_once_is_logged_as_that(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    program = Program(place)
    failures = {"1": Permanent(CANARY), "2": EffectOutcomeUnknown(CANARY), "3": SystemExit(CANARY)}

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        if delivery.tries == 1:
            raise failures[delivery.key]

    async with program.running():
        for key in failures:
            await program.handled(key)

    assert [(each["error"], each["next"]) for each in told(log)] == [
        ("Permanent", "given_up"),
        ("EffectOutcomeUnknown", "held"),
        ("SystemExit", "retry"),
    ]


async def test_what_succeeds_is_not_logged(place: Place, log: pytest.LogCaptureFixture) -> None:
    program = Program(place)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)

    async with program.running():
        await program.handled(body=CANARY)

    assert told(log) == []


def _raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_what_caused_an_error_is_traced_too() -> None:
    error = _raised(RuntimeError(CANARY))
    error.__cause__ = _raised(KeyError(CANARY))
    error.__cause__.__context__ = error  # a circle has an end
    group = _raised(ExceptionGroup(CANARY, [error, ValueError(CANARY)]))

    told = traceback_fields(group)

    assert told["error"] == "ExceptionGroup"
    kinds = [each.split(" at ")[0] for each in told["traceback"].split("; from ")]
    assert kinds == ["ExceptionGroup", "RuntimeError", "ValueError", "KeyError"]
    assert CANARY not in str(told)


def test_a_traceback_without_end_is_cut_in_the_middle() -> None:
    def again() -> None:
        again()

    with pytest.raises(RecursionError) as caught:
        again()

    frames = traceback_fields(caught.value)["traceback"].split(" > ")
    assert len(frames) == 31
    assert "…" in frames


async def test_the_traceback_of_each_failed_try_is_kept_for_the_operator(place: Place) -> None:
    program = Program(place, retry={"tries": 2})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        charge(delivery)

    async with program.running():
        seen = await program.handled(body=CANARY)

    kept = [each.traceback for each in seen.tries]
    assert len(kept) == 2
    for each in kept:
        assert each is not None
        assert each.startswith("LookupError at ")
        assert each.endswith(" in charge")
        assert CANARY not in each


def _held(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the warnings about deliveries that wait for a person."""
    assert CANARY not in log.text
    facts = [each.msg for each in log.records if isinstance(each.msg, dict)]
    return [each for each in facts if each["event"] == "delivery_held"]


async def test_what_a_policy_holds_is_a_warning_without_its_reason(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    program = Program(place)
    program.box.policy(SOURCE)(lambda delivery: Hold(delivery.text))

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)

    async with program.running():
        seen = await program.handled("evt_1", body=CANARY)

    (line,) = _held(log)
    assert (line["level"], line["delivery"], line["source"]) == (
        "warning",
        seen.delivery.id,
        SOURCE,
    )
    assert (line["key"], line["reason"]) == ("evt_1", "policy")


async def test_what_is_held_on_arrival_is_a_warning(
    place: Place, log: pytest.LogCaptureFixture
) -> None:
    program = Program(place)
    async with program.running():
        await program.accept("evt_1", body=CANARY)
        other = await program.accept("evt_1", body=f"{CANARY} again")

    (line,) = _held(log)
    assert (line["level"], line["delivery"], line["reason"]) == ("warning", other, "conflict")


@pytest.mark.parametrize("key", ["evt_1QxZ", "inb_1:4711", "sha256:00ff", "a.b-c"])
def test_a_key_that_is_a_name_is_logged_as_it_is(key: str) -> None:
    assert loggable_key(key) == key


@pytest.mark.parametrize(
    "key", [f"{CANARY} with words", "ann@example.com", "https://x.test/reset", "é", "x" * 101]
)
def test_any_other_key_is_logged_as_a_digest(key: str) -> None:
    shown = loggable_key(key)

    assert shown.startswith("digest:")
    assert key not in shown
    assert shown == loggable_key(key) != loggable_key(key + "x")
