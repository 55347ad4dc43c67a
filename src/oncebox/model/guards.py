"""Guards: how many mails somebody may mean to send, so that an agent that errs is stopped."""

import msgspec

#: milliseconds for which a budget is given
BUDGET_SPAN = 3_600_000


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """What limits one intent, if it is new or armed again; 0 is no limit."""

    #: milliseconds in which nobody gets a second mail of its event type under another key
    cool_down: int = 0
    #: new sends in an hour that the key which asks may ask for
    per_key: int = 0
    #: new sends in an hour that may go to each of its recipients
    per_recipient: int = 0
