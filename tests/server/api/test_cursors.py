"""Cursors say nothing, cannot be made up, and lead nowhere but to their own list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.core.encryption import MasterKey
from oncebox.errors import NotFound
from oncebox.errors.http import CursorInvalid
from oncebox.schemas.deliveries import DeliveryQuery
from oncebox.server.http.cursors import Cursors

CURSORS = Cursors(MasterKey(bytes(32)))
ROUTE = "/v1/deliveries"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
queries = st.builds(DeliveryQuery, limit=st.integers(1, 200), source=st.none() | st.just("shop"))


@given(place=texts, tenant=texts, query=queries, limit=st.integers(1, 200))
def test_a_cursor_leads_back_to_its_place_whatever_the_size_of_the_page(
    place: str, tenant: str, query: DeliveryQuery, limit: int
) -> None:
    cursor = CURSORS.make(place, tenant, ROUTE, query)
    other = DeliveryQuery(limit=limit, source=query.source, cursor=cursor)

    assert CURSORS.read(cursor, tenant, ROUTE, other) == place


@given(place=texts, tenant=texts, other=texts)
def test_a_cursor_of_another_tenant_leads_nowhere(place: str, tenant: str, other: str) -> None:
    cursor = CURSORS.make(place, tenant, ROUTE, DeliveryQuery())
    if tenant != other:
        with pytest.raises(NotFound):
            CURSORS.read(cursor, other, ROUTE, DeliveryQuery())


@given(texts | st.from_regex(r"c1_[A-Za-z0-9_-]{30,60}", fullmatch=True))
def test_nothing_made_up_is_a_cursor_and_nothing_foreign_is_raised(made_up: str) -> None:
    with pytest.raises((CursorInvalid, NotFound)):
        CURSORS.read(made_up, "t", ROUTE, DeliveryQuery())


@given(place=st.text("abcdefghij", min_size=8, max_size=40))
def test_a_cursor_shows_nothing_of_its_place(place: str) -> None:
    first, second = (CURSORS.make(place, "t", ROUTE, DeliveryQuery()) for _ in range(2))

    assert first != second
    assert place not in first
