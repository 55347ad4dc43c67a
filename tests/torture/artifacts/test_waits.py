"""A run of waits ends, whatever goes wrong in it."""

import asyncio

import pytest

from tests.support.ports import free_port
from tests.torture.artifacts.courier import Courier
from tests.torture.artifacts.waits import until_done


async def _nothing() -> None:
    pass


async def _fails() -> None:
    raise LookupError


async def _for_ever() -> None:
    await asyncio.Event().wait()


def test_what_only_helps_ends_with_the_work() -> None:
    asyncio.run(until_done([_nothing(), _nothing()], helped_by=[_for_ever()]))


@pytest.mark.parametrize("failing", ["work", "help"])
def test_whatever_fails_ends_the_run(failing: str) -> None:
    work = [_for_ever(), _fails() if failing == "work" else _for_ever()]
    helpers = [_for_ever(), _fails() if failing == "help" else _for_ever()]

    with pytest.raises(ExceptionGroup) as failure:
        asyncio.run(until_done(work, helped_by=helpers))

    assert failure.value.subgroup(LookupError) is not None


def test_a_courier_does_not_knock_for_ever() -> None:
    courier = Courier(free_port(), patience=0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(courier.bring("someone@inbox.example", b"Subject: Hello"))
