"""The judge of mail: a sound run breaks nothing, and every broken promise is seen."""

from dataclasses import replace

import pytest

from tests.torture.history import Event, Kind
from tests.torture.mail.letters import SPOOL_FROM, Letter, letters, parcels
from tests.torture.mail.post_books import Message, PostBooks
from tests.torture.mail.promises import judge

LETTER = Letter(key="k", recipients=("a@x", "b@x"), copies=2, relays=2, size=100, named=True)
FIRST = Message("m1", "a@x", LETTER.sender, 1, "parsed", 1)
SECOND = Message("m2", "b@x", LETTER.sender, 1, "parsed", 1)
SOUND = PostBooks(
    messages=[FIRST, SECOND],
    cursors={"a@x": 1, "b@x": 1, "c@x": 0},
    told=[("m1", 1), ("m2", 2)],
    numbers={"default": [1, 2]},
    lasts={"default": 2},
    copies=[("m1", "d1"), ("m1", "d2"), ("m2", "d3"), ("m2", "d4")],
    deliveries=dict.fromkeys(("d1", "d2", "d3", "d4"), "done"),
)


def told(kind: Kind) -> Event:
    return Event(kind=kind, verb="mail", key="k", call="1", pid=1)


HEARD = (told(Kind.INVOKE), told(Kind.INFO), told(Kind.INVOKE), told(Kind.OK))


def test_a_sound_run_breaks_nothing() -> None:
    assert judge([LETTER], HEARD, SOUND) == []


def test_a_mail_that_nobody_acknowledged_need_not_be_there() -> None:
    nothing = PostBooks(
        messages=[], cursors={}, told=[], numbers={}, lasts={}, copies=[], deliveries={}
    )

    assert judge([LETTER], (told(Kind.INVOKE), told(Kind.INFO)), nothing) == []
    assert {one.rule for one in judge([LETTER], HEARD, nothing)} == {"lost"}


@pytest.mark.parametrize(
    ("rule", "books"),
    [
        ("lost", replace(SOUND, messages=[FIRST])),
        ("doubled", replace(SOUND, messages=[FIRST, replace(FIRST, id="m3"), SECOND])),
        ("foreign", replace(SOUND, messages=[FIRST, SECOND, replace(SECOND, sender="x@y")])),
        ("unread", replace(SOUND, messages=[FIRST, replace(SECOND, status="limited")])),
        ("gap", replace(SOUND, messages=[FIRST, replace(SECOND, sequence=2)])),
        ("gap", replace(SOUND, cursors={"a@x": 2})),
        ("missing", replace(SOUND, told=[("m1", 1)])),
        ("doubled", replace(SOUND, told=[("m1", 1), ("m1", 2), ("m2", 3)])),
        ("foreign", replace(SOUND, told=[*SOUND.told, ("m9", 3)])),
        ("gap", replace(SOUND, numbers={"default": [1, 3]})),
        ("gap", replace(SOUND, numbers={"default": [1, 2, None]})),
        ("gap", replace(SOUND, lasts={"default": 3})),
        ("stuck", replace(SOUND, deliveries={**SOUND.deliveries, "d4": "dead"})),
        ("doubled", replace(SOUND, deliveries={**SOUND.deliveries, "d5": "done"})),
        ("missing", replace(SOUND, copies=SOUND.copies[:3])),
        ("miscounted", replace(SOUND, messages=[FIRST, replace(SECOND, duplicates=0)])),
    ],
)
def test_a_broken_promise_is_seen(rule: str, books: PostBooks) -> None:
    assert rule in {one.rule for one in judge([LETTER], HEARD, books)}


def test_a_refusal_is_seen() -> None:
    events = (told(Kind.INVOKE), told(Kind.FAIL), *HEARD)

    assert [one.rule for one in judge([LETTER], events, SOUND)] == ["refused"]


def test_letters_are_drawn_again_by_their_seed() -> None:
    drawn = letters("1", 50, ["a@x", "b@x", "c@x"])

    assert drawn == letters("1", 50, ["a@x", "b@x", "c@x"])
    assert len({one.key for one in drawn}) == 50
    assert {len(one.recipients) for one in drawn} == {1, 2}
    assert {len(one.data(0)) > SPOOL_FROM for one in drawn} == {False, True}
    every = parcels(drawn)
    assert len(every) == sum(one.copies * one.relays for one in drawn)
    assert LETTER.data(0) != LETTER.data(1)
    assert LETTER.data(0) in LETTER.data(1)
