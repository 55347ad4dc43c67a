"""Mail parser: raw bytes to a normalised mail, its identity, code and link; never raises.

Mails with the same Message-ID, From, subject and visible text are one message. Without a
Message-ID the Date is compared too; without both, every delivery is a message of its own. So
copies on several channels are one message, and guessing a Message-ID does not suppress a mail.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from oncebox.mail.auth import trust
from oncebox.mail.codes import code_finder
from oncebox.mail.html import layout, visible
from oncebox.mail.html.layout import Page
from oncebox.mail.languages.purposes import find_purposes
from oncebox.mail.limits import LIMIT_WARNINGS, ParseLimits
from oncebox.mail.links import link_finder
from oncebox.mail.mime import addresses, decoding, header_fields, parts
from oncebox.mail.mime.header_fields import Header
from oncebox.mail.mime.parts import LeafPart
from oncebox.model.inboxes.received_mail import (
    PURPOSE_RULE,
    RECIPIENTS_AMBIGUOUS,
    Candidate,
    DkimKeyLocation,
    Extraction,
    HeaderAddress,
    ParsedMail,
    ParseStatus,
    RankedCandidates,
    SenderStatus,
)

#: changes with the rule, so that old and new identities never collide
_IDENTITY_RULE = b"oncebox message 1"
#: the ASCII white space of ``str.split``
_WHITE_SPACE = b" \t\n\v\f\r\x1c\x1d\x1e\x1f"


def message_identity(parsed: ParsedMail, froms: Iterable[str]) -> bytes:
    """Return the digest that identifies a message; empty without Message-ID and Date.

    ``froms`` are the From fields; they are hashed verbatim if there is no single address.
    """
    if parsed.message_id:
        sign = ("message-id", parsed.message_id)
    elif parsed.date is not None:
        sign = ("date", str(parsed.date))
    else:
        return b""
    single = parsed.sender.standing is SenderStatus.SINGLE
    sender = parsed.sender.address if single else "\n".join(map(without_whitespace, froms))
    return framed_digest(
        (*sign, sender, without_whitespace(parsed.subject), without_whitespace(parsed.text))
    )


def outline_digest(parsed: ParsedMail, texts: Iterable[str]) -> bytes:
    """Return a digest of what is not part of the identity: names, recipients, other texts."""
    fields = (("to", parsed.to), ("cc", parsed.cc), ("reply-to", parsed.reply_to))
    people = [f"{kind} {each.address} {each.name}" for kind, several in fields for each in several]
    attached = [f"{each.name} {each.media_type} {each.sha256}" for each in parsed.attachments]
    return framed_digest([
        parsed.message_id, str(parsed.date), parsed.sender.name,
        *people, "attached", *attached, "texts", *map(without_whitespace, texts),
    ])  # fmt: skip


def without_whitespace(text: str) -> str:
    """Return text without white space, which relays change by folding and wrapping."""
    if text.isascii():
        return text.encode("ascii").translate(None, _WHITE_SPACE).decode("ascii")
    return "".join(text.split())


def framed_digest(pieces: Iterable[str]) -> bytes:
    """Return a digest of strings, each with its length, so that different lists never collide."""
    hashed = hashlib.sha256(_IDENTITY_RULE)
    for piece in pieces:
        data = piece.encode("utf-8")
        hashed.update(len(data).to_bytes(8))
        hashed.update(data)
    return hashed.digest()


#: punctuation around a word
_PUNCTUATION = ".,:;!?*_-()[]{}<>\"'|#=~\u2013\u2014\u2026\u2018\u2019\u201c\u201d\u200c\u200b"
#: the separator of a signature ends with a space
_SIGNATURE_LINE = "-- "
#: characters that are compared: for numbers, and for words
_COMPARED_CHARACTERS, _COMPARED_FOR_WORDS = 100_000, 6_000
_FOUR_DIGITS = re.compile(r"\d{4}")
#: digits, white space, punctuation, and all else
_KINDS = (b"0123456789", _WHITE_SPACE, _PUNCTUATION.encode("ascii", "ignore"))
_CLASSES = bytes(
    next(
        (kind for kind, characters in zip(b"0 .", _KINDS, strict=True) if code in characters),
        ord("a"),
    )
    for code in range(256)
)
#: a number with all punctuation after it, at the end of a word
_LONG_NUMBER = re.compile(rb"(0(?<!00)000++)\.*+(?= |\Z)")
_FEW_WORDS = 5
#: HTML parts that are read; each has a fixed cost
_MOST_HTML = 10


TextOrigin = Literal["plain", "html", "none"]


_DEFAULT_LIMITS = ParseLimits()


class BodyText(msgspec.Struct):
    """The text of a mail."""

    text: str
    hidden: str
    origin: TextOrigin
    #: the texts of the alternatives that were not chosen
    other_texts: list[str]
    #: every part with its layout
    pages: list[Page]
    #: the same without doubtful text
    certain_pages: list[Page]


class _Alternative(msgspec.Struct):
    """Parts of which a mail program shows one."""

    plain: list[str]
    html: list[str]


def read_body(
    raw: bytes, leaves: list[LeafPart], limits: ParseLimits, warnings: set[str]
) -> BodyText:
    """Return the text of a mail: of every alternative the plain text, else the visible HTML."""
    choices = _alternatives(raw, leaves, limits, warnings)
    found = BodyText(text="", hidden="", origin="none", other_texts=[], pages=[], certain_pages=[])
    shown: list[str] = []
    hidden: list[str] = []
    apart: list[str] = []
    for choice in choices:
        plain = "\n".join(choice.plain).strip()
        sights = [visible.read_html(html, limits, warnings) for html in choice.html]
        seen = "\n".join(sight.shown.text for sight in sights)
        hidden += [sight.hidden for sight in sights if sight.hidden]
        apart += [sight.unrendered for sight in sights if sight.unrendered]
        plain_pages = [layout.plain_page(text) for text in choice.plain]
        found.pages += [*plain_pages, *(sight.shown for sight in sights)]
        found.certain_pages += [*plain_pages, *(sight.certain or sight.shown for sight in sights)]
        found.other_texts.append(seen if plain else "")
        shown.append(plain or seen)
        if plain and seen and _texts_differ(plain, seen):
            warnings.add("text_html_differ")
        if plain or seen:
            found.origin = "html" if not plain or found.origin == "html" else "plain"
    if hidden:
        warnings.add("hidden_text")
    found.text = "\n".join(filter(None, shown))
    found.hidden = "\n".join([*hidden, *apart])
    return found


def _alternatives(
    raw: bytes, leaves: list[LeafPart], limits: ParseLimits, warnings: set[str]
) -> list[_Alternative]:
    """Return the texts of all parts, grouped by alternative; HTML over the limit is skipped."""
    choices: dict[int, _Alternative] = {}
    left = limits.text
    html_parts = 0
    for leaf in leaves:
        is_html = leaf.media_type == "text/html"
        html_parts += is_html
        if is_html and html_parts > _MOST_HTML:
            warnings.add("html_limit")
            continue
        text, left = _part_text(raw, leaf, left, warnings)
        choice = choices.setdefault(leaf.alternative, _Alternative([], []))
        (choice.html if is_html else choice.plain).append(text)
    return list(choices.values())


def _part_text(raw: bytes, leaf: LeafPart, limit: int, warnings: set[str]) -> tuple[str, int]:
    """Return the text of a part, and the limit for other parts."""
    data = parts.part_content(raw, leaf, warnings)
    if len(data) > limit:
        warnings.add("text_limit")
        data = data[:limit]
    name = header_fields.parameter_text(leaf.parameters, "charset", warnings)
    if not name and leaf.media_type == "text/html":
        name = decoding.charset_in_html(data)
    text = decoding.decode_charset(data, name, warnings).replace("\r\n", "\n").replace("\r", "\n")
    if leaf.parameters.get("format", "").lower() == "flowed" and leaf.media_type == "text/plain":
        text = _unflowed(text, drop=leaf.parameters.get("delsp", "").lower() == "yes")
    return text, limit - len(data)


def read_html(raw: bytes, limits: ParseLimits = _DEFAULT_LIMITS) -> str:
    """Return the HTML of a mail as written, all shown parts of it; empty if there is none."""
    ignored: set[str] = set()
    header = header_fields.split_header(raw, 0, len(raw), limits)
    leaves = parts.leaf_parts(raw, header, limits, ignored)
    shown = [leaf for leaf in leaves if not parts.is_attachment(leaf)]
    choices = _alternatives(raw, shown, limits, ignored)
    return "\n".join(html for choice in choices for html in choice.html)


def _unflowed(text: str, *, drop: bool) -> str:
    """Join flowed lines (RFC 3676) of the same quote level."""
    out: list[str] = []
    level_before = -1
    flowing = False
    for line in text.split("\n"):
        level = len(line) - len(line.lstrip(">"))
        words = line[level:].removeprefix(" ")
        ends = words == _SIGNATURE_LINE
        if not flowing or level != level_before or ends:
            out.append("\n" + ">" * level + (" " if level else ""))
        flowing = words.endswith(" ") and not ends
        out.append(words[:-1] if flowing and drop else words)
        level_before = level
    return "".join(out)[1:]


def _texts_differ(plain: str, seen: str) -> bool:
    """Say whether two texts differ in a long number or in most of their words."""
    one, other = plain[:_COMPARED_CHARACTERS], seen[:_COMPARED_CHARACTERS]
    if _numbers_differ(one, other) or _numbers_differ(other, one):
        return True
    words = set(one[:_COMPARED_FOR_WORDS].lower().split())
    others = set(other[:_COMPARED_FOR_WORDS].lower().split())
    common = words & others
    if len(common) * 2 >= min(len(words), len(others)):
        return False
    words, others = _bare_words(words), _bare_words(others)
    fewer = min(len(words), len(others))
    return fewer >= _FEW_WORDS and len(words & others) * 2 < fewer


def _bare_words(words: set[str]) -> set[str]:
    """Return words without punctuation; links and addresses are left out."""
    return {word.strip(_PUNCTUATION) for word in words if ":/" not in word and "@" not in word}


def _numbers_differ(one: str, other: str) -> bool:
    """Say whether a text has a long number that the other one lacks."""
    return any(number not in other for number in _long_numbers(one))


def _long_numbers(text: str) -> set[str]:
    """Return the words that are numbers of at least four digits, without punctuation."""
    if not text.isascii():
        words = {word for word in set(text.split()) if _FOUR_DIGITS.search(word)}
        return {word for word in _bare_words(words) if word.isdecimal()}
    classes = text.encode("ascii").translate(_CLASSES)
    return {
        text[match.start() : match.end(1)]
        for match in _LONG_NUMBER.finditer(classes)
        if not classes[classes.rfind(b" ", 0, match.start()) + 1 : match.start()].strip(b".")
    }


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_DATE = 200


def read_date(text: str, warnings: set[str]) -> int | None:
    """Return the date in milliseconds, or None if it cannot be parsed."""
    if not text:
        return None
    with suppress(ValueError, TypeError, OverflowError, IndexError):
        found = parsedate_to_datetime(text if len(text) <= _LONGEST_DATE else "")
        moment = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    warnings.add("date_unreadable")
    return None


def _limit_extraction(body: BodyText, most: int, warnings: set[str]) -> BodyText:
    """Return a body of which so many characters are searched for codes and links."""
    if sum(len(page.text) for page in body.pages) <= most:
        return body
    warnings.add("extraction_limit")
    pages: list[Page] = []
    certain_pages: list[Page] = []
    for page, certain in zip(body.pages, body.certain_pages, strict=True):
        pages.append(layout.truncated(page, most))
        is_same = certain is page
        certain_pages.append(pages[-1] if is_same else layout.truncated(certain, most))
        most -= len(pages[-1].text)
        if most <= 0:
            break
    return replace(body, pages=pages, certain_pages=certain_pages)


def _code_and_link(parsed: ParsedMail, body: BodyText, decoded: dict[str, list[str]]) -> Extraction:
    """Return the code and the link; none for a report, which quotes another mail."""
    kind = decoded.get("content-type", [""])[0].strip().lower()
    if kind.startswith(_REPORT):
        return Extraction()
    codes = _found(body, lambda pages: code_finder.find_codes(parsed.subject, pages))
    links = _found(
        body,
        lambda pages: link_finder.find_links(
            parsed.subject, pages, parsed.sender.domain, codes.best
        ),
    )
    return Extraction(
        code=codes.best,
        link=links.best,
        codes=codes.ranked,
        links=links.ranked,
        codes_tied=codes.tied,
        links_tied=links.tied,
    )


def _found(body: BodyText, find: Callable[[list[Page]], RankedCandidates]) -> RankedCandidates:
    """Return what is found; if it depends on text that may be hidden, it is tied."""
    everything = _or_none(find, body.pages)
    if all(one is other for one, other in zip(body.pages, body.certain_pages, strict=True)):
        return everything
    certain = _or_none(find, body.certain_pages)
    if _best_value(everything) == _best_value(certain) and everything.tied == certain.tied:
        return everything
    contenders = {each.value: each for each in (*_contenders(certain), *_contenders(everything))}
    doubtful = [replace(each, doubtful=True) for each in contenders.values()]
    others = [each for each in everything.ranked if each.value not in contenders]
    doubtful.sort(key=lambda candidate: -candidate.score)
    return RankedCandidates(ranked=tuple([*doubtful, *others][:_MOST_RANKED]), tied=True)


def _best_value(found: RankedCandidates) -> str | None:
    return None if found.best is None else found.best.value


def _contenders(found: RankedCandidates) -> tuple[Candidate, ...]:
    """Return the best candidate, or the first of those that are equally good."""
    if found.tied:
        return found.ranked[:2]
    return () if found.best is None else (found.best,)


def _or_none(find: Callable[..., RankedCandidates], *arguments: object) -> RankedCandidates:
    try:
        return find(*arguments)
    except MemoryError:
        raise  # the parent process must learn of the memory limit
    except Exception:  # noqa: BLE001 - a mail that breaks a finder is still a message
        return RankedCandidates()


_LONGEST_ID = 998
_MOST_RANKED = 20
#: bounces, receipts and complaints (RFC 6522)
_REPORT = "multipart/report"
_MOST_SIGNATURES = 5
_DNS_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}")
_SIGNATURE_TAGS = re.compile(r"(?:^|;)\s*([ds])\s*=\s*([^;]*)")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d"
    "\u2060-\u2064\u3164\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


def parse(raw: bytes, limits: ParseLimits = _DEFAULT_LIMITS) -> ParsedMail:
    """Parse a mail; one that cannot be read at all has the status ``unparsed``."""
    try:
        return _parse(raw, limits)
    except MemoryError:
        raise  # the parent process must learn of the memory limit
    except Exception:  # noqa: BLE001 - a mail that breaks the parser is still a message
        return ParsedMail(status=ParseStatus.UNPARSED)


def _parse(raw: bytes, limits: ParseLimits) -> ParsedMail:
    warnings: set[str] = set()
    header = header_fields.split_header(raw, 0, len(raw), limits)
    if header.cut:
        warnings.add("header_limit")
    if header.broken:
        warnings.add("headers_broken")
    leaves = parts.leaf_parts(raw, header, limits, warnings)
    shown = [leaf for leaf in leaves if not parts.is_attachment(leaf)]
    body = read_body(raw, shown, limits, warnings)
    _warn_of_characters(body.text, warnings)
    decoded = _decoded_fields(header, warnings)
    message_id = _message_id(header, warnings)
    parsed = ParsedMail(
        status=ParseStatus.PARSED,
        message_id=message_id[:_LONGEST_ID],
        date=read_date(decoded.get("date", [""])[0], warnings),
        subject=decoded.get("subject", [""])[0],
        sender=addresses.read_sender(header.all("from"), warnings, ambiguous=header.ambiguous),
        reply_to=_mailboxes(header, "reply-to", limits, warnings),
        to=_mailboxes(header, "to", limits, warnings),
        cc=_mailboxes(header, "cc", limits, warnings),
        headers=tuple([(name, tuple(values)) for name, values in decoded.items()]),
        text=body.text,
        hidden=body.hidden,
        text_from=body.origin,
        attachments=tuple(
            [
                parts.describe_attachment(raw, leaf, number, warnings)
                for number, leaf in enumerate(filter(parts.is_attachment, leaves), 1)
            ]
        ),
        auto_submitted=_auto_submitted(decoded),
        message_mark=hashlib.sha256(message_id.encode("utf-8")).digest() if message_id else None,
        signatures=_signature_hints(header),
    )
    searched = _limit_extraction(body, limits.extracted, warnings)
    return replace(
        parsed,
        status=ParseStatus.PARSED if LIMIT_WARNINGS.isdisjoint(warnings) else ParseStatus.LIMITED,
        warnings=tuple(sorted(warnings)),
        identity=message_identity(parsed, decoded.get("from", ())),
        outline=outline_digest(parsed, body.other_texts),
        purposes=find_purposes(parsed.subject, parsed.text),
        purpose_rule=PURPOSE_RULE,
        found=_code_and_link(parsed, searched, decoded),
    )


def _decoded_fields(header: Header, warnings: set[str]) -> dict[str, list[str]]:
    """Return all header fields as text, by name, in the order of first appearance."""
    found: dict[str, list[str]] = {}
    for name, value in header.fields:
        found.setdefault(name, []).append(header_fields.decode_value(value, warnings))
    if any(map(trust.is_reported_result, found)):
        warnings.add("foreign_verdict")
    return found


def _message_id(header: Header, warnings: set[str]) -> str:
    """Return the first Message-ID without white space; empty if it is only brackets."""
    given = header.all("message-id")
    if len(given) > 1:
        warnings.add("message_id_repeated")
    text = without_whitespace(header_fields.decode_value(given[0], warnings)) if given else ""
    return text if text.strip("<>") else ""


def _mailboxes(
    header: Header, name: str, limits: ParseLimits, warnings: set[str]
) -> tuple[HeaderAddress, ...]:
    found: list[HeaderAddress] = []
    for value in header.all(name):
        read = addresses.read_mailboxes(header_fields.unfold(value, warnings), warnings)
        found += read.found
        if read.found and (read.ambiguous or read.incomplete):
            warnings.add(RECIPIENTS_AMBIGUOUS)
    if len(found) > limits.addresses:
        warnings.add("addresses_cut")
    return tuple(found[: limits.addresses])


def _auto_submitted(decoded: dict[str, list[str]]) -> bool:
    """Say whether the mail is an automatic reply or report (RFC 3834)."""
    kinds = {value.partition(";")[0].strip().lower() for value in decoded.get("auto-submitted", ())}
    return bool(kinds - {"no", ""}) or "x-autoreply" in decoded or "x-autorespond" in decoded


def _signature_hints(header: Header) -> tuple[DkimKeyLocation, ...]:
    hints = []
    for value in header.all("dkim-signature")[:_MOST_SIGNATURES]:
        tags = dict(
            _SIGNATURE_TAGS.findall(value.decode("latin-1").replace("\r\n", "").replace("\n", ""))
        )
        domain, selector = (without_whitespace(tags.get(tag, "")).lower() for tag in "ds")
        if _DNS_NAME.fullmatch(domain) and _DNS_NAME.fullmatch(selector):
            hints.append(DkimKeyLocation(domain=domain, selector=selector))
    return tuple(hints)


def _warn_of_characters(text: str, warnings: set[str]) -> None:
    """Warn of invisible characters and of changes of direction."""
    if text.isascii():
        return
    if _INVISIBLE.search(text):
        warnings.add("invisible_characters")
    if _BIDI.search(text):
        warnings.add("bidi_characters")
