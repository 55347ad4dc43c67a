"""The choice among artifacts: the same whatever their order, and never a guess."""

from itertools import permutations
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncebox.model.inboxes.artifact import (
    CONFLICTS,
    ORDER_BY_ARRIVAL,
    SENDER_UNPROVEN,
    Artifact,
    ArtifactChoice,
    ArtifactState,
    choose_artifact,
    supersessions,
)
from oncebox.model.inboxes.received_mail import ArtifactKind

MINE, OTHERS = b"mine", b"others"


def artifact(id_: str = "a", **rest: object) -> Artifact:
    """Return an artifact that is all right."""
    fields: dict[str, object] = {
        "id": id_, "tenant": "acme", "inbox_id": "inb", "attempt_id": None,
        "message_id": f"msg-{id_}", "sequence": 1, "kind": ArtifactKind.CODE,
        "state": ArtifactState.AVAILABLE, "rank": 0, "confidence": 900, "tied": False,
        "matched": True, "purposes": ("login",), "sender": "x@shop.example",
        "sender_domain": "shop.example", "sender_verdict": "pass", "received_at": 10,
        "signed_at": None,
    }  # fmt: skip
    return msgspec.convert({**fields, **rest}, Artifact)


def claimed(id_: str, mark: bytes = OTHERS, **rest: object) -> Artifact:
    """Return an artifact that somebody has."""
    return artifact(id_, state=ArtifactState.CLAIMED, claim_fingerprint=mark, claimed_at=1, **rest)


def chosen(*artifacts: Artifact, mark: bytes | None = MINE) -> str | tuple[str, str]:
    """Return the id of what is chosen, or why nothing is."""
    choice = choose_artifact(artifacts, mark)
    if choice.artifact is not None:
        return choice.artifact.id
    return ("conflict", str(choice.why)) if choice.conflict else "nothing"


