"""Awaited messages: the first free one by number; nothing replaces another."""

from itertools import permutations

import pytest

from oncebox.model.inboxes.artifact import Artifact, choose_message
from oncebox.model.inboxes.inbox import Inbox, InboxPolicy, InboxState
from oncebox.model.inboxes.message import Message, MessageDocument, awaited_artifact
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus, SenderVerdict
from tests.model.test_artifact_choice import MINE, artifact, claimed


def chosen(*artifacts: Artifact) -> str | None:
    """Return the id of what is chosen, whatever the order of the candidates."""
    found = {choose_message(each, MINE) for each in permutations(artifacts)}
    (one,) = found
    return one.id if one else None


def test_the_first_free_message_is_chosen_whoever_sent_it() -> None:
    first = claimed("a", sequence=1)
    other = artifact("b", sequence=2, sender="y@other.example", purposes=["reset"])

    assert chosen(first, other, artifact("c", sequence=3)) == "b"


def test_one_that_the_claim_holds_comes_first_until_it_is_used() -> None:
    held = claimed("c", MINE, sequence=3, sender_verdict="none")
    used = claimed("c", MINE, sequence=3, used_at=5)
    free = artifact("a", sequence=1)

    assert chosen(held, free) == "c"
    assert chosen(used, free) == "a"


def test_where_none_is_free_the_refusal_is_of_the_own_one() -> None:
    used = claimed("b", MINE, sequence=2, used_at=5)

    assert chosen(claimed("a", sequence=1), used) == "b"
    assert chosen(claimed("a", sequence=1)) == "a"
    assert chosen() is None


@pytest.mark.parametrize("worse", [{"sender_verdict": "none"}, {"warnings": ["not_addressed"]}])
def test_mail_that_is_not_proven_or_replayed_is_not_granted_beside_proven_mail(
    worse: dict[str, object],
) -> None:
    early = artifact("a", sequence=1, **worse)

    assert chosen(early, artifact("b", sequence=2)) == "b"
    assert chosen(early) == "a"


@pytest.mark.parametrize(
    ("details", "verdict"),
    [
        (("dkim_aligned",), "none"),
        (("dkim_aligned", "signed_subject"), "pass"),
        (("dkim_aligned", "spf_aligned"), "pass"),
    ],
)
def test_a_signature_without_the_subject_does_not_prove_a_message(
    details: tuple[str, ...], verdict: str
) -> None:
    inbox = Inbox(
        id="inb", tenant="acme", email="a@oncebox.test", attempt_id=None, label="", owner=None,
        state=InboxState.ACTIVE, created_at=1, active_until=None, due_at=None, metadata={},
        policy=InboxPolicy(senders=("shop.example",)),
    )  # fmt: skip
    message = Message(
        id="msg", tenant="acme", inbox_id="inb", sequence=1, status="parsed", received_at=2,
        size=1, recipient="a@oncebox.test", sender="x@shop.example", sender_domain="shop.example",
        sender_verdict="pass", matched=True, duplicates=0, warnings=(), delivery_id="dlv",
        payload_id="dlv", document_size=1,
    )  # fmt: skip
    document = MessageDocument(
        parsed=ParsedMail(status=ParseStatus.PARSED), verdict=SenderVerdict(details=details)
    )
    found = awaited_artifact("art", inbox, message, document)

    assert (found.sender_verdict, found.proven) == (verdict, verdict == "pass")
    assert ("sender_unproven" in found.warnings) is (verdict != "pass")
