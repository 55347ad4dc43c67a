"""Asking: how a program says which mail it means, in the words of Python."""

from datetime import datetime
from typing import TypedDict, TypeVar, Unpack

from oncebox.errors import KeyInvalid
from oncebox.model.email import Email
from oncebox.model.intent import Intent
from oncebox.model.send import OnUnknown, Retention

Word = TypeVar("Word", OnUnknown, Retention)
#: a moment: with its zone, or in milliseconds since 1970
Instant = datetime | int


class SendOptions(TypedDict, total=False):
    """What may be said of a mail besides what is in it."""

    #: what the mail is about, such as ``order.confirmation`` of ``order_4821``
    event_type: str
    entity_id: str
    #: another one means the same mail anew, on purpose
    version: int
    #: a key of one's own, instead of the one that is made of the above
    key: str | None
    #: what becomes of it when nobody can know whether it was sent: hold, replay or resend
    on_unknown: OnUnknown | str
    #: not before this moment, and not after that one
    send_at: Instant | None
    valid_until: Instant | None
    #: empty: the first that there is
    transport: str
    #: how long what it says is kept: transactional, scheduled or notification
    retention: Retention | str
    #: seconds between two of a schedule
    interval: float
    attempt_id: str | None
    #: the message of an inbox that it answers
    answers: str | None
    #: refuse a repeat that says something else
    strict: bool


def meant(email: Email, **options: Unpack[SendOptions]) -> Intent:
    """Return the intent that somebody means.

    Raises: KeyInvalid.
    """
    return Intent(
        email=email,
        event_type=options.get("event_type", ""),
        entity_id=options.get("entity_id", ""),
        version=options.get("version", 1),
        key=options.get("key"),
        on_unknown=_word(OnUnknown, options.get("on_unknown", OnUnknown.HOLD)),
        send_at=_instant(options.get("send_at")),
        valid_until=_instant(options.get("valid_until")),
        transport=options.get("transport", ""),
        retention=_word(Retention, options.get("retention", Retention.TRANSACTIONAL)),
        interval=int(options.get("interval", 0) * 1000),
        attempt_id=options.get("attempt_id"),
        answers=options.get("answers"),
        strict=options.get("strict", False),
    )


def _instant(given: Instant | None) -> int | None:
    if not isinstance(given, datetime):
        return given
    if given.tzinfo is None:
        raise KeyInvalid("a moment needs its zone, such as datetime.now(UTC)")
    return int(given.timestamp() * 1000)


def _word(kind: type[Word], given: str) -> Word:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(kind)
        raise KeyInvalid(f"that is none of: {known}") from None
