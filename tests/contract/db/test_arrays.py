"""Bulk values reach PostgreSQL exactly as they are, whatever they are."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.db.database import Transaction
from oncebox.db.queries import Query
from oncebox.errors import RowRefused
from tests.support.clerk import Clerk

BULK = (("a", "text"), ("b", "bigint"), ("c", "bytea"))
ECHO = Query(
    "echo",
    "",
    b"SELECT p_a, p_b, p_c, %(shared)s FROM unnest(%(a)b::text[], %(b)b::bigint[], %(c)b::bytea[])"
    b" AS rows (p_a, p_b, p_c)",
    ("a", "b", "c", "shared"),
    BULK,
)
text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
number = st.integers(-(2**63), 2**63 - 1)
row = st.tuples(st.none() | text, st.none() | number, st.none() | st.binary(max_size=20))


def _echo(clerk: Clerk, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return clerk.session.run(lambda tx: tx.many(ECHO, rows, shared=7))


@pytest.mark.parametrize("kind", ["postgres"])
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(row, max_size=10))
def test_rows_come_back_as_they_went(clerk: Clerk, rows: list[tuple[Any, ...]]) -> None:
    assert _echo(clerk, rows) == [(*each, 7) for each in rows]


@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize(
    "bad", [("a\0b", 1, b""), ("\ud800", 1, b""), ("a", 2**63, b"")], ids=["nul", "lone", "large"]
)
def test_a_value_that_cannot_be_kept_is_refused_and_harms_nothing(
    clerk: Clerk, bad: tuple[Any, ...]
) -> None:
    with pytest.raises(RowRefused):
        _echo(clerk, [bad])

    assert _echo(clerk, [("a", 1, b"")]) == [("a", 1, b"", 7)]


@pytest.mark.parametrize("kind", ["postgres"])
def test_many_rows_cost_one_statement(clerk: Clerk) -> None:
    rows = [(str(n), n, bytes(n % 7)) for n in range(5_000)]

    def verb(tx: Transaction) -> int:
        return len(tx.many(ECHO, rows, shared=0))

    assert clerk.session.run(verb) == 5_000
