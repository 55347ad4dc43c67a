"""An agent that wants every action of a round done, among many, and may die holding one.

It ends when it has been told the result of each.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oncebox.core import clock
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.errors import LeaseLost, StoreUnavailable
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts.actions import ActionRef, AttemptRepository
from oncebox.ledger.transactions import Ledger
from oncebox.model.attempts import Action, BeginStatus, action_key
from oncebox.model.deliveries.effects import Safety
from tests.torture.history import Downstream, History, read_downstream

TENANT = "default"
ATTEMPT = "race"
KEY = MasterKey(bytes(32))
#: Milliseconds; whoever has not called within half of it does not call any more.
LEASE = 2_000
#: Milliseconds for which the world honours a key.
WINDOW = 3_600_000
#: Actions of a round, of each choice.
EACH = 4
#: Moments at which a holder may end itself.
WAYS = ("", "before-call", "after-call")


def names() -> list[str]:
    """Return the actions of a round; the first word is the choice."""
    return [f"{safe}-{number}" for safe in Safety for number in range(EACH)]


def key_of(name: str) -> str:
    """Return what is handed to the world for an action."""
    return action_key(TENANT, ATTEMPT, name)


class Contender:
    """One agent among many."""

    def __init__(self, desk: AttemptRepository, given: argparse.Namespace) -> None:
        self._desk = desk
        self._die = given.die
        self._path: Path = given.world
        self._dice = random.Random(given.seed)
        self.world = Downstream(given.world)
        self.history = History(given.history)

    async def run(self) -> None:
        """Go after all actions, in an order of its own, until each is done."""
        left = names()
        self._dice.shuffle(left)
        while left:
            for name in list(left):
                with suppress(StoreUnavailable):
                    if await self._one(name):
                        left.remove(name)
            await asyncio.sleep(self._dice.uniform(0.02, 0.1))

    async def _one(self, name: str) -> bool:
        """Try one action; say whether it is done."""
        asked = clock.steady()
        task = ActionRef(Requester(tenant=TENANT, key="key_1", sees_all=False), ATTEMPT, name)
        safe = Safety(name.partition("-")[0])
        begun = await self._desk.begin(task, safe, lease=LEASE, window=WINDOW)
        if begun.status is BeginStatus.DONE:
            self._told(name, begun.action)
            return True
        if begun.status is BeginStatus.BEGUN:
            return await self._perform(task, begun.action.fence, asked)
        if begun.status is BeginStatus.LOOK:
            await self._look(task, begun.action.fence)
        return False

    async def _perform(self, task: ActionRef, fence: int, asked: float) -> bool:
        # Long enough for others to come by, who must leave it alone.
        await asyncio.sleep(self._dice.uniform(0, 0.1))
        self._end_at("before-call", task.name)
        if clock.steady() - asked > LEASE / 2_000:  # others may soon rely on its being over
            with suppress(LeaseLost):
                await self._desk.not_done(task, fence)
            return False
        self.world.call(key_of(task.name), delivery=task.name, fence=fence)
        self._end_at("after-call", task.name)
        result = f'"{os.getpid()}-{fence}"'.encode()
        self._told(task.name, await self._desk.done(task, fence, result))
        return True

    async def _look(self, task: ActionRef, fence: int) -> None:
        """Say what the world says."""
        with suppress(LeaseLost):
            if called(self._path, task.name):
                self._told(task.name, await self._desk.done(task, fence, b'"seen"'))
            else:
                await self._desk.not_done(task, fence)

    def _told(self, name: str, action: Action) -> None:
        result = self._desk.decrypt_result(action)
        self.history.invoke("told", name).ok((result or b"").decode())

    def _end_at(self, moment: str, name: str) -> None:
        """Die as if by ``kill -9``, with the action in hand."""
        if self._die == moment:
            self.history.invoke("died", name)
            os.kill(os.getpid(), signal.SIGKILL)


def called(world: Path, name: str) -> bool:
    """Say whether the world was called for an action."""
    return any(each.key == key_of(name) for each in read_downstream(world))


async def main(given: argparse.Namespace) -> None:
    """Open the database, and go after the actions."""
    database = startup.connect(given.url, connections=1)
    try:
        await database.read(lambda _tx: None)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        # Those that die by their own hand come first, so that they have something in it.
        while not (given.die or given.go.exists()):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.01)
        await Contender(AttemptRepository(Ledger(database), Telemetry(), KEY), given).run()
    finally:
        await database.close()


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("history", type=Path)
    parser.add_argument("world", type=Path)
    parser.add_argument("go", type=Path, help="begin when this file is there")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--die", choices=WAYS, default="")
    return parser.parse_args(arguments)
