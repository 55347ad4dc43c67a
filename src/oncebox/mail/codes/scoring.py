"""Scoring of code candidates: labels, layout and topics, each with its points."""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from oncebox.mail.codes import shapes
from oncebox.mail.codes.context import MailContext, PageContext, Span, stands_out
from oncebox.mail.codes.lexicon import Hit, Sense
from oncebox.mail.codes.shapes import Shape, Token
from oncebox.mail.languages import folding, readability
from oncebox.model.inboxes.received_mail import CandidateEvidence

_NOUN_SENSES = frozenset({Sense.CODE, Sense.OTHER, Sense.GIFT, Sense.STANDING, Sense.EVENT})
#: characters between two nouns that belong together, as in "tracking code"
_JOINED_BEHIND, _JOINED_BEFORE = 8, 2
#: the ending of a word after its stem
_WORD_ENDING = re.compile(r"[^\W\d_]{0,5}(?![^\W\d_])")
_NEAR = 14
#: a number between a word and a token takes the word for itself
_NUMBER = re.compile(r"(?<![^\W_])\d{2,}(?![^\W\d_])")
_COMMA = re.compile("[,\u060c\u3001\uff0c]")
_LONG_NUMBER = re.compile(r"(?<![^\W_])\d{3,}(?![^\W\d_])")


class Label(StrEnum):
    """What the words around a token call it."""

    CODE = "code"
    #: a code for something else, whose name is nearer
    CODE_FOR = "code_for"
    OTHER = "other"
    GIFT = "gift"
    STANDING = "standing"
    EVENT = "event"


#: prepositions between a code and its purpose, as in ``code for``
_CODE_FOR = re.compile(
    r"\s(?:for|of|fur|pour|para|per|voor|dla|till|til|untuk|\u0434\u043b\u044f)\s$"
)
#: words between a code and its name, as in ``482913 is your code``
_COPULA = (
    r" (?:is|est|es|ist|e|jest|ar|er|je|este|adalah|la|\u2014|\u0435) (?:[^\W\d_]{1,12} ){0,3}$"
)
_COPULA_BETWEEN = re.compile(_COPULA)
_NUMBER_WITH_COPULA = re.compile(rf"(?<![^\W_])\d{{4,8}}{_COPULA}")
_LABELS = {sense: Label(sense.value) for sense in _NOUN_SENSES}


def label_before(
    hits: Sequence[Hit], plain: str, at: int, after: tuple[Label, Hit] | None = None
) -> tuple[Label, Hit] | None:
    """Return the label given by the words before a token: by the last one without a number.

    ``after`` is the label given by the words after it.
    """
    nouns = [hit for hit in hits if hit.sense in _NOUN_SENSES]
    for number in range(len(nouns) - 1, -1, -1):
        hit = nouns[number]
        if hit.sense is not Sense.CODE and _is_separated(plain, hit.end, at):
            continue
        label = _combined_label(nouns, number, plain)
        if label in {Label.CODE, Label.CODE_FOR} and _names_other_number(nouns, number, plain):
            return Label.OTHER, hit
        if label is Label.CODE:
            return (Label.CODE_FOR if _CODE_FOR.match(plain, hit.end, at) else label), hit
        if label is not Label.CODE_FOR and _is_sender_name(hit, after, plain, at):
            return None
        return label, hit
    return None


def _names_other_number(nouns: Sequence[Hit], number: int, plain: str) -> bool:
    """Say whether the code precedes its name."""
    code = next((each for each in nouns[: number + 1] if each.sense is Sense.CODE), None)
    if code is None:
        return False
    return _NUMBER_WITH_COPULA.search(plain[max(0, code.start - 40) : code.start]) is not None


def _combined_label(nouns: Sequence[Hit], number: int, plain: str) -> Label:
    """Return the sense of a noun together with the noun before it."""
    hit, earlier = nouns[number], nouns[:number]
    before_it = earlier[-1] if earlier else None
    if before_it is not None and _qualifies(before_it, hit, plain):
        return _LABELS[before_it.sense]
    if hit.sense in {Sense.CODE, Sense.GIFT}:
        return _LABELS[hit.sense]
    codes = [each for each in earlier if each.sense is Sense.CODE]
    if not codes:
        return _LABELS[hit.sense]
    if hit.sense is Sense.STANDING:
        return Label.CODE
    joined = hit.start - _word_end(codes[-1], plain) <= _JOINED_BEHIND
    return _LABELS[hit.sense] if joined else Label.CODE_FOR


