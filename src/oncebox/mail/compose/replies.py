"""Replies: mail that must not be answered automatically (RFC 3834), threading headers.

Two programs that answer each other never stop. So automatic replies skip mail from programs
(RFC 3834), from mailing lists, and from senders that cannot be answered.
"""

import re

#: as ``Parsed.headers``
Headers = tuple[tuple[str, tuple[str, ...]], ...]

_BULK_PRECEDENCE = frozenset({"bulk", "junk", "list"})
#: fields of older programs with the meaning of Auto-Submitted
_AUTOMATIC_FIELDS = frozenset({"list-id", "x-autoreply", "x-autorespond"})
#: bounces, receipts and complaints (RFC 6522)
_REPORT = "multipart/report"
#: local parts that nobody reads
_DAEMON = re.compile(r"(?<![\w.+-])(?:mailer-daemon|majordomo|listserv)(?:@|$)", re.IGNORECASE)
_NULL_PATHS = frozenset({"", "<>"})


def is_automatic(headers: Headers, sender: str | None) -> bool:
    """Say whether a mail was sent automatically.

    ``sender`` is the envelope sender: empty for a bounce, None if it is unknown.
    """
    fields = {name: [_bare_value(value) for value in values] for name, values in headers}
    said = set(fields.get("auto-submitted", ())) - {"no", ""}
    # The sender asks for no automatic replies; ``none`` has no effect.
    asked = set(fields.get("x-auto-response-suppress", ())) - {"none", ""}
    return (
        bool(said or asked)
        or not _BULK_PRECEDENCE.isdisjoint(fields.get("precedence", ()))
        or not _AUTOMATIC_FIELDS.isdisjoint(fields)
        or _REPORT in fields.get("content-type", ())
        or _has_no_reply_path(headers, sender)
    )


def _has_no_reply_path(headers: Headers, sender: str | None) -> bool:
    values = dict(headers)
    paths = [*values.get("return-path", ()), *([] if sender is None else [sender])]
    if any("".join(path.split()) in _NULL_PATHS for path in paths):
        return True
    named = [*paths, *values.get("from", ()), *values.get("sender", ())]
    return any(_DAEMON.search(each) for each in named)


def _bare_value(value: str) -> str:
    """Return the value of a field without parameters and comments."""
    return value.partition(";")[0].partition("(")[0].strip().lower()


#: a Message-ID that all programs accept
_MESSAGE_ID = re.compile(r"<[!-;=?A-~]{1,200}@[!-;=?A-~]{1,200}>")
#: limit of ids in References; of a longer thread, the first and the last ones
_MOST_REFERENCES = 20


def reply_headers(headers: Headers, message_id: str) -> dict[str, str]:
    """Return the threading fields of a reply; none if the mail has no usable id."""
    if not _MESSAGE_ID.fullmatch(message_id):
        return {}
    values = dict(headers)
    before = values.get("references") or values.get("in-reply-to", ())
    named = dict.fromkeys(each for value in before for each in _MESSAGE_ID.findall(value))
    named.pop(message_id, None)
    ids = [*named, message_id]
    if len(ids) > _MOST_REFERENCES:
        ids = [ids[0], *ids[1 - _MOST_REFERENCES :]]
    return {"In-Reply-To": message_id, "References": " ".join(ids)}
