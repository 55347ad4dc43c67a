"""How long it takes from the 250 of a mail until a client that waits for its code has it."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench import load
from bench.ours import MASTER_KEY
from oncebox.client import AsyncInbox
from oncebox.client.asynchronous import AsyncClient
from oncebox.core import credentials
from tests.support.ports import free_port
from tests.torture.artifacts.courier import Courier, letter

ONCEBOX = (sys.executable, "-m", "oncebox")
#: who wait at the same time, each for an inbox of its own, and mails for each of them
AGENTS, MAILS = 8, 40
#: seconds between two mails to one inbox, at most
PAUSE = 0.3
#: seconds between two looks of one who polls
EVERY = 0.25

#: returns the number of the message whose code was granted, after another number
Wait = Callable[[AsyncClient, AsyncInbox, int], Coroutine[Any, Any, int]]


def main() -> None:
    """Serve, let mails come to those who wait, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("way", choices=("wait", "poll"))
    parser.add_argument("--mails", type=int, default=MAILS)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder,
        served(options.url, Path(folder)) as (http, smtp),
    ):
        found = credentials.read(Path(folder))
        assert found is not None
        times = asyncio.run(_measured(options, f"http://127.0.0.1:{http}", smtp, found.key))
    cut = [each * 1000 for each in quantiles(times, n=100)]
    # What one who does nothing but wait and go on would get in a second.
    rate = 1000 * len(times) / sum(each * 1000 for each in times)
    load.report(rate, f"{AGENTS} agents", p50=cut[49], p99=cut[98])


@contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Run a service as it comes; return its ports for HTTP and SMTP."""
    http, smtp = free_port(), free_port()
    environment = {
        **os.environ,
        "ONCEBOX_DATABASE_URL": url,
        "ONCEBOX_DATA_DIR": str(folder),
        "ONCEBOX_MASTER_KEY": MASTER_KEY,
        "ONCEBOX_HTTP__PORT": str(http),
        "ONCEBOX_SMTP__PORT": str(smtp),
        "ONCEBOX_MAIL__AUTHENTICATE": "false",
    }
    subprocess.run([*ONCEBOX, "migrate"], check=True, env=environment, stdout=subprocess.DEVNULL)
    server = subprocess.Popen(
        [*ONCEBOX, "serve"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while credentials.read(folder) is None:
            assert server.poll() is None
            time.sleep(0.1)
        yield http, smtp
    finally:
        server.terminate()
        server.wait()


async def _measured(options: argparse.Namespace, url: str, smtp: int, key: str) -> list[float]:
    async with AsyncClient(url, key) as client:
        inboxes = [await client.inboxes.create(attempt_id=f"a{n}") for n in range(AGENTS)]
        wait = _waited if options.way == "wait" else _polled
        await asyncio.gather(*(_one(client, each, smtp, wait, 3) for each in inboxes))
        inboxes = [await client.inboxes.create(attempt_id=f"b{n}") for n in range(AGENTS)]
        found = await asyncio.gather(
            *(_one(client, each, smtp, wait, options.mails) for each in inboxes)
        )
    return [seconds for each in found for seconds in each]


async def _one(
    client: AsyncClient, inbox: AsyncInbox, smtp: int, wait: Wait, count: int
) -> list[float]:
    """Send one mail after another to an inbox; return how long each answer took from its 250."""
    dice, courier, times, after = random.Random(inbox.attempt_id), Courier(smtp), [], 0
    for number in range(count):
        answer = asyncio.create_task(wait(client, inbox, after))
        await asyncio.sleep(0.05 + dice.uniform(0, PAUSE))
        data = letter(inbox.email, f"83{number:04}", number)
        taken_at = await courier.bring(inbox.email, data)
        after = await answer
        times.append(time.monotonic() - taken_at)
    courier.close()
    return times


async def _waited(_client: AsyncClient, inbox: AsyncInbox, after: int) -> int:
    grant = await inbox.wait_for_code(after=after, within=60)
    return grant.sequence


async def _polled(client: AsyncClient, inbox: AsyncInbox, after: int) -> int:
    """Look at the list of artifacts every now and then, and claim what is new."""
    while True:
        page = await client.artifacts.page(inbox.id, limit=1)
        if page.data and page.data[0].sequence > after:
            return (await client.artifacts.claim(page.data[0].id)).sequence
        await asyncio.sleep(EVERY)


if __name__ == "__main__":
    main()
