"""What is waited for, and the codes of why a message is not it."""

from typing import Any

import msgspec
import pytest

from oncebox.errors.mail import InboxInvalid
from oncebox.model.inboxes.inbox import Inbox, InboxPolicy, InboxState
from oncebox.model.inboxes.message import Message, MessageDocument
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    AuthResult,
    HeaderAddress,
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
    ),
    verdict=SenderVerdict(dmarc=AuthResult.PASS, domain="example.com"),
)
INBOX = Inbox(
    id="inb_1",
    tenant="default",
    email="box@oncebox.test",
    attempt_id=None,
    label="",
    owner=None,
    state=InboxState.ACTIVE,
    created_at=MADE_AT,
    active_until=None,
    due_at=None,
    metadata={},
    policy=InboxPolicy(),
)


def why(
    message: Message = MESSAGE,
    document: MessageDocument | None = DOCUMENT,
    inbox: Inbox = INBOX,
    **wishes: Any,
) -> str:
    """Return why a message is not what is waited for."""
    awaited = check_filter(WaitFilter(kind=ArtifactKind.CODE, **wishes))
    return mismatch_reason(awaited, message, document, inbox)


@pytest.mark.parametrize(
    ("wishes", "code"),
    [
        ({}, ""),
        ({"senders": ("Ann@Example.com",)}, ""),
        ({"senders": ("example.com",)}, ""),
        ({"senders": ("example.org", "example.com")}, ""),
        ({"senders": ("example.org",)}, "sender_not_allowed"),
        ({"senders": ("*.example.com",)}, "sender_not_allowed"),
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

    assert why(document=forged, senders=("example.com",)) == "sender_unauthenticated"


def test_a_sender_that_is_waited_for_must_be_proven() -> None:
    unproven = msgspec.structs.replace(DOCUMENT, verdict=SenderVerdict())
    off = msgspec.structs.replace(INBOX, policy=InboxPolicy(authenticated=False))

    assert why(document=unproven, senders=("example.com",)) == "sender_unauthenticated"
    assert why(document=unproven, inbox=off, senders=("example.com",)) == ""
    assert why(document=unproven) == ""


def test_mail_of_this_machine_needs_no_proof_in_a_domain_that_the_internet_does_not_know() -> None:
    local = SenderVerdict(details=("nothing_to_judge",))
    unproven = msgspec.structs.replace(DOCUMENT, verdict=local)
    public = msgspec.structs.replace(INBOX, email="box@inbox.acme.com")

    assert why(document=unproven, senders=("example.com",)) == ""
    assert why(document=unproven, inbox=public, senders=("example.com",)) == (
        "sender_unauthenticated"
    )


def test_a_recipient_that_only_the_envelope_names_is_another_than_the_signed_one() -> None:
    tagged = "box+tag@oncebox.test"
    verdict = SenderVerdict(domain="example.com", details=("dkim_aligned", "signed_to"))
    to = (HeaderAddress(name="", address="box@oncebox.test"),)
    parsed = msgspec.structs.replace(DOCUMENT.parsed, to=to)
    signed = msgspec.structs.replace(DOCUMENT, parsed=parsed, verdict=verdict)

    assert why(document=signed, recipient=tagged) == "recipient_differs"
    assert why(document=signed) == ""


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
        {"senders": ("no domain",)},
        {"senders": ("example.com", "a@b@c")},
        {"recipient": "box"},
        {"subject": ""},
        {"subject": "a\nb"},
        {"subject": "*" * 201},
        {"claim_key": ""},
        {"host": "https://exa mple.com"},
    ],
)
def test_a_wish_that_means_nothing_is_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(InboxInvalid):
        check_filter(_filter(**wishes))


def test_only_what_asks_about_the_text_needs_the_text() -> None:
    needs = {
        "senders": ("a.com",), "token": "t", "subject": "*", "purpose": Purpose.LOGIN,
        "recipient": "a@b.com",
    }  # fmt: skip
    plain = {"after": 3, "claim_key": "k", "host": "a.com"}

    assert all(_filter(**{name: value}).needs_document for name, value in needs.items())
    assert not any(_filter(**{name: value}).needs_document for name, value in plain.items())
    assert WaitFilter(kind=ArtifactKind.CODE).policy == InboxPolicy()
    assert all(code.isidentifier() for code in MISMATCH_REASONS)


def _filter(**fields: Any) -> WaitFilter:
    return WaitFilter(kind=ArtifactKind.CODE, **fields)
