"""A process that records events: ``python -m tests.torture.mail.recorder URL COUNT SEED``.

On PostgreSQL several connections have transactions open at the same time and commit after a
random while, so that what was begun first is often committed last.
"""

import random
import sys
import threading
import time
from functools import partial

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.events import event_log
from oncebox.model.events import NewEvent
from tests.torture.mail.books import session_of

TENANT = "default"
#: connections that record at the same time, on PostgreSQL
_THREADS = 4
#: seconds for which a transaction stays open after its events were written, at most
_DAWDLE = 0.03
#: events of one commit, at most
_MOST = 5


def record(url: str, count: int, chance: random.Random) -> None:
    """Record so many events, a few in every commit."""
    on_sqlite = url.startswith("sqlite:")
    with session_of(url, writable=True) as session:
        while count:
            size = min(count, chance.randint(1, _MOST))
            dawdle = 0.0 if on_sqlite else chance.uniform(0, _DAWDLE)
            session.run(partial(_commit, size=size, dawdle=dawdle))
            count -= size
            if on_sqlite:
                time.sleep(chance.uniform(0, 0.002))


def _commit(tx: Transaction, size: int, dawdle: float) -> None:
    now = time.time_ns() // 1_000_000
    event_log.record(tx, [_event(now) for _ in range(size)])
    time.sleep(dawdle)


def _event(now: int) -> NewEvent:
    id_ = ids.new("evt")
    return NewEvent(id=id_, tenant=TENANT, type="message.received", subject_id=id_, at=now)


def main(url: str, count: int, seed: str) -> None:
    """Share the work out to threads."""
    threads = 1 if url.startswith("sqlite:") else _THREADS
    shares = [count // threads + (number < count % threads) for number in range(threads)]
    working = [
        threading.Thread(target=record, args=(url, share, random.Random(f"{seed}/{number}")))
        for number, share in enumerate(shares)
    ]
    for each in working:
        each.start()
    for each in working:
        each.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
