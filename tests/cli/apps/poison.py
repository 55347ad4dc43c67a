"""Handlers that do everything wrong, beside one that does nothing wrong."""

import asyncio
import os
import signal
import sys
import time

from oncebox.box import Oncebox
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once

box = Oncebox()


@box.on("shop", "healthy")
async def healthy(delivery: Delivery, once: Once) -> None:
    await once.do("work", time.sleep, 0.01, timeout=0.5, safe="idempotent")


@box.on("shop", "raise")
async def fail(delivery: Delivery, once: Once) -> None:
    raise RuntimeError("poison")


@box.on("shop", "hang", limit=0.5)
async def hang(delivery: Delivery, once: Once) -> None:
    await asyncio.sleep(3600)


@box.on("shop", "hang-in-thread", limit=0.5)
def hang_in_thread(delivery: Delivery, once: Once) -> None:
    time.sleep(3600)


@box.on("shop", "block")
async def block(delivery: Delivery, once: Once) -> None:
    time.sleep(3600)  # noqa: ASYNC251 - that is the poison


@box.on("shop", "exit")
async def leave(delivery: Delivery, once: Once) -> None:
    os._exit(0)


@box.on("shop", "sys-exit")
async def leave_politely(delivery: Delivery, once: Once) -> None:
    sys.exit(2)


@box.on("shop", "killed")
async def killed(delivery: Delivery, once: Once) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@box.on("shop", "memory")
async def eat(delivery: Delivery, once: Once) -> None:
    eaten = []
    while True:
        eaten.append(bytearray(64 * 1024 * 1024))
