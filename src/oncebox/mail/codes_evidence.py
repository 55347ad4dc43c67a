"""Evidence: what speaks for and against something that is written like a code."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from oncebox.mail import codes_points, codes_tokens, codes_words
from oncebox.mail.codes_lexicon import Hit, Sense
from oncebox.mail.codes_mail import Mail
from oncebox.mail.codes_place import Sheet, Span, stands_out
from oncebox.mail.codes_shapes import Shape, Token
from oncebox.mail.codes_words import Label
from oncebox.model.candidate import Evidence

_INTRODUCTIONS = (":", "\uff1a", '"', "\u201c", "\u00ab", "`", "*", "\u300c")
_PARTS = re.compile("[a-z]+")
_SHORT_WORD = 3
_NUMERIC = frozenset({Shape.DIGITS, Shape.GROUPS, Shape.SINGLES})
_LOW = 32
_CERTAIN, _WEAK = 110, 20
#: years and dates
_HARDLY = 6
_BEGINNING, _FEW = 4_000, 6
_SHORTLY, _CLOSE = 100, 5


class Weighed(msgspec.Struct, frozen=True):
    """Something with all that speaks for and against it."""

    token: Token
    score: int
    evidence: tuple[Evidence, ...]


def weigh(mail: Mail, sheet: Sheet, known: Mapping[str, int]) -> Iterator[Weighed]:
    """Yield everything on a page that may be a code, with its evidence.

    What other pages have settled, by the scores that are known, is not looked at again.
    """
    tokens = codes_tokens.find(sheet)
    counts = Counter(token.value for token in tokens)
    like = Counter((token.shape, len(token.value)) for token in tokens)
    for token in tokens:
        look = _Look(mail, sheet, token)
        look.shape()
        look.layout()
        if counts[token.value] > 1:
            look.add("repeated", 5)
        if like[token.shape, len(token.value)] == counts[token.value]:
            look.add("only_one", 6)
        if look.hopeless or look.settled(known.get(token.value)):
            continue
        look.words()
        yield Weighed(token, look.score, tuple(look.evidence))


class _Look:
    """One look at something: reasons are added one by one."""

    def __init__(self, mail: Mail, sheet: Sheet, token: Token) -> None:
        self.mail = mail
        self.sheet = sheet
        self.token = token
        self.evidence: list[Evidence] = []
        self.score = 0
        self.alone = False
        #: something beside it says what to do with it, or what it is for, or calls it a code
        self.asked = self.meant = self.named = False
        #: the line above it does
        self.led = False

    def add(self, name: str, points: int, span: Span | Hit | None = None) -> None:
        """Add a reason."""
        start, end = (span.start, span.end) if span is not None else (None, None)
        self.evidence.append(Evidence(name=name, points=points, start=start, end=end))
        self.score += points

    @property
    def hopeless(self) -> bool:
        """Whether words are not worth looking for."""
        shape = self.token.shape
        if shape is Shape.PHRASE:
            return not self._is_phrase()
        return self.score < -5  # noqa: PLR2004

    def settled(self, score: int | None) -> bool:
        """Say whether it scored elsewhere so well, or so badly, that this place adds nothing."""
        if score is None:
            return False
        return score >= _CERTAIN or (score < _WEAK and not self.alone)

    def _is_phrase(self) -> bool:
        """Say whether words may be a code: put apart, and not what people say."""
        words = _PARTS.findall(self.token.value)
        if any(len(word) < _SHORT_WORD for word in words) or len(set(words)) < len(words):
            return False
        plain = self.token.value.replace("-", " ")
        if self.mail.words.is_spoken(plain, self.mail.tongues):
            return False
        if not self.alone:
            return "-" in self.token.value and self._introduced()
        if "-" in self.token.value:
            return True
        above = self.sheet.above(self.sheet.line(self.token).start - 1)
        last = self.sheet.text[above[0].start : above[0].end].rstrip() if above else ""
        return len(words) > 2 and last.endswith(_INTRODUCTIONS[:2])  # noqa: PLR2004

    def _introduced(self) -> bool:
        """Say whether a colon or a quotation mark stands before it."""
        return (
            self.sheet.text[max(0, self.token.start - 3) : self.token.start]
            .rstrip()
            .endswith(_INTRODUCTIONS)
        )

    def shape(self) -> None:
        """Count how it is written."""
        token = self.token
        self.add(f"shape_{token.shape.value}", token.points, Span(token.start, token.end))
        if token.shape is Shape.LETTERS or (
            token.shape is Shape.DASHED and token.value.replace("-", "").isalpha()
        ):
            self._letters()

    def _letters(self) -> None:
        """Tell a code of letters from a word in capitals."""
        word = self.token.value.lower()
        vowels = sum(letter in "aeiouy" for letter in word)
        if vowels == 0:
            self.add("no_word", 10)
        elif self.token.shape is Shape.LETTERS and vowels * 5 >= len(word) * 2:
            self.add("like_a_word", -6)
        if self.token.shape is Shape.LETTERS and self._is_word(word):
            self.add("word", -40)
        if self.token.shape is Shape.LETTERS and self.sheet.is_clicked(self.token):
            self.add("clicked", -30)

    def _is_word(self, word: str) -> bool:
        """Say whether a word stands elsewhere in small letters, or is known."""
        for sheet in self.mail.sheets:
            at = sheet.plain.find(word, 0, _BEGINNING)
            for _ in range(_FEW):
                if at < 0:
                    break
                if sheet.text[at : at + len(word)] != self.token.value:
                    return True
                at = sheet.plain.find(word, at + 1, _BEGINNING)
        hits = self.mail.words.hits(word, 0, len(word), self.mail.tongues)
        return bool(hits) and hits[0].start == 0

    def layout(self) -> None:
        """Count where it stands."""
        sheet, token = self.sheet, self.token
        block = sheet.block(token.start)
        line = sheet.line(token)
        if block is not None and sheet.fills(token, block.start, max(block.end, token.end)):
            in_line = sheet.fills(token, line.start, line.end)
            self.alone = in_line
            self.add("own_line" if in_line else "own_cell", 25 if in_line else 15)
            self._face(*stands_out(block))
        elif sheet.fills(token, line.start, line.end):
            self.alone = True
            self.add("own_line", 25)
        else:
            run = sheet.run(token)
            if run is not None:
                self._face(*stands_out(run))
            self._end(line)
        if self._quoted(line):
            self.add("quoted", -30)

    def _face(self, seen: bool, spelled: bool) -> None:  # noqa: FBT001
        if seen:
            self.add("stands_out", 8)
        if spelled:
            self.add("large_or_spaced", 6)

    def _end(self, line: Span) -> None:
        """Count a number that ends a line behind a colon."""
        before = self.sheet.text[line.start : self.token.start].rstrip()
        behind = self.sheet.text[self.token.end : line.end].strip(" .!*\"'")
        if before.endswith((":", "\uff1a", "=", "\u2192")) and not behind:
            self.add("ends_line", 8)

    def _quoted(self, line: Span) -> bool:
        if self.sheet.text.startswith(">", line.start):
            return True
        return self.token.start > self.sheet.quoted

    def words(self) -> None:
        """Count what is said around it."""
        senses = self._beside()
        if self.alone:
            senses |= self._around()
        if self.mail.is_discussed:
            self.add("discussion", -60)
        if self.sheet is not self.mail.subject:
            self._subject()
        elif self._begins():
            self.named = True
            self.add("begins_subject", 10)
        senses |= self.mail.subject_senses
        for sense, points in codes_points.SAID.items():
            if sense in senses:
                self.add(f"word_{sense.value}", points)
        if self.score >= _LOW:
            self._short(senses)
            self._topics()

    def _subject(self) -> None:
        """Count what the subject says."""
        for sense, points in codes_points.SUBJECT.items():
            if sense in self.mail.subject_senses:
                self.add(f"subject_{sense.value}", points)
        if self._in_subject():
            self.add("in_subject", 20)

    def _begins(self) -> bool:
        """Say whether a number begins the text, of a mail that speaks of a code."""
        if self.token.start or self.token.shape not in _NUMERIC:
            return False
        return bool(self.mail.topics[Sense.CODE])

    def _short(self, senses: set[Sense]) -> None:
        """Count what a mail says that has room for one thing only."""
        topics = self.mail.topics
        if self.mail.is_short and Sense.LIMIT in topics and Sense.LIMIT not in senses:
            self.add("word_limit", 8)
        if self.mail.is_short and self.token.shape in _NUMERIC and Sense.PURPOSE in topics:
            self.add("short_mail", 6)
        whole = self.sheet.fills(self.token, 0, len(self.sheet.text.rstrip()))
        if whole and self.mail.is_only(self.token.value):
            self.add("nothing_else", 20)

    def _topics(self) -> None:
        """Count what the whole mail is about."""
        topics = self.mail.topics
        business = topics[Sense.OTHER] > 1
        limited = bool(topics[Sense.LIMIT])
        paid = self.mail.has_amounts
        led = self.led and limited and not paid
        meant = self.asked or ((self.meant or led) and not business)
        named = bool(topics[Sense.CODE])
        said = bool(topics[Sense.PURPOSE]) or limited
        apart = self.alone or self.named or self.asked or self.meant
        near = topics[Sense.EVENT] > 0 and not limited and self._near(Sense.EVENT)
        offer = topics[Sense.GIFT] if self.token.shape not in _NUMERIC else 0
        for name, applies, points in (
            ("like_a_year", self._is_date() and not said, -20),
            ("unnamed", not apart, -8),
            ("business", self.meant and business, -14),
            ("no_word_for_code", self.mail.tongues.sure and not named and not meant, -28),
            ("amounts", paid and not named and not self.asked, -20),
            ("receipt", paid and business and not limited and not topics[Sense.ASK], -35),
            ("event", topics[Sense.EVENT] > 1, -30),
            ("event_near", near, -40),
            ("gift", paid and Sense.GIFT in self.mail.subject_senses, -20),
            ("offer", offer > 0, -25 if offer > 1 else -10),
        ):
            if applies:
                self.add(name, points)

    def _is_date(self) -> bool:
        return self.token.shape is Shape.DIGITS and self.token.points <= _HARDLY

    def _near(self, sense: Sense) -> bool:
        """Say whether a word stands shortly before it, be it in another line."""
        span = Span(max(0, self.token.start - _SHORTLY), self.token.start)
        return any(hit.sense is sense for hit in self.mail.hits(self.sheet, span))

    def _in_subject(self) -> bool:
        shown = self.sheet.text[self.token.start : self.token.end]
        return self.token.value in self.mail.subject.text or shown in self.mail.subject.text

    def _beside(self) -> set[Sense]:
        """Count the words of the same sentence."""
        sheet, token = self.sheet, self.token
        left = self.mail.hits(sheet, sheet.left(token))
        right = self.mail.hits(sheet, sheet.right(token))
        after = codes_words.behind(right, sheet.plain, token.end)
        called = codes_words.before(left, sheet.plain, token.start, after)
        if called is not None:
            self._called(*called)
        else:
            self._purpose(left)
            if self.asked and right and right[0].sense is Sense.PURPOSE:
                self.add("asked_for", 8, right[0])
        if after is not None and after[1].start - token.end <= codes_points.FAR:
            self._behind(*after, called is not None and called[0] is Label.CODE)
        elif any(hit.sense is Sense.GIFT for hit in right):
            self.add("behind_gift", codes_points.BEHIND[Label.GIFT])
        return {hit.sense for hit in (*left, *right)}

    def _purpose(self, left: Sequence[Hit]) -> None:
        """Count what stands where a name would: ``enter …``, ``verification: …``."""
        asked = left[-1] if left else None
        if asked is None:
            return
        if (
            asked.sense is Sense.ASK
            and asked.end - asked.start > codes_points.IS
            and self._next_to(asked)
        ):
            self.asked = True
            self.add("next_to_ask", 14, asked)
            return
        for hit in reversed(left):
            if hit.sense is Sense.PURPOSE and self._next_to(hit):
                self.meant = True
                self.add("next_to_purpose", 14, hit)
                return

    def _next_to(self, hit: Hit) -> bool:
        return self.token.start - hit.end <= codes_points.NEXT_TO

    def _called(self, label: Label, hit: Hit) -> None:
        """Count what it is called by the words before it."""
        if label is Label.STANDING and self._passes():
            self.asked = True
            self.add("before_password", 20, hit)
            return
        self.named = label is Label.CODE or label is Label.CODE_FOR
        self.add(f"before_{label.value}", codes_points.BEFORE[label], hit)
        if label is Label.CODE and self._next_to(hit):
            self.add("next_to_word", 10, hit)

    def _passes(self) -> bool:
        """Say whether a password is one of a short text: a few digits, as one-time ones are.

        One that has a user's name beside it stays, and so does that of a network or a machine.
        """
        mail = self.mail
        if self.token.shape is not Shape.DIGITS or not mail.is_short:
            return False
        return mail.topics[Sense.STANDING] <= 1 and Sense.OTHER not in mail.subject_senses

    def _behind(self, label: Label, hit: Hit, called: bool) -> None:  # noqa: FBT001
        """Count what it is called by the words behind it."""
        if label is Label.STANDING and self._passes() and not called:
            self.asked = True
            self.add("behind_password", 20, hit)
        elif label is Label.CODE and not called:
            self.named = True
            plain = self.token.shape is Shape.MIXED and not self.token.value.isupper()
            end = self.token.end
            said = codes_words.is_said_of(self.sheet.plain, end, hit)
            near = self.token.shape in _NUMERIC and (said or hit.start - end <= _CLOSE)
            more = 6 if near else -15 if plain else 0
            self.add("behind_code", codes_points.BEHIND[label] + more, hit)
        elif codes_points.BEHIND.get(label, 0) < 0:
            self.add(f"behind_{label.value}", codes_points.BEHIND[label], hit)

    def _around(self) -> set[Sense]:
        """Count the words of the lines before and behind one that it has to itself."""
        line = self.sheet.line(self.token)
        senses: set[Sense] = set()
        found = False
        for number, span in enumerate(self.sheet.above(line.start - 1)):
            hits = self.mail.hits(self.sheet, span)
            senses |= {hit.sense for hit in hits}
            self.led = self.led or (number == 0 and bool(senses & {Sense.PURPOSE, Sense.ASK}))
            called = codes_words.before(hits, self.sheet.plain, span.end)
            if called is not None and not found:
                found = self._above(called[0], called[1], span, number)
        for number, span in enumerate(self.sheet.below(line.end + 1)):
            hits = self.mail.hits(self.sheet, span)
            senses |= {hit.sense for hit in hits} & {Sense.LIMIT, Sense.PURPOSE}
            called = codes_words.behind(hits, self.sheet.plain, span.start)
            if number == 0 and called is not None and not found:
                self._below(called[0], called[1], span)
            elif number == 0 and self.token.shape not in _NUMERIC:
                self._worth(hits)
        return senses

    def _worth(self, hits: Sequence[Hit]) -> None:
        """Count that the line below says what it is worth: ``to save on your next order``."""
        gift = next((hit for hit in hits if hit.sense is Sense.GIFT), None)
        if gift is not None:
            self.add("below_worth", -45, gift)

    def _above(self, label: Label, hit: Hit, span: Span, number: int) -> bool:
        """Count a line before it; return whether it names it."""
        if label is Label.CODE or label is Label.CODE_FOR:
            self.add(f"above_{label.value}", codes_points.ABOVE[label] - 5 * number, hit)
            return True
        short = (
            span.end - span.start <= codes_points.SHORT_LINE
            or span.end - hit.end <= codes_points.NEXT_TO
        )
        if number == 0 and (short or label is Label.GIFT):
            only = span.end - span.start <= codes_points.LABEL_LINE
            self.add(f"above_{label.value}", codes_points.ABOVE[label] - (10 if only else 0), hit)
            return True
        return False

    def _below(self, label: Label, hit: Hit, span: Span) -> None:
        short = span.end - span.start <= codes_points.SHORT_LINE
        if label in codes_points.BELOW and (short or label is Label.CODE):
            self.add(f"below_{label.value}", codes_points.BELOW[label], hit)
