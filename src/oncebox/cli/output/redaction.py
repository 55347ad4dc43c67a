"""Which settings are secret, and URLs without user and password."""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

#: settings that are secret by their name, and those that only count keys or name a file
_SECRET = re.compile(r"(?:^|[._])(?:key|secret|password|passphrase|token|credential)s?$")
_HARMLESS = frozenset(
    {
        "events.streams_per_key", "http.requests_per_key", "http.wrong_keys", "sends.per_key",
        "smtp.tls_key", "waits.per_key",
    }
)  # fmt: skip
#: host, port and path of a URL, and nothing that could be an unescaped password
_PLACE = re.compile(r"[\w.:,\[\]-]*(?:/[\w./~-]*)?")


def is_secret(name: str) -> bool:
    """Say whether a setting is never shown."""
    return bool(_SECRET.search(name)) and name not in _HARMLESS


def redacted(name: str, value: Any) -> str | int | float | bool:
    """Return the part of a value that may be shown."""
    if name in {"sources", "mailboxes"}:
        return ", ".join(map(str, value)) if isinstance(value, Mapping) else HIDDEN
    if isinstance(value, str):
        return _redacted_text(name, value)
    if isinstance(value, bool | int | float):
        return HIDDEN if is_secret(name) and value else value
    return HIDDEN if value else ""


def _redacted_text(name: str, value: str) -> str:
    if not value:
        return ""
    if is_secret(name):
        return HIDDEN
    if "://" in value:
        return redacted_url(value)
    return HIDDEN if name == "database_url" else value


def redacted_url(text: str) -> str:
    """Return a URL without user, password and parameters; hidden if they cannot be separated."""
    scheme, _, rest = text.partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        return f"{scheme}://{rest.partition('?')[0]}"
    before, at, place = rest.rpartition("@")
    place, question, _ = place.partition("?")
    # A question mark before the last @ may be part of a password.
    if "?" in before or not _PLACE.fullmatch(place) or not scheme.isalnum():
        return HIDDEN
    user = f"{HIDDEN}@" if at or before else ""
    return f"{scheme}://{user}{place}{question}{HIDDEN if question else ''}"
