"""Sender verdicts: which headers only report one, and whether ours covers a code or link.

Anybody can write header fields with results. Only our own check of the SMTP session counts.

A signature covers the body and the fields it names. A mail can be sent again with another subject
if the subject is not signed, so a code that occurs only there is not proven. SPF covers the whole
mail, because the sender's own server delivered it.
"""

import re

from oncebox.mail.languages import folding
from oncebox.model.inboxes.received_mail import (
    Candidate,
    ParsedMail,
    SenderVerdict,
    covers_subject,
)

#: fields with verdicts about the sender or the content
_REPORTED_RESULTS = frozenset({
    "authentication-results", "authentication-results-original", "arc-authentication-results",
    "received-spf", "x-authentication-results", "x-dkim-result", "x-dmarc-result",
    "x-dmarc-status", "x-google-dkim-signature-result", "x-original-authentication-results",
    "x-received-spf", "x-spf-result", "domainkey-status",
})  # fmt: skip


def is_reported_result(name: str) -> bool:
    """Say whether a field, by its name in lower case, reports a verdict."""
    return name in _REPORTED_RESULTS or name.startswith(("x-spam", "x-rspamd-"))


#: characters of a text that are searched
_SEARCHED = 256 * 1024
#: separators between the groups of a code
_GROUP_GAP = "[\\s\\-\u00ad\u200b-\u200d\u2010-\u2015\u2060\ufeff]{0,3}"


def covers_candidate(verdict: SenderVerdict, parsed: ParsedMail, candidate: Candidate) -> bool:
    """Say whether a verdict that proves the sender also covers a candidate."""
    if candidate.where != "subject" or covers_subject(verdict):
        return True
    return _occurs_in(candidate.value, parsed.text[:_SEARCHED])


def _occurs_in(value: str, text: str) -> bool:
    """Say whether a text contains a value as a whole word."""
    characters = [each for each in _comparable(value) if each.isalnum()]
    spelled = _GROUP_GAP.join(map(re.escape, characters))
    found = re.search(rf"(?<!\w){spelled}(?!\w)", _comparable(text)) if characters else None
    return found is not None


def _comparable(text: str) -> str:
    return folding.fold_digits(text).lower()
