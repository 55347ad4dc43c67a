"""Findings: what was found in a mail, sealed before anything is written."""

from oncebox import ids
from oncebox.ledger.inboxes.strongbox import Strongbox
from oncebox.mail.vouching import vouches
from oncebox.mail_errors import AddressInvalid
from oncebox.model.address import sender_key
from oncebox.model.artifact import (
    UNPROVEN,
    WRAPPED,
    ArtifactValue,
    NewArtifact,
    in_thousandths,
    worth_keeping,
)
from oncebox.model.candidate import Candidate, Kind
from oncebox.model.filing import sender_verdict
from oncebox.model.message import Parsed, Sender
from oncebox.model.purpose import purposes
from oncebox.model.verdict import Verdict, trusted

#: characters of a text in which words tell what it is about
_SEARCHED = 256 * 1024
#: the detail of a verdict: the aligned signature covers Date
_DATE_IS_SIGNED = "signed_date"


def findings(  # noqa: PLR0913 - whose mail it is, what it says, and what is known of it
    strongbox: Strongbox,
    tenant: str,
    inbox_id: str,
    parsed: Parsed,
    verdict: Verdict,
    new_id: ids.NewId = ids.new,
    *,
    authenticated: bool = False,
) -> tuple[NewArtifact, ...]:
    """Return the artifacts of a mail for one inbox, each sealed for its own row.

    ``authenticated`` says that the inbox expects only what its sender vouches for.
    """
    found = worth_keeping(parsed.found)
    if not found:
        return ()
    about = tuple(sorted(map(str, purposes(f"{parsed.subject}\n{parsed.text[:_SEARCHED]}"))))
    proven = sender_verdict(parsed, verdict) == "pass"
    ranks = dict.fromkeys(Kind, 0)
    made = []
    for candidate, tied in found:
        id_, kind = new_id("art"), candidate.kind
        vouched = vouches(verdict, parsed, candidate)
        value = ArtifactValue(
            value=_sound(candidate.value),
            shown=_sound(candidate.shown),
            wrapped=candidate.wrapped,
            target=_sound(candidate.target),
        )
        made.append(
            NewArtifact(
                id=id_,
                event_id=new_id("evt"),
                kind=kind,
                mark=strongbox.mark(tenant, inbox_id, kind, value.value),
                sealed=strongbox.seal(tenant, id_, value),
                rank=ranks[kind],
                confidence=in_thousandths(candidate.confidence),
                tied=tied,
                purposes=about,
                sender=_sender(parsed.sender),
                signed_at=_signed_at(parsed, verdict) if vouched else None,
                vouched=vouched,
                matched=vouched or not authenticated,
                warnings=_warnings(candidate, proven=proven and vouched),
            )
        )
        ranks[kind] += 1
    return tuple(made)


def _sender(sender: Sender) -> str:
    """Return an address as it is compared; nothing where there is not exactly one."""
    if sender.standing != "single":
        return ""
    try:
        return sender_key(sender.address)
    except AddressInvalid:
        return ""


def _signed_at(parsed: Parsed, verdict: Verdict) -> int | None:
    """Return the date of a mail, if the one who sent it has signed it."""
    signed = _DATE_IS_SIGNED in verdict.details and trusted(verdict, parsed.sender.domain)
    return parsed.date if signed else None


def _warnings(candidate: Candidate, *, proven: bool) -> tuple[str, ...]:
    told = ((UNPROVEN, not proven), (WRAPPED, bool(candidate.wrapped)))
    return tuple(code for code, holds in told if holds)


def _sound(text: str) -> str:
    """Return a text that can be written down: lone surrogates are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
