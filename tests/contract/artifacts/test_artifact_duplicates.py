"""Artifacts that come again: a value that was there before still reaches who waits for it."""

import msgspec
import pytest

from oncebox.ledger import maintenance
from oncebox.model.inboxes.artifact import ClaimGranted
from oncebox.model.inboxes.received_mail import ArtifactKind
from tests.support.clerk import DAY, Clerk
from tests.support.finds import OTHER, Finds, code

EVENTS = "SELECT type, subject_id, data FROM oncebox_events ORDER BY id"


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox."""
    return Finds(clerk)


def told(finds: Finds) -> list[tuple[str, str]]:
    """Return the events about artifacts, with what they are about."""
    return [(row[0], row[1]) for row in finds.sql(EVENTS) if row[0].startswith("artifact")]


def overwrite(finds: Finds) -> None:
    """Let what all artifacts say go."""
    finds.clerk.now += 8 * DAY
    finds.clerk.run(maintenance.overwrite_artifacts, finds.clerk.now - 7 * DAY, finds.clerk.now)


@pytest.mark.parametrize("claimed", [True, False])
def test_a_value_that_comes_again_after_its_time_is_granted(finds: Finds, *, claimed: bool) -> None:
    """A sender may use a short code or the same link twice; what was overwritten is over."""
    finds.file(code("4819"))
    if claimed:
        finds.claim(finds.wish())
    overwrite(finds)
    (filed,) = finds.file(code("4819"))
    old, new = finds.all()
    (outcome,) = finds.claim(finds.wish(key=OTHER))

    assert filed.artifacts == ((ArtifactKind.CODE, "available"),)
    assert (old.purged_at is not None, new.purged_at, new.duplicates) == (True, None, 0)
    assert isinstance(outcome, ClaimGranted)
    assert (outcome.value.value, outcome.artifact.id) == ("4819", new.id)
    assert told(finds)[-1] == ("artifact.available", new.id)


def test_nothing_of_a_value_is_kept_after_its_time(finds: Finds) -> None:
    """Not even by which it is known again: a short code could be told from that and the key."""
    finds.file(code("4819"))
    before = finds.sql("SELECT mark FROM oncebox_artifacts")
    overwrite(finds)
    after = finds.sql("SELECT mark FROM oncebox_artifacts")

    assert bytes(before[0][0]) != bytes(after[0][0])


def test_what_matches_only_when_it_comes_again_is_told_of_then(finds: Finds) -> None:
    """The first mail was not believed, the second is: whoever listens hears of it now."""
    finds.file(code("481920", mismatch="sender_unauthenticated", proven=False))
    assert told(finds) == []
    finds.clerk.now += 1000
    (filed,) = finds.file(code("481920"))
    finds.clerk.now += 1000
    finds.file(code("481920"))
    (artifact,) = finds.all()
    data = msgspec.json.decode(finds.sql(EVENTS)[-2][2])

    assert filed.artifacts == ((ArtifactKind.CODE, "available"),)
    assert told(finds) == [("artifact.available", artifact.id)]
    assert (data["artifact_id"], data["sequence"], data["sender_verdict"]) == (
        artifact.id,
        2,
        "pass",
    )


def test_what_matches_only_when_it_comes_again_may_be_in_conflict(finds: Finds) -> None:
    finds.file(code("222222", sender="other@shop.example"))
    finds.file(code("481920", mismatch="sender_unauthenticated", proven=False))
    finds.clerk.now += 1000
    finds.file(code("481920"))

    assert [kind for kind, _ in told(finds)] == ["artifact.available"] * 2 + ["artifact.conflict"]


def test_an_older_mail_that_makes_a_value_match_takes_no_newer_ones_place(finds: Finds) -> None:
    finds.file(code("111111", mismatch="sender_unauthenticated", proven=False))
    finds.clerk.now += 1000
    finds.file(code("222222", signed_at=60_000))
    finds.clerk.now += 1000
    (filed,) = finds.file(code("111111", signed_at=1_000))
    _old, new = finds.all()

    assert filed.artifacts == ((ArtifactKind.CODE, "superseded"),)
    assert told(finds) == [("artifact.available", new.id)]