def _word_end(hit: Hit, plain: str) -> int:
    """Return the end of the word of a stem; of a compound, the end of the stem."""
    ending = _WORD_ENDING.match(plain, hit.end)
    return ending.end() if ending else hit.end


def _qualifies(one: Hit, hit: Hit, plain: str) -> bool:
    """Say whether a noun qualifies the next one: ``tracking code``."""
    if hit.sense not in {Sense.CODE, Sense.STANDING}:
        return False
    if one.sense is Sense.GIFT:
        return hit.start - one.end <= _NEAR
    apart = hit.start - _word_end(one, plain)
    return one.sense in {Sense.OTHER, Sense.EVENT} and apart <= _JOINED_BEFORE


def label_behind(hits: Sequence[Hit], plain: str, at: int) -> tuple[Label, Hit] | None:
    """Return the label given by the words after a token."""
    nouns = [hit for hit in hits if hit.sense in _NOUN_SENSES and not _has_own_number(plain, hit)]
    if not nouns or _LONG_NUMBER.search(plain, at, nouns[0].start):
        return None
    first = nouns[0]
    following = nouns[1].sense if len(nouns) > 1 else None
    if first.sense is Sense.CODE:
        return Label.CODE, first
    if following is Sense.CODE and first.sense is not Sense.GIFT:
        near = nouns[1].start - first.end
        joined = first.sense is Sense.OTHER and near <= _JOINED_BEFORE
        return (_LABELS[first.sense] if joined else Label.CODE), nouns[1]
    return _LABELS[first.sense], first


def _is_sender_name(hit: Hit, after: tuple[Label, Hit] | None, plain: str, at: int) -> bool:
    """Say whether a name before a colon is the sender's: ``Tickets: 1234 is your code``."""
    label, behind = after or (None, hit)
    if label is not Label.CODE or not plain[hit.end : at].rstrip().endswith(":"):
        return False
    return _NUMBER.search(plain, behind.end, behind.end + _NEAR) is None


def _has_own_number(plain: str, hit: Hit) -> bool:
    """Say whether a name of another number is followed by that number."""
    if hit.sense is not Sense.OTHER:
        return False
    return _NUMBER.search(plain, hit.end, hit.end + _NEAR) is not None


def _is_separated(plain: str, start: int, end: int) -> bool:
    """Say whether a number or a comma separates a name from the token."""
    return (
        _NUMBER.search(plain, start, end) is not None
        or _COMMA.search(plain, start, end) is not None
    )


#: points by label and position
POINTS_BEFORE = {
    Label.CODE: 35, Label.CODE_FOR: 18, Label.OTHER: -45, Label.GIFT: -55, Label.STANDING: -40,
    Label.EVENT: -25,
}  # fmt: skip
POINTS_BEHIND = {
    Label.CODE: 30, Label.OTHER: -15, Label.GIFT: -30, Label.STANDING: -5, Label.EVENT: -10,
}  # fmt: skip
POINTS_ABOVE = {
    Label.CODE: 32, Label.CODE_FOR: 20, Label.OTHER: -40, Label.GIFT: -50, Label.STANDING: -35,
    Label.EVENT: -20,
}  # fmt: skip
POINTS_BELOW = {Label.CODE: 16, Label.OTHER: -15, Label.GIFT: -25, Label.EVENT: -10}
POINTS_MENTIONED = {Sense.PURPOSE: 10, Sense.ASK: 6, Sense.LIMIT: 8}
POINTS_IN_SUBJECT = {Sense.CODE: 14, Sense.GIFT: -20, Sense.OTHER: -8, Sense.EVENT: -8}
#: the evidence against a token inside a quoted or forwarded mail
QUOTED = "quoted"
#: largest distance of a word from the token, and lengths of short words and lines
NEXT_TO_DISTANCE = 10
COPULA_LENGTH = 2
FARTHEST_BEHIND = 45
SHORT_LINE_LENGTH = 48
LABEL_LINE_LENGTH = 30


def page_tokens(context: PageContext) -> list[Token]:
    """Return the tokens of a page that may be codes, and are not part of something else."""
    text, found = context.text, shapes.find_tokens(context.text)
    taken = {(token.start, token.end) for token in found}
    for block in context.blocks[: shapes.MOST_TOKENS]:
        token = shapes.block_token(text, block.start, block.end)
        if token is not None and (token.start, token.end) not in taken:
            found.append(token)
    return [
        token
        for token in found
        if not shapes.foreign_reason(text, token)
        and not shapes.touches_letters(text, token)
        and not folding.has_mixed_digits(context.page.text[token.start : token.end])
    ]


