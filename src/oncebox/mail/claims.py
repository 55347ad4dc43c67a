"""Claims: header fields by which a mail speaks of its own checks.

Anybody can write them. Only our own check of what our own edge saw counts, so whoever shows
headers to an agent leaves these out.
"""

from collections.abc import Iterable

#: as ``Parsed.headers``
Headers = tuple[tuple[str, tuple[str, ...]], ...]

#: verdicts about the sender or the content
VERDICTS = frozenset({
    "authentication-results",
    "authentication-results-original",
    "arc-authentication-results",
    "received-spf",
    "x-authentication-results",
    "x-dkim-result",
    "x-dmarc-result",
    "x-dmarc-status",
    "x-google-dkim-signature-result",
    "x-original-authentication-results",
    "x-received-spf",
    "x-spf-result",
    "domainkey-status",
})  # fmt: skip
#: signatures and marks of those who checked; worth something only after our own check
MARKS = frozenset({
    "arc-message-signature",
    "arc-seal",
    "dkim-filter",
    "dkim-signature",
    "domainkey-signature",
    "x-dkim",
    "x-domainkeys",
    "x-google-dkim-signature",
    "x-originating-ip",
    "x-sender-ip",
    "x-virus-scanned",
    "x-virus-status",
})  # fmt: skip
_BEGINNINGS = (
    "x-amavis-",
    "x-barracuda-",
    "x-forefront-",
    "x-ironport-",
    "x-microsoft-antispam",
    "x-mimecast-",
    "x-ms-exchange-",
    "x-msfblmtp",
    "x-oncebox-",
    "x-proofpoint-",
    "x-rspamd-",
    "x-spam",
    "x-ham-",
)


def is_verdict(name: str) -> bool:
    """Say whether a field, by its name in lower case, tells a verdict."""
    return name in VERDICTS or name.startswith(("x-spam", "x-rspamd-"))


def is_claim(name: str) -> bool:
    """Say whether a field, by its name in lower case, speaks of a mail's own checks."""
    return name in VERDICTS or name in MARKS or name.startswith(_BEGINNINGS)


def without_claims(headers: Iterable[tuple[str, tuple[str, ...]]]) -> Headers:
    """Return the headers without those that claim something."""
    return tuple((name, values) for name, values in headers if not is_claim(name))
