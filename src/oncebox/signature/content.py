"""The signed content: what a template such as ``{timestamp}.{body}`` stands for."""

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from oncebox.errors import ConfigInvalid
from oncebox.signature.request import octets
from oncebox.signature.scheme import Attempt

_HOLE = re.compile(r"\{(body|timestamp|method|url|secret|header:[A-Za-z0-9-]+)\}")
#: a piece is literal, or the name of a hole
Piece = bytes | str


@lru_cache(1024)
def pieces(template: str) -> tuple[Piece, ...]:
    """Return the literal parts and the holes of a template.

    Raises: ConfigInvalid.
    """
    parts = _HOLE.split(template)
    if any(brace in literal for literal in parts[::2] for brace in "{}"):
        message = f"{template!r} is not a signed content; write it like {{timestamp}}.{{body}}"
        raise ConfigInvalid(message)
    return tuple(
        part if number % 2 else part.encode()
        for number, part in enumerate(parts)
        if part or number % 2
    )


def messages(attempt: Attempt, timestamp: str, secret: bytes) -> list[bytes]:
    """Return what the sender may have signed; several only where the address has spellings.

    Raises: SignatureInvalid, if a header that belongs to it is missing.
    """
    template = attempt.scheme.content
    if template == "{body}":
        return [attempt.request.body]
    parts = pieces(template)
    spellings = addresses(attempt) if "url" in parts else ("",)
    return [
        b"".join(_filled(attempt, part, timestamp, secret, url) for part in parts)
        for url in spellings
    ]


def addresses(attempt: Attempt) -> Sequence[str]:
    """Return the address as the sender may have spelled it."""
    url = public_address(attempt.request.url, attempt.options.public_url)
    return attempt.scheme.urls(url) if attempt.scheme.urls else (url,)


def public_address(url: str, public: str) -> str:
    """Return the public address; its query is that of the request, unless it has its own."""
    if not public:
        return url
    try:
        query = urlsplit(url).query
        return public if not query or urlsplit(public).query else f"{public}?{query}"
    except ValueError:
        return public


def _filled(attempt: Attempt, part: Piece, timestamp: str, secret: bytes, url: str) -> bytes:
    if isinstance(part, bytes):
        return part
    if part == "body":
        return attempt.request.body
    if part.startswith("header:"):
        return octets(attempt.request.header(part[7:].lower()))
    if part == "secret":
        return secret
    return octets({"timestamp": timestamp, "method": attempt.request.method, "url": url}[part])
