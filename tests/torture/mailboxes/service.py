"""The program under torture: a real service that reads mailboxes, and takes mail besides.

It prints ``ready`` when it runs, and ends when it is asked to or killed.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.service import Role, Service
from oncebox.settings import Settings
from oncebox.settings_loading import load_settings
from oncebox.workers.factory import Workers
from tests.torture.ledger.boxes import MASTER_KEY


async def main(given: argparse.Namespace) -> None:
    """Run until told to stop."""
    box = Oncebox(settings=_settings(given))
    loop = asyncio.get_running_loop()
    if given.role == "reader":
        await box.open()
        worker = Workers(box.components, box.settings, box.handlers, name="reader").mailbox_worker()
        loop.add_signal_handler(signal.SIGTERM, worker.stop)
        say("ready")
        await worker.run()
        await box.close()
        return
    service = Service(box, Role(given.role))
    loop.add_signal_handler(signal.SIGTERM, service.stop)
    await service.run(lambda _started: say("ready"))


def _settings(given: argparse.Namespace) -> Settings:
    return load_settings(
        {},
        database_url=given.url,
        data_dir=str(given.folder),
        master_key=MASTER_KEY,
        connections=4,
        worker={"lease": 2.0, "poll": 0.2, "stop_within": 5.0},
        retry={"first_wait": 0.05, "longest_wait": 0.2},
        parser={"children": 1},
        http={"port": given.http},
        smtp={"port": given.smtp},
        mailbox_worker={"lease": given.lease, "poll": 0.1, "page": given.page, "most": given.most},
    )


def say(text: str) -> None:
    """Print one line for the parent."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--role", default="all", help="a role, or reader: mailboxes only")
    parser.add_argument("--http", type=int, default=0)
    parser.add_argument("--smtp", type=int, default=0)
    parser.add_argument("--lease", type=float, default=1.0)
    parser.add_argument("--page", type=int, default=10)
    parser.add_argument("--most", type=int, default=100)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options(sys.argv[1:])))
