"""Extraction: the content of one attachment, out of the raw mail."""

import hashlib

from oncebox.mail import attachments, fields, structure, transfer
from oncebox.mail.limits import ParseLimits
from oncebox.model.message import Attachment

_LIMITS = ParseLimits()


def extract(raw: bytes, wanted: Attachment, limits: ParseLimits = _LIMITS) -> bytes | None:
    """Return what is in an attachment; None if the mail does not hold it.

    Only the one part is decoded. It is known by its hash too, so what is handed out is what was
    described, or nothing.
    """
    unheard: set[str] = set()
    header = fields.split(raw, 0, len(raw), limits)
    leaves = structure.leaves(raw, header, limits, unheard)
    attached = [leaf for leaf in leaves if attachments.is_attached(leaf)]
    if not 0 < wanted.number <= len(attached):
        return None
    leaf = attached[wanted.number - 1]
    content = transfer.decode(raw[leaf.start : leaf.end], leaf.encoding, unheard)
    return content if hashlib.sha256(content).hexdigest() == wanted.sha256 else None
