"""Databases of the version before deliveries had digests, with every kind of delivery in them."""

from collections.abc import Sequence

from oncebox.db import migrate
from oncebox.db.database import Row, Transaction
from oncebox.model.deliveries.delivery import LaneRules
from tests.support.clerk import HOUR, Clerk
from tests.support.databases import Place

NUMBER = 10
TABLE = "oncebox_deliveries"
#: as the version before stored them
COLUMNS = (
    "id", "tenant", "source", "key", "variant", "type", "road", "fingerprint", "payload_id", "size",
    "lane", "lane_position", "late", "state", "due_at", "received_at", "accepted_at", "tries",
    "fence", "worker", "claimed_at", "give_up_at", "not_before", "hastened_at", "rearms", "policy",
    "hold_reason", "held_at", "outcome", "last_error", "ended_at", "slice_start", "backed",
    "replay_of", "verdict", "secret_id", "sequence", "skip_stale", "gap_until", "after_type",
    "after_until", "waits_for", "purged_at", "seen_at",
)  # fmt: skip
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'oncebox_%'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
}


def old_migrations(kind: str) -> list[migrate.Migration]:
    """Return the migrations before the digests."""
    return [each for each in migrate.shipped_migrations(kind) if each.number < NUMBER]


def create(place: Place) -> None:
    """Make the tables of the version before."""
    session = place.session()
    count = len(old_migrations(place.kind))
    session.run(lambda tx: migrate._apply_pending(tx, place.kind, 0, count))
    session.close()


def insert(tx: Transaction, kind: str, table: str, columns: Sequence[str], rows: list[Row]) -> None:
    """Insert rows one by one."""
    marks = ", ".join([("?" if kind == "sqlite" else "%s")] * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - ours
    for row in rows:
        tx.execute(statement, row)


def every_kind(clerk: Clerk) -> None:
    """Store deliveries in all states, in lanes and batches; conflicts, replays and mail."""
    clerk.accept(*(clerk.arrival(f"plain-{each}", b"%d" % each) for each in range(4)))
    done, failed, dead, held = clerk.claim()
    clerk.complete(done)
    clerk.fail(failed)
    clerk.give_up(dead)
    clerk.stop_for_a_person(held)
    clerk.accept_one("plain-0", b"0")
    clerk.accept_one("plain-0", b"another body")
    for key in ("unsigned-1", "unsigned-2"):
        clerk.accept_one(key, b"one body", unsigned=True)
    clerk.accept_one("unsigned-3", b"its own", unsigned=True, verdict="late", secret_id="sec_1")
    rules = LaneRules(gap_wait=HOUR)
    for number in (3, 1, 2):
        clerk.accept(clerk.numbered(f"lane-{number}", number, rules=rules, lane="anna"))
    clerk.accept(*(clerk.arrival(f"queue-{each}", lane="ben") for each in range(3)))
    clerk.accept(*clerk.elements(b"[1,2,3]", ("one", 1, 1), ("two", 3, 1), ("three", 5, 1)))
    for number in range(3):
        clerk.accept_one(f"ibx_1:{number}", b"mail %d" % number, source="@mail", road="smtp")
    clerk.accept_one("ключ-1", "тело".encode(), source="банк", unsigned=True)
    clerk.claim(3)


def copy(clerk: Clerk, old: Place) -> None:
    """Copy all tables of a database into one of the version before."""
    place = clerk.place
    tables = {str(name) for (name,) in clerk.run(lambda tx: tx.execute(_TABLES[place.kind]))}
    rows = {name: _all(clerk, name) for name in tables - {TABLE, "oncebox_migrations"}}

    session = old.session()
    known = session.run(lambda tx: {name: _columns(tx, place.kind, name) for name in rows})

    def insert_all(tx: Transaction) -> None:
        insert(tx, place.kind, TABLE, COLUMNS, _old_rows(clerk))
        for name, (columns, found) in rows.items():
            kept = [at for at, each in enumerate(columns) if each in known[name]]
            old_rows = [tuple(row[at] for at in kept) for row in found] if kept else []
            insert(tx, place.kind, name, [columns[at] for at in kept], old_rows)

    session.run(insert_all)
    session.close()


def _old_rows(clerk: Clerk) -> list[Row]:
    names = ", ".join(COLUMNS).replace(
        "backed", "CASE WHEN body_digest IS NULL THEN 0 ELSE 1 END AS backed"
    )
    return clerk.run(lambda tx: tx.execute(f"SELECT {names} FROM {TABLE} ORDER BY id"))  # noqa: S608 - ours


def _columns(tx: Transaction, kind: str, table: str) -> list[str]:
    statement = (
        f"SELECT name FROM pragma_table_info('{table}')"  # noqa: S608 - ours
        if kind == "sqlite"
        else f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"  # noqa: S608 - ours
    )
    return [str(name) for (name,) in tx.execute(statement)]


def _all(clerk: Clerk, table: str) -> tuple[list[str], list[Row]]:
    columns = clerk.run(_columns, clerk.place.kind, table)
    rows = clerk.run(lambda tx: tx.execute(f"SELECT {', '.join(columns)} FROM {table}"))  # noqa: S608 - ours
    return columns, rows


def deliveries(place: Place) -> list[Row]:
    """Return every delivery with every column, its digests included."""
    names = ", ".join((*COLUMNS, "key_digest", "body_digest")).replace("backed, ", "")
    session = place.session()
    try:
        return session.run(lambda tx: tx.execute(f"SELECT {names} FROM {TABLE} ORDER BY id"))  # noqa: S608 - ours
    finally:
        session.close()
