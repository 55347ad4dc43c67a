"""Our side of artifacts: how many are granted a second, each answered after its commit."""

from __future__ import annotations

import argparse

import msgspec
import uvloop

from bench import load
from bench.ours import new_box
from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts.artifacts import _sql as artifacts_sql
from oncebox.ledger.artifacts.claims import claimant_of
from oncebox.ledger.ciphers import attempt_fingerprint
from oncebox.model.inboxes.artifact import ArtifactValue
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.received_mail import ArtifactKind

INBOX, KEY = "inb_bench", "key_bench"
BATCH = 5_000
_ADD = """
INSERT INTO oncebox_inboxes (id, tenant, email, address, attempt_id, owner, state, created_at,
    metadata, policy)
VALUES ({0}, {0}, {0}, {0}, 'bench', {0}, 'active', 0, {0}, {0})
"""


async def grant(options: argparse.Namespace) -> None:
    """Report how many artifacts are granted a second to 64 who ask at once."""
    box = new_box(options)
    await box.open()
    wanted = iter(await _filled(box, options.artifacts))
    who = claimant_of(Requester(tenant=box.settings.tenant, key=KEY, sees_all=False))

    async def call(_key: str, _body: bytes) -> object:
        granted = await box.components.grants.claim(who, next(wanted))
        assert not granted.repeated
        return granted.value.value

    per_second = await load.rate(call, seconds=options.seconds)
    load.report(per_second, f"{load.CALLERS} callers")
    await box.close()


async def _filled(box: Oncebox, count: int) -> list[str]:
    """Store artifacts that nobody has claimed; return their ids."""
    database = box.components.database
    mark = "?" if database.kind == "sqlite" else "%s"
    await database.write(_add_inbox, box.settings.tenant, mark)
    rows = [_row(box, number) for number in range(count)]
    for start in range(0, count, BATCH):
        await database.write(_insert, rows[start : start + BATCH])
    return [str(row[0]) for row in rows]


def _add_inbox(tx: Transaction, tenant: str, mark: str) -> None:
    email, policy = f"{INBOX}@oncebox.test", msgspec.json.encode(InboxPolicy())
    tx.execute(_ADD.format(mark), (INBOX, tenant, email, email, KEY, b"{}", policy))


def _insert(tx: Transaction, rows: list[Row]) -> None:
    tx.many(artifacts_sql.insert, rows)


def _row(box: Oncebox, number: int) -> Row:
    id_, tenant, value = ids.new("art"), box.settings.tenant, f"{number:08}"
    strongbox = box.components.artifact_cipher
    return (
        id_, tenant, INBOX, "bench", ids.new("msg"), number, "code",
        strongbox.value_fingerprint(tenant, INBOX, ArtifactKind.CODE, value),
        attempt_fingerprint(
            strongbox.unscoped_fingerprint(tenant, ArtifactKind.CODE, value), "bench"
        ),
        strongbox.encrypt(tenant, id_, ArtifactValue(value=value)), 0, 900, 0, 1, "login",
        "no-reply@shop.example", "shop.example", "shop.example", "pass", 1, 1, None, b"[]",
    )  # fmt: skip


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("grant")
    verb.set_defaults(run=grant)
    verb.add_argument("--artifacts", type=int, default=250_000)
    verb.add_argument("--seconds", type=float, default=load.SECONDS)
    options = parser.parse_args()
    uvloop.run(options.run(options))


if __name__ == "__main__":
    main()
