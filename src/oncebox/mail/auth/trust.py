"""Trust in verdicts: reported results are ignored, ours count for what they cover.

Anybody can write header fields with results. Only our own check of the SMTP session counts.

A signature covers the body and the fields it names. A mail can be sent again with another subject
if the subject is not signed, so a code that occurs only there is not proven. SPF covers the whole
mail, because the sender's own server delivered it.
"""

import re
from collections.abc import Iterable

from oncebox.mail.languages import folding
from oncebox.model.inboxes.received_mail import Candidate, ParsedMail, SenderVerdict

#: as ``Parsed.headers``
Headers = tuple[tuple[str, tuple[str, ...]], ...]

#: fields with verdicts about the sender or the content
REPORTED_RESULTS = frozenset({
    "authentication-results",
    "authentication-results-original",
    "arc-authentication-results",
    "received-spf",
    "x-authentication-results",
    "x-dkim-result",
    "x-dmarc-result",
    "x-dmarc-status",
    "x-google-dkim-signature-result",
    "x-original-authentication-results",
    "x-received-spf",
    "x-spf-result",
    "domainkey-status",
})  # fmt: skip
#: signatures, and fields of other checkers; meaningful only after our own check
REPORTED_SIGNATURES = frozenset({
    "arc-message-signature",
    "arc-seal",
    "dkim-filter",
    "dkim-signature",
    "domainkey-signature",
    "x-dkim",
    "x-domainkeys",
    "x-google-dkim-signature",
    "x-originating-ip",
    "x-sender-ip",
    "x-virus-scanned",
    "x-virus-status",
})  # fmt: skip
_REPORTED_PREFIXES = (
    "x-amavis-",
    "x-barracuda-",
    "x-forefront-",
    "x-ironport-",
    "x-microsoft-antispam",
    "x-mimecast-",
    "x-ms-exchange-",
    "x-msfblmtp",
    "x-oncebox-",
    "x-proofpoint-",
    "x-rspamd-",
    "x-spam",
    "x-ham-",
)


def is_reported_result(name: str) -> bool:
    """Say whether a field, by its name in lower case, reports a verdict."""
    return name in REPORTED_RESULTS or name.startswith(("x-spam", "x-rspamd-"))


def is_reported_check(name: str) -> bool:
    """Say whether a field, by its name in lower case, is a claim about checks of the mail."""
    return (
        name in REPORTED_RESULTS
        or name in REPORTED_SIGNATURES
        or name.startswith(_REPORTED_PREFIXES)
    )


def without_reported_checks(headers: Iterable[tuple[str, tuple[str, ...]]]) -> Headers:
    """Return the headers without such claims."""
    return tuple((name, values) for name, values in headers if not is_reported_check(name))


#: characters of a text that are searched
_SEARCHED = 256 * 1024
#: separators between the groups of a code
_GROUP_GAP = "[\\s\\-\u00ad\u200b-\u200d\u2010-\u2015\u2060\ufeff]{0,3}"


def covers_candidate(verdict: SenderVerdict, parsed: ParsedMail, candidate: Candidate) -> bool:
    """Say whether a verdict that proves the sender also covers a candidate."""
    if candidate.where != "subject" or _covers_subject(verdict):
        return True
    return _occurs_in(candidate.value, parsed.text[:_SEARCHED])


def _covers_subject(verdict: SenderVerdict) -> bool:
    by_signature = "dkim_aligned" in verdict.details and "spf_aligned" not in verdict.details
    return not by_signature or "signed_subject" in verdict.details


def _occurs_in(value: str, text: str) -> bool:
    """Say whether a text contains a value as a whole word."""
    characters = [each for each in _comparable(value) if each.isalnum()]
    spelled = _GROUP_GAP.join(map(re.escape, characters))
    found = re.search(rf"(?<!\w){spelled}(?!\w)", _comparable(text)) if characters else None
    return found is not None


def _comparable(text: str) -> str:
    return folding.fold_digits(text).lower()
