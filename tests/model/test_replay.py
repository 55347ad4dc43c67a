"""Signs of a replay: what a signature says about for whom and when a mail was written."""

import pytest
from msgspec.structs import replace

from oncebox.model.inboxes.received_mail import (
    AuthResult,
    HeaderAddress,
    ParsedMail,
    ParseStatus,
    SenderVerdict,
    is_sender_proven,
)
from oncebox.model.inboxes.replay import Arrival, confirmed_recipient, note_replay_signs

DAY = 86_400_000
NOW = 100 * DAY
HOUR = 3_600_000
ARRIVAL = Arrival(recipient="box+tag@oncebox.test", received_at=NOW, inbox_created_at=NOW - HOUR)
SIGNED = SenderVerdict(
    dkim=AuthResult.PASS,
    dmarc=AuthResult.PASS,
    domain="example.com",
    details=("dkim_aligned", "signed_to"),
    signed_at=NOW,
)


def mail(*to: str, cc: tuple[str, ...] = ()) -> ParsedMail:
    """Return a mail to these addresses."""
    return ParsedMail(
        status=ParseStatus.PARSED,
        to=tuple(HeaderAddress(name="", address=each) for each in to),
        cc=tuple(HeaderAddress(name="", address=each) for each in cc),
    )


def signs(
    parsed: ParsedMail, verdict: SenderVerdict = SIGNED, arrival: Arrival = ARRIVAL
) -> tuple[set[str], bool]:
    """Return the signs, and whether the sender is proven nevertheless."""
    noted = note_replay_signs(verdict, parsed, arrival, DAY)
    return set(noted.details) - set(verdict.details), is_sender_proven(noted, "example.com")


@pytest.mark.parametrize(
    ("to", "addressed"),
    [
        ("box@oncebox.test", True),
        ("BOX+other@ONCEBOX.TEST", True),
        ("box2@oncebox.test", False),
        ("box@oncebox.test.evil.example", False),
        ("not an address", False),
        ("", False),
    ],
)
def test_a_signed_to_names_the_inbox_or_somebody_else(to: str, addressed: bool) -> None:
    expected = (set(), True) if addressed else ({"not_addressed"}, False)

    assert signs(mail(to)) == expected


def test_a_signed_to_that_programs_read_differently_names_nobody() -> None:
    ambiguous = replace(mail("box@oncebox.test"), warnings=("recipients_ambiguous",))

    assert signs(ambiguous) == ({"not_addressed"}, False)


def test_nobody_in_to_is_somebody_else() -> None:
    assert signs(mail()) == ({"not_addressed"}, False)


def test_only_signed_fields_name_the_inbox() -> None:
    in_cc = mail("eve@evil.example", cc=("box@oncebox.test",))
    both = replace(SIGNED, details=("dkim_aligned", "signed_to", "signed_cc"))

    assert signs(in_cc) == ({"not_addressed"}, False)
    assert signs(in_cc, both) == (set(), True)


def test_a_server_of_the_sender_does_not_excuse_a_mail_to_somebody_else() -> None:
    by_both = replace(SIGNED, details=(*SIGNED.details, "spf_aligned"))

    assert signs(mail("eve@evil.example"), by_both) == ({"not_addressed"}, False)


def test_forwards_are_proven_where_they_are_allowed_unless_they_are_old() -> None:
    forwards = replace(ARRIVAL, forwards=True)
    old = replace(SIGNED, signed_at=NOW - 2 * DAY)

    assert signs(mail("eve@evil.example"), arrival=forwards) == ({"not_addressed"}, True)
    assert signs(mail("eve@evil.example"), old, forwards) == (
        {"not_addressed", "signature_old"},
        False,
    )


@pytest.mark.parametrize(
    ("signed_at", "created_at", "old"),
    [
        (NOW, NOW - HOUR, False),
        (NOW - DAY, NOW - 9 * DAY, False),
        (NOW - DAY - 1, NOW - 9 * DAY, True),
        (NOW - 3 * HOUR, NOW - 2 * HOUR, False),
        (NOW - 3 * HOUR - 1, NOW - 2 * HOUR, True),
        (None, NOW, False),
    ],
)
def test_a_signature_is_old_by_its_age_or_if_the_inbox_is_younger(
    signed_at: int | None, created_at: int, old: bool
) -> None:
    verdict = replace(SIGNED, signed_at=signed_at)
    arrival = replace(ARRIVAL, inbox_created_at=created_at)
    by_server = replace(verdict, details=(*verdict.details, "spf_aligned"))

    assert signs(mail("box@oncebox.test"), verdict, arrival) == (
        {"signature_old"} if old else set(),
        not old,
    )
    # The sender's own server delivered it: late, but no replay.
    assert signs(mail("box@oncebox.test"), by_server, arrival) == (set(), True)


def test_a_signature_that_covers_no_recipient_says_so_and_one_that_is_not_there_says_nothing() -> (
    None
):
    bare = replace(SIGNED, details=("dkim_aligned",))
    unsigned = SenderVerdict(spf=AuthResult.PASS, domain="example.com", details=("spf_aligned",))

    assert signs(mail("eve@evil.example"), bare) == ({"recipient_unsigned"}, True)
    assert signs(mail("eve@evil.example"), unsigned) == (set(), True)


def test_the_envelope_is_believed_unless_a_signed_field_says_otherwise() -> None:
    recipient = ARRIVAL.recipient

    assert confirmed_recipient(SIGNED, mail("Box+TAG@oncebox.test"), recipient) == recipient
    assert confirmed_recipient(SIGNED, mail("box@oncebox.test"), recipient) == ""
    assert confirmed_recipient(SenderVerdict(), mail("eve@evil.example"), recipient) == recipient


def test_a_forward_is_for_its_envelope_where_forwards_are_allowed() -> None:
    somewhere = mail("eve@evil.example")
    noted = note_replay_signs(SIGNED, somewhere, ARRIVAL, DAY)
    allowed = note_replay_signs(SIGNED, somewhere, replace(ARRIVAL, forwards=True), DAY)

    assert confirmed_recipient(noted, somewhere, ARRIVAL.recipient) == ""
    assert confirmed_recipient(allowed, somewhere, ARRIVAL.recipient) == ARRIVAL.recipient
