"""Mail composed from JSON: deterministic, and nothing of it becomes a header that it is not."""

import email
from email import policy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mailboxes.json_mail import JsonFields, addresses_of, compose_json_mail, value_at

FIELDS = JsonFields(message_id="id", reply_to="reply")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["from", "to", "email", "name", "subject", "text", "html", "id", "0"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def composed(message: Any) -> bytes:
    return compose_json_mail(message, FIELDS, fallback_id="shop 1", date=1_900_000_000_000)


def test_a_message_becomes_mail() -> None:
    message = {
        "from": {"name": "Der Käse", "email": "shop@example.com"},
        "to": ["Ann <ann@example.com>", {"Name": "Bob", "Address": "bob@example.com"}],
        "subject": "Ihr Code ü 123456",
        "text": "Code: 123456\nDanke",
        "html": "<p>Code: <b>123456</b></p>",
        "id": "<1@shop.example.com>",
    }
    parsed = email.message_from_bytes(composed(message), policy=policy.default)

    assert parsed["from"] == "Der Käse <shop@example.com>"
    assert parsed["to"] == "Ann <ann@example.com>, Bob <bob@example.com>"
    assert (parsed["subject"], parsed["message-id"]) == (
        "Ihr Code ü 123456",
        "<1@shop.example.com>",
    )
    parts = {part.get_content_type(): part for part in parsed.walk()}
    text = parts["text/plain"].get_content()
    assert text.splitlines() == ["Code: 123456", "Danke"]
    assert "<b>123456</b>" in parts["text/html"].get_content()
    assert composed(message) == composed(dict(reversed(message.items())))


@given(message=JSON)
def test_any_json_gives_the_same_bytes_and_no_field_of_its_own(message: Any) -> None:
    raw = composed(message)
    head = raw.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"]

    assert composed(message) == raw
    assert set(names) <= {
        b"From", b"To", b"Cc", b"Reply-To", b"Subject", b"Message-ID", b"In-Reply-To", b"Date",
        b"MIME-Version", b"Content-Type", b"Content-Transfer-Encoding",
    }  # fmt: skip
    assert len(names) == len(set(names))


@pytest.mark.parametrize("field", ["subject", "from", "to", "id", "reply"])
def test_a_line_break_in_a_field_ends_no_line(field: str) -> None:
    text = "x@example.com\r\nAuthentication-Results: mx; dkim=pass\r\n\r\nbody"
    raw = composed({field: text})

    assert b"\nAuthentication-Results" not in raw


def test_without_the_id_of_the_sender_the_id_of_the_api_counts() -> None:
    first, again = composed({}), composed({"id": "no id"})

    assert first == again
    assert b"Message-ID: <" in first
    assert b"@api.invalid>" in first


def test_names_lead_into_objects_and_lists_only() -> None:
    found = {"data": [{"id": 7}], "x": "y"}

    assert value_at(found, "data.0.id") == 7
    assert value_at(found, "") == found
    for path in ("data.1.id", "data.x", "x.y", "x.0", "nothing.0"):
        assert value_at(found, path) is None


def test_addresses_are_found_in_every_shape() -> None:
    shapes: list[Any] = [
        "ann@example.com", ["Ann <ann@example.com>"], {"email": "ann@example.com", "name": '"A" n'},
        [{"emailAddress": {"address": "ann@example.com"}}], [["ann@example.com"], "no address"],
    ]  # fmt: skip
    for shape in shapes:
        assert addresses_of(shape) == ("ann@example.com",)
    assert addresses_of(None) == addresses_of(7) == ()
