"""Capabilities: what each way out promises about a second try. The table later ways fill in."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

_DAY = 86_400_000


class Idempotency(StrEnum):
    """What the other side does with a key that it has seen."""

    #: it answers as it did the first time
    REPLAY = "replay"
    #: it refuses, so a refusal of our own second try means: taken, name unknown
    REJECT = "reject"
    #: it drops a second mail to the same recipient of one campaign
    CAMPAIGN = "campaign"
    #: it knows no keys
    NONE = "none"


class Lookup(StrEnum):
    """How the other side can be asked what became of a mail."""

    BY_KEY = "by_key"
    BY_MESSAGE_ID = "by_message_id"
    BY_TAG = "by_tag"
    #: it tells by webhook, and cannot be asked
    EVENTS_ONLY = "events_only"
    NONE = "none"


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """What one way out promises, and within which limits."""

    name: str
    idempotency: Idempotency = Idempotency.NONE
    #: how long a key is remembered, in milliseconds
    window_ms: int = 0
    #: what a key may look like, as a whole; empty where there are none
    key_pattern: str = ""
    key_longest: int = 0
    #: whether an error is answered again under the same key
    caches_errors: bool = False
    #: whether other content under a known key is refused
    compares_body: bool = False
    #: whether our Message-ID reaches the recipient
    keeps_message_id: bool = False
    lookup: Lookup = Lookup.NONE
    #: of one mail
    most_recipients: int
    #: whether a mail that is taken goes anywhere
    delivers: bool = True


ALL: Mapping[str, Capability] = MappingProxyType({
    each.name: each
    for each in (
        Capability(name="log", keeps_message_id=True, most_recipients=1000, delivers=False),
        # RFC 5321, 4.5.3.1.8: every server takes a hundred.
        Capability(name="smtp", keeps_message_id=True, most_recipients=100),
        # https://resend.com/docs/dashboard/emails/idempotency-keys; it sends by Amazon's SES, which
        # writes Message-ID and Date anew. Refusals are not remembered.
        Capability(
            name="resend",
            idempotency=Idempotency.REPLAY,
            window_ms=_DAY,
            key_pattern=r"[!-~]{1,256}",
            key_longest=256,
            compares_body=True,
            lookup=Lookup.EVENTS_ONLY,
            most_recipients=50,
        ),
    )
})  # fmt: skip
