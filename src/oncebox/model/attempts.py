"""Attempts: once-only actions of an agent, their states and leases, and mail resends."""

import hashlib
from enum import StrEnum

import msgspec

from oncebox.errors import KeyInvalid
from oncebox.model.deliveries.effects import Safety
from oncebox.model.validation import is_single_line

_LONGEST_ATTEMPT_ID = 200
_LONGEST_ACTION_NAME = 100


class ActionState(StrEnum):
    """Where an action stands."""

    #: begun; if its holder is gone, nobody knows whether it happened
    STARTED = "started"
    #: begun and in doubt; its holder looks whether it happened
    VERIFYING = "verifying"
    #: it happened; repeats get the stored result
    DONE = "done"
    #: proven not to have happened; it may begin again
    NOT_DONE = "not_done"
    #: nobody can know; a person decides
    UNKNOWN = "unknown"


#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[ActionState, ActionState], str] = {
    (ActionState.STARTED, ActionState.STARTED): (
        "its lease ran out or was given back, and the next caller repeats it with the same key "
        "(`idempotent`)"
    ),
    (ActionState.STARTED, ActionState.VERIFYING): (
        "its lease ran out, and the next caller looks first (`verify`)"
    ),
    (ActionState.STARTED, ActionState.UNKNOWN): (
        "its lease ran out, and the next caller must not repeat it (`once`, another choice than "
        "before, or after `window`)"
    ),
    (ActionState.STARTED, ActionState.DONE): "its holder says so, even late; or a person does",
    (ActionState.STARTED, ActionState.NOT_DONE): "its holder says so in time; or a person does",
    (ActionState.VERIFYING, ActionState.VERIFYING): "the lease ran out, and the next caller looks",
    (ActionState.VERIFYING, ActionState.UNKNOWN): (
        "the lease ran out, and the next caller does not look"
    ),
    (ActionState.VERIFYING, ActionState.DONE): "who looked found it, or any holder before says so",
    (ActionState.VERIFYING, ActionState.NOT_DONE): "who looked did not find it; or a person says",
    (ActionState.NOT_DONE, ActionState.STARTED): "begun again",
    (ActionState.NOT_DONE, ActionState.DONE): "an earlier holder proves that it happened after all",
    (ActionState.UNKNOWN, ActionState.DONE): "a person says so, or a holder proves it late",
    (ActionState.UNKNOWN, ActionState.NOT_DONE): "a person says so",
}


class BeginStatus(StrEnum):
    """What somebody is told who wants to begin an action."""

    #: do it now
    BEGUN = "begun"
    #: it was begun and never heard of again: look whether it happened, and say what you found
    LOOK = "look"
    #: it has happened; here is its result
    DONE = "done"
    #: somebody else is doing it; ask again later
    IN_FLIGHT = "in_flight"
    #: nobody knows whether it happened; a person decides
    HELD = "held"


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action of one attempt; all times in milliseconds since 1970."""

    tenant: str
    attempt_id: str
    name: str
    state: ActionState
    safe: Safety
    #: the API key that began it last
    holder: str
    fence: int
    lease_until: int
    #: the first start that may have happened
    first_started_at: int
    started_at: int
    ended_at: int | None
    #: sealed
    result: bytes | None = None


class BeginAction(msgspec.Struct, frozen=True, kw_only=True):
    """A wish to begin an action."""

    tenant: str
    attempt_id: str
    name: str
    #: who asks: the id of a key, or nothing at the terminal
    key: str
    #: the only owner whose attempts may be acted for; None is any
    owner: str | None
    safe: Safety
    #: a repeat of the same request is told the same
    fingerprint: bytes
    #: milliseconds for which the action is the caller's without a sign of life
    lease: int
    #: milliseconds for which the other side remembers a key
    window: int


class ActionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a holder says about its action."""

    tenant: str
    attempt_id: str
    name: str
    owner: str | None
    #: as the begin told it
    fence: int
    #: sealed; only of what is done
    result: bytes | None = None
    #: until when the lease shall hold, where it is a sign of life
    until: int = 0


class BeginActionResult(msgspec.Struct, frozen=True):
    """What is told to somebody who wants to begin an action."""

    status: BeginStatus
    action: Action
    #: this very call found it in doubt
    held_now: bool = False


class ResendGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Leave to ask for the mail of an attempt once more."""

    attempt_id: str
    #: which one of the attempt it is
    number: int
    #: how many there may be
    allowed: int
    at: int
    #: this request was granted before
    repeated: bool = False


class AttemptCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for an attempt."""

    created_at: int
    resends: int
    #: how many resends there may be
    allowed: int
    #: how many actions are in which state
    actions: dict[ActionState, int]


def action_key(tenant: str, attempt_id: str, name: str) -> str:
    """Return the key handed to the outside world: the same for every repeat of this action."""
    parts = f"{tenant}\0{attempt_id}\0{name}"
    return "act_" + hashlib.sha256(parts.encode()).hexdigest()[:40]


def request_fingerprint(key: str, request: str) -> bytes:
    """Return what is kept of a request to know it again: only from the same API key."""
    return hashlib.sha256(f"{key}\0{request}".encode()).digest()


def check_attempt_id(attempt_id: str) -> str:
    """Return the id of an attempt.

    Raises: KeyInvalid.
    """
    return _check_line("id of an attempt", attempt_id, _LONGEST_ATTEMPT_ID)


def check_action_name(name: str) -> str:
    """Return the name of an action.

    Raises: KeyInvalid.
    """
    return _check_line("name of an action", name, _LONGEST_ACTION_NAME)


def _check_line(what: str, text: str, longest: int) -> str:
    if not is_single_line(text, longest):
        raise KeyInvalid(f"the {what} is 1 to {longest} characters, without control characters")
    return text
