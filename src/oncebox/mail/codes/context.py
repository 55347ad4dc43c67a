"""Context of a token: its line, sentence and block, and the whole mail."""

import functools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import msgspec

from oncebox.mail.codes import shapes
from oncebox.mail.codes.lexicon import DetectedLanguages, Hit, Lexicon, Sense, VocabularySet
from oncebox.mail.codes.shapes import Token
from oncebox.mail.html.layout import Block, Page
from oncebox.mail.languages import folding

#: punctuation around a code on a line of its own
_SURROUNDING_MARKS = (
    " \t\u00a0\"'`*_.,:;!?()[]{}<>|#=~>\u2013\u2014\u2022\u00ab\u00bb\u201c\u201d\u2018\u2019"
)
_SURROUNDING_MARKS += (
    "\u300c\u300d\u3010\u3011\uff1a\uff0c\u3002\u200e\u200f\u200b\u200c\u200d\u2060\ufeff\u00ad-"
)
_SENTENCE_END = re.compile(r"[.!?;](?=\s)|[\u3002\uff01\uff1f\uff1b\u0964\u061f\u06d4\u0589]|\n")
#: the line above a quoted or forwarded mail, in folded text, where hyphens are spaces
_QUOTE_MARKERS = (
    "     original ", "forwarded message", "     forwarded by", "begin forwarded",
    "ursprungliche nachricht", "weitergeleitete nachricht", "message d'origine",
    "message transfere", "mensaje original", "mensaje reenviado", "mensagem original",
    "mensagem encaminhada", "messaggio originale", "messaggio inoltrato",
    "oorspronkelijk bericht", "doorgestuurd bericht", "oprindelig meddelelse",
    "ursprungligt meddelande", "opprinnelig melding", "wiadomosc oryginalna", "puvodni zprava",
    "eredeti uzenet", "orijinal ileti", "исходное сообщение", "пересланное сообщение", "原始邮件",
    "转发的邮件", "元のメッセージ", "원본 메시지",
)  # fmt: skip
#: words of the sentence above a quotation: "On Monday Ada wrote:"
_ATTRIBUTIONS = (
    "wrote", "schrieb", "a ecrit", "escribio", "escreveu", "ha scritto", "schreef", "skrev",
    "kirjoitti", "napisal", "napsal", "написал", "пишет", "yazdi", "写道", "님이 작성",
)  # fmt: skip
#: two fields of a mail's header inside the text, as some programs quote it
_HEADER_FIELDS = (
    ("from:", "sent:"), ("von:", "gesendet:"), ("de :", "envoye :"), ("de:", "enviado"),
    ("da:", "inviato:"), ("van:", "verzonden:"), ("fra:", "sendt:"), ("fran:", "skickat:"),
    ("od:", "wyslano:"), ("от:", "отправлено:"), ("发件人", "发送时间"), ("差出人", "送信日時"),
)  # fmt: skip
#: lengths of such a sentence, before and after its word, and of two fields
_ATTRIBUTION_BEFORE, _ATTRIBUTION_BEHIND, _HEADER_LENGTH = 200, 80, 250
#: characters and lines that are examined around a token
_BESIDE = 160
_ABOVE, _BELOW = 320, 260
_LINES = 3
#: a longer line of plain text was wrapped and continues in the next
_WRAPPED = 55
_LARGE_SIZE = 20


class Span(msgspec.Struct, frozen=True):
    """A range of a page's text."""

    start: int
    end: int


