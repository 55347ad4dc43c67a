"""The judge of sends: a sound run breaks nothing, and every broken promise is seen."""

from dataclasses import replace

import pytest

from tests.torture.history import Event, Kind
from tests.torture.sends.books import Row, SendBooks
from tests.torture.sends.promises import judge

ROW = Row("snd_1", "k", "sent", "<k@x>", None, 1, 1, None)
SOUND = SendBooks(rows=[ROW], marked=frozenset({"snd_1"}))
IN_DOUBT = replace(ROW, state="unknown", in_doubt_at=1)


def told(message_id: str = "<k@x>") -> Event:
    return Event(kind=Kind.OK, verb="send", key="k", call="1", id=message_id, pid=1)


def books(**changed: object) -> SendBooks:
    return replace(SOUND, rows=[replace(ROW, **changed)])  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["hold", "replay", "resend"])
def test_a_sound_run_breaks_nothing(policy: str) -> None:
    assert judge(["k"], [told()], SOUND, {"<k@x>": 1}, policy) == []


def test_doubt_is_honest_whether_it_was_taken_or_not() -> None:
    for count in (0, 1):
        assert judge(["k"], [told()], replace(SOUND, rows=[IN_DOUBT]), {"<k@x>": count}) == []


@pytest.mark.parametrize(
    ("rule", "found", "count", "policy"),
    [
        ("lost", SendBooks(rows=[], marked=frozenset()), 0, "hold"),
        ("stuck", books(state="claimed"), 0, "hold"),
        ("stuck", books(state="unknown", again="resend"), 0, "hold"),
        ("doubled", SOUND, 2, "hold"),
        ("doubled", SOUND, 2, "replay"),
        ("invented", SOUND, 0, "hold"),
        ("denied", books(state="failed"), 1, "hold"),
        ("timid", replace(books(state="unknown"), marked=frozenset()), 0, "hold"),
        ("lost", books(state="unknown"), 1, "replay"),
        ("lost", books(state="unknown"), 0, "resend"),
        ("foreign", books(message_id="<other@x>"), 1, "hold"),
        ("split", books(message_id="<other@x>"), 0, "hold"),
        ("corrupt", replace(SOUND, faults=["a key twice"]), 1, "hold"),
    ],
)
def test_every_broken_promise_is_seen(rule: str, found: SendBooks, count: int, policy: str) -> None:
    taken = {"<k@x>": count} if count else {}
    assert rule in {one.rule for one in judge(["k"], [told()], found, taken, policy)}


def test_two_who_are_told_of_different_mails_are_seen() -> None:
    found = judge(["k"], [told(), told("<other@x>")], SOUND, {"<k@x>": 1})
    assert {one.rule for one in found} == {"split"}
