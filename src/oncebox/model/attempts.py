"""Attempts: once-only actions of an agent, their states and leases, and mail resends."""

import hashlib
from enum import StrEnum
from typing import NamedTuple

import msgspec

from oncebox.errors import KeyInvalid
from oncebox.model.deliveries.effects import Safety
from oncebox.model.validation import is_single_line

_LONGEST_ATTEMPT_ID = 200
_LONGEST_ACTION_NAME = 100


class ActionState(StrEnum):
    """The state of an action."""

    #: begun; if its holder is lost, the outcome is unknown
    STARTED = "started"
    #: the outcome is unknown; its holder verifies whether it happened
    VERIFYING = "verifying"
    #: it happened; repeats get the stored result
    DONE = "done"
    #: proven not to have happened; it may begin again
    NOT_DONE = "not_done"
    #: the outcome is unknown; a person decides
    UNKNOWN = "unknown"


#: every transition, with its cause; tests and docs use this table
TRANSITIONS: dict[tuple[ActionState, ActionState], str] = {
    (ActionState.STARTED, ActionState.STARTED): (
        "its lease expired or was released, and the next caller repeats it with the same key "
        "(`idempotent`)"
    ),
    (ActionState.STARTED, ActionState.VERIFYING): (
        "its lease expired, and the next caller verifies first (`verify`)"
    ),
    (ActionState.STARTED, ActionState.UNKNOWN): (
        "its lease expired, and the next caller must not repeat it (`once`, another choice than "
        "before, or after `window`)"
    ),
    (ActionState.STARTED, ActionState.DONE): "reported by its holder, even late, or by a person",
    (ActionState.STARTED, ActionState.NOT_DONE): "reported by its holder in time, or by a person",
    (ActionState.VERIFYING, ActionState.VERIFYING): (
        "the lease expired, and the next caller verifies"
    ),
    (ActionState.VERIFYING, ActionState.UNKNOWN): (
        "the lease expired, and the next caller does not verify"
    ),
    (ActionState.VERIFYING, ActionState.DONE): "verified, or reported by any earlier holder",
    (ActionState.VERIFYING, ActionState.NOT_DONE): "verified, or reported by a person",
    (ActionState.NOT_DONE, ActionState.STARTED): "begun again",
    (ActionState.NOT_DONE, ActionState.DONE): "an earlier holder proves that it happened after all",
    (ActionState.UNKNOWN, ActionState.DONE): "decided by a person, or proven late by a holder",
    (ActionState.UNKNOWN, ActionState.NOT_DONE): "decided by a person",
}


class BeginStatus(StrEnum):
    """The answer to a request to begin an action."""

    #: perform it now
    BEGUN = "begun"
    #: an earlier begin was never completed: verify whether it happened, and report it
    LOOK = "look"
    #: it has happened; the result is included
    DONE = "done"
    #: another caller is performing it; ask again later
    IN_FLIGHT = "in_flight"
    #: the outcome is unknown; a person decides
    HELD = "held"


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action of one attempt; times in milliseconds since 1970."""

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
    #: encrypted
    result: bytes | None = None


class BeginActionResult(msgspec.Struct, frozen=True):
    """An action, and what the caller is to do."""

    status: BeginStatus
    action: Action
    #: its outcome became unknown in this call
    held_now: bool = False


class ResendGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to request the mail of an attempt once more."""

    attempt_id: str
    #: its number in the attempt
    number: int
    #: the limit of the attempt
    allowed: int
    at: int
    #: this request was granted before
    repeated: bool = False


class AttemptIds(NamedTuple):
    """A range of attempt ids: one attempt, or a batch, which is all ids with the same prefix."""

    #: the id, or the prefix
    name: str
    lowest: str
    #: above the last one
    highest: str


def single_attempt(attempt_id: str) -> AttemptIds:
    """Return the range of one id; control characters, which no id has, come first."""
    return AttemptIds(attempt_id, attempt_id, f"{attempt_id}\x01")


def attempt_batch(prefix: str) -> AttemptIds:
    """Return the range of all ids that begin with a prefix."""
    return AttemptIds(prefix, prefix, f"{prefix}\U0010ffff")


class AttemptCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Resends and actions of an attempt."""

    created_at: int
    resends: int
    #: the limit of resends
    allowed: int
    #: the number of actions in each state
    actions: dict[ActionState, int]


def action_key(tenant: str, attempt_id: str, name: str) -> str:
    """Return the idempotency key for the target system, the same for every repeat of an action."""
    parts = f"{tenant}\0{attempt_id}\0{name}"
    return "act_" + hashlib.sha256(parts.encode()).hexdigest()[:40]


def request_fingerprint(key: str, request: str) -> bytes:
    """Return what identifies a repeat of a request from the same API key."""
    return hashlib.sha256(f"{key}\0{request}".encode()).digest()


def check_action(attempt_id: str, name: str) -> None:
    """Refuse an attempt id or an action name that is empty, too long or has control characters.

    Raises: KeyInvalid.
    """
    for what, text, longest in (
        ("id of an attempt", attempt_id, _LONGEST_ATTEMPT_ID),
        ("name of an action", name, _LONGEST_ACTION_NAME),
    ):
        if not is_single_line(text, longest):
            raise KeyInvalid(f"the {what} is 1 to {longest} characters, without control characters")
