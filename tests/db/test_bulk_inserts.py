"""Bulk inserts on SQLite: many rows in one statement are the same rows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.db.queries import _parse_query, insert_of_rows
from oncebox.db.sqlite import SqliteSession
from oncebox.ledger.deliveries.deduplication import insert_new
from tests.support import databases

INSERT = _parse_query("""put
-- bulk: id text, number bigint
-- Twice over, with a word that all rows share.
INSERT INTO things (id, twice, word) VALUES (:id, :number + :number, :word) /* from rows */
ON CONFLICT DO NOTHING RETURNING id, twice, word;
""")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SqliteSession:
    """A table to insert into."""
    path: Path = tmp_path_factory.mktemp("bulk") / "test.db"
    session = SqliteSession(path, writable=True)
    session.connection.execute("CREATE TABLE things (id TEXT PRIMARY KEY, twice, word)")
    return session


def test_the_longer_forms_number_every_value_and_share_what_is_shared() -> None:
    count, statement = INSERT.spans[-1]

    assert count == 4
    assert "VALUES (?1, ?2 + ?2, ?9), (?3, ?4 + ?4, ?9)" in statement


@given(count=st.integers(0, 150), known=st.integers(0, 150))
def test_any_number_of_rows_is_written_once_and_told_in_order(
    session: SqliteSession, count: int, known: int
) -> None:
    rows = [(f"id-{number}", number) for number in range(count)]
    connection = session.connection
    connection.execute("DELETE FROM things")

    first = session.run(lambda tx: tx.many(INSERT, rows[:known], word="w"))
    changed = session.run(lambda tx: tx.run_many(INSERT, rows, word="w"))

    assert first == [(id_, 2 * number, "w") for id_, number in rows[:known]]
    assert changed == len(rows[known:])
    assert connection.execute("SELECT count(*) FROM things").get == count


UPDATE = _parse_query("""change
-- bulk: id text, number bigint
-- spans: yes
-- Only what is not changed yet, with a word that all rows share.
UPDATE things SET twice = :number + :number, word = :word
/* from rows */
WHERE things.id = :id AND things.word <> :word
RETURNING id, twice;
""")


def test_the_longer_forms_of_other_queries_find_their_rows_beside_the_tables() -> None:
    count, statement = UPDATE.spans[-1]

    assert count == 4
    assert "FROM (VALUES (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8)) AS rows" in statement
    assert "twice = rows.column2 + rows.column2, word = ?9" in statement
    assert "WHERE things.id = rows.column1 AND things.word <> ?9" in statement


@given(count=st.integers(0, 150), known=st.integers(0, 150), again=st.booleans())
def test_any_number_of_rows_is_changed_once_each(
    session: SqliteSession, count: int, known: int, *, again: bool
) -> None:
    rows = [(f"id-{number}", number) for number in range(count)]
    session.connection.execute("DELETE FROM things")
    session.run(lambda tx: tx.run_many(INSERT, rows[:known], word="w"))

    asked = rows * 2 if again else rows
    told = session.run(lambda tx: tx.many(UPDATE, asked, word="changed"))

    assert sorted(told) == sorted((id_, 2 * number) for id_, number in rows[:known])
    assert session.run(lambda tx: tx.run_many(UPDATE, asked, word="changed")) == 0


def test_no_table_of_states_is_made_for_each_arrival(tmp_path: Path) -> None:
    """SQLite makes one of a list after IN, and in a trigger for each row."""
    query = insert_new.query("sqlite")
    values = [None] * (2 * len(query.parameters))
    session = SqliteSession(databases.fresh_sqlite(tmp_path).path, writable=True)
    program = session.connection.execute("EXPLAIN " + insert_of_rows(query, 2), values).fetchall()
    session.close()

    # The rows themselves; and three indexes of lanes, which are skipped where there is no lane.
    assert [step[1] for step in program].count("OpenEphemeral") == 1 + 3
