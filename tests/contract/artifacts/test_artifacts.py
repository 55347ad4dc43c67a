"""Artifacts: filed with their message, each value once, and in the right order among others."""

import itertools
import random
from pathlib import Path

import msgspec
import pytest

from oncebox.errors import NotFound
from oncebox.ledger import maintenance
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.deliveries import settlements
from oncebox.model.deliveries.delivery import (
    CommitHook,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.inboxes.artifact import ArtifactState, ClaimConflict, ClaimDenied, ClaimGranted
from oncebox.model.inboxes.received_mail import ArtifactKind, Extraction, SenderStatus
from tests.support import databases
from tests.support.clerk import TENANT, Clerk
from tests.support.finds import AGENT, Finds, candidate, code, found_codes, found_link, link
from tests.support.letters import FILE
from tests.support.round_trips import counted

EVENTS = "SELECT type, inbox_id, attempt_id, subject_id, data FROM oncebox_events ORDER BY id"


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox."""
    return Finds(clerk)


def states(finds: Finds) -> list[str]:
    """Return the states of all artifacts, oldest first."""
    return [each.state.value for each in finds.all()]


def told(finds: Finds) -> list[tuple[str, dict[str, object]]]:
    """Return the events about artifacts."""
    rows = finds.sql(EVENTS)
    return [(row[0], msgspec.json.decode(row[4])) for row in rows if row[0].startswith("artifact")]


def test_a_code_becomes_an_artifact_of_its_message(finds: Finds) -> None:
    (filed,) = finds.file(code("481920", subject="Your login code"))
    (artifact,) = finds.all()

    assert filed.artifacts == ((ArtifactKind.CODE, "available"),)
    assert (artifact.message_id, artifact.sequence) == (filed.message_id, 1)
    assert (artifact.kind, artifact.state) == (ArtifactKind.CODE, ArtifactState.AVAILABLE)
    assert (artifact.sender, artifact.sender_domain, artifact.sender_verdict) == (
        "no-reply@shop.example",
        "shop.example",
        "pass",
    )
    assert (artifact.attempt_id, artifact.confidence) == ("att_inb_1", 987)
    assert (artifact.purposes, artifact.warnings, artifact.matched) == (("login",), (), True)


def test_a_code_and_a_link_of_one_mail_are_two_artifacts(finds: Finds) -> None:
    both = msgspec.structs.replace(
        found_codes("481920"), link=candidate("https://x", ArtifactKind.LINK)
    )
    finds.file(msgspec.structs.replace(code("1"), found=both))

    assert [each.kind for each in finds.all()] == [ArtifactKind.CODE, ArtifactKind.LINK]


def test_a_mail_without_anything_in_it_makes_no_artifact(finds: Finds) -> None:
    (filed,) = finds.file(msgspec.structs.replace(code("1"), found=Extraction()))

    assert (finds.all(), filed.artifacts) == ([], ())


def test_what_an_artifact_says_is_not_in_the_database(finds: Finds) -> None:
    """Neither in its own row nor in what is stored of its message, nor in an event."""
    finds.file(code("481920-canary"), link("https://shop.example/canary"))
    rows = [
        finds.sql("SELECT * FROM oncebox_artifacts"),
        finds.sql("SELECT * FROM oncebox_messages"),
        finds.sql("SELECT * FROM oncebox_events"),
    ]

    assert all(rows)
    assert "canary" not in repr(rows)


def test_a_value_that_a_second_mail_brings_is_no_second_artifact(finds: Finds) -> None:
    (first,) = finds.file(code("481920"))
    (second,) = finds.file(code("481920"))
    (artifact,) = finds.all()

    assert (first.artifacts, second.artifacts) == (
        ((ArtifactKind.CODE, "available"),),
        ((ArtifactKind.CODE, "duplicate"),),
    )
    assert (artifact.duplicates, artifact.sequence) == (1, 1)
    assert [kind for kind, _ in told(finds)] == ["artifact.available"]


def test_a_code_with_and_without_its_hyphen_is_one_artifact(finds: Finds) -> None:
    finds.file(code("CXHZ-GVDB"))
    (second,) = finds.file(code("CXHZGVDB"))

    assert second.artifacts == ((ArtifactKind.CODE, "duplicate"),)
    assert len(finds.all()) == 1


def test_a_code_in_capitals_and_in_small_letters_is_one_artifact(finds: Finds) -> None:
    finds.file(code("cxhz-gv21"))
    (second,) = finds.file(code("CXHZ-GV21"))

    assert second.artifacts == ((ArtifactKind.CODE, "duplicate"),)
    assert len(finds.all()) == 1


def test_a_later_mail_with_the_same_value_is_the_one_that_counts(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    finds.clerk.now += 1000
    finds.file(code("111111"))

    assert states(finds) == ["available", "superseded"]
    assert finds.all()[0].sequence == 3


def test_the_same_value_twice_in_one_commit_is_one_artifact(finds: Finds) -> None:
    filed = finds.file(code("481920"), code("481920", proven=False), code("481920"))

    assert sorted(each.artifacts[0][1] for each in filed) == ["available", "duplicate", "duplicate"]
    assert [(each.duplicates, each.proven) for each in finds.all()] == [(2, True)]


def test_the_same_value_in_two_inboxes_is_two_artifacts_with_nothing_in_common(
    finds: Finds,
) -> None:
    finds.room.add_inbox("inb_2")
    finds.file(code("481920"))
    finds.file(code("481920"), inbox="inb_2")
    marks = finds.sql("SELECT DISTINCT mark FROM oncebox_artifacts")

    assert len(marks) == 2


# order


def test_a_newer_mail_of_the_same_sender_and_purpose_supersedes(finds: Finds) -> None:
    finds.file(code("111111", signed_at=1_000))
    finds.clerk.now += 5_000
    finds.file(code("222222", signed_at=6_000))
    old, new = finds.all()

    assert (old.state, old.superseded_by, new.state) == ("superseded", new.id, "available")
    assert new.warnings == ()


def test_a_greylisted_older_code_that_comes_after_the_resend_does_not_count(finds: Finds) -> None:
    finds.file(code("222222", signed_at=60_000))
    finds.clerk.now += 300_000
    (late,) = finds.file(code("111111", signed_at=1_000))
    resent, old = finds.all()

    assert late.artifacts == ((ArtifactKind.CODE, "superseded"),)
    assert (old.state, old.superseded_by, resent.state) == ("superseded", resent.id, "available")
    assert [data["artifact_id"] for _, data in told(finds)] == [resent.id]


def test_without_a_signed_date_the_arrival_decides_with_a_warning(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    old, new = finds.all()

    assert (old.state, new.state) == ("superseded", "available")
    assert (old.warnings, new.warnings) == ((), ("order_by_arrival",))


def test_two_purposes_of_one_sender_stand_beside_each_other(finds: Finds) -> None:
    finds.file(code("111111", subject="Your sign-in code"))
    finds.clerk.now += 1000
    finds.file(code("222222", subject="Reset your password"))

    assert states(finds) == ["available", "available"]
    assert [kind for kind, _ in told(finds)] == ["artifact.available"] * 2 + ["artifact.conflict"]


def test_an_unproven_mail_never_supersedes_a_proven_one(finds: Finds) -> None:
    """Nor does it change the order among the proven ones."""
    finds.file(code("222222", signed_at=60_000))
    finds.clerk.now += 1000
    finds.file(code("111111", signed_at=1_000))
    finds.clerk.now += 1000
    finds.file(code("666666", proven=False))

    assert states(finds) == ["available", "superseded", "available"]
    assert finds.all()[2].warnings == ("sender_unproven",)


def test_mail_without_a_clear_sender_supersedes_nothing(finds: Finds) -> None:
    finds.file(code("111111", proven=False, standing=SenderStatus.AMBIGUOUS))
    finds.clerk.now += 1000
    finds.file(code("222222", proven=False, standing=SenderStatus.AMBIGUOUS))

    assert states(finds) == ["available", "available"]


def test_what_came_before_the_inbox_was_made_matches_nothing(finds: Finds) -> None:
    (filed,) = finds.file(code("111111", received_at=finds.clerk.now - 1))
    (artifact,) = finds.all()

    assert filed.artifacts == ((ArtifactKind.CODE, "unmatched"),)
    assert (artifact.matched, artifact.warnings) == (False, ("before_inbox",))
    assert told(finds) == []


def test_what_does_not_match_neither_counts_nor_supersedes(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    (filed,) = finds.file(code("222222", mismatch="sender_not_allowed"))

    assert filed.artifacts == ((ArtifactKind.CODE, "unmatched"),)
    assert [each.matched for each in finds.all()] == [True, False]
    assert finds.all()[0].state is ArtifactState.AVAILABLE


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_filing_changes_nothing(finds: Finds, seed: int) -> None:
    """However mails are shuffled and batched, the same artifacts stand in the same way."""
    start = finds.clerk.now
    letters = [
        code("111111", signed_at=1_000, received_at=start + 50),
        code("222222", signed_at=2_000, received_at=start + 10),
        code("333333", received_at=start + 20, proven=False),
        code("444444", received_at=start + 30, proven=False),
        code("222222", proven=False, received_at=start + 90),
        code("555555", signed_at=500, received_at=start + 70, sender="other@shop.example"),
        code("666666", received_at=start + 80, mismatch="token_missing"),
    ]
    shuffled = random.Random(seed).sample(letters, len(letters))
    sizes = itertools.cycle([1, 2, 3])
    while shuffled:
        size = next(sizes)
        batch, shuffled = shuffled[:size], shuffled[size:]
        finds.file(*batch)

    assert told_by(finds) == [
        ("111111", "superseded", "222222", True, ()),
        ("222222", "available", "", True, ()),
        ("333333", "superseded", "444444", True, ("sender_unproven",)),
        ("444444", "available", "", True, ("sender_unproven", "order_by_arrival")),
        ("555555", "available", "", True, ()),
        ("666666", "available", "", False, ()),
    ]


def told_by(finds: Finds) -> list[tuple[object, ...]]:
    """Return what must be the same however artifacts were filed."""
    rows = finds.sql("SELECT id, sealed FROM oncebox_artifacts")
    values = {
        id_: finds.strongbox.decrypt(TENANT, id_, bytes(sealed)).value for id_, sealed in rows
    }
    return sorted(
        (
            values[each.id], each.state.value, values.get(each.superseded_by, ""), each.matched,
            each.warnings,
        )
        for each in finds.all()
    )  # fmt: skip


# what is told


def test_an_available_artifact_is_told_of_in_the_commit_of_its_message(finds: Finds) -> None:
    (filed,) = finds.file(code("481920"))
    (artifact,) = finds.all()
    kind, inbox, attempt, subject, data = finds.sql(EVENTS)[-1]

    assert (kind, inbox, attempt, subject) == (
        "artifact.available",
        "inb_1",
        "att_inb_1",
        artifact.id,
    )
    assert filed.sequence == 1
    assert msgspec.json.decode(data) == {
        "artifact_id": artifact.id,
        "kind": "code",
        "confidence": 0.987,
        "sender_domain": "shop.example",
        "sender_verdict": "pass",
        "sequence": 1,
    }


def test_two_codes_in_one_mail_are_a_conflict(finds: Finds) -> None:
    finds.file(code("111111", "222222"))
    ids = sorted(each.id for each in finds.all())

    assert [each.tied for each in finds.all()] == [True, True]
    assert told(finds)[-1] == (
        "artifact.conflict",
        {"kind": "code", "artifact_ids": ids, "why": "tied"},
    )
    (outcome,) = finds.claim(finds.wish())
    assert outcome == ClaimConflict(kind=ArtifactKind.CODE, artifact_ids=tuple(ids), why="tied")


def test_two_senders_are_a_conflict_that_is_told_once(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222", sender="no-reply@other.example"))
    finds.clerk.now += 1000
    finds.file(code("222222", sender="no-reply@other.example"))
    kinds = [(kind, data.get("why")) for kind, data in told(finds)]

    assert kinds == [
        ("artifact.available", None),
        ("artifact.available", None),
        ("artifact.conflict", "senders_differ"),
    ]


@pytest.mark.parametrize("genuine_first", [True, False])
def test_an_unproven_look_alike_neither_wins_nor_disturbs(
    finds: Finds, *, genuine_first: bool
) -> None:
    letters = [
        code("111111", sender="no-reply@shop.example"),
        code("666666", sender="no-reply@sh0p.example", proven=False),
    ]
    for letter in letters if genuine_first else letters[::-1]:
        finds.file(letter)
    (outcome,) = finds.claim(finds.wish())

    assert [kind for kind, _ in told(finds)] == ["artifact.available"] * 2
    assert isinstance(outcome, ClaimGranted)
    assert outcome.value.value == "111111"


def test_what_no_proof_covers_is_unproven_though_its_message_is_not(finds: Finds) -> None:
    """A code that stands only in a subject which its sender did not sign."""
    filing = finds.filing(code("666666"))
    (own,) = filing.artifacts
    unvouched = msgspec.structs.replace(own, vouched=False)
    finds.clerk.run(
        FILE, [msgspec.structs.replace(filing, artifacts=(unvouched,))], finds.clerk.now
    )
    finds.file(code("111111", sender="b@shop.example"))
    (outcome,) = finds.claim(finds.wish())
    event = next(data for _, data in told(finds) if data["artifact_id"] == own.id)

    assert [each.sender_verdict for each in finds.all()] == ["none", "pass"]
    assert isinstance(outcome, ClaimGranted)
    assert outcome.value.value == "111111"
    assert event["sender_verdict"] == "none"


def test_a_flood_of_unproven_mail_does_not_hide_the_proven_one(finds: Finds) -> None:
    finds.file(code("111111"))
    for number in range(60):
        finds.file(code(f"66{number:04}", proven=False, sender=f"x{number}@evil.example"))
    (outcome,) = finds.claim(finds.wish())

    assert isinstance(outcome, ClaimGranted)
    assert outcome.value.value == "111111"


# retention


@pytest.mark.parametrize("claimed", [True, False])
def test_what_an_artifact_says_is_overwritten_after_its_time(
    finds: Finds, *, claimed: bool
) -> None:
    finds.file(code("481920"))
    (artifact,) = finds.all()
    if claimed:
        finds.claim(finds.ask(artifact.id))
    (before,) = finds.all()
    young = finds.clerk.run(maintenance.overwrite_artifacts, finds.clerk.now - 1, finds.clerk.now)
    old = finds.clerk.run(maintenance.overwrite_artifacts, finds.clerk.now, finds.clerk.now + 9)
    again = finds.clerk.run(maintenance.overwrite_artifacts, finds.clerk.now, finds.clerk.now + 9)
    (after,) = finds.all()
    by_id, by_wish = finds.claim(finds.ask(artifact.id), finds.wish())

    assert (young, old, again) == ({}, {"code": 1}, {})
    assert after == msgspec.structs.replace(before, purged_at=finds.clerk.now + 9)
    assert finds.sql("SELECT LENGTH(sealed) FROM oncebox_artifacts") == [(0,)]
    assert isinstance(by_id, ClaimDenied)
    assert (by_id.why, by_wish) == ("purged", None)


def test_what_was_overwritten_is_not_in_the_file_any_more(tmp_path: Path) -> None:
    """Not even a piece of it."""
    clerk = Clerk(databases.fresh_sqlite(tmp_path))
    finds = Finds(clerk)
    finds.file(*(code(f"{n:06}", sender=f"s{n}@shop.example") for n in range(20)))
    sealed = [bytes(row[0]) for row in finds.sql("SELECT sealed FROM oncebox_artifacts")]
    clerk.run(maintenance.overwrite_artifacts, clerk.now, clerk.now)
    clerk.close()
    files = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    pieces = [each[at : at + 8] for each in sealed for at in range(0, len(each) - 8, 8)]

    assert len(pieces) > 100
    assert [each for each in pieces if each in files] == []


# reading


def test_artifacts_are_listed_newest_first_and_by_kind_and_state(finds: Finds) -> None:
    finds.file(code("111111"))
    finds.clerk.now += 1000
    finds.file(code("222222"))
    finds.file(msgspec.structs.replace(code("1"), found=found_link("https://shop.example/x")))
    run, everybody = finds.clerk.run, Requester(tenant=TENANT)
    every = run(artifacts.page, everybody, "inb_1")
    codes = run(artifacts.page, everybody, "inb_1", kind=ArtifactKind.CODE)
    old = run(artifacts.page, everybody, "inb_1", state=ArtifactState.SUPERSEDED)

    assert every == finds.all()[::-1]
    assert codes == every[1:]
    assert old == every[2:]
    assert run(artifacts.page, everybody, "inb_1", before=every[0].id, most=1) == every[1:2]


def test_an_agent_sees_only_artifacts_of_its_own_inboxes(finds: Finds) -> None:
    finds.room.add_inbox("inb_own", owner=AGENT)
    finds.file(code("111111"))
    finds.file(code("222222"), inbox="inb_own")
    agent = Requester(tenant=TENANT, key=AGENT, sees_all=False)
    (own,) = finds.clerk.run(artifacts.page, agent, "inb_own")

    assert finds.clerk.run(artifacts.get, agent, own.id) == own
    with pytest.raises(NotFound):
        finds.clerk.run(artifacts.page, agent, "inb_1")
    for asker in (agent, Requester(tenant="other")):
        with pytest.raises(NotFound):
            finds.clerk.run(artifacts.get, asker, finds.all()[0].id)


def test_a_filing_that_is_undone_leaves_no_artifact(finds: Finds) -> None:
    filing = finds.filing(code("481920"))
    broken = msgspec.structs.replace(finds.filing(code("222222")), inbox_id="inb_none")
    with pytest.raises(Exception, match="no such inbox"):
        finds.clerk.run(FILE, [filing, broken], finds.clerk.now)

    assert (finds.all(), told(finds)) == ([], [])


# round trips


def test_a_mail_with_a_code_is_settled_in_four_round_trips(finds: Finds) -> None:
    """The end of its try, a look, its number, and the rest; on PostgreSQL a fifth commits."""
    finds.file(code("111111"))
    filing = finds.filing(code("222222"))
    settlement = Settlement(
        delivery=filing.delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.HANDLED,
        commit_hook=CommitHook(FILE, filing),
    )
    settle = counted(settlements.settle_with_hooks, [settlement], finds.clerk.now)

    assert finds.clerk.run(settle) == 4
    assert len(finds.all()) == 2


def test_a_code_is_claimed_in_three_round_trips(finds: Finds) -> None:
    finds.file(code("111111"))
    claim = counted(finds.granter.claim, [finds.wish()], finds.clerk.now)

    assert finds.clerk.run(claim) == 3
    assert [each.claimed for each in finds.all()] == [True]
