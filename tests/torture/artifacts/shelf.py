"""A database with artifacts that nobody has claimed, and what becomes of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oncebox.core import encryption, ids
from oncebox.db.database import Row, Transaction
from oncebox.ledger.artifacts.artifacts import _sql
from oncebox.ledger.ciphers import ArtifactCipher, attempt_fingerprint
from oncebox.model.inboxes.artifact import ArtifactValue
from oncebox.model.inboxes.received_mail import ArtifactKind
from tests.support.postgres import PostgresServer
from tests.torture.artifacts.claimer import KEY, TENANT
from tests.torture.ledger.books import ask_once
from tests.torture.ledger.boxes import MASTER_KEY, new_box
from tests.torture.ledger.sites import UNFLUSHED
from tests.torture.mail.books import session_of

_STRONGBOX = ArtifactCipher(encryption.master_key_from_text(MASTER_KEY))
_INBOX = "inb_1"
_ADD = """
INSERT INTO oncebox_inboxes (id, tenant, email, address, attempt_id, state, created_at,
    metadata, policy)
VALUES ('inb_1', 'default', 'x@oncebox.test', 'x@oncebox.test', 'torture', 'active', 0, {0}, {0})
"""
_HELD = "SELECT state, claim_mark FROM oncebox_artifacts WHERE id = '{}'"
#: enough for a crowd, each with its connection and its ear
_ROOMY = {**UNFLUSHED, "max_connections": "300"}


@dataclass(frozen=True, slots=True)
class Thing:
    """An artifact, and what it says."""

    id: str
    value: str


@contextmanager
def places(database: str, folder: Path) -> Iterator[Iterator[str]]:
    """Lend databases without any table, by their URLs."""
    if database == "sqlite":
        yield (f"sqlite://{folder}/shelf-{number}/oncebox.db" for number in range(1_000_000))
        return
    place = folder / "postgres"
    place.mkdir(mode=0o755)
    server = PostgresServer.start(place, settings=_ROOMY)
    try:
        yield (server.create_database(f"shelf{number}") for number in range(1_000_000))
    finally:
        server.stop()


async def stock(url: str, count: int) -> list[Thing]:
    """Put artifacts on the shelf."""
    box = new_box(url)
    await box.open()
    await box.close()
    things = [Thing(ids.new("art"), f"{number:06}") for number in range(count)]
    with session_of(url, writable=True) as session:
        session.run(lambda tx: _add(tx, things, "?" if url.startswith("sqlite") else "%s"))
    return things


def _add(tx: Transaction, things: Sequence[Thing], mark: str) -> None:
    tx.execute(_ADD.format(mark), (b"{}", b"{}"))
    tx.many(_sql.insert, [_row(each, number) for number, each in enumerate(things)])


def _row(thing: Thing, number: int) -> Row:
    return (
        thing.id, TENANT, _INBOX, "torture", ids.new("msg"), number, "code",
        _STRONGBOX.value_fingerprint(TENANT, _INBOX, ArtifactKind.CODE, thing.value),
        attempt_fingerprint(
            _STRONGBOX.unscoped_fingerprint(TENANT, ArtifactKind.CODE, thing.value), "torture"
        ),
        _STRONGBOX.encrypt(TENANT, thing.id, ArtifactValue(value=thing.value)),
        0, 900, 0, 1, "login",
        f"s{number}@shop.example", "shop.example", "shop.example", "pass", 1, 1, None, b"[]",
    )  # fmt: skip


def holder(url: str, thing: Thing, claim_keys: Sequence[str]) -> str | None:
    """Return the claim key that has an artifact; none if nobody has, ``?`` if a stranger."""
    ((state, mark),) = ask_once(url, _HELD.format(thing.id))
    if state != "claimed":
        return None
    marks = {_STRONGBOX.claim_fingerprint(TENANT, KEY, each): each for each in claim_keys}
    return marks.get(bytes(mark), "?")
