"""The settler: how ended tries share commits."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from oncebox.model.delivery import Settlement
from oncebox.telemetry import Telemetry
from oncebox.worker.settler import Settler


class Desk:
    """Counts commits; each takes a moment of the loop."""

    def __init__(self) -> None:
        self.commits: list[int] = []

    async def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        await asyncio.sleep(0)
        self.commits.append(len(batch))
        return [True] * len(batch)


async def _settled(under_way: int) -> list[int]:
    """End ten tries one after the other while so many others go on; return sizes of commits."""
    desk, ended = Desk(), asyncio.Event()
    left = 10

    def settled(batch: Sequence[tuple[Settlement, bool]]) -> None:
        nonlocal left
        left -= len(batch)
        if not left:
            ended.set()

    settler = Settler(cast("Any", desk), Telemetry(), settled, under_way=lambda: under_way)
    for _ in range(10):
        settler.put(cast("Settlement", object()))
        for _ in range(5):
            await asyncio.sleep(0)
    await asyncio.wait_for(ended.wait(), 10)
    return desk.commits


def test_tries_of_a_crowd_share_a_commit() -> None:
    commits = asyncio.run(_settled(under_way=16))

    assert sum(commits) == 10
    assert len(commits) < 10


def test_a_try_with_few_others_under_way_waits_for_nobody() -> None:
    assert asyncio.run(_settled(under_way=15)) == [1] * 10
