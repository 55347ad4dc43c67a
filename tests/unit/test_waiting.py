"""What is waited for, and the codes of why a message is not it."""

from typing import Any

import msgspec
import pytest

from oncebox.mail_errors import InboxInvalid
from oncebox.model.candidate import Kind
from oncebox.model.filing import Document, Message
from oncebox.model.inbox_policy import InboxPolicy
from oncebox.model.message import Parsed, Sender, SenderStanding, Status
from oncebox.model.purpose import Purpose
from oncebox.model.verdict import Result, Verdict
from oncebox.model.waiting import REASONS, Awaited, checked, trouble

MADE_AT = 1_000
MESSAGE = Message(
    id="msg_1",
    tenant="default",
    inbox_id="inb_1",
    sequence=7,
    status="parsed",
    received_at=MADE_AT,
    size=1,
    recipient="Box+tag@oncebox.test",
    sender="ann@example.com",
    sender_domain="example.com",
    sender_verdict="none",
    matched=True,
    duplicates=0,
    warnings=(),
    delivery_id="dlv_1",
    payload_id="pay_1",
    document_size=1,
)
DOCUMENT = Document(
    parsed=Parsed(
        status=Status.PARSED,
        subject="Verify your email",
        text="Sign up: your code is 123456, ticket T-9",
        sender=Sender(
            address="ann@example.com", domain="example.com", standing=SenderStanding.SINGLE
        ),
    )
)


def why(message: Message = MESSAGE, document: Document | None = DOCUMENT, **wishes: Any) -> str:
    """Return why a message is not what is waited for."""
    awaited = checked(Awaited(kind=Kind.CODE, **wishes))
    return trouble(awaited, message, document, MADE_AT)


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({}, ""),
        ({"sender": "Ann@Example.com"}, ""),
        ({"sender": "example.com"}, ""),
        ({"sender": "example.org"}, "sender_not_allowed"),
        ({"sender": "*.example.com"}, "sender_not_allowed"),
        ({"purpose": Purpose.SIGNUP}, ""),
        ({"purpose": Purpose.RESET}, "purpose_differs"),
        ({"token": "t-9"}, ""),
        ({"token": "T-8"}, "token_missing"),
        ({"subject": "verify*"}, ""),
        ({"subject": "reset*"}, "subject_differs"),
        ({"recipient": "box+tag@ONCEBOX.test"}, ""),
        ({"recipient": "box@oncebox.test"}, "recipient_differs"),
        ({"after": 6}, ""),
        ({"after": 7}, "before_after"),
    ],
)
def test_every_wish_has_its_code(wishes: dict[str, Any], code: str) -> None:
    assert why(**wishes) == code


def test_what_came_before_the_inbox_was_made_is_not_for_it() -> None:
    early = msgspec.structs.replace(MESSAGE, received_at=MADE_AT - 1)

    assert why(early) == "before_inbox"
    assert why(MESSAGE) == ""


def test_a_forged_sender_is_never_the_one_that_is_waited_for() -> None:
    forged = msgspec.structs.replace(
        DOCUMENT, verdict=Verdict(dmarc=Result.FAIL, domain="example.com")
    )

    assert why(document=forged, sender="example.com") == "sender_unauthenticated"


def test_the_inbox_s_own_policy_comes_first() -> None:
    unmatched = msgspec.structs.replace(MESSAGE, matched=False)
    mismatch = msgspec.structs.replace(DOCUMENT, mismatch="token_missing")

    assert why(unmatched, mismatch) == "token_missing"
    assert why(unmatched, None) == "policy"


def test_what_is_no_longer_kept_does_not_fit_by_chance() -> None:
    assert why(document=None, subject="verify*") == "purged"
    assert why(document=None) == ""


@pytest.mark.parametrize(
    "wishes",
    [
        {"sender": "no domain"},
        {"sender": "a@b@c"},
        {"recipient": "box"},
        {"subject": ""},
        {"subject": "a\nb"},
        {"subject": "*" * 201},
        {"claim_key": ""},
        {"host": "https://exa mple.com"},
    ],
)
def test_a_wish_that_means_nothing_is_refused(wishes: dict[str, str]) -> None:
    with pytest.raises(InboxInvalid):
        checked(Awaited(kind=Kind.CODE, **wishes))  # type: ignore[arg-type]


def test_only_what_asks_about_the_text_needs_the_text() -> None:
    needs = {"sender": "a.com", "token": "t", "subject": "*", "purpose": Purpose.LOGIN}
    plain = {"recipient": "a@b.com", "after": 3, "claim_key": "k", "host": "a.com"}

    assert all(Awaited(kind=Kind.CODE, **{n: v}).reads for n, v in needs.items())  # type: ignore[arg-type]
    assert not any(Awaited(kind=Kind.CODE, **{n: v}).reads for n, v in plain.items())  # type: ignore[arg-type]
    assert Awaited(kind=Kind.CODE).policy == InboxPolicy()
    assert all(code.isidentifier() for code in REASONS)
