"""Vouching: whether what proves the sender of a mail also covers what was found in it.

A signature covers the body and the fields it names. Whoever has such a mail can send it on with
another subject if that is not one of them, and a code that stands nowhere else is then anybody's.
SPF vouches for the whole mail: its own server brought it.
"""

import re

from oncebox.mail import codes_folding
from oncebox.model.candidate import Candidate
from oncebox.model.message import Parsed
from oncebox.model.verdict import Verdict

#: how much of a text is searched
_SEARCHED = 256 * 1024
#: what may stand between the characters of a code that is shown in groups
_GAP = "[\\s\\-\u00ad\u200b-\u200d\u2010-\u2015\u2060\ufeff]{0,3}"


def vouches(verdict: Verdict, parsed: Parsed, candidate: Candidate) -> bool:
    """Say whether a verdict that proves the sender holds for this very candidate too."""
    if candidate.where != "subject" or _covers_subject(verdict):
        return True
    return _stands_in(candidate.value, parsed.text[:_SEARCHED])


def _covers_subject(verdict: Verdict) -> bool:
    by_signature = "dkim_aligned" in verdict.details and "spf_aligned" not in verdict.details
    return not by_signature or "signed_subject" in verdict.details


def _stands_in(value: str, text: str) -> bool:
    """Say whether a text has a value as a word of its own."""
    characters = [each for each in _folded(value) if each.isalnum()]
    spelled = _GAP.join(map(re.escape, characters))
    found = re.search(rf"(?<!\w){spelled}(?!\w)", _folded(text)) if characters else None
    return found is not None


def _folded(text: str) -> str:
    return codes_folding.digits(text).lower()
