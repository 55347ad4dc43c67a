"""The judge of mailboxes: a sound run breaks nothing, and every broken promise is seen."""

import random
from dataclasses import replace

import pytest

from tests.torture.history import Event, Kind
from tests.torture.mail.post_books import Message, PostBooks
from tests.torture.mailboxes.books import Row, delivery_key
from tests.torture.mailboxes.mails import Channel, Mail, by_channel, draw, key_in
from tests.torture.mailboxes.promises import Code, judge, judge_cursor, missing

INBOXES = ("a@x", "b@x", "c@x")
IDS = {"a@x": "inb_a", "b@x": "inb_b", "c@x": "inb_c"}
MAIL = Mail(
    key="1-0", recipients=("a@x", "b@x"), channels=(Channel.SMTP, Channel.MAILBOX), mailbox="bob",
    code="123456", named=True,
)  # fmt: skip
FIRST = Message("m1", "a@x", MAIL.sender, 1, "parsed", 1)
SECOND = Message("m2", "b@x", MAIL.sender, 1, "parsed", 1)
SOUND = PostBooks(
    messages=[FIRST, SECOND],
    cursors={"a@x": 1, "b@x": 1, "c@x": 0},
    told=[("m1", 1), ("m2", 2)],
    numbers={"default": [1, 2]},
    lasts={"default": 2},
    copies=[],
    deliveries={"d1": "done"},
)
GRANTS: list[Code] = [("inb_a", "123456"), ("inb_b", "123456")]


def rules(books: PostBooks = SOUND, grants: list[Code] = GRANTS) -> set[str]:
    return {one.rule for one in judge([MAIL], [], books, grants, IDS)}


def test_a_sound_run_breaks_nothing() -> None:
    assert rules() == set()


@pytest.mark.parametrize(
    ("rule", "books"),
    [
        ("lost", replace(SOUND, messages=[FIRST])),
        ("doubled", replace(SOUND, messages=[FIRST, replace(FIRST, id="m3"), SECOND])),
        ("foreign", replace(SOUND, messages=[FIRST, SECOND, replace(SECOND, sender="x@y")])),
        ("unread", replace(SOUND, messages=[FIRST, replace(SECOND, status="unparsed")])),
        ("gap", replace(SOUND, cursors={"a@x": 2})),
        ("missing", replace(SOUND, told=[("m1", 1)])),
        ("stuck", replace(SOUND, deliveries={"d1": "dead"})),
    ],
)
def test_a_broken_promise_is_seen(rule: str, books: PostBooks) -> None:
    assert rule in rules(books)


@pytest.mark.parametrize(
    ("rule", "grants"),
    [
        ("lost grant", GRANTS[:1]),
        ("doubled grant", [*GRANTS, GRANTS[0]]),
        ("foreign", [*GRANTS, ("inb_c", "123456")]),
    ],
)
def test_a_code_that_is_not_granted_once_is_seen(rule: str, grants: list[Code]) -> None:
    assert rules(grants=grants) == {rule}


def test_a_refusal_is_seen() -> None:
    refused = Event(kind=Kind.FAIL, verb="webhook", key="1-0", call="1", pid=1)

    assert [one.rule for one in judge([MAIL], [refused], SOUND, GRANTS, IDS)] == ["refused"]


def test_a_cursor_beyond_a_mail_that_is_not_stored_is_seen() -> None:
    raw = MAIL.by(Channel.MAILBOX)
    row = Row("bob", "{}", 3, None, 0, 1, 0, 0, 0, 0)
    stored = {delivery_key(IDS[each], raw) for each in MAIL.recipients}

    assert missing("bob", [raw], {MAIL.key: MAIL}, stored, IDS) == []
    absent = missing("bob", [raw], {MAIL.key: MAIL}, set(list(stored)[:1]), IDS)
    assert [one.rule for one in judge_cursor(row, absent)] == ["ahead"]


def test_mails_are_drawn_again_by_their_seed_with_a_code_of_their_own() -> None:
    drawn = draw("1", 500, INBOXES)

    assert drawn == draw("1", 500, INBOXES)
    assert len({one.code for one in drawn}) == 500
    assert {len(one.channels) for one in drawn} == {1, 2, 3}
    assert {key_in(one.by(Channel.WEBHOOK)) for one in drawn} == {one.key for one in drawn}
    assert len({MAIL.by(each) for each in Channel}) == 3
    chosen = by_channel(drawn, Channel.SMTP, random.Random(1))
    assert {one.key for one in chosen} == {one.key for one in drawn if "smtp" in one.channels}
