"""Automatic mail: what a program sent by itself, or to many, and must not be answered by one.

Two programs that answer each other go on without end. So whoever answers by program leaves alone
what says that it came from one (RFC 3834), from a list, or from nobody.
"""

import re

#: as ``Parsed.headers``
Headers = tuple[tuple[str, tuple[str, ...]], ...]

_TO_MANY = frozenset({"bulk", "junk", "list"})
#: by which older programs say what Auto-Submitted says
_MARKS = frozenset({"list-id", "x-autoreply", "x-autorespond"})
#: bounces, receipts and complaints (RFC 6522)
_REPORT = "multipart/report"
#: those behind whom there is nobody
_DAEMON = re.compile(r"(?<![\w.+-])(?:mailer-daemon|majordomo|listserv)(?:@|$)", re.IGNORECASE)
_NOBODY = frozenset({"", "<>"})


def is_automatic(headers: Headers, sender: str | None) -> bool:
    """Say whether a program sent a mail by itself.

    ``sender`` is where its bounces go, empty for a mail that is one; None if nobody saw that.
    """
    fields = {name: [_word(value) for value in values] for name, values in headers}
    said = set(fields.get("auto-submitted", ())) - {"no", ""}
    # Asked for by a sender whose mail nobody need answer; ``none`` asks for nothing.
    asked = set(fields.get("x-auto-response-suppress", ())) - {"none", ""}
    return (
        bool(said or asked)
        or not _TO_MANY.isdisjoint(fields.get("precedence", ()))
        or not _MARKS.isdisjoint(fields)
        or _REPORT in fields.get("content-type", ())
        or _is_from_nobody(headers, sender)
    )


def _is_from_nobody(headers: Headers, sender: str | None) -> bool:
    values = dict(headers)
    paths = [*values.get("return-path", ()), *([] if sender is None else [sender])]
    if any("".join(path.split()) in _NOBODY for path in paths):
        return True
    named = [*paths, *values.get("from", ()), *values.get("sender", ())]
    return any(_DAEMON.search(each) for each in named)


def _word(value: str) -> str:
    """Return what a field says, without its parameters and comments."""
    return value.partition(";")[0].partition("(")[0].strip().lower()
