"""Processes of their own that work on a test's database at the same time.

Started with a URL, a task and a number of processes; prints what each process did.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from oncebox.db.database import Transaction
from oncebox.errors import StateConflict
from oncebox.ledger.admin import idempotency, tenants
from oncebox.model.admin.idempotency import FreshRequest, IdempotentRequest, StoredResponse
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.office import KEY, Office

_COUNT = "SELECT value FROM oncebox_meta WHERE name = 'count'"


def claim(clerk: Clerk, name: str) -> list[str]:
    """Claim and complete until nothing is due; return every id claimed."""
    ids = []
    while claimed := clerk.claim(most=7, worker=name):
        for each in claimed:
            ids.append(each.id)
            assert clerk.complete(each)
    return ids


def accept(clerk: Clerk, name: str) -> list[str]:
    """Accept the same hundred keys as everybody else; return what was new."""
    answers = [clerk.accept_one(str(number)) for number in range(100)]
    return [each.id for each in answers if each.arrival == "new"]


def count(clerk: Clerk, name: str) -> list[str]:
    """Read a number and write the next one, in one transaction, a hundred times."""

    def step(tx: Transaction) -> None:
        ((value,),) = tx.execute(_COUNT)
        tx.execute("UPDATE oncebox_meta SET value = ? WHERE name = 'count'", (str(int(value) + 1),))

    for _ in range(100):
        clerk.session.run(step)
    return []


def add_sources(clerk: Clerk, name: str) -> list[str]:
    """Add the same thirty sources as everybody else; return those that were ours."""
    office = Office(clerk)
    return [each for each in map(str, range(30)) if _took(office.add, each, None, name)]


def take_addresses(clerk: Clerk, name: str) -> list[str]:
    """Want the same thirty addresses as everybody else; return those that were ours."""
    office = Office(clerk)
    return [
        each
        for each in map(str, range(30))
        if _took(office.add, f"{name}-{each}", public_id=f"address-{each}")
    ]


def create_once(clerk: Clerk, name: str) -> list[str]:
    """Create thirty tenants under keys that everybody sends; return what was created here."""
    office = Office(clerk)
    created = []
    for number in range(30):
        asked = IdempotentRequest(tenant="acme", route="POST", key=str(number), body_hash=b"x")
        found = clerk.run(idempotency.begin, KEY, asked, clerk.now)
        if isinstance(found, FreshRequest):
            clerk.run(_create, office, f"{name}-{number}", found)
            created.append(f"{name}-{number}")
    return created


def _create(tx: Transaction, office: Office, name: str, fresh: FreshRequest) -> None:
    tenants.create(tx, name, office.deed())
    idempotency.finish(tx, KEY, fresh, StoredResponse(201, (), name.encode()), office.clerk.now)


def _took(act: Callable[..., object], *args: object, **kwargs: object) -> bool:
    try:
        act(*args, **kwargs)
    except StateConflict:
        return False
    return True


TASKS: dict[str, Callable[[Clerk, str], list[str]]] = {
    "claim": claim,
    "accept": accept,
    "count": count,
    "add_sources": add_sources,
    "take_addresses": take_addresses,
    "create_once": create_once,
}


def _process(url: str, task: str, name: str, start: Barrier, told: Connection) -> None:
    kind = "sqlite" if url.startswith("sqlite") else "postgres"
    clerk = Clerk(Place(kind, url))
    clerk.now += 1_000
    start.wait()
    told.send(TASKS[task](clerk, name))
    clerk.close()


def main(url: str, task: str, processes: int) -> None:
    """Fork the processes, which start together, and print what they return."""
    context = multiprocessing.get_context("fork")  # nothing is open here yet
    start = context.Barrier(processes)
    ears = []
    for number in range(processes):
        ear, told = context.Pipe(duplex=False)
        context.Process(target=_process, args=(url, task, f"worker-{number}", start, told)).start()
        told.close()
        ears.append(ear)
    json.dump([ear.recv() for ear in ears], sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
