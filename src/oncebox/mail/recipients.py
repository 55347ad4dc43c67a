"""The addresses that the header of a mail names as its recipients, for mail without an envelope."""

from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime.addresses import read_mailboxes
from oncebox.mail.mime.header_fields import split_header, unfold

#: written by the server that delivered the mail; the first that occurs counts alone
_DELIVERED_TO = ("delivered-to", "x-original-to", "envelope-to", "x-envelope-to")
_ADDRESSED_TO = ("to", "cc")
_MOST_ADDRESSES = 100


def named_recipients(raw: bytes) -> tuple[str, ...]:
    """Return the addresses a mail was delivered to, else those in To and Cc; each once."""
    header = split_header(raw, 0, len(raw), ParseLimits())
    delivered = next((values for name in _DELIVERED_TO if (values := header.all(name))), None)
    values = delivered or [value for name in _ADDRESSED_TO for value in header.all(name)]
    found: dict[str, None] = {}
    for value in values:
        warnings: set[str] = set()
        for each in read_mailboxes(unfold(value, warnings), warnings).found:
            found[each.address] = None
            if len(found) >= _MOST_ADDRESSES:
                return tuple(found)
    return tuple(found)
