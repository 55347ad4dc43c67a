"""Verdicts: what is known about who sent a mail, and how."""

from enum import StrEnum

import msgspec

#: the road on which we saw the sender's server ourselves
SMTP = "smtp"


class Result(StrEnum):
    """How one check ended; the words are those of RFC 8601."""

    #: it is proven
    PASS = "pass"  # noqa: S105 - no password
    #: it is disproved
    FAIL = "fail"
    #: the domain's owner believes it is not genuine, without saying so firmly
    SOFTFAIL = "softfail"
    #: nothing is said for or against it
    NEUTRAL = "neutral"
    #: there is nothing to check
    NONE = "none"
    #: it could not be checked now
    TEMPERROR = "temperror"
    #: what the sender published or signed cannot be understood
    PERMERROR = "permerror"


#: every code a verdict's details may hold, and what it means
DETAILS: dict[str, str] = {
    "not_checked": "senders are not checked: `mail.authenticate` is off",
    "nothing_to_judge": "a mail from a private address without a signature; nobody was asked",
    "timed_out": "not everything was answered in time",
    "check_failed": "a check broke off, by a fault of ours",
    "from_missing": "there is no From address with a domain, so nothing can be aligned with it",
    "from_ambiguous": "it is not clear which address From names, so nothing is aligned with it",
    "spf_private_client": "the client's address is not public, so SPF says nothing about it",
    "spf_limits": "the SPF record asks for more look-ups, or is larger, than is allowed",
    "spf_invalid": "the SPF record cannot be understood",
    "spf_anybody": "the SPF record lets everybody send, so its pass counts for nothing",
    "spf_aligned": "SPF passed for the domain in From",
    "dkim_aligned": "a signature of the domain in From is good",
    "dkim_many": "there are more signatures than are checked",
    "dkim_invalid": "a signature is not spelled as it must be",
    "dkim_odd_lines": "the header has line ends that programs read differently",
    "dkim_from_unsigned": "a signature leaves From uncovered",
    "dkim_body_changed": "the body is not the one that was signed",
    "dkim_mismatch": "the header is not the one that was signed, or the key is another",
    "dkim_body_partly": "a signature covers only the beginning of the body (l=)",
    "dkim_weak_key": "a key has fewer than 1024 bits",
    "dkim_weak_algorithm": "a signature uses SHA-1",
    "dkim_no_key": "the signer publishes no such key, or has withdrawn it",
    "dkim_key_invalid": "the published key cannot be used for this signature",
    "dkim_key_unreachable": "the published key could not be asked for",
    "dkim_testing": "the signer says that it only tests DKIM",
    "dkim_expired": "a signature's time has passed",
    "dkim_future": "a signature is dated in the future",
    "signed_date": "the aligned signature covers Date",
    "signed_from": "the aligned signature covers From",
    "signed_subject": "the aligned signature covers Subject",
    "signed_to": "the aligned signature covers To",
    "dmarc_several": "several DMARC records are published, which counts as none",
    "dmarc_invalid": "the DMARC record cannot be understood",
    "dmarc_policy_none": "the domain's owner asks for nothing when DMARC fails",
    "dmarc_policy_quarantine": "the domain's owner asks to set mail aside when DMARC fails",
    "dmarc_policy_reject": "the domain's owner asks to refuse mail when DMARC fails",
}


class DkimResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one signature proves."""

    result: Result
    #: the domain that signed, in lower case
    domain: str = ""
    selector: str = ""
    #: those of date, from, subject and to of which every copy in the mail is signed
    covers: tuple[str, ...] = ()
    #: codes of ``DETAILS``
    flags: tuple[str, ...] = ()
    #: when it was signed and until when it counts, in milliseconds, where it says so
    signed_at: int | None = None
    expires_at: int | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a mail, as far as it can be proven."""

    spf: Result = Result.NONE
    dkim: Result = Result.NONE
    dmarc: Result = Result.NONE
    #: the domain in From, where a check that passed is aligned with it; otherwise empty
    domain: str = ""
    #: who checked: ``smtp`` is our own check, other roads name theirs
    origin: str = SMTP
    #: codes of ``DETAILS``, never a text of the sender or of a name server
    details: tuple[str, ...] = ()


def trusted(verdict: Verdict, domain: str) -> bool:
    """Say whether a mail with this domain in From is proven to come from it.

    DMARC passed, or it has nothing to say and a signature or SPF is aligned all the same.
    """
    if not domain or verdict.domain != domain or verdict.dmarc is Result.FAIL:
        return False
    return Result.PASS in {verdict.dmarc, verdict.dkim, verdict.spf}
