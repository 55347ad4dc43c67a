"""Signs of a replay: a signed mail that was meant for somebody else, or was signed long ago.

A signature proves who wrote a mail, not who delivered it: whoever received it can deliver it
again, to an inbox of their choice. Only what the signature covers says for whom it was written.
"""

from collections.abc import Iterable

import msgspec

from oncebox.errors.mail import AddressInvalid
from oncebox.model.inboxes.addresses import address_key, sender_key
from oncebox.model.inboxes.received_mail import (
    NOT_ADDRESSED,
    RECIPIENT_UNSIGNED,
    RECIPIENTS_AMBIGUOUS,
    SIGNATURE_OLD,
    HeaderAddress,
    ParsedMail,
    SenderVerdict,
)

#: these make a sender unproven
REPLAY_SIGNS = (NOT_ADDRESSED, SIGNATURE_OLD)
#: milliseconds by which the clocks of signer and receiver may differ
_CLOCK_SLACK = 3_600_000


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """To which inbox a mail was delivered, and when; times in milliseconds."""

    #: as in RCPT TO, which the client chose
    recipient: str
    received_at: int
    inbox_created_at: int
    #: whether the inbox accepts mail that was addressed to somebody else
    forwards: bool = False


def note_replay_signs(
    verdict: SenderVerdict, parsed: ParsedMail, arrival: Arrival, longest_age: int
) -> SenderVerdict:
    """Return a verdict with the signs of a replay; with one of them the sender is unproven."""
    if "dkim_aligned" not in verdict.details:
        return verdict
    signs = tuple(_signs(verdict, parsed, arrival, longest_age))
    tolerated = {NOT_ADDRESSED} if arrival.forwards else set()
    unproven = not tolerated.issuperset(set(signs).intersection(REPLAY_SIGNS))
    return msgspec.structs.replace(
        verdict,
        domain="" if unproven else verdict.domain,
        details=(*verdict.details, *signs),
    )


def _signs(
    verdict: SenderVerdict, parsed: ParsedMail, arrival: Arrival, longest_age: int
) -> Iterable[str]:
    signed = _signed_recipients(verdict, parsed)
    # SPF proves that the sender's own server delivered the mail, so that it is no replay.
    replayable = "spf_aligned" not in verdict.details
    # Where programs disagree about the recipients, the signer may have meant none but the other.
    unclear = RECIPIENTS_AMBIGUOUS in parsed.warnings
    if signed is not None and (unclear or not _names_inbox(signed, arrival.recipient)):
        yield NOT_ADDRESSED
    if replayable and _is_old(verdict, arrival, longest_age):
        yield SIGNATURE_OLD
    if replayable and signed is None:
        yield RECIPIENT_UNSIGNED


def _is_old(verdict: SenderVerdict, arrival: Arrival, longest_age: int) -> bool:
    if verdict.signed_at is None:
        return False
    oldest = max(arrival.received_at - longest_age, arrival.inbox_created_at - _CLOCK_SLACK)
    return verdict.signed_at < oldest


def confirmed_recipient(verdict: SenderVerdict, parsed: ParsedMail, recipient: str) -> str:
    """Return the recipient in RCPT TO; nothing if signed To and Cc do not name exactly it."""
    if NOT_ADDRESSED in verdict.details:
        return recipient if verdict.domain else ""  # a domain: the inbox accepts forwards
    signed = _signed_recipients(verdict, parsed)
    if signed is None or _exact_key(recipient) in {_exact_key(each.address) for each in signed}:
        return recipient
    return ""


def _signed_recipients(
    verdict: SenderVerdict, parsed: ParsedMail
) -> tuple[HeaderAddress, ...] | None:
    """Return the addresses in the signed ones of To and Cc; None if neither is signed."""
    fields = {"signed_to": parsed.to, "signed_cc": parsed.cc}
    if not fields.keys() & set(verdict.details):
        return None
    return tuple(
        each for code, field in fields.items() if code in verdict.details for each in field
    )


def _names_inbox(signed: Iterable[HeaderAddress], recipient: str) -> bool:
    """Return whether one of the addresses is the inbox's; a plus tag does not count."""
    wanted = _inbox_key(recipient)
    return any(_inbox_key(each.address) == wanted for each in signed)


def _inbox_key(address: str) -> str:
    local, _, domain = address.rpartition("@")
    try:
        return address_key(local, domain)
    except AddressInvalid:
        return address


def _exact_key(address: str) -> str:
    try:
        return sender_key(address)
    except AddressInvalid:
        return address
