"""Effects: the journalled side effects of handlers."""

import hashlib
from enum import StrEnum
from typing import Any

import msgspec


class EffectState(StrEnum):
    """Where an effect stands in the journal."""

    #: begun; if its worker is gone, nobody knows whether it happened
    STARTED = "started"
    #: it happened; repeats get the stored result
    DONE = "done"
    #: proven not to have happened; it may run again
    NOT_DONE = "not_done"
    #: nobody can know; a person decides
    UNKNOWN = "unknown"


class Safe(StrEnum):
    """What to do with an effect that was started and never heard of again."""

    #: run it again with the same key, which the other side honours
    IDEMPOTENT = "idempotent"
    #: never run it twice: hold and ask a person
    ONCE = "once"
    #: ask the other side
    VERIFY = "verify"


class Done(msgspec.Struct, frozen=True):
    """A verify function's proof that the effect happened, with its result."""

    result: Any = None


class Effect(msgspec.Struct, frozen=True):
    """One row of the journal."""

    name: str
    state: EffectState
    safe: Safe
    fence: int
    first_started_at: int
    started_at: int
    surely_over_at: int
    ended_at: int | None
    result: bytes | None
    error: str | None


class Begin(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish to begin an effect."""

    delivery_id: str
    tenant: str
    fence: int
    name: str
    safe: Safe
    now: int
    surely_over_at: int
    #: the fence of the earlier start this wish knows of; begun anew only while it is the last
    seen: int = 0


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's word on how an effect ended."""

    delivery_id: str
    fence: int
    name: str
    state: EffectState
    now: int
    result: bytes | None = None
    error: str | None = None
    #: which start it speaks of, unless it says done: by which fence at the earliest, and when
    since: int = 0
    started_at: int | None = None


def effect_key(tenant: str, source: str, key: str, variant: str, name: str) -> str:
    """Return the key handed to the outside world: the same for every repeat of this effect.

    It depends on what arrived, not on our own ids, so that it survives a lost ledger.
    """
    parts = f"{tenant}\0{source}\0{key}\0{variant}\0{name}"
    return "once_" + hashlib.sha256(parts.encode()).hexdigest()[:40]
