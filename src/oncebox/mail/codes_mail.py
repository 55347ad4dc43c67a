"""What is known of a whole mail: its language, what it speaks of, whether there is money in it."""

import functools
import re
from collections import Counter
from collections.abc import Sequence

from oncebox.mail import codes_foreign
from oncebox.mail.codes_lexicon import Hit, Lexicon, Sense, Tongues
from oncebox.mail.codes_place import Sheet, Span

#: so much of a text shows what it is about
_BEGINNING = 2_000
#: a mail that is no longer says one thing, as texts to telephones do
_SHORT = 250
_NOTHING_ELSE = 24
#: how the subjects of answers begin, and what those of issues and patches have
_DISCUSSED = re.compile(
    r"^\s*(?:re|aw|sv|vs|antw|odp|ynt|rif|r)(?:\[\d+\])?\s*:|\([a-z ]{0,20}[#!]\d{1,9}\)"
    r"|\[patch\b|\[[^\[\]]{0,60}#\d{1,9}\]"
    r"|^(?:\[[^\[\]]{0,60}\] ?)?[\[(][a-z]{2,12} \d{1,9}[\])]"
)


class Mail:
    """What is known of the whole mail; asked for once, and only when it is needed."""

    def __init__(self, sheets: Sequence[Sheet], words: Lexicon) -> None:
        """Take the pages, the subject first."""
        self.sheets = sheets
        self.words = words
        self.subject = sheets[0]
        # Parts tell the same, or one of them is a stub that asks to look at the other.
        self._main = max(sheets, key=lambda sheet: len(sheet.text))
        self.length = max((len(sheet.text) for sheet in sheets[1:]), default=0)
        self._hits: dict[tuple[int, int, int], list[Hit]] = {}

    @functools.cached_property
    def tongues(self) -> Tongues:
        """The languages that it is in."""
        return self.words.languages(f"{self.subject.plain} {self._main.plain[:_BEGINNING]}")

    def hits(self, sheet: Sheet, span: Span) -> list[Hit]:
        """Return the words in a stretch of a page."""
        key = (id(sheet), span.start, span.end)
        known = self._hits.get(key)
        if known is None:
            known = self._hits[key] = self.words.hits(
                sheet.plain, span.start, span.end, self.tongues
            )
        return known

    @functools.cached_property
    def topics(self) -> Counter[Sense]:
        """How many different words of each sense the mail has, in its beginning."""
        words = {
            (hit.sense, sheet.plain[hit.start : hit.end])
            for sheet in {self.subject, self._main}
            for hit in self.hits(sheet, Span(0, min(len(sheet.plain), _BEGINNING)))
        }
        return Counter(sense for sense, _ in words)

    @functools.cached_property
    def has_amounts(self) -> bool:
        """Whether there are amounts of money, as in mails about orders."""
        return any(codes_foreign.has_amount(sheet.text[:_BEGINNING]) for sheet in self.sheets)

    @functools.cached_property
    def subject_senses(self) -> frozenset[Sense]:
        """What the subject speaks of."""
        whole = Span(0, len(self.subject.plain))
        return frozenset(hit.sense for hit in self.hits(self.subject, whole))

    @functools.cached_property
    def is_discussed(self) -> bool:
        """Whether people speak of something: it is an answer, an issue or a patch."""
        return _DISCUSSED.search(self.subject.plain) is not None

    @property
    def is_short(self) -> bool:
        """Whether it is as short as texts to telephones are."""
        return self.length <= _SHORT

    def is_only(self, value: str) -> bool:
        """Say whether there is hardly room for more than a code, and no part says another thing."""
        if self.length > _NOTHING_ELSE:
            return False
        parts = [sheet.text.strip() for sheet in self.sheets[1:]]
        return all(value in part for part in parts if part)
