"""The addresses that the header of a mail names as its recipients, for mail without an envelope."""

from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime.addresses import read_mailboxes
from oncebox.mail.mime.header_fields import split_header, unfold

#: written by the server that delivered the mail; for the mailbox, or for whom it was sent to
_DELIVERED_TO = ("delivered-to", "x-original-to", "envelope-to", "x-envelope-to")
_ADDRESSED_TO = ("to", "cc")
_MOST_ADDRESSES = 100


def named_recipients(raw: bytes) -> list[tuple[str, ...]]:
    """Return the addresses of each field of delivery, then those in To and Cc; the best first.

    A server with one mailbox for many addresses writes its own name into Delivered-To, so the
    first ones of which the caller knows any are those it looks for.
    """
    header = split_header(raw, 0, len(raw), ParseLimits())
    fields = [*((name,) for name in _DELIVERED_TO), _ADDRESSED_TO]
    groups = ([value for name in names for value in header.all(name)] for names in fields)
    return [found for values in groups if (found := _addresses(values))]


def _addresses(values: list[bytes]) -> tuple[str, ...]:
    """Return the addresses of some fields, each once."""
    found: dict[str, None] = {}
    for value in values:
        warnings: set[str] = set()
        for each in read_mailboxes(unfold(value, warnings), warnings).found:
            found[each.address] = None
            if len(found) >= _MOST_ADDRESSES:
                return tuple(found)
    return tuple(found)
