"""SingleFlight: one call for all who want the same."""

import asyncio

import pytest

from oncebox.workers.mail import single_flight
from oncebox.workers.mail.single_flight import SingleFlight


class Calls:
    """Counts calls, which end when they may."""

    def __init__(self) -> None:
        self.count = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.count += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        return self.count


async def test_concurrent_and_later_calls_share_a_result() -> None:
    calls, flights = Calls(), SingleFlight[int]()
    waiting = [asyncio.ensure_future(flights.result("a", 1, calls)) for _ in range(3)]
    await asyncio.sleep(0)
    calls.may_end.set()

    assert await asyncio.gather(*waiting) == [1, 1, 1]
    assert await flights.result("a", 1, calls) == 1
    assert await flights.result("b", 1, calls) == 2


async def test_a_caller_that_is_cancelled_leaves_the_others_their_result() -> None:
    calls, flights = Calls(), SingleFlight[int]()
    first, second = (asyncio.ensure_future(flights.result("a", 1, calls)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    calls.may_end.set()

    assert await second == 1
    assert first.cancelled()


@pytest.mark.parametrize(("kept", "expected"), [((), 2), ((LookupError,), 1)])
async def test_an_error_is_kept_only_if_it_should_be(
    kept: tuple[type[Exception], ...], expected: int
) -> None:
    calls, flights = Calls(), SingleFlight[int](*kept)
    calls.may_end.set()
    calls.error = LookupError()
    for _ in range(2):
        with pytest.raises(LookupError):
            await flights.result("a", 1, calls)

    assert calls.count == expected


async def test_few_results_and_few_bytes_are_kept() -> None:
    calls, flights = Calls(), SingleFlight[int]()
    calls.may_end.set()
    for number in range(100):
        await flights.result(str(number), 1, calls)

    assert len(flights._results) == single_flight._MOST_KEPT
    await flights.result("large", single_flight._MOST_BYTES + 1, calls)
    assert list(flights._results) == ["large"]
