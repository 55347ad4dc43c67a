"""MIME parts: the leaves of a multipart mail, and its attachments."""

import hashlib
import re

import msgspec

from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime import decoding, header_fields
from oncebox.mail.mime.header_fields import Header, split_header
from oncebox.model.inboxes.received_mail import ParsedAttachment

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_PLAIN = "text/plain"
_EMPTY_HEADER = Header([], 0)


class LeafPart(msgspec.Struct):
    """A part with content: text or an attachment."""

    media_type: str
    #: raw parameters of Content-Type and Content-Disposition; see ``header_fields``
    parameters: dict[str, str]
    disposition: str
    disposition_parameters: dict[str, str]
    encoding: str
    content_id: bytes
    #: offsets of its content in the raw mail
    start: int
    end: int
    #: the number of its alternative, of which a mail program shows one part
    alternative: int


class _PendingPart(msgspec.Struct):
    """A part that has not been read yet."""

    start: int
    end: int
    depth: int
    #: the alternative it belongs to, if any
    alternative: int | None
    default: str


class _PartWalk:
    """Reads the parts of a mail."""

    def __init__(self, raw: bytes, limits: ParseLimits, warnings: set[str]) -> None:
        self.leaves: list[LeafPart] = []
        self._raw = raw
        self._limits = limits
        self._warnings = warnings
        self._parts = 0
        self._alternatives = 0

    def visit(self, branch: _PendingPart, header: Header) -> list[_PendingPart]:
        """Record a leaf, or return the parts of a multipart."""
        media_type, given = header_fields.read_parameters(header.first("content-type"))
        if not _MEDIA_TYPE.fullmatch(media_type):
            media_type = branch.default if not media_type else _PLAIN
        if media_type.startswith("multipart/"):
            boundary = _boundary(given)
            if boundary is None:
                self._warnings.add("structure_broken")
                media_type = _PLAIN
            elif branch.depth < self._limits.depth:
                return self._child_parts(branch, media_type, boundary)
            else:
                self._warnings.add("parts_limit")
        self.leaves.append(self._leaf(branch, header, media_type, given))
        return []

    def _child_parts(
        self, branch: _PendingPart, media_type: str, boundary: bytes
    ) -> list[_PendingPart]:
        choice = branch.alternative
        if choice is None and media_type == "multipart/alternative":
            choice = self._next_alternative()
        default = "message/rfc822" if media_type == "multipart/digest" else _PLAIN
        left = self._limits.parts - self._parts
        spans = multipart_spans(self._raw, branch.start, branch.end, boundary, left + 1)
        if len(spans) > left:
            self._warnings.add("parts_limit")
            spans = spans[:left]
        self._parts += len(spans)
        return [_PendingPart(start, end, branch.depth + 1, choice, default) for start, end in spans]

    def _leaf(
        self, branch: _PendingPart, header: Header, media_type: str, given: dict[str, str]
    ) -> LeafPart:
        disposition, disposed = header_fields.read_parameters(header.first("content-disposition"))
        encoding = header.first("content-transfer-encoding") or b""
        return LeafPart(
            media_type=media_type,
            parameters=given,
            disposition=disposition,
            disposition_parameters=disposed,
            encoding=encoding.strip().decode("latin-1").lower(),
            content_id=header.first("content-id") or b"",
            start=branch.start,
            end=branch.end,
            alternative=branch.alternative or self._next_alternative(),
        )

    def _next_alternative(self) -> int:
        self._alternatives += 1
        return self._alternatives


def leaf_parts(
    raw: bytes, header: Header, limits: ParseLimits, warnings: set[str]
) -> list[LeafPart]:
    """Return the parts with content, in order; an enclosed mail is one part."""
    walk = _PartWalk(raw, limits, warnings)
    whole = _PendingPart(header.body, len(raw), 0, None, _PLAIN)
    waiting = walk.visit(whole, header)[::-1]
    while waiting:
        branch = waiting.pop()
        inner = split_header(raw, branch.start, branch.end, limits)
        if inner.cut:
            warnings.add("header_limit")
        branch.start = inner.body
        waiting += walk.visit(branch, inner)[::-1]
    return walk.leaves


