"""The query loader: one text in SQLite's form, PostgreSQL's form derived from it."""

from pathlib import Path

import pytest

from oncebox.db.queries import Queries, Query, load


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Load a page from a package made for the test."""
    name = f"pages_of_{tmp_path.name}"
    package = tmp_path / name
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def read_page(text: str) -> Queries:
        (package / "page.sql").write_text(text)
        return load(name, "page.sql")

    return read_page


def _one(read: object, text: str) -> Query:
    assert callable(read)
    queries: Queries = read(f"-- name: one\n-- A sentence.\n{text}\n")
    query: Query = queries.one
    return query


def test_queries_are_found_by_their_names(read: object) -> None:
    assert callable(read)
    queries = read("-- A page.\n\n-- name: a\n-- A.\nSELECT 1;\n\n-- name: b\n-- B.\nSELECT 2;\n")

    assert sorted(queries.all) == ["a", "b"]
    assert (queries.a.sqlite, queries.b.sqlite) == ("SELECT 1", "SELECT 2")
    with pytest.raises(AttributeError, match="c"):
        _ = queries.c


def test_parameters_become_numbers_or_names(read: object) -> None:
    query = _one(read, "SELECT :b, :a, :b FROM t WHERE c = :c_d;")

    assert query.parameters == ("b", "a", "c_d")
    assert query.sqlite == "SELECT ?1, ?2, ?1 FROM t WHERE c = ?3"
    assert query.postgres == b"SELECT %(b)s, %(a)s, %(b)s FROM t WHERE c = %(c_d)s"
    assert (query.bulk, query.shared) == ((), ("b", "a", "c_d"))


def test_a_cast_is_no_parameter(read: object) -> None:
    query = _one(read, "SELECT a::text, CAST(:a AS TEXT);")

    assert query.parameters == ("a",)
    assert b"a::text" in query.postgres


def test_a_percent_sign_survives_both_drivers(read: object) -> None:
    query = _one(read, "SELECT 5 % 2, :a;")

    assert query.sqlite == "SELECT 5 % 2, ?1"
    assert query.postgres == b"SELECT 5 %% 2, %(a)s"


def test_comments_are_left_out(read: object) -> None:
    query = _one(read, "SELECT 1, -- not :me\n    2;")

    assert query.parameters == ()
    assert "not" not in query.sqlite


def test_a_mark_is_opened_for_postgres_only(read: object) -> None:
    query = _one(read, "SELECT 1 LIMIT :n /* postgres: FOR UPDATE SKIP LOCKED */;")

    assert query.sqlite.strip() == "SELECT 1 LIMIT ?1"
    assert query.postgres == b"SELECT 1 LIMIT %(n)s FOR UPDATE SKIP LOCKED"


def test_a_bulk_query_runs_over_rows(read: object) -> None:
    query = _one(
        read,
        "-- bulk: id text, fence bigint\n"
        "UPDATE t SET x = :until /* from rows */ WHERE id = :id AND fence = :fence;",
    )

    assert query.bulk == (("id", "text"), ("fence", "bigint"))
    assert (query.parameters, query.shared) == (("id", "fence", "until"), ("until",))
    assert " ".join(query.sqlite.split()) == "UPDATE t SET x = ?3 WHERE id = ?1 AND fence = ?2"
    postgres = " ".join(query.postgres.decode().split())
    assert "unnest(%(id)b::text[], %(fence)b::bigint[]) AS rows (p_id, p_fence)" in postgres
    assert "WHERE id = p_id AND fence = p_fence" in postgres
    assert "x = %(until)s" in postgres


def test_a_bulk_query_may_join_its_rows(read: object) -> None:
    query = _one(read, "-- bulk: id text\nSELECT a FROM t /* and rows */ WHERE id = :id;")

    assert "FROM t , unnest(" in " ".join(query.postgres.decode().split())
    assert "rows" not in query.sqlite


def test_a_query_may_be_for_one_database_only(read: object) -> None:
    query = _one(
        read, "-- only: postgres\n-- bulk: a text\nWITH r AS (SELECT * FROM /* rows */) …;"
    )

    assert query.only == "postgres"
    assert query.postgres == (
        b"WITH r AS (SELECT * FROM unnest(%(a)b::text[]) AS rows (p_a)) " + "…".encode()
    )
