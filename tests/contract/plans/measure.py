"""How much one execution of a query reads: rows and buffers on PostgreSQL, steps on SQLite."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import psycopg
from psycopg import sql

from oncebox.db.queries import Query
from oncebox.db.sqlite import SqliteTransaction

_PARAMETER = re.compile(rb"%\((\w+)\)[sb]")
_READERS = {
    "Seq Scan",
    "Index Scan",
    "Index Only Scan",
    "Bitmap Heap Scan",
    "Bitmap Index Scan",
    "Tid Scan",
}
_REMOVED = ("Rows Removed by Filter", "Rows Removed by Index Recheck")


class Work(NamedTuple):
    """What an execution read, and how many rows it was given, returned or changed."""

    #: rows visited on PostgreSQL, instructions of its virtual machine on SQLite
    rows: int
    buffers: int
    result: int
    plan: str


def on_postgres(
    connection: psycopg.Connection[Any], query: Query, rows: Sequence[Any], shared: dict[str, Any]
) -> Work:
    """Run a query as a prepared statement, and undo it."""
    values = dict(shared)
    types = dict(query.bulk)
    for place, (column, _) in enumerate(query.bulk):
        values[column] = [row[place] for row in rows]
    names = list(dict.fromkeys(name.decode() for name in _PARAMETER.findall(query.postgres)))
    text = _PARAMETER.sub(
        lambda found: b"$%d" % (names.index(found[1].decode()) + 1), query.postgres
    )
    bound = [_literal(values[name], types.get(name)) for name in names]
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            # As the driver sends them: numbers have a type, texts get theirs where they are used.
            kinds = ", ".join(
                "bigint" if isinstance(values[name], int) else "unknown" for name in names
            )
            head = f"DEALLOCATE ALL; PREPARE measured {f'({kinds})' if names else ''} AS ".encode()
            cursor.execute(head + text.replace(b"%%", b"%"))
            call = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE measured{}").format(
                sql.SQL("({})").format(sql.SQL(", ").join(bound)) if bound else sql.SQL("")
            )
            found = cursor.execute(call).fetchone()
        finally:
            cursor.execute("ROLLBACK")
    assert found is not None
    plan = found[0][0]["Plan"]
    # A change without RETURNING returns nothing; what it changed is what it was given.
    root = plan["Plans"][0] if plan["Node Type"] == "ModifyTable" and plan.get("Plans") else plan
    result = max(len(rows), round(root["Actual Rows"] * root["Actual Loops"]))
    buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return Work(round(_visited(plan)), buffers, result, "\n".join(_outline(plan)))


def _literal(value: Any, kind: str | None) -> sql.Composable:
    if kind is not None:
        return sql.SQL("{}::{}[]").format(sql.Literal(list(value)), sql.SQL(kind))
    return sql.Literal(value) if value is not None else sql.SQL("NULL")


def _visited(plan: dict[str, Any]) -> float:
    """Return how many rows the scans of a plan went through."""
    own = 0.0
    if plan["Node Type"] in _READERS:
        own = (plan["Actual Rows"] + sum(plan.get(each, 0) for each in _REMOVED)) * plan[
            "Actual Loops"
        ]
    return own + sum(_visited(each) for each in plan.get("Plans", ()))


def _outline(plan: dict[str, Any], depth: int = 0) -> list[str]:
    """Return one line for each node."""
    what = plan.get("Index Name") or plan.get("Relation Name") or ""
    removed = sum(plan.get(each, 0) for each in _REMOVED)
    line = (
        f"{'  ' * depth}{plan['Node Type']} {what} rows {plan['Actual Rows']:g} + {removed}"
        f" x {plan['Actual Loops']} (estimated {plan['Plan Rows']})"
        f" buffers {plan.get('Shared Hit Blocks', 0) + plan.get('Shared Read Blocks', 0)}"
    )
    return [line, *(each for child in plan.get("Plans", ()) for each in _outline(child, depth + 1))]


#: instructions between two calls of the progress handler
_STEP = 20


def on_sqlite(
    connection: apsw.Connection, query: Query, rows: Sequence[Any], shared: dict[str, Any]
) -> Work:
    """Run a query as the service does, and undo it."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += _STEP
        return False

    tx = SqliteTransaction(connection)
    connection.execute("BEGIN IMMEDIATE")
    before = connection.total_changes()
    connection.set_progress_handler(count, _STEP)
    try:
        found = tx.many(query, rows, **shared) if query.bulk else tx.all(query, **shared)
        result = len(found)
        result = max(len(rows), result, connection.total_changes() - before)
    finally:
        connection.set_progress_handler(None)
        connection.execute("ROLLBACK")
    span, statement = next(
        (each for each in query.spans if each[0] <= len(rows)), (1, query.sqlite)
    )
    values = [value for row in rows[:span] for value in row]
    values += [shared[name] for name in query.shared]
    explained = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
    return Work(steps, 0, result, "\n".join(str(step[3]) for step in explained))
