"""The key ring: one query per key every few seconds, and a revocation is seen within them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncebox.db.database import Database
from oncebox.errors import DatabaseUnreachable
from oncebox.ledger.admin import api_keys
from oncebox.ledger.admin.api_keys import KEY_CACHE_SECONDS, ApiKeyCache
from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey
from tests.support.clerk import DAY, HOUR, MINUTE, Clerk
from tests.support.office import Office


class Bench:
    """A ring, the office beside it, and both their clocks."""

    def __init__(self, office: Office, database: Database) -> None:
        self.office = office
        self.database = database
        self.seconds = 0.0
        self.looks = 0
        self.down = False
        self.ring = ApiKeyCache(self, steady=lambda: self.seconds)  # type: ignore[arg-type]

    def clock(self) -> int:
        return self.office.clerk.now

    async def read(self, verb: object, digest: bytes) -> ApiKey | None:
        if self.down:
            raise DatabaseUnreachable("down")
        self.looks += 1
        return await self.database.read(api_keys.by_digest, digest)

    async def write(self, verb: object, key: ApiKey, now: int) -> None:
        if self.down:
            raise DatabaseUnreachable("down")
        await self.database.write(api_keys.record_use, key, now)

    async def used(self, key: ApiKey) -> int | None:
        await self.ring.close()
        (found,) = [
            each for each in self.office.clerk.run(api_keys.list_all, "acme") if each.id == key.id
        ]
        return found.last_used_at


@pytest.fixture
async def bench(clerk: Clerk, database: Database) -> AsyncIterator[Bench]:
    bench = Bench(Office(clerk), database)
    yield bench
    await bench.ring.close()


async def test_a_key_costs_one_query_every_few_seconds(bench: Bench) -> None:
    key, text = bench.office.key()

    for _ in range(50):
        found = await bench.ring.check(text)
        assert found is not None
        assert found.id == key.id
    assert bench.looks == 1

    bench.seconds += KEY_CACHE_SECONDS
    assert await bench.ring.check(text)
    assert bench.looks == 2


async def test_many_at_once_share_one_query(bench: Bench) -> None:
    _, text = bench.office.key()

    found = await asyncio.gather(*(bench.ring.check(text) for _ in range(100)))

    assert all(found)
    assert bench.looks == 1


async def test_a_revocation_is_seen_within_the_bound(bench: Bench) -> None:
    key, text = bench.office.key()
    assert await bench.ring.check(text)
    bench.office.revoke(key)

    bench.seconds += KEY_CACHE_SECONDS

    assert await bench.ring.check(text) is None


async def test_a_revocation_in_this_process_is_seen_at_once(bench: Bench) -> None:
    key, text = bench.office.key()
    assert await bench.ring.check(text)
    bench.office.revoke(key)

    bench.ring.clear()

    assert await bench.ring.check(text) is None


async def test_a_key_expires_on_time_though_it_is_remembered(bench: Bench) -> None:
    _, text = bench.office.key(expires_at=bench.office.clerk.now + 1)
    assert await bench.ring.check(text)

    bench.office.clerk.now += 1

    assert await bench.ring.check(text) is None
    assert bench.looks == 1


@pytest.mark.parametrize("change", ["", "x", " ", "\n"])
async def test_a_mistyped_key_costs_no_query(bench: Bench, change: str) -> None:
    _, text = bench.office.key()
    typed = f"{text}{change}" if change else f"{text[:-1]}{'0' if text[-1] != '0' else '1'}"

    assert await bench.ring.check(typed) is None
    assert bench.looks == 0


async def test_guesses_push_no_good_key_out(bench: Bench) -> None:
    _, text = bench.office.key()
    await bench.ring.check(text)
    guesses = [texts.make_key_text(number.to_bytes(20, "big")) for number in range(1_200)]

    for guess in guesses:
        assert await bench.ring.check(guess) is None
    before = bench.looks
    assert await bench.ring.check(text)

    assert bench.looks == before
    assert len(bench.ring._unknown) == 1_000


async def test_a_key_that_is_unknown_now_is_found_when_it_was_made(bench: Bench) -> None:
    deed = bench.office.deed()
    key, text = api_keys.generate(deed, ["admin"])
    assert await bench.ring.check(text) is None
    bench.office.clerk.run(api_keys.add, key, text, deed)

    bench.seconds += KEY_CACHE_SECONDS

    assert await bench.ring.check(text)
    assert not bench.ring._unknown


async def test_a_store_that_is_down_refuses_nobody_who_is_remembered(bench: Bench) -> None:
    _, text = bench.office.key()
    _, other = bench.office.key()
    assert await bench.ring.check(text)
    bench.down = True

    assert await bench.ring.check(text)
    with pytest.raises(DatabaseUnreachable):
        await bench.ring.check(other)


async def test_use_is_noted_once_a_minute_and_not_on_each_request(bench: Bench) -> None:
    key, text = bench.office.key()
    start = bench.office.clerk.now
    for _ in range(5):
        await bench.ring.check(text)
        bench.office.clerk.now += 1_000
    assert await bench.used(key) == start

    bench.office.clerk.now = start + MINUTE
    await bench.ring.check(text)

    assert await bench.used(key) == start + MINUTE


async def test_a_note_that_cannot_be_written_fails_no_request(bench: Bench) -> None:
    key, text = bench.office.key()
    await bench.ring.check(text)
    await bench.used(key)
    bench.down = True
    bench.office.clerk.now += HOUR

    assert await bench.ring.check(text)
    await bench.ring.close()
    bench.down = False
    assert await bench.ring.check(text)

    assert await bench.used(key) == bench.office.clerk.now


async def test_keys_of_two_tenants_are_told_apart(bench: Bench) -> None:
    _, mine = bench.office.key("agent", expires_at=bench.office.clerk.now + DAY)
    _, other = bench.office.key("admin", tenant="default")

    found = [await bench.ring.check(text) for text in (mine, other)]

    assert [each and each.tenant for each in found] == ["acme", "default"]
