"""A program that claims every code as soon as it is there, twice at the same time.

It prints ``granted INBOX CODE`` for each grant, and ends when it is asked to.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from oncebox.db.database import Transaction
from oncebox.errors import StoreUnavailable
from oncebox.model.inboxes.artifact import ArtifactClaimant, ArtifactClaimRequest, ClaimGranted
from tests.torture.ledger.boxes import new_box

_AVAILABLE = """
SELECT id, inbox_id FROM oncebox_artifacts WHERE kind = 'code' AND state = 'available' LIMIT 200
"""
_REST = 0.2
_CLAIM_KEYS = ("one", "other")


async def main(given: argparse.Namespace) -> None:
    """Claim until told to stop."""
    box = new_box(given.url)
    await box.open()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    grants = box.components.grants

    async def claim(id_: str, inbox_id: str, claim_key: str) -> None:
        who = ArtifactClaimant(tenant="default", key_id="key", owner=None, claim_key=claim_key)
        outcome = await grants.request(ArtifactClaimRequest(claimant=who, artifact_id=id_))
        if isinstance(outcome, ClaimGranted):
            sys.stdout.write(f"granted {inbox_id} {outcome.value.value}\n")

    while not stopping.is_set():
        try:
            found = await box.components.database.read(_available)
            claims = (claim(*each, key) for each in found for key in _CLAIM_KEYS)
            await asyncio.gather(*claims)
        except StoreUnavailable:
            found = []
        sys.stdout.flush()
        if not found:
            await asyncio.sleep(_REST)
    await box.close()


def _available(tx: Transaction) -> list[tuple[str, str]]:
    return [(str(id_), str(inbox_id)) for id_, inbox_id in tx.execute(_AVAILABLE)]


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    return parser.parse_args(arguments)
