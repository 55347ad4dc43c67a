"""Threads: the fields by which a mail says which other one it answers (RFC 5322, 3.6.4)."""

import re

from oncebox.mail.automatic import Headers

#: an id that every reader takes for one
_ID = re.compile(r"<[!-;=?A-~]{1,200}@[!-;=?A-~]{1,200}>")
#: ids that are named; of a longer thread the first and the last ones
_MOST = 20


def answering(headers: Headers, message_id: str) -> dict[str, str]:
    """Return the fields of an answer to a mail; none if that has no id to be named by."""
    if not _ID.fullmatch(message_id):
        return {}
    values = dict(headers)
    before = values.get("references") or values.get("in-reply-to", ())
    named = dict.fromkeys(each for value in before for each in _ID.findall(value))
    named.pop(message_id, None)
    ids = [*named, message_id]
    if len(ids) > _MOST:
        ids = [ids[0], *ids[1 - _MOST :]]
    return {"In-Reply-To": message_id, "References": " ".join(ids)}