SIGNED_OLD = artifact("old", signed_at=100, received_at=50)
SIGNED_NEW = artifact("new", signed_at=200, received_at=20)
FORGED = artifact("forged", sender_verdict="none", received_at=99)
OTHER_SENDER = artifact("other", sender="y@other.example", sender_domain="other.example")
CASES: dict[str, tuple[list[Artifact], str | tuple[str, str]]] = {
    "nothing": ([], "nothing"),
    "one": ([artifact()], "a"),
    "one that does not match": ([artifact(matched=False)], "nothing"),
    "the newer by its signed date, though it came first": ([SIGNED_OLD, SIGNED_NEW], "new"),
    "the newer by arrival": ([artifact("a"), artifact("b", received_at=11)], "b"),
    "one date is not signed, so all go by arrival": (
        [SIGNED_OLD, SIGNED_NEW, artifact("c", received_at=40)],
        "old",
    ),
    "the same signed second, so by arrival": (
        [artifact("a", signed_at=5, received_at=1), artifact("b", signed_at=5, received_at=2)],
        "b",
    ),
    "the same time": ([artifact("a"), artifact("b")], ("conflict", "same_time")),
    "two in one message": (
        [artifact("a", message_id="m", tied=True), artifact("b", message_id="m", tied=True)],
        ("conflict", "tied"),
    ),
    "two in the newer message": (
        [artifact("a", received_at=1), *(artifact(each, message_id="m") for each in "bc")],
        ("conflict", "tied"),
    ),
    "two senders": ([artifact(), OTHER_SENDER], ("conflict", "senders_differ")),
    "two addresses of one domain": (
        [artifact(), artifact("b", sender="z@shop.example", received_at=99)],
        ("conflict", "senders_differ"),
    ),
    "one that depends on text that may be hidden": (
        [artifact(warnings=("text_doubtful",))],
        ("conflict", "text_doubtful"),
    ),
    "an unclear purpose, where one was asked for": (
        [artifact(), artifact("b", purposes=(), warnings=("purpose_unclear",), received_at=99)],
        "a",
    ),
    "an unclear purpose, where none was asked for": (
        [artifact(), artifact("b", purposes=(), received_at=99)],
        ("conflict", "purposes_differ"),
    ),
    "two purposes": (
        [artifact(), artifact("b", purposes=("reset",), received_at=99)],
        ("conflict", "purposes_differ"),
    ),
    "unproven beside proven": ([artifact(), FORGED], "a"),
    "an unproven look-alike beside proven": (
        [artifact(), artifact("b", sender="x@sh0p.example", sender_verdict="fail")],
        "a",
    ),
    "a newer one of a message to somebody else": (
        [artifact(), artifact("b", received_at=99, warnings=["not_addressed"])],
        "a",
    ),
    "the same among unproven ones": (
        [
            artifact(sender_verdict="none"),
            artifact("b", received_at=99, sender_verdict="x", warnings=["signature_old"]),
        ],
        "a",
    ),
    "only messages to somebody else": (
        [
            artifact(warnings=["not_addressed"]),
            artifact("b", received_at=99, warnings=["not_addressed"]),
        ],
        "b",
    ),
    "two unproven senders": (
        [FORGED, artifact("b", sender="q@q.example", sender_verdict="none")],
        ("conflict", "senders_differ"),
    ),
    "no clear senders": (
        [
            artifact("a", sender="", sender_verdict="ambiguous"),
            artifact("b", sender="", sender_verdict="ambiguous", received_at=99),
        ],
        ("conflict", "senders_differ"),
    ),
    "what does not match stands in nobody's way": (
        [artifact(), artifact("b", sender="y@y", matched=False, received_at=99)],
        "a",
    ),
    "somebody else has the only one": ([claimed("a")], "a"),
    "I have one, and another sender wrote": ([claimed("a", MINE), OTHER_SENDER], "a"),
    "another has one, and another sender wrote": (
        [claimed("a"), OTHER_SENDER],
        ("conflict", "senders_differ"),
    ),
    "I have the old one, a new one came": (
        [claimed("a", MINE), artifact("b", received_at=11)],
        "b",
    ),
    "I have the old one, a new one for something else came": (
        [claimed("a", MINE), artifact("b", received_at=11, purposes=("reset",))],
        "b",
    ),
    "I have the new one": (
        [artifact("a", purposes=("reset",)), claimed("b", MINE, received_at=11)],
        "b",
    ),
    "I have one of two in a message": (
        [claimed("a", MINE, message_id="m"), artifact("b", message_id="m")],
        "a",
    ),
    "I have both in a message": (
        [claimed("a", MINE, message_id="m"), claimed("b", MINE, message_id="m")],
        ("conflict", "tied"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_right_one_is_chosen_in_any_order(case: str) -> None:
    artifacts, expected = CASES[case]

    assert {chosen(*order) for order in permutations(artifacts)} == {expected}


SENDERS = ("x@shop.example", "y@shop.example", "")
some_artifacts = st.lists(
    st.builds(
        lambda **fields: fields,
        sender=st.sampled_from(SENDERS),
        sender_verdict=st.sampled_from(["pass", "none", "fail"]),
        purposes=st.sampled_from([("login",), ("reset",), ()]),
        matched=st.booleans(),
        received_at=st.integers(0, 4),
        signed_at=st.none() | st.integers(0, 4),
        message_id=st.sampled_from(["m1", "m2", "m3", "m4"]),
        holder=st.sampled_from([None, None, MINE, OTHERS]),
    ),
    max_size=7,
).map(lambda every: [_made(number, fields) for number, fields in enumerate(every)])


def _made(number: int, fields: dict[str, object]) -> Artifact:
    holder = fields.pop("holder")
    if isinstance(holder, bytes):
        return claimed(f"art{number}", holder, **fields)
    return artifact(f"art{number}", **fields)


@settings(max_examples=500)
@given(some_artifacts, st.randoms(use_true_random=False))
def test_order_changes_nothing(artifacts: list[Artifact], random: Random) -> None:
    shuffled = list(artifacts)
    random.shuffle(shuffled)

    assert choose_artifact(shuffled, MINE) == choose_artifact(artifacts, MINE)
    assert supersessions(shuffled) == supersessions(artifacts)


@settings(max_examples=500)
@given(some_artifacts)
def test_it_is_never_a_guess(artifacts: list[Artifact]) -> None:
    """What is chosen matches, is proven if anything is, and has no rival of another sender."""
    choice = choose_artifact(artifacts, MINE)
    meant = choice.artifact
    if meant is None:
        return
    competing = [each for each in artifacts if each.matched and each.proven == meant.proven]

    assert meant.matched
    assert meant.proven or not any(each.proven and each.matched for each in artifacts)
    if not meant.belongs_to(MINE):
        assert {(each.sender, bool(each.sender) or each.message_id) for each in competing} == {
            (meant.sender, bool(meant.sender) or meant.message_id)
        }


@settings(max_examples=500)
@given(some_artifacts)
def test_something_is_chosen_or_contested_whenever_anything_matches(
    artifacts: list[Artifact],
) -> None:
    choice = choose_artifact(artifacts)
    matched = [each for each in artifacts if each.matched]
    one = choice.artifact is not None
    several = len(choice.conflict) > 1

    assert (one, several) in {(True, False), (False, True), (False, False)}
    assert (one or several) is bool(matched)
    assert (choice.why is not None) is several
    assert choice.why is None or choice.why in CONFLICTS


@settings(max_examples=500)
@given(some_artifacts, some_artifacts)
def test_unproven_mail_changes_nothing_among_the_proven(
    artifacts: list[Artifact], more: list[Artifact]
) -> None:
    """However much somebody writes under a sender's name."""
    proven = [each for each in artifacts if each.proven and each.matched]
    forged = [
        msgspec.structs.replace(each, id=f"f-{each.id}", sender_verdict="none") for each in more
    ]
    alone, disturbed = choose_artifact(proven, MINE), choose_artifact([*proven, *forged], MINE)
    if proven:
        assert (alone.artifact, alone.conflict) == (disturbed.artifact, disturbed.conflict)
    stands = supersessions([*proven, *forged])

    assert {each.id: stands[each.id] for each in proven} == supersessions(proven)


@settings(max_examples=300)
@given(some_artifacts)
def test_what_is_chosen_freely_is_not_superseded(artifacts: list[Artifact]) -> None:
    choice = choose_artifact(artifacts)
    stands = supersessions(artifacts)
    meant = (choice.artifact.id,) if choice.artifact else choice.conflict

    assert all(stands[each].superseded_by is None for each in meant)


def test_an_artifact_that_was_superseded_names_the_newest() -> None:
    stands = supersessions(
        [artifact("a"), artifact("b", received_at=11), artifact("c", received_at=12)]
    )

    assert [stands[id_].superseded_by for id_ in "abc"] == ["c", "c", None]
    assert [stands[id_].warnings for id_ in "abc"] == [(), (), (ORDER_BY_ARRIVAL,)]
    assert stands["a"].state is ArtifactState.SUPERSEDED


def test_signed_dates_need_no_warning_and_a_warning_goes_when_it_is_not_needed() -> None:
    warned = msgspec.structs.replace(SIGNED_NEW, warnings=(SENDER_UNPROVEN, ORDER_BY_ARRIVAL))

    assert supersessions([SIGNED_OLD, SIGNED_NEW])["new"].warnings == ()
    assert supersessions([SIGNED_OLD, warned])["new"].warnings == (SENDER_UNPROVEN,)
    assert supersessions([artifact("a")])["a"].warnings == ()


def test_an_empty_choice_says_nothing() -> None:
    assert choose_artifact([]) == ArtifactChoice()
