"""What Resend's webhooks tell, read without believing more than they say.

They come by the ledger, signed; who may speak about which send is judged there.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from oncebox.model.evidence import Told
from oncebox.model.mailbox import read_mailbox
from oncebox.send_errors import MailboxInvalid
from oncebox.transport.email.resend import TAG

_WORDS = {
    "email.sent": Told.ACCEPTED,
    "email.delivered": Told.DELIVERED,
    "email.delivery_delayed": Told.DELAYED,
    "email.bounced": Told.SOFT_BOUNCED,
    "email.complained": Told.COMPLAINED,
    "email.failed": Told.FAILED,
    "email.suppressed": Told.SUPPRESSED,
    "email.opened": Told.OPENED,
    "email.clicked": Told.CLICKED,
}
#: the kind of bounce that will always be one; a mailbox that is full is another
_PERMANENT = "permanent"
_ID = re.compile(r"[!-~]{1,256}")
_SEND_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: more than any mail has
_MOST_ADDRESSES = 200


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One word of Resend on one mail."""

    provider_id: str
    #: the send that our tag names; empty: there is none
    send_id: str
    what: Told
    #: milliseconds since 1970; None if it does not say
    at: int | None
    #: whom it is about, in the spelling by which addresses are compared; of several addresses it
    #: does not say which one, so nobody is named then
    addresses: tuple[str, ...]

    def __repr__(self) -> str:
        """Say whom it is about by their number."""
        return f"Report({self.what}, {len(self.addresses)} addresses)"


def read(body: bytes) -> Report | None:
    """Return what a webhook says of a mail; None if it says nothing that can be understood."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    kind, data = (said.get("type"), said.get("data")) if isinstance(said, dict) else (None, None)
    what = _WORDS.get(kind) if isinstance(kind, str) else None
    if what is None or not isinstance(data, dict):
        return None
    provider_id = _text(data.get("email_id"), _ID)
    if not provider_id:
        return None
    return Report(
        provider_id=provider_id,
        send_id=_text(dict(_tags(data.get("tags"))).get(TAG), _SEND_ID),
        what=_bounce(data) if what is Told.SOFT_BOUNCED else what,
        at=_moment(said.get("created_at")),
        addresses=_named(data.get("to")),
    )


def _bounce(data: dict[str, Any]) -> Told:
    """Tell for good from for now; what does not say is taken for the latter, and lists nobody."""
    bounce = data.get("bounce")
    kind = bounce.get("type") if isinstance(bounce, dict) else None
    is_hard = isinstance(kind, str) and kind.lower() == _PERMANENT
    return Told.BOUNCED if is_hard else Told.SOFT_BOUNCED


def _tags(tags: Any) -> Iterator[tuple[str, Any]]:
    """Give tags by name: they come as an object, and by the reference as a list."""
    if isinstance(tags, dict):
        yield from tags.items()
    elif isinstance(tags, list):
        for each in tags:
            if isinstance(each, dict) and isinstance(each.get("name"), str):
                yield each["name"], each.get("value")


def _named(given: Any) -> tuple[str, ...]:
    """Return whom a word names; one who bounced must not take others with him."""
    found = tuple(dict.fromkeys(_addresses(given)))
    return found if len(found) == 1 else ()


def _addresses(given: Any) -> Iterator[str]:
    texts = given if isinstance(given, list) else [given]
    for text in texts[:_MOST_ADDRESSES]:
        if isinstance(text, str):
            try:
                yield read_mailbox(text).key
            except MailboxInvalid:
                continue


def _moment(text: Any) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        at = round(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if at >= 0 else None


def _text(value: Any, form: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and form.fullmatch(value) else ""
