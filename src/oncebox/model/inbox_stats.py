"""What came of inboxes, in figures."""

import msgspec

from oncebox.model.inbox import Inbox, InboxState


class AttemptStats(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all inboxes of an attempt; times in milliseconds."""

    attempt_id: str
    #: how many inboxes are in which state
    states: dict[InboxState, int]
    messages: int
    duplicates: int
    matched: int
    #: when the first inbox was made
    created_at: int
    first_message_at: int | None
    last_message_at: int | None
    #: inboxes whose time was over with nothing matched
    missed: int


def time_to_first_message(of: Inbox | AttemptStats) -> int | None:
    """Return the milliseconds from the beginning to the first message, if there is one."""
    if of.first_message_at is None:
        return None
    return max(0, of.first_message_at - of.created_at)
