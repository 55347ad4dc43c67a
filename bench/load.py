"""The load every accept benchmark shares: keys, bodies, callers and the clock.

Both sides import this file, each in its own environment, so it needs nothing but the
standard library.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

CALLERS = 64
BODY_BYTES = 1024
STORED_BODY_BYTES = 200
WARM_SECONDS = 1.0
SECONDS = 4.0

SOURCE = "bench"
TYPE = "invoice.paid"
HEADERS = (
    ("content-type", "application/json"),
    ("user-agent", "bench/1.0"),
    ("webhook-timestamp", "1767225600"),
)

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ACCOUNT = "2eZvKYlo2C"

Accept = Callable[[str, bytes], Awaitable[object]]


@lru_cache(maxsize=4)
def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, rest = divmod(number, 62)
        digits.append(_BASE62[rest])
    return "".join(reversed(digits))


def stripe_key(chance: random.Random, second: int) -> str:
    """Return an event id in Stripe's shape: the time, the account, then chance."""
    return f"evt_{_base62(second, 6)}{_ACCOUNT}{''.join(chance.choices(_BASE62, k=8))}"


def github_key(chance: random.Random) -> str:
    """Return a delivery id in GitHub's shape: a random UUID."""
    digits = f"{chance.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def keys(seed: int | None = None, second: int | None = None) -> Iterator[str]:
    """Yield unique keys, by turns ordered by time (Stripe's) and random (GitHub's).

    With `second` given, time starts there and passes at 50 keys a second; without it,
    it is the clock's.
    """
    chance = random.Random(seed)
    count = 0
    while True:
        now = int(time.time()) if second is None else second + count // 50
        yield stripe_key(chance, now)
        yield github_key(chance)
        count += 2


def body(key: str, size: int = BODY_BYTES) -> bytes:
    """Return a JSON body of `size` bytes that no other key shares."""
    head = f'{{"id":"{key}","type":"{TYPE}","data":"'.encode()
    return head + _FILLING[: max(0, size - len(head) - 2)] + b'"}'


_FILLING = f"{random.Random(7).getrandbits(8 * BODY_BYTES):0{2 * BODY_BYTES}x}".encode()


@dataclass
class Pulse:
    """How many calls were answered; the callers run until `stopped`."""

    answered: int = 0
    stopped: bool = False


async def _caller(accept: Accept, source: Iterator[str], pulse: Pulse) -> None:
    while not pulse.stopped:
        key = next(source)
        await accept(key, body(key))
        pulse.answered += 1


async def rate(accept: Accept, *, callers: int = CALLERS, seconds: float = SECONDS) -> float:
    """Return the calls answered per second with `callers` of them always waiting."""
    pulse, source = Pulse(), keys()
    tasks = [asyncio.create_task(_caller(accept, source, pulse)) for _ in range(callers)]
    await asyncio.sleep(WARM_SECONDS)
    first, began = pulse.answered, time.perf_counter()
    await asyncio.sleep(seconds)
    answered, took = pulse.answered - first, time.perf_counter() - began
    pulse.stopped = True
    await asyncio.gather(*tasks)
    return answered / took


class Timed:
    """A call whose waits are kept."""

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._took: list[float] = []

    async def __call__(self, key: str, body: bytes) -> object:
        """Call, and note how long it took."""
        began = time.perf_counter()
        answer = await self._accept(key, body)
        self._took.append(time.perf_counter() - began)
        return answer

    def waits(self) -> dict[str, float]:
        """Return the milliseconds within which half, and ninety-nine of a hundred, had ended."""
        took = sorted(self._took)
        return {
            name: round(took[min(len(took) - 1, int(len(took) * share))] * 1000, 2)
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }


@dataclass
class Stopwatch:
    """Times a backlog: from the first job started to the last of `jobs` settled."""

    jobs: int
    settled: int = 0
    began: float = 0.0
    ended: float = 0.0

    def start(self) -> None:
        """Note that a job starts; only the first counts."""
        if not self.began:
            self.began = time.perf_counter()

    def settle(self, count: int = 1) -> bool:
        """Note settled jobs; True when they were the last."""
        self.settled += count
        if self.settled >= self.jobs and not self.ended:
            self.ended = time.perf_counter()
        return bool(self.ended)

    @property
    def rate(self) -> float:
        """Jobs per second."""
        if not self.ended:
            raise RuntimeError(f"only {self.settled} of {self.jobs} jobs were settled")
        return self.jobs / (self.ended - self.began)


def report(per_second: float, setting: str, **more: float) -> None:
    """Print the one line the frame reads; there may be more, such as `p50` and `p99`."""
    print(json.dumps({"rate": round(per_second, 1), "setting": setting, **more}), flush=True)