def multipart_spans(
    raw: bytes, start: int, end: int, boundary: bytes, most: int
) -> list[tuple[int, int]]:
    """Return the ranges of the parts between boundary lines, up to a limit.

    Only whole lines count, so a boundary that is a prefix of another one is not mistaken for it.
    """
    spans: list[tuple[int, int]] = []
    line = b"--" + boundary
    mark = b"\n" + line
    opened: int | None = None
    # The first boundary may be at the start, without a line end before it.
    at = start - 1 if raw.startswith(line, start, end) else raw.find(mark, start, end)
    while at >= 0 and len(spans) < most:
        after = at + len(mark)
        next_line, closing = _boundary_line_end(raw, after, end)
        if next_line is not None:
            if opened is not None:
                # The line end before a boundary belongs to the boundary.
                stop = at - 1 if at > opened and raw[at - 1] == 13 else at  # noqa: PLR2004 - CR
                spans.append((opened, max(opened, stop)))
            opened = None if closing else next_line
            if closing:
                return spans
        at = raw.find(mark, max(after - 1, (next_line or after) - 1), end)
    if opened is not None and len(spans) < most:
        spans.append((opened, end))  # not closed: it ends with the mail
    return spans


def _boundary_line_end(raw: bytes, at: int, end: int) -> tuple[int | None, bool]:
    """Return the start of the next line if this one is a boundary, and if it is the last."""
    closing = raw.startswith(b"--", at, end)
    stop = raw.find(b"\n", at, end)
    rest = raw[at + 2 if closing else at : end if stop < 0 else stop]
    if rest.strip(b" \t\r"):
        return None, False
    return (end if stop < 0 else stop + 1), closing


def _boundary(given: dict[str, str]) -> bytes | None:
    if "boundary" not in given:
        text = header_fields.parameter_text(given, "boundary", set())
        return text.encode("latin-1", "replace") if text else None
    return given["boundary"].rstrip().encode("latin-1", "replace")


_LONGEST_NAME = 255
#: media types that are shown inline
_TEXT_TYPES = frozenset({"text/plain", "text/html"})
#: controls, and characters that hide or reverse the end of a name
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SUSPICIOUS_NAME = re.compile("[/\\\\:\ufffd\u200b-\u200f\u202a-\u202e\u2066-\u2069]|^\\.|^$")


def is_attachment(leaf: LeafPart) -> bool:
    """Say whether a part is an attachment."""
    return leaf.disposition == "attachment" or leaf.media_type not in _TEXT_TYPES


def part_content(raw: bytes, leaf: LeafPart, warnings: set[str]) -> bytes:
    """Return the content of a part without transfer encoding."""
    return decoding.decode_transfer(raw[leaf.start : leaf.end], leaf.encoding, warnings)


def describe_attachment(
    raw: bytes, leaf: LeafPart, number: int, warnings: set[str]
) -> ParsedAttachment:
    """Return the description of an attachment; its name is never used as a path."""
    content = part_content(raw, leaf, warnings)
    name = header_fields.parameter_text(leaf.disposition_parameters, "filename", warnings)
    name = name or header_fields.parameter_text(leaf.parameters, "name", warnings)
    name = _CONTROL.sub("\ufffd", name)
    if len(name) > _LONGEST_NAME or (name and _SUSPICIOUS_NAME.search(name)):
        warnings.add("attachment_name_odd")
    content_id = header_fields.decode_value(leaf.content_id, warnings).strip().strip("<>")
    return ParsedAttachment(
        number=number,
        name=name[:_LONGEST_NAME],
        media_type=leaf.media_type,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        inline=leaf.disposition == "inline" or (not leaf.disposition and bool(content_id)),
        content_id=_CONTROL.sub("\ufffd", content_id)[:_LONGEST_NAME],
    )


_DEFAULT_LIMITS = ParseLimits()


def extract_attachment(
    raw: bytes, wanted: ParsedAttachment, limits: ParseLimits = _DEFAULT_LIMITS
) -> bytes | None:
    """Return the content of an attachment; None if the mail does not contain it.

    Only this part is decoded, and its hash must be the one of the description.
    """
    ignored: set[str] = set()
    header = header_fields.split_header(raw, 0, len(raw), limits)
    leaves = leaf_parts(raw, header, limits, ignored)
    attached = [leaf for leaf in leaves if is_attachment(leaf)]
    if not 0 < wanted.number <= len(attached):
        return None
    content = part_content(raw, attached[wanted.number - 1], ignored)
    return content if hashlib.sha256(content).hexdigest() == wanted.sha256 else None
