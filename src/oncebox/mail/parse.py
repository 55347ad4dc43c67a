"""Parse: raw bytes into a normalised mail. It never raises, whatever the bytes are."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from oncebox.mail import (
    addresses,
    artifacts,
    attachments,
    author,
    bodies,
    claims,
    dates,
    fields,
    identity,
    structure,
    transfer,
    words,
)
from oncebox.mail.fields import Header
from oncebox.mail.layout import Page
from oncebox.mail.limits import ParseLimits
from oncebox.mail.structure import Leaf
from oncebox.mail.warnings import LIMITS
from oncebox.model.candidate import Found
from oncebox.model.message import Address, Attachment, Parsed, SignatureHint, Status

_LONGEST_ID = 998
#: bounces, receipts and complaints (RFC 6522)
_REPORT = "multipart/report"
_MOST_SIGNATURES = 5
_HINT = re.compile(r"[A-Za-z0-9._-]{1,253}")
_TAGS = re.compile(r"(?:^|;)\s*([ds])\s*=\s*([^;]*)")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d"
    "\u2060-\u2064\u3164\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_NO_LIMITS_GIVEN = ParseLimits()


def parse(raw: bytes, limits: ParseLimits = _NO_LIMITS_GIVEN) -> Parsed:
    """Return all that is known of a mail; what cannot be read at all is ``unparsed``."""
    try:
        return _parse(raw, limits)
    except MemoryError:
        raise  # the limit of a process, which its parent must hear of
    except Exception:  # noqa: BLE001 - a mail that breaks the parser is still a message
        return Parsed(status=Status.UNPARSED)


def _parse(raw: bytes, limits: ParseLimits) -> Parsed:
    warnings: set[str] = set()
    header = fields.split(raw, 0, len(raw), limits)
    if header.cut:
        warnings.add("header_limit")
    if header.broken:
        warnings.add("headers_broken")
    leaves = structure.leaves(raw, header, limits, warnings)
    shown = [leaf for leaf in leaves if not attachments.is_attached(leaf)]
    body = bodies.read(raw, shown, limits, warnings)
    _look_at(body.text, warnings)
    decoded = _decoded(header, warnings)
    message_id = _message_id(header, warnings)
    parsed = Parsed(
        status=Status.PARSED,
        message_id=message_id[:_LONGEST_ID],
        date=dates.read(decoded.get("date", [""])[0], warnings),
        subject=decoded.get("subject", [""])[0],
        sender=author.read(header.all("from"), warnings, doubtful=header.doubtful),
        reply_to=_people(header, "reply-to", limits, warnings),
        to=_people(header, "to", limits, warnings),
        cc=_people(header, "cc", limits, warnings),
        headers=tuple([(name, tuple(values)) for name, values in decoded.items()]),
        text=body.text,
        hidden=body.hidden,
        text_from=body.origin,
        attachments=_attached(raw, leaves, warnings),
        auto_submitted=_auto_submitted(decoded),
        message_mark=identity.mark(message_id),
        signatures=_signatures(header),
    )
    return replace(
        parsed,
        status=Status.PARSED if LIMITS.isdisjoint(warnings) else Status.LIMITED,
        warnings=tuple(sorted(warnings)),
        identity=identity.identity(parsed, decoded.get("from", ())),
        outline=identity.outline(parsed, body.others),
        found=_found(parsed, body.pages, decoded),
    )


def _found(parsed: Parsed, pages: Sequence[Page], decoded: dict[str, list[str]]) -> Found:
    """Return the code and the link; a report quotes what somebody else was sent, so has none."""
    kind = decoded.get("content-type", [""])[0].strip().lower()
    if kind.startswith(_REPORT):
        return Found()
    return artifacts.find(parsed.subject, pages, parsed.sender.domain)


def _decoded(header: Header, warnings: set[str]) -> dict[str, list[str]]:
    """Return all fields as text, by name, in the order of their first appearance."""
    found: dict[str, list[str]] = {}
    for name, value in header.fields:
        found.setdefault(name, []).append(words.decode(value, warnings))
    if any(map(claims.is_verdict, found)):
        warnings.add("foreign_verdict")
    return found


def _message_id(header: Header, warnings: set[str]) -> str:
    """Return the first Message-ID without white space; a mark that says nothing is none."""
    given = header.all("message-id")
    if len(given) > 1:
        warnings.add("message_id_repeated")
    text = identity.bare(words.decode(given[0], warnings)) if given else ""
    return text if text.strip("<>") else ""


def _people(
    header: Header, name: str, limits: ParseLimits, warnings: set[str]
) -> tuple[Address, ...]:
    """Return the mailboxes of all fields of a name."""
    found: list[Address] = []
    for value in header.all(name):
        found += addresses.read(words.unfold(value, warnings), warnings).found
    if len(found) > limits.addresses:
        warnings.add("addresses_cut")
    return tuple(found[: limits.addresses])


def _attached(raw: bytes, leaves: list[Leaf], warnings: set[str]) -> tuple[Attachment, ...]:
    attached = [leaf for leaf in leaves if attachments.is_attached(leaf)]
    return tuple([
        attachments.describe(
            leaf,
            number,
            transfer.decode(raw[leaf.start : leaf.end], leaf.encoding, warnings),
            warnings,
        )
        for number, leaf in enumerate(attached, 1)
    ])  # fmt: skip


def _auto_submitted(decoded: dict[str, list[str]]) -> bool:
    """Say whether a program answered or reported by itself (RFC 3834)."""
    kinds = {value.partition(";")[0].strip().lower() for value in decoded.get("auto-submitted", ())}
    return bool(kinds - {"no", ""}) or "x-autoreply" in decoded or "x-autorespond" in decoded


def _signatures(header: Header) -> tuple[SignatureHint, ...]:
    """Return where the keys of the first few DKIM signatures are to be found."""
    hints = []
    for value in header.all("dkim-signature")[:_MOST_SIGNATURES]:
        tags = dict(_TAGS.findall(value.decode("latin-1").replace("\r\n", "").replace("\n", "")))
        domain, selector = (identity.bare(tags.get(tag, "")).lower() for tag in "ds")
        if _HINT.fullmatch(domain) and _HINT.fullmatch(selector):
            hints.append(SignatureHint(domain=domain, selector=selector))
    return tuple(hints)


def _look_at(text: str, warnings: set[str]) -> None:
    """Warn of characters that make a text look other than it is."""
    if text.isascii():
        return
    if _INVISIBLE.search(text):
        warnings.add("invisible_characters")
    if _BIDI.search(text):
        warnings.add("bidi_characters")