_INTRODUCTIONS = (":", "\uff1a", '"', "\u201c", "\u00ab", "`", "*", "\u300c")
_PHRASE_WORD = re.compile("[a-z]+")
_SHORT_WORD = 3
_NUMERIC_SHAPES = frozenset({Shape.DIGITS, Shape.GROUPS, Shape.SINGLES})
_WORTH_MORE_CHECKS = 32
_CERTAIN_SCORE, _WEAK_SCORE = 110, 20
#: years and dates
_DATE_POINTS = 6
_BEGINNING, _MOST_LOOKUPS = 4_000, 6
_SHORTLY_BEFORE, _CLOSE_BEHIND = 100, 5


class ScoredToken(msgspec.Struct, frozen=True):
    """A token with its score and evidence."""

    token: Token
    score: int
    evidence: tuple[CandidateEvidence, ...]


def score_tokens(
    mail: MailContext,
    context: PageContext,
    known: Mapping[str, int],
    named_otherwise: Container[str] = (),
) -> Iterator[ScoredToken]:
    """Yield every token of a page that may be a code, with its evidence.

    Tokens whose score on another page is decisive are skipped. ``named_otherwise`` are the values
    that the subject calls something else.
    """
    tokens = page_tokens(context)
    counts = Counter(token.value for token in tokens)
    like = Counter((token.shape, len(token.value)) for token in tokens)
    for token in tokens:
        scorer = _TokenScorer(mail, context, token, named_otherwise)
        scorer.shape()
        scorer.layout()
        if counts[token.value] > 1:
            scorer.add("repeated", 5)
        if like[token.shape, len(token.value)] == counts[token.value]:
            scorer.add("only_one", 6)
        if scorer.is_unlikely or scorer.is_decided(known.get(token.value)):
            continue
        scorer.words()
        scorer.quotation()
        yield ScoredToken(token, scorer.score, tuple(scorer.evidence))


