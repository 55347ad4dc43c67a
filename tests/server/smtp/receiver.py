"""An SMTP receiver process, to be killed: ``python -m tests.server.smtp.receiver URL DIR``."""

import argparse
import asyncio
import signal
from pathlib import Path

import uvloop

from tests.support.databases import Place
from tests.support.mail import storing

READY = "receiving on "


async def receive(url: str, folder: Path, port: int) -> None:
    """Receive mail until told to stop."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    database = Place(url.partition(":")[0].removesuffix("ql"), url).open()
    async with storing(database, folder, at_port=port) as server:
        print(f"{READY}{server.port}", flush=True)  # noqa: T201 - the parent waits for it
        await stopping.wait()
    await database.close()


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    uvloop.run(receive(options.url, options.folder, options.port))


if __name__ == "__main__":
    main()
