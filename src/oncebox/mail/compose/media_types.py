"""Media type of a file by its name, the same on every machine.

The media type is part of the content that a repeated send must not change, so it must not depend
on the host.
"""

import mimetypes
from functools import cache

OCTET_STREAM = "application/octet-stream"
#: types that must not be base64-encoded: messages and multiparts
_STRUCTURED = ("message/", "multipart/")


def media_type_of(name: str) -> str:
    """Return the media type of a file by its extension."""
    stem, dot, ending = name.rpartition(".")
    found = _types_by_extension().get(dot + ending.lower(), OCTET_STREAM) if stem else OCTET_STREAM
    return OCTET_STREAM if found.startswith(_STRUCTURED) else found


@cache
def _types_by_extension() -> dict[str, str]:
    return mimetypes.MimeTypes().types_map[True]
