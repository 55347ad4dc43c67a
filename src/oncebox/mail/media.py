"""What kind of file a name says it is: the same on every machine, whatever is installed there.

The kind is a part of what no repeat of a mail may change, so two hosts must not guess it apart.
"""

import mimetypes
from functools import cache

OCTETS = "application/octet-stream"
#: what base64 would break: a mail in a mail, and several parts in one
_STRUCTURED = ("message/", "multipart/")


def of_name(name: str) -> str:
    """Return the media type of a file by how its name ends."""
    stem, dot, ending = name.rpartition(".")
    found = _kinds().get(dot + ending.lower(), OCTETS) if stem else OCTETS
    return OCTETS if found.startswith(_STRUCTURED) else found


@cache
def _kinds() -> dict[str, str]:
    return mimetypes.MimeTypes().types_map[True]
