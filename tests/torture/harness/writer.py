"""A stand-in client: writes row after row and notes in a history what it was told."""

import argparse
import importlib
import itertools
import sys
import time
from pathlib import Path

from tests.torture.harness.store import Store, Unsure
from tests.torture.history import History


def main() -> None:
    """Write until the count is reached, or until killed."""
    options = _options()
    store = _store(options)
    with History(options.history) as history:
        for number in itertools.islice(itertools.count(), options.count):
            _write_until_told(store, history, f"{options.prefix}-{number}", options.ack)
            if number == 0:
                sys.stdout.write("ready\n")
    sys.stdout.write("finished\n")


def _write_until_told(store: Store, history: History, key: str, ack: str) -> None:
    """Send the same key again and again until its row is known to be there."""
    while True:
        call = history.invoke("write", key)
        try:
            if ack == "early":  # the mutant promises first, and then takes its time
                call.ok()
                time.sleep(0.002)
            identity = store.write(key)
        except Unsure as error:
            call.info(str(error).splitlines()[0])
            time.sleep(0.01)
        else:
            call.ok(identity)
            return


def _store(options: argparse.Namespace) -> Store:
    """Import one driver only: a stand-in is started for every cut."""
    if options.url.startswith("postgresql:"):
        postgres = importlib.import_module("tests.torture.harness.postgres_store")
        opened: Store = postgres.PostgresStore(options.url, synchronous=options.synchronous)
    else:
        sqlite = importlib.import_module("tests.torture.harness.sqlite_store")
        opened = sqlite.SqliteStore(Path(options.url), synchronous=options.synchronous)
    return opened


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("history", type=Path)
    parser.add_argument("--prefix", default="row")
    parser.add_argument("--count", type=int)
    parser.add_argument("--synchronous", required=True)
    parser.add_argument("--ack", choices=("early", "late"), default="late")
    return parser.parse_args()


if __name__ == "__main__":
    main()
