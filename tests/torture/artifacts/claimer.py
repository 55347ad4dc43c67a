"""The program under torture: claims every artifact that it is told of, and says what it got.

It reads orders from a pipe, one a line: the id of an artifact, a slash, and which time this is.
It prints ``ready`` when it does.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from oncebox.core import encryption
from oncebox.core.metrics import Telemetry
from oncebox.db import startup
from oncebox.db.queries import Query
from oncebox.ledger.artifacts import claims
from oncebox.ledger.artifacts.claims import Grants
from oncebox.ledger.ciphers import ArtifactCipher
from oncebox.model.inboxes.artifact import ArtifactClaimant, ArtifactClaimRequest, ClaimGranted
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from tests.torture.ledger.boxes import MASTER_KEY

TENANT, KEY = "default", "key_agents"


async def main(given: argparse.Namespace) -> None:
    """Claim until killed."""
    if given.naive:
        _forget_the_guard()
    database = startup.connect(given.url, connections=1)
    clerk = claims.ClaimResolver(
        ArtifactCipher(encryption.master_key_from_text(MASTER_KEY)), _no_links
    )
    grants = Grants(database, clerk, Telemetry())
    worker = str(os.getpid()).encode() if given.worker else b""
    who = ArtifactClaimant(tenant=TENANT, key_id=KEY, owner=None, claim_key=given.claim_key)
    # Also for writing, so that the pipe never ends.
    pipe = os.open(given.pipe, os.O_RDWR | os.O_NONBLOCK)
    loop, orders = asyncio.get_running_loop(), asyncio.Queue[str]()
    loop.add_reader(pipe, _read, pipe, orders)
    say("ready")
    while True:
        order = await orders.get()
        outcome = await grants.request(
            ArtifactClaimRequest(
                claimant=who, request_fingerprint=worker, artifact_id=order.partition("/")[0]
            )
        )
        if isinstance(outcome, ClaimGranted):
            repeated = "again" if outcome.repeated else "first"
            say(f"granted {order} {outcome.value.value} {repeated}")
        else:
            say(f"denied {order} {getattr(outcome, 'why', 'nothing')}")


def _read(pipe: int, orders: asyncio.Queue[str]) -> None:
    for word in os.read(pipe, 4096).decode().split():
        orders.put_nowait(word)


def _no_links(_url: str, _policy: InboxPolicy) -> LinkVerdict:
    raise NotImplementedError


def _forget_the_guard() -> None:
    """Be the usual program: look whether it is free, then take it."""
    take = claims._sql.take
    guard, none = "oncebox_artifacts.state = 'available'", "oncebox_artifacts.state <> 'none'"
    sqlite, postgres = take.sqlite, take.postgres.decode()
    assert guard in sqlite
    assert guard in postgres
    unguarded = Query(
        name=take.name,
        sqlite=sqlite.replace(guard, none),
        postgres=postgres.replace(guard, none).encode(),
        parameters=take.parameters,
        bulk=take.bulk,
    )
    vars(claims._sql)["take"] = unguarded


def say(text: str) -> None:
    """Print one line for the parent."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("pipe")
    parser.add_argument("claim_key")
    parser.add_argument("--naive", action="store_true")
    parser.add_argument("--worker", action="store_true", help="not the same as its predecessor")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asyncio.run(main(options(sys.argv[1:])))
