"""What is waited for, and the codes of why a message is not it."""

from typing import Any

import msgspec
import pytest

from oncebox.errors.mail import InboxInvalid
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import Message, MessageDocument
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    AuthResult,
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderStatus,
    SenderVerdict,
)
from oncebox.model.inboxes.wait_filter import (
    MISMATCH_REASONS,
    WaitFilter,
    check_filter,
    mismatch_reason,
)

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
DOCUMENT = MessageDocument(
    parsed=ParsedMail(
        status=ParseStatus.PARSED,
        subject="Verify your email",
        text="Sign up: your code is 123456, ticket T-9",
        sender=ParsedSender(
            address="ann@example.com", domain="example.com", standing=SenderStatus.SINGLE
        ),
        purposes=(Purpose.SIGNUP,),
    )
)


def why(
    message: Message = MESSAGE, document: MessageDocument | None = DOCUMENT, **wishes: Any
) -> str:
    """Return why a message is not what is waited for."""
    awaited = check_filter(WaitFilter(kind=ArtifactKind.CODE, **wishes))
    return mismatch_reason(awaited, message, document, MADE_AT)


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
        DOCUMENT, verdict=SenderVerdict(dmarc=AuthResult.FAIL, domain="example.com")
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
        check_filter(_filter(**wishes))


def test_only_what_asks_about_the_text_needs_the_text() -> None:
    needs = {"sender": "a.com", "token": "t", "subject": "*", "purpose": Purpose.LOGIN}
    plain = {"recipient": "a@b.com", "after": 3, "claim_key": "k", "host": "a.com"}

    assert all(_filter(**{name: value}).needs_document for name, value in needs.items())
    assert not any(_filter(**{name: value}).needs_document for name, value in plain.items())
    assert WaitFilter(kind=ArtifactKind.CODE).policy == InboxPolicy()
    assert all(code.isidentifier() for code in MISMATCH_REASONS)


def _filter(**fields: Any) -> WaitFilter:
    return WaitFilter(kind=ArtifactKind.CODE, **fields)
