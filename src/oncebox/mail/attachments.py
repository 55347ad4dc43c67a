"""Attachments: what they are called, how large they are and their hash. Nothing is unpacked."""

import hashlib
import re

from oncebox.mail import parameters, words
from oncebox.mail.structure import Leaf
from oncebox.model.message import Attachment

_LONGEST_NAME = 255
#: what readers show in place, whatever it is called
_TEXTS = frozenset({"text/plain", "text/html"})
#: controls, and what hides or turns around the end of a name
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ODD = re.compile("[/\\\\:\ufffd\u200b-\u200f\u202a-\u202e\u2066-\u2069]|^\\.|^$")


def is_attached(leaf: Leaf) -> bool:
    """Say whether a part is something beside the text of a mail."""
    return leaf.disposition == "attachment" or leaf.media_type not in _TEXTS


def describe(leaf: Leaf, number: int, content: bytes, warnings: set[str]) -> Attachment:
    """Return what is known of an attachment; its name is only shown, never a path."""
    name = _name(leaf, warnings)
    if len(name) > _LONGEST_NAME or (name and _ODD.search(name)):
        warnings.add("attachment_name_odd")
    content_id = words.decode(leaf.content_id, warnings).strip().strip("<>")
    return Attachment(
        number=number,
        name=name[:_LONGEST_NAME],
        media_type=leaf.media_type,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        inline=leaf.disposition == "inline" or (not leaf.disposition and bool(content_id)),
        content_id=_CONTROL.sub("\ufffd", content_id)[:_LONGEST_NAME],
    )


def _name(leaf: Leaf, warnings: set[str]) -> str:
    name = parameters.text(leaf.disposition_parameters, "filename", warnings)
    if not name:
        name = parameters.text(leaf.parameters, "name", warnings)
    return _CONTROL.sub("\ufffd", name)
