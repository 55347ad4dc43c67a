"""The program under torture: a real service that takes mail, reads it and numbers its events.

It prints ``ready`` when clients can connect, and ends when it is asked to or killed.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.service import Role, Service
from oncebox.settings_loading import load_settings
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.mail.letters import SPOOL_FROM


async def main(given: argparse.Namespace) -> None:
    """Serve until told to stop."""
    settings = load_settings(
        {},
        database_url=given.url,
        data_dir=str(given.folder),
        master_key=MASTER_KEY,
        connections=4,
        worker={"lease": given.lease, "poll": 0.2, "stop_within": 5.0},
        retry={"first_wait": 0.05, "longest_wait": 0.2},
        http={"port": 0},
        smtp={"port": given.port, "spool_from": SPOOL_FROM},
    )
    service = Service(Oncebox(settings=settings), Role.ALL)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.stop)
    await service.run(lambda _started: say("ready"))


def say(text: str) -> None:
    """Print one line for the parent."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lease", type=float, default=1.0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options(sys.argv[1:])))
