"""The key ring: says whose key a text is, and remembers it for a few seconds."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from oncebox import clock
from oncebox.errors import StoreError
from oncebox.ledger.office import keys
from oncebox.model import key as texts
from oncebox.model.key import ApiKey
from oncebox.store.database import Database

#: seconds after which a revocation is seen by every process
SEEN_WITHIN = 5.0
#: milliseconds between two notes that a key was used
_NOTE_EVERY = 60_000
#: how many good keys are remembered, and how many texts that are none
_MOST, _MOST_UNKNOWN = 10_000, 1_000


@dataclass(frozen=True, slots=True)
class _Held:
    """What the database said, and until when that is believed."""

    key: ApiKey | None
    until: float


class KeyRing:
    """Checks keys at the price of one query per key every few seconds."""

    def __init__(self, database: Database, *, steady: Callable[[], float] = clock.steady) -> None:
        """Begin with nothing remembered."""
        self._database = database
        self._steady = steady
        self._held: dict[bytes, _Held] = {}
        #: apart, so that guesses never push a good key out
        self._unknown: dict[bytes, _Held] = {}
        self._asking: dict[bytes, asyncio.Task[_Held]] = {}
        self._noted: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def check(self, text: str) -> ApiKey | None:
        """Return the key with this text, if it may be used now.

        Raises: StoreError, when the database must be asked and cannot answer.
        """
        if not texts.is_text(text):
            return None
        digest = texts.digest(text)
        held = self._held.get(digest) or self._unknown.get(digest)
        if held is None or held.until <= self._steady():
            held = await self._ask(digest)
        now = self._database.clock()
        if held.key is None or held.key.state(now) != "active":
            return None
        self._note(held.key, now)
        return held.key

    def forget(self) -> None:
        """Ask the database anew from now on, as after a revocation in this process."""
        self._held.clear()
        self._unknown.clear()

    async def close(self) -> None:
        """Finish what was begun."""
        await asyncio.gather(*self._background, *self._asking.values(), return_exceptions=True)

    async def _ask(self, digest: bytes) -> _Held:
        """Ask the database, once for all who want to know the same."""
        task = self._asking.get(digest)
        if task is None:
            task = self._asking[digest] = asyncio.create_task(self._look(digest))
            task.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(task)

    async def _look(self, digest: bytes) -> _Held:
        # The time counts from before the look: what is read may be old when it arrives.
        until = self._steady() + SEEN_WITHIN
        held = _Held(await self._database.read(keys.by_digest, digest), until)
        known = held.key is not None
        _remember(self._held if known else self._unknown, digest, held,
                  _MOST if known else _MOST_UNKNOWN)  # fmt: skip
        (self._unknown if known else self._held).pop(digest, None)
        return held

    def _note(self, key: ApiKey, now: int) -> None:
        """Note in the background that a key is used, not on every request."""
        if now - self._noted.get(key.id, key.last_used_at or 0) < _NOTE_EVERY:
            return
        self._noted[key.id] = now
        task = asyncio.create_task(self._write(key, now))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _write(self, key: ApiKey, now: int) -> None:
        try:
            await self._database.write(keys.used, key, now)
        except StoreError:
            self._noted.pop(key.id, None)  # the next use notes it


def _remember(held: dict[bytes, _Held], digest: bytes, one: _Held, most: int) -> None:
    """Keep an answer; where there are too many, the oldest goes."""
    held.pop(digest, None)
    while len(held) >= most:
        del held[next(iter(held))]
    held[digest] = one