class _TokenScorer:
    """Scores one token; evidence is added step by step."""

    def __init__(
        self,
        mail: MailContext,
        context: PageContext,
        token: Token,
        named_otherwise: Container[str],
    ) -> None:
        self.mail = mail
        self.context = context
        self.token = token
        self.named_otherwise = token.value in named_otherwise
        self.evidence: list[CandidateEvidence] = []
        self.score = 0
        self.alone = False
        #: the words beside it have an instruction, a purpose, or a name for codes
        self.has_instruction = self.has_purpose = self.is_named = False
        #: the line above has one
        self.is_introduced = False

    def add(self, name: str, points: int, span: Span | Hit | None = None) -> None:
        """Add one piece of evidence."""
        start, end = (span.start, span.end) if span is not None else (None, None)
        self.evidence.append(CandidateEvidence(name=name, points=points, start=start, end=end))
        self.score += points

    @property
    def is_unlikely(self) -> bool:
        """Whether the score is too low for words to matter."""
        if self.token.shape is Shape.PHRASE:
            return not self._is_phrase()
        return self.score < -5  # noqa: PLR2004

    def is_decided(self, score: int | None) -> bool:
        """Say whether its score on another page is so high or so low that this one adds nothing."""
        if score is None:
            return False
        return score >= _CERTAIN_SCORE or (score < _WEAK_SCORE and not self.alone)

    def _is_phrase(self) -> bool:
        """Say whether words may be a code: set apart, and not ordinary text."""
        words = _PHRASE_WORD.findall(self.token.value)
        if any(len(word) < _SHORT_WORD for word in words) or len(set(words)) < len(words):
            return False
        plain = self.token.value.replace("-", " ")
        if self.mail.words.is_ordinary_text(plain, self.mail.detected_languages):
            return False
        if not self.alone:
            return "-" in self.token.value and self._follows_introduction()
        if "-" in self.token.value:
            return True
        above = self.context.above(self.context.line(self.token).start - 1)
        last = self.context.text[above[0].start : above[0].end].rstrip() if above else ""
        return len(words) > 2 and last.endswith(_INTRODUCTIONS[:2])  # noqa: PLR2004

    def _follows_introduction(self) -> bool:
        """Say whether a colon or a quotation mark precedes the token."""
        before = self.context.text[max(0, self.token.start - 3) : self.token.start]
        return before.rstrip().endswith(_INTRODUCTIONS)

    def shape(self) -> None:
        """Score the shape of the token."""
        token = self.token
        self.add(f"shape_{token.shape.value}", token.points, Span(token.start, token.end))
        if token.shape is Shape.LETTERS or (
            token.shape is Shape.DASHED and token.value.replace("-", "").isalpha()
        ):
            self._add_letters()

    def _add_letters(self) -> None:
        """Distinguish a code of letters from a word in capitals."""
        word = self.token.value.lower()
        vowels = sum(letter in "aeiouy" for letter in word)
        if vowels == 0:
            self.add("no_word", 10)
        elif self.token.shape is Shape.LETTERS and vowels * 5 >= len(word) * 2:
            self.add("like_a_word", -40 if readability.is_readable(word) else -6)
        if self.token.shape is Shape.LETTERS and self._is_word(word):
            self.add("word", -40)
        if self.token.shape is Shape.LETTERS and self.context.is_link_text(self.token):
            self.add("clicked", -30)

    def _is_word(self, word: str) -> bool:
        """Say whether a word also occurs in lower case, or is in the vocabulary."""
        for context in self.mail.page_contexts:
            at = context.plain.find(word, 0, _BEGINNING)
            for _ in range(_MOST_LOOKUPS):
                if at < 0:
                    break
                if context.text[at : at + len(word)] != self.token.value:
                    return True
                at = context.plain.find(word, at + 1, _BEGINNING)
        hits = self.mail.vocabularies.hits(word, 0, len(word))
        return bool(hits) and hits[0].start == 0

    def layout(self) -> None:
        """Score the position and the emphasis of the token."""
        context, token = self.context, self.token
        block = context.block(token.start)
        line = context.line(token)
        if block is not None and context.fills(token, block.start, max(block.end, token.end)):
            in_line = context.fills(token, line.start, line.end)
            self.alone = in_line
            self.add("own_line" if in_line else "own_cell", 25 if in_line else 15)
            self._add_emphasis(*stands_out(block))
        elif context.fills(token, line.start, line.end):
            self.alone = True
            self.add("own_line", 25)
        else:
            run = context.run(token)
            if run is not None:
                self._add_emphasis(*stands_out(run))
            self._add_line_end(line)
        if self._is_quoted(line):
            self.add(QUOTED, -30)

    def _add_emphasis(self, seen: bool, spelled: bool) -> None:  # noqa: FBT001
        if seen:
            self.add("stands_out", 8)
        if spelled:
            self.add("large_or_spaced", 6)

    def _add_line_end(self, line: Span) -> None:
        """Score a number after a colon at the end of a line."""
        before = self.context.text[line.start : self.token.start].rstrip()
        behind = self.context.text[self.token.end : line.end].strip(" .!*\"'")
        if before.endswith((":", "\uff1a", "=", "\u2192")) and not behind:
            self.add("ends_line", 8)

    def _is_quoted(self, line: Span) -> bool:
        marked = self.context.text.startswith(">", line.start)
        return marked or self.context.is_in_quotation(self.token.start)

    def words(self) -> None:
        """Score the words around the token."""
        senses = self._add_sentence()
        if self.alone:
            senses |= self._add_neighbouring_lines()
        if self.mail.is_discussion:
            self.add("discussion", -60)
        if self.context is not self.mail.subject:
            self._add_subject()
        elif self._begins_subject():
            self.is_named = True
            self.add("begins_subject", 10)
        senses |= self.mail.subject_senses
        for sense, points in POINTS_MENTIONED.items():
            if sense in senses:
                self.add(f"word_{sense.value}", points)
        if self.score >= _WORTH_MORE_CHECKS:
            self._add_short_mail(senses)
            self._add_topics()

    def quotation(self) -> None:
        """Score a token below the line where a quoted mail begins; finding that line takes time."""
        if self.score < _WORTH_MORE_CHECKS or any(each.name == QUOTED for each in self.evidence):
            return
        if self.token.start > self.context.quote_start:
            self.add(QUOTED, -30)

    def _add_subject(self) -> None:
        for sense, points in POINTS_IN_SUBJECT.items():
            if sense in self.mail.subject_senses:
                self.add(f"subject_{sense.value}", points)
        shown = self.context.text[self.token.start : self.token.end]
        if self.named_otherwise:
            self.add("subject_names_otherwise", -25)
        elif self.token.value in self.mail.subject.text or shown in self.mail.subject.text:
            self.add("in_subject", 20)

    def _begins_subject(self) -> bool:
        """Say whether the text begins with the number and the mail mentions a code."""
        if self.token.start or self.token.shape not in _NUMERIC_SHAPES:
            return False
        return bool(self.mail.topics[Sense.CODE])

    def _add_short_mail(self, senses: set[Sense]) -> None:
        """Score a mail that is too short for several topics."""
        topics = self.mail.topics
        if self.mail.is_short and Sense.LIMIT in topics and Sense.LIMIT not in senses:
            self.add("word_limit", 8)
        if self.mail.is_short and self.token.shape in _NUMERIC_SHAPES and Sense.PURPOSE in topics:
            self.add("short_mail", 6)
        whole = self.context.fills(self.token, 0, len(self.context.text.rstrip()))
        if whole and self.mail.consists_of(self.token.value):
            self.add("nothing_else", 20)

    def _add_topics(self) -> None:
        """Score the topics of the whole mail."""
        topics = self.mail.topics
        business = topics[Sense.OTHER] > 1
        limited = bool(topics[Sense.LIMIT])
        paid = self.mail.has_amounts
        led = self.is_introduced and limited and not paid
        meant = self.has_instruction or ((self.has_purpose or led) and not business)
        named = bool(topics[Sense.CODE])
        said = bool(topics[Sense.PURPOSE]) or limited
        apart = self.alone or self.is_named or self.has_instruction or self.has_purpose
        near = topics[Sense.EVENT] > 0 and not limited and self._near(Sense.EVENT)
        offer = topics[Sense.GIFT] if self.token.shape not in _NUMERIC_SHAPES else 0
        certain = self.mail.detected_languages.certain
        date = self.token.shape is Shape.DIGITS and self.token.points <= _DATE_POINTS
        for name, applies, points in (
            ("like_a_year", date and not said, -20),
            ("unnamed", not apart, -8),
            ("business", self.has_purpose and business, -14),
            ("no_word_for_code", certain and not named and not meant, -28),
            ("amounts", paid and not named and not self.has_instruction, -20),
            ("receipt", paid and business and not limited and not topics[Sense.ASK], -35),
            ("event", topics[Sense.EVENT] > 1, -30),
            ("event_near", near, -40),
            ("gift", paid and Sense.GIFT in self.mail.subject_senses, -20),
            ("offer", offer > 0, -25 if offer > 1 else -10),
        ):
            if applies:
                self.add(name, points)

    def _near(self, sense: Sense) -> bool:
        """Say whether a word of a sense is shortly before the token, on any line."""
        span = Span(max(0, self.token.start - _SHORTLY_BEFORE), self.token.start)
        return any(hit.sense is sense for hit in self.mail.hits(self.context, span))

    def _add_sentence(self) -> set[Sense]:
        """Score the words of the same sentence."""
        context, token = self.context, self.token
        left = self.mail.hits(context, context.left(token))
        right = self.mail.hits(context, context.right(token))
        after = label_behind(right, context.plain, token.end)
        called = label_before(left, context.plain, token.start, after)
        if called is not None:
            self._add_label_before(*called)
        else:
            self._add_purpose(left)
            if self.has_instruction and right and right[0].sense is Sense.PURPOSE:
                self.add("asked_for", 8, right[0])
        if after is not None and after[1].start - token.end <= FARTHEST_BEHIND:
            self._add_label_behind(*after, called is not None and called[0] is Label.CODE)
        elif any(hit.sense is Sense.GIFT for hit in right):
            self.add("behind_gift", POINTS_BEHIND[Label.GIFT])
        return {hit.sense for hit in (*left, *right)}

    def _add_purpose(self, left: Sequence[Hit]) -> None:
        """Score an instruction or a purpose without a name: ``enter …``, ``verification: …``."""
        asked = left[-1] if left and left[-1].sense is Sense.ASK else None
        if asked and asked.end - asked.start > COPULA_LENGTH and self._next_to(asked):
            self.has_instruction = True
            self.add("next_to_ask", 14, asked)
            return
        for hit in reversed(left):
            if hit.sense is Sense.PURPOSE and self._next_to(hit):
                self.has_purpose = True
                self.add("next_to_purpose", 14, hit)
                return

    def _next_to(self, hit: Hit) -> bool:
        return self.token.start - hit.end <= NEXT_TO_DISTANCE

    def _add_label_before(self, label: Label, hit: Hit) -> None:
        """Score the label given by the words before the token."""
        if label is Label.STANDING and self._is_one_time_password():
            self.has_instruction = True
            self.add("before_password", 20, hit)
            return
        self.is_named = label is Label.CODE or label is Label.CODE_FOR
        self.add(f"before_{label.value}", POINTS_BEFORE[label], hit)
        if label is Label.CODE and self._next_to(hit):
            self.add("next_to_word", 10, hit)

    def _is_one_time_password(self) -> bool:
        """Say whether a password in a short text is a one-time one: a few digits.

        A password beside a user name, and that of a network or a device, is a lasting one.
        """
        mail = self.mail
        if self.token.shape is not Shape.DIGITS or not mail.is_short:
            return False
        return mail.topics[Sense.STANDING] <= 1 and Sense.OTHER not in mail.subject_senses

    def _add_label_behind(self, label: Label, hit: Hit, called: bool) -> None:  # noqa: FBT001
        """Score the label given by the words after the token."""
        if label is Label.STANDING and self._is_one_time_password() and not called:
            self.has_instruction = True
            self.add("behind_password", 20, hit)
        elif label is Label.CODE and not called:
            self.is_named = True
            plain = self.token.shape is Shape.MIXED and not self.token.value.isupper()
            end = self.token.end
            # The name after a token is its own: ``482913 is your code``.
            said = _COPULA_BETWEEN.match(self.context.plain, end, hit.start) is not None
            close = said or hit.start - end <= _CLOSE_BEHIND
            near = close and self.token.shape in _NUMERIC_SHAPES
            more = 6 if near else -15 if plain else 0
            self.add("behind_code", POINTS_BEHIND[label] + more, hit)
        elif POINTS_BEHIND.get(label, 0) < 0:
            self.add(f"behind_{label.value}", POINTS_BEHIND[label], hit)

    def _add_neighbouring_lines(self) -> set[Sense]:
        """Score the lines above and below a token that has a line of its own."""
        line = self.context.line(self.token)
        senses: set[Sense] = set()
        found = False
        for number, span in enumerate(self.context.above(line.start - 1)):
            hits = self.mail.hits(self.context, span)
            senses |= {hit.sense for hit in hits}
            self.is_introduced = self.is_introduced or (
                number == 0 and bool(senses & {Sense.PURPOSE, Sense.ASK})
            )
            called = label_before(hits, self.context.plain, span.end)
            if called is not None and not found:
                found = self._add_line_above(called[0], called[1], span, number)
        for number, span in enumerate(self.context.below(line.end + 1)):
            hits = self.mail.hits(self.context, span)
            senses |= {hit.sense for hit in hits} & {Sense.LIMIT, Sense.PURPOSE}
            called = label_behind(hits, self.context.plain, span.start)
            if number == 0 and called is not None and not found:
                self._add_line_below(called[0], called[1], span)
            elif number == 0 and self.token.shape not in _NUMERIC_SHAPES:
                gift = next((hit for hit in hits if hit.sense is Sense.GIFT), None)
                if gift is not None:  # a discount: ``to save on your next order``
                    self.add("below_worth", -45, gift)
        return senses

    def _add_line_above(self, label: Label, hit: Hit, span: Span, number: int) -> bool:
        """Score a line above; return whether it names the token."""
        if label is Label.CODE or label is Label.CODE_FOR:
            self.add(f"above_{label.value}", POINTS_ABOVE[label] - 5 * number, hit)
            return True
        short = span.end - span.start <= SHORT_LINE_LENGTH or span.end - hit.end <= NEXT_TO_DISTANCE
        if number == 0 and (short or label is Label.GIFT):
            only = span.end - span.start <= LABEL_LINE_LENGTH
            self.add(f"above_{label.value}", POINTS_ABOVE[label] - (10 if only else 0), hit)
            return True
        return False

    def _add_line_below(self, label: Label, hit: Hit, span: Span) -> None:
        short = span.end - span.start <= SHORT_LINE_LENGTH
        if label in POINTS_BELOW and (short or label is Label.CODE):
            self.add(f"below_{label.value}", POINTS_BELOW[label], hit)