class PageContext:
    """A page with its folded text, lines and blocks."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.text = folding.fold_digits(page.text)
        #: the lines and table cells
        self.blocks = [block for block in page.blocks if block.kind != "run"]
        self._links = page.anchors

    @functools.cached_property
    def plain(self) -> str:
        """The text, folded for comparison with words."""
        return folding.fold_same_length(self.page.text)

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [block.start for block in self.blocks]

    @functools.cached_property
    def _runs(self) -> list[Block]:
        return [block for block in self.page.blocks if block.kind == "run"]

    @functools.cached_property
    def _run_starts(self) -> list[int]:
        return [block.start for block in self._runs]

    @functools.cached_property
    def quote_start(self) -> int:
        """The offset of a quoted or forwarded mail; the end of the text if there is none."""
        plain = self.plain
        found = [at for mark in _QUOTE_MARKERS if (at := plain.find(mark)) >= 0]
        for first, second in _HEADER_FIELDS:
            at = plain.find(second)
            before = plain.rfind(first, max(0, at - _HEADER_LENGTH), at) if at >= 0 else -1
            if before >= 0 and not self.text[:before].rpartition("\n")[2].strip():
                found.append(before)
        if not self.page.quoted:
            found += [
                at
                for word in _ATTRIBUTIONS
                if (at := plain.find(word)) >= 0 and self._is_attribution(at, at + len(word))
            ]
        return min(found, default=len(self.text))

    def _is_attribution(self, start: int, end: int) -> bool:
        """Say whether a word ends the sentence above a mail that is quoted without marks."""
        before = self.text[max(0, start - _ATTRIBUTION_BEFORE) : start]
        line, _, behind = self.text[end : end + _ATTRIBUTION_BEHIND].partition("\n")
        named = "@" in before or any(map(str.isdigit, before))
        return named and line.rstrip().endswith((":", "\uff1a")) and behind.lstrip()[:1] != ">"

    def is_in_quotation(self, at: int) -> bool:
        """Say whether an offset is inside an element that holds a quoted mail."""
        ranges = self.page.quoted
        number = bisect_right(ranges, at, key=lambda each: each[0]) - 1
        return number >= 0 and ranges[number][1] > at

    def is_link_text(self, token: Token) -> bool:
        """Say whether a token is the text of a link."""
        number = bisect_right(self._links, token.start, key=lambda link: link.start) - 1
        return number >= 0 and self._links[number].end >= token.end

    def block(self, at: int) -> Block | None:
        """Return the line or cell at an offset."""
        number = bisect_right(self._starts, at) - 1
        return self.blocks[number] if number >= 0 and self.blocks[number].end > at else None

    def run(self, token: Token) -> Block | None:
        """Return the emphasised run that holds nothing but the token."""
        number = bisect_right(self._run_starts, token.start) - 1
        if number < 0:
            return None
        run = self._runs[number]
        fits = run.end >= token.end and self.fills(token, run.start, run.end)
        return run if fits else None

    def fills(self, token: Token, start: int, end: int) -> bool:
        """Say whether a range holds nothing but the token and punctuation."""
        if token.start - start > _BESIDE or end - token.end > _BESIDE:
            return False
        rest = self.text[start : token.start] + self.text[token.end : end]
        return not rest.strip(_SURROUNDING_MARKS)

    def line(self, token: Token) -> Span:
        """Return the line of a token, without its line end."""
        start = self.text.rfind("\n", max(0, token.start - _BESIDE), token.start) + 1
        start = start or max(0, token.start - _BESIDE)
        end = self.text.find("\n", token.end, token.end + _BESIDE)
        return Span(start, end if end >= 0 else min(len(self.text), token.end + _BESIDE))

    def left(self, token: Token) -> Span:
        """Return the part of the sentence before a token."""
        low = max(0, token.start - _BESIDE)
        start = low
        for match in _SENTENCE_END.finditer(self.text, low, token.start):
            if match[0] != "\n" or not self._is_wrapped(match.start()):
                start = match.end()
        return Span(start, token.start)

    def right(self, token: Token) -> Span:
        """Return the part of the sentence after a token."""
        high = min(len(self.text), token.end + _BESIDE)
        for match in _SENTENCE_END.finditer(self.text, token.end, high):
            if match[0] != "\n" or not self._is_wrapped(match.start()):
                return Span(token.end, match.start())
        return Span(token.end, high)

    def _is_wrapped(self, at: int) -> bool:
        """Say whether the line end at an offset comes from wrapping, by the length of the line."""
        if self.page.origin == "html" or self.text[at + 1 : at + 2] == "\n":
            return False
        return at - self.text.rfind("\n", max(0, at - _BESIDE), at) > _WRAPPED

    def above(self, at: int) -> list[Span]:
        """Return the lines above an offset, nearest first."""
        found: list[Span] = []
        low, end = max(0, at - _ABOVE), at
        while len(found) < _LINES and end > low:
            start = max(self.text.rfind("\n", low, end - 1) + 1, low)
            if self.text[start:end].strip():
                found.append(Span(start, end))
            end = start - 1 if start > low else low
        return found

    def below(self, at: int) -> list[Span]:
        """Return the lines below an offset, nearest first."""
        found: list[Span] = []
        high, start = min(len(self.text), at + _BELOW), at
        while len(found) < _LINES and start < high:
            end = self.text.find("\n", start, high)
            end = high if end < 0 else end
            if self.text[start:end].strip():
                found.append(Span(start, end))
            start = end + 1
        return found


def stands_out(block: Block) -> tuple[bool, bool]:
    """Say whether a block is emphasised, and whether it is large or letter-spaced."""
    seen = block.strong or block.kind in {"heading", "button"} or block.size >= _LARGE_SIZE
    return seen or block.spaced, block.spaced or block.size >= _LARGE_SIZE


#: characters that tell the topic of a text
_BEGINNING = 2_000
#: up to this length a mail has one topic, like a text message
_SHORT_MAIL = 250
_CODE_ONLY_LENGTH = 24
#: subjects of replies, issues and patches
_DISCUSSION_SUBJECT = re.compile(
    r"^\s*(?:re|aw|sv|vs|antw|odp|ynt|rif|r)(?:\[\d+\])?\s*:|\([a-z ]{0,20}[#!]\d{1,9}\)"
    r"|\[patch\b|\[[^\[\]]{0,60}#\d{1,9}\]"
    r"|^(?:\[[^\[\]]{0,60}\] ?)?[\[(][a-z]{2,12} \d{1,9}[\])]"
)


class MailContext:
    """The whole mail; everything is computed once, on demand."""

    def __init__(self, contexts: Sequence[PageContext], words: Lexicon) -> None:
        #: the first one is the subject
        self.page_contexts = contexts
        self.words = words
        self.subject = contexts[0]
        # The parts have the same text, or one of them is a stub that refers to the other.
        self._main = max(contexts, key=lambda context: len(context.text))
        self.length = max((len(context.text) for context in contexts[1:]), default=0)
        self._hits: dict[tuple[int, int, int], list[Hit]] = {}

    @functools.cached_property
    def detected_languages(self) -> DetectedLanguages:
        """The languages of the mail."""
        return self.words.detect_languages(f"{self.subject.plain} {self._main.plain[:_BEGINNING]}")

    @functools.cached_property
    def vocabularies(self) -> VocabularySet:
        """The code words of these languages."""
        return self.words.vocabularies(self.detected_languages)

    def hits(self, context: PageContext, span: Span) -> list[Hit]:
        """Return the code words in a range of a page."""
        key = (id(context), span.start, span.end)
        known = self._hits.get(key)
        if known is None:
            known = self._hits[key] = self.vocabularies.hits(context.plain, span.start, span.end)
        return known

    @functools.cached_property
    def topics(self) -> Counter[Sense]:
        """The number of different words of each sense at the beginning of the mail."""
        words = {
            (hit.sense, context.plain[hit.start : hit.end])
            for context in {self.subject, self._main}
            for hit in self.hits(context, Span(0, min(len(context.plain), _BEGINNING)))
        }
        return Counter(sense for sense, _ in words)

    @functools.cached_property
    def has_amounts(self) -> bool:
        """Whether the mail has amounts of money, like mails about orders."""
        return any(shapes.has_amount(context.text[:_BEGINNING]) for context in self.page_contexts)

    @functools.cached_property
    def subject_senses(self) -> frozenset[Sense]:
        """The senses of the words in the subject."""
        whole = Span(0, len(self.subject.plain))
        return frozenset(hit.sense for hit in self.hits(self.subject, whole))

    @functools.cached_property
    def is_discussion(self) -> bool:
        """Whether the mail is a reply, an issue or a patch."""
        return _DISCUSSION_SUBJECT.search(self.subject.plain) is not None

    @property
    def is_short(self) -> bool:
        """Whether the mail is as short as a text message."""
        return self.length <= _SHORT_MAIL

    def consists_of(self, value: str) -> bool:
        """Say whether the mail is hardly longer than the code, in all of its parts."""
        if self.length > _CODE_ONLY_LENGTH:
            return False
        parts = [context.text.strip() for context in self.page_contexts[1:]]
        return all(value in part for part in parts if part)
