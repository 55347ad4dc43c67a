"""The published pattern over redis-py: SET NX for a claim; SET NX and GET for a duplicate.

Redis writes every command to its log and syncs it before it answers (appendfsync always).
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
import redis.asyncio
import uvloop

from bench import load

WEEK = 7 * 86_400
KNOWN = 10_000


def by_threads(url: str, pool: int, *, duplicates: bool) -> load.Accept:
    """Return what claims, a connection for each thread."""
    threads, local = ThreadPoolExecutor(pool), threading.local()

    def work(key: str) -> None:
        if not hasattr(local, "redis"):
            local.redis = redis.Redis.from_url(url)
        if duplicates:
            key = known(key)
        taken = local.redis.set(f"lock:{key}", "1", nx=True, ex=WEEK)
        assert taken is (None if duplicates else True)
        if duplicates:
            assert local.redis.get(f"result:{key}")

    async def call(key: str, _body: bytes) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, work, key)

    return call


def by_asyncio(url: str, *, duplicates: bool) -> load.Accept:
    """Return what claims over a pool of connections."""
    client = redis.asyncio.Redis.from_url(url, max_connections=load.CALLERS)

    async def call(key: str, _body: bytes) -> None:
        if duplicates:
            key = known(key)
        taken = await client.set(f"lock:{key}", "1", nx=True, ex=WEEK)
        assert taken is (None if duplicates else True)
        if duplicates:
            assert await client.get(f"result:{key}")

    return call


def known(key: str) -> str:
    """Return a key that was sent before."""
    return str(hash(key) % KNOWN)


def fill(url: str) -> None:
    """Store results of sends."""
    client: Any = redis.Redis.from_url(url)
    with client.pipeline(transaction=False) as line:
        for number in range(KNOWN):
            line.set(f"lock:{number}", "1", ex=WEEK)
            line.set(f"result:{number}", f"<{number:032}@example.com>", ex=WEEK)
        line.execute()


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("what", choices=("claim", "duplicate"))
    parser.add_argument("--pool", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    settings: Any = redis.Redis.from_url(options.url)
    settings.config_set("appendonly", "yes")
    settings.config_set("appendfsync", "always")
    duplicates = options.what == "duplicate"
    if duplicates:
        fill(options.url)

    async def measured() -> None:
        call = (
            by_threads(options.url, options.pool, duplicates=duplicates)
            if options.pool
            else by_asyncio(options.url, duplicates=duplicates)
        )
        timed = load.Timed(call)
        per_second = await load.rate(timed, seconds=options.seconds)
        setting = f"pool of {options.pool}" if options.pool else "asyncio"
        load.report(per_second, setting, **timed.waits())

    uvloop.run(measured())


if __name__ == "__main__":
    main()
