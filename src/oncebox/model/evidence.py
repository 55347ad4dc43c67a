"""Evidence: what a provider tells of mail that it took."""

from enum import StrEnum

import msgspec


class Told(StrEnum):
    """What became of a mail, from the weakest word to the strongest.

    Providers tell in any order, and more than once. A word counts only if it is stronger than the
    last: who complained has certainly got it, and what bounced for good was not read.
    """

    #: taken; proof for who was in doubt, and no word on the recipient
    ACCEPTED = "accepted"
    DELAYED = "delayed"
    #: sent back for now; some mailboxes answer so although they keep the mail
    SOFT_BOUNCED = "soft_bounced"
    DELIVERED = "delivered"
    OPENED = "opened"
    CLICKED = "clicked"
    #: not passed on, because the provider has the recipient on a list of its own
    SUPPRESSED = "suppressed"
    #: not passed on, because something went wrong at the provider
    FAILED = "failed"
    #: sent back for good
    BOUNCED = "bounced"
    #: the recipient calls it spam
    COMPLAINED = "complained"

    @property
    def strength(self) -> int:
        """How much it counts against other words; nothing told is 0."""
        return _STRENGTHS[self]


_STRENGTHS = {told: place for place, told in enumerate(Told)}
#: what is written of the recipient who will get no more mail
LISTED = {Told.BOUNCED: "hard_bounce", Told.COMPLAINED: "complaint"}


class Addressee(msgspec.Struct, frozen=True):
    """Whom a word is about."""

    mark: bytes
    #: the address, sealed
    address: bytes


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One word of a provider on one mail."""

    tenant: str
    #: the way whose provider tells
    transport: str
    #: what the provider calls the mail
    provider_id: str
    #: the send that the mail's tag names; empty: it names none
    send_id: str = ""
    what: Told
    #: when it happened, as the provider says
    at: int
    addressees: tuple[Addressee, ...] = ()


class Heard(msgspec.Struct, frozen=True):
    """What came of a word."""

    #: the send it is about; None: it is about none of ours, and changes nothing
    send_id: str | None = None
    #: it ended a doubt, or any other state but sent
    proven: bool = False
    #: more is known of the recipient than before
    news: bool = False
    #: addresses that get no more mail
    listed: int = 0
