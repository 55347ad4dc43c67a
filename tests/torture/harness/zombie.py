"""A stand-in worker: claims one job by lease and calls the world if it still holds the fence."""

import sys
import time
from pathlib import Path

import apsw

from tests.torture.history import Downstream

#: How long a claim lasts, and how long the work before its effect takes, in seconds.
LEASE, WORK = 0.2, 0.1

_SCHEMA = "CREATE TABLE IF NOT EXISTS job (id TEXT PRIMARY KEY, fence INTEGER, until REAL)"
_OFFER = "INSERT INTO job VALUES (?, 0, 0) ON CONFLICT DO NOTHING"
_CLAIM = "UPDATE job SET fence = fence + 1, until = ? WHERE id = ? AND until < ? RETURNING fence"
_SETTLE = "UPDATE job SET until = 1e18 WHERE id = ? AND (fence = ? OR ?) RETURNING id"


def main(jobs: str, world: str, job: str, fenced: str) -> None:
    """Claim the job as soon as it is free, work, settle, and only then touch the world."""
    connection = apsw.Connection(jobs)
    connection.set_busy_timeout(5_000)
    connection.execute(_SCHEMA)
    connection.execute(_OFFER, (job,))
    fence = _claim(connection, job)
    _say(f"claimed {job} with fence {fence}")
    time.sleep(WORK)
    settled = connection.execute(_SETTLE, (job, fence, fenced == "no")).fetchall()
    if not settled:
        _say("lease lost")
        return
    with Downstream(Path(world)) as downstream:
        downstream.call(f"key-{job}", delivery=job, fence=fence)
    _say("settled")


def _claim(connection: apsw.Connection, job: str) -> int:
    while True:
        now = time.time()
        found = connection.execute(_CLAIM, (now + LEASE, job, now)).fetchall()
        for (fence,) in found:
            assert isinstance(fence, int)
            return fence
        time.sleep(0.01)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
