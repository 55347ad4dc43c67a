"""Every query of every page plans on both databases: no typo, no missing column, no lost type."""

import itertools
from pathlib import Path

import pytest

import oncebox
from oncebox.db.database import Row, Transaction, Value
from oncebox.db.queries import Query, load
from tests.support.clerk import Clerk

_PACKAGE = Path(oncebox.__file__).parent
_ANY: dict[str, Value] = {"text": "x", "bigint": 1, "bytea": b"x"}


def _pages() -> list[Path]:
    return sorted(page for page in _PACKAGE.rglob("*.sql") if "migrations" not in page.parts)


def _queries() -> dict[str, Query]:
    found = {}
    for page in _pages():
        package = ".".join(("oncebox", *page.parent.relative_to(_PACKAGE).parts))
        for name, query in load(package, page.name).all.items():
            short = f"{page.stem}.{name}"
            found[short if short not in found else f"{page.parent.name}.{short}"] = query
    return found


QUERIES = _queries()


def test_the_pages_are_found() -> None:
    assert len(_pages()) >= 8
    assert len(QUERIES) >= 40


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_every_query_plans(clerk: Clerk, name: str) -> None:
    query = QUERIES[name]
    if _asks_only(query) not in {None, clerk.place.kind}:
        return
    if not _explains(query):
        clerk.session.run(lambda tx: tx.run(query))
    elif clerk.place.kind == "sqlite":
        statement = f"EXPLAIN QUERY PLAN {query.sqlite}"
        nothing = [None] * len(query.parameters)
        assert clerk.session.run(lambda tx: tx.execute(statement, nothing)) is not None
    else:
        assert clerk.session.run(lambda tx: _explained(tx, query))


@pytest.mark.parametrize("name", sorted(name for name in QUERIES if QUERIES[name].spans))
def test_a_query_for_several_rows_looks_each_of_them_up(clerk: Clerk, name: str) -> None:
    """What is given is gone through, never a table: that would be the whole outbox for each."""
    query = QUERIES[name]
    if clerk.place.kind != "sqlite":
        return
    for count, _ in query.spans:
        first, *rest = _steps(clerk, query, count)
        assert first == f"SCAN {count}-ROW VALUES CLAUSE"
        assert not [step for step in rest if "SCAN" in step]


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_rows_that_are_locked_are_chosen_once(name: str) -> None:
    """A subquery that skips what is locked is a choice anew, each time it is evaluated."""
    text = " ".join(QUERIES[name].postgres.decode().split())
    for before, after in itertools.pairwise(text.split("SKIP LOCKED")):
        at_the_end = not after.strip("; ")
        assert at_the_end or before.rpartition("( SELECT")[0].rstrip().endswith("AS MATERIALIZED")


def _steps(clerk: Clerk, query: Query, count: int) -> list[str]:
    """Return what SQLite does for so many rows."""
    nothing = [None] * (count * len(query.bulk) + len(query.shared))
    plan = f"EXPLAIN QUERY PLAN {dict(query.spans)[count]}"
    return [str(step[3]) for step in clerk.session.run(lambda tx: tx.execute(plan, nothing))]


def _asks_only(query: Query) -> str | None:
    """Say which database a question is for that the other does not understand."""
    if query.sqlite.startswith("PRAGMA") or "sqlite_" in query.sqlite:
        return "sqlite"
    return "postgres" if query.sqlite.startswith("SHOW") else query.only


def _explains(query: Query) -> bool:
    """Neither database explains how it makes or locks a table, or answers about itself."""
    return not query.sqlite.startswith(("CREATE", "LOCK", "PRAGMA", "SHOW"))


def _explained(tx: Transaction, query: Query) -> list[Row]:
    explained = Query(
        query.name, query.sqlite, b"EXPLAIN " + query.postgres, query.parameters, query.bulk
    )
    shared = _typed(query)
    if not query.bulk:
        return tx.all(explained, **shared)
    return tx.many(explained, [tuple(_ANY[kind] for _, kind in query.bulk)], **shared)


def _typed(query: Query) -> dict[str, Value]:
    """Give numbers where the schema has numbers, as every caller does."""
    numbers = {
        "now", "until", "most", "floor", "heavy", "tries", "fence", "at", "number", "give_up_at",
        "rate", "taken", "bytes", "sequence", "last", "due_at",
        "created_at", "expires_at", "forgotten", "lost", "paused", "draining", "longest",
        "upto", "allowed", "position", "rate_within", "allowance", "size", "threshold", "first",
        "span", "jump", "generation", "active_from", "replay_until", "poll_every", "poll_after",
        "remaining", "skipped", "unrouted", "resyncs", "version", "messages", "duplicates",
        "replays", "polls", "repeated", "timeouts", "concurrency", "since", "moved", "refused",
    }  # fmt: skip
    times = {
        ("before", "overdue"), ("before", "forget"), ("before", "empty_messages"),
        ("after", "page"), ("after", "read"),
        ("before", "forget_effects"), ("before", "forget_tries"), ("before", "old_artifacts"),
        ("before", "overwrite"), ("before", "forgettable"), ("before", "forget_batches"),
        ("seen", "change"), ("before", "ended"), ("after_at", "ended"), ("before", "retire"),
        ("before", "advance"), ("seen", "replace_config"),
        ("cursor", "begin_cursor"),
    }  # fmt: skip
    texts: dict[str, Value] = {
        "digest": b"x", "body_hash": b"x", "answer": b"x", "sealed": b"x", "nothing": b"x",
    }  # fmt: skip
    if query.name in {"look", "fresh"}:
        numbers.discard("floor")  # an id
    if query.name == "kept":
        numbers.discard("upto")  # an id
    return {
        name: 1 if name in numbers or (name, query.name) in times else texts.get(name, "x")
        for name in query.shared
    }


@pytest.mark.parametrize("kind", ["sqlite"])
def test_how_far_an_inbox_is_costs_the_same_however_much_is_in_it(clerk: Clerk) -> None:
    """Whoever waits has that read at every ring; artifacts that nobody took back are left out."""
    query = QUERIES["longpoll.read"]
    nothing = [None] * len(query.parameters)
    plan = clerk.session.run(lambda tx: tx.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", nothing))

    assert any("oncebox_artifacts_released" in str(row[3]) for row in plan)
