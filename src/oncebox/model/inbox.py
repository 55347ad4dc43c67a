"""An inbox: one address, its states, and whether mail for it is taken."""

from enum import StrEnum

import msgspec

from oncebox.mail_errors import InboxInvalid
from oncebox.model.address import RANDOM_BYTES, address_key, is_plain, make_local
from oncebox.model.inbox_policy import InboxPolicy, check_policy, matches

__all__ = [
    "RANDOM_BYTES",
    "TRANSITIONS",
    "Inbox",
    "InboxPolicy",
    "InboxState",
    "InboxWish",
    "address_key",
    "check_wish",
    "make_local",
    "matches",
    "open_until",
]

_LONGEST_ATTEMPT = 200
_LONGEST_LABEL = 100
_MOST_METADATA = 16
_LONGEST_NAME, _LONGEST_VALUE = 64, 500


class InboxState(StrEnum):
    """Where an inbox stands."""

    #: mail is taken
    ACTIVE = "active"
    #: mail that was on its way is still taken, for a while
    DRAINING = "draining"
    #: somebody closed it; mail is refused
    CLOSED = "closed"
    #: its time was over; mail is refused
    EXPIRED = "expired"


#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[InboxState, InboxState], str] = {
    (InboxState.ACTIVE, InboxState.DRAINING): "closed, rotated, or `active_until` is reached",
    (InboxState.ACTIVE, InboxState.CLOSED): "closed or rotated without draining",
    (InboxState.DRAINING, InboxState.CLOSED): "drained after it was closed; or closed at once",
    (InboxState.DRAINING, InboxState.EXPIRED): "drained after `active_until`",
}


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """One address, who it is for and what came of it; all times in milliseconds since 1970."""

    id: str
    tenant: str
    #: the address, as it is shown
    email: str
    #: what the agent attempts; an attempt has one inbox of each label
    attempt_id: str | None
    label: str
    #: the key that made it; none: somebody at the terminal
    owner: str | None
    state: InboxState
    created_at: int
    #: none: for ever
    active_until: int | None
    #: when draining ends
    due_at: int | None
    ended_at: int | None
    #: echoed on its events
    metadata: dict[str, str]
    policy: InboxPolicy
    #: the number of its last message
    cursor: int
    #: copies of messages that it had already
    duplicates: int
    #: messages that its policy let through
    matched: int
    first_message_at: int | None
    last_message_at: int | None
    #: when its time was over with nothing matched
    missed_at: int | None
    rotated_from: str | None
    rotated_to: str | None

    @property
    def domain(self) -> str:
        """The domain of its address."""
        return self.email.rpartition("@")[2]


class InboxWish(msgspec.Struct, frozen=True, kw_only=True):
    """What an inbox is wanted to be."""

    attempt_id: str | None = None
    label: str = ""
    #: one of the tenant's; none: the default
    domain: str | None = None
    #: the part before the ``@``; none: one that nobody guesses
    local: str | None = None
    #: milliseconds; 0 is for ever, none the default
    lifetime: int | None = None
    metadata: dict[str, str] = {}
    policy: InboxPolicy = InboxPolicy()


def check_wish(wish: InboxWish) -> InboxWish:
    """Return a wish with its policy as it is kept.

    Raises: InboxInvalid.
    """
    if wish.attempt_id is not None and not is_plain(wish.attempt_id, _LONGEST_ATTEMPT):
        message = f"an attempt_id is 1 to {_LONGEST_ATTEMPT} characters, without control characters"
        raise InboxInvalid(message)
    if wish.label and not is_plain(wish.label, _LONGEST_LABEL):
        message = f"a label is at most {_LONGEST_LABEL} characters, without control characters"
        raise InboxInvalid(message)
    if len(wish.metadata) > _MOST_METADATA or not all(map(_is_entry, wish.metadata.items())):
        message = (
            f"metadata is at most {_MOST_METADATA} entries, with names of up to {_LONGEST_NAME} "
            f"and values of up to {_LONGEST_VALUE} characters, without control characters"
        )
        raise InboxInvalid(message)
    return msgspec.structs.replace(wish, policy=check_policy(wish.policy))


def open_until(
    state: InboxState, active_until: int | None, due_at: int | None, draining: int
) -> int | None:
    """Return until when mail is taken, whoever has looked at the inbox since; None is for ever."""
    if state is InboxState.ACTIVE:
        return None if active_until is None else active_until + draining
    return due_at or 0 if state is InboxState.DRAINING else 0


def _is_entry(entry: tuple[str, str]) -> bool:
    name, value = entry
    return is_plain(name, _LONGEST_NAME) and (not value or is_plain(value, _LONGEST_VALUE))
