"""Outcomes: what is known after something was handed to the world, or was not."""

from enum import StrEnum

import msgspec

#: the code of what its provider knows under the same key as something else; repeats change nothing
KEY_MISMATCH = "key_mismatch"


class Phase(StrEnum):
    """How far a hand-over came, in this order."""

    CONNECT = "connect"
    GREETED = "greeted"
    ENVELOPE = "envelope"
    BODY = "body"
    #: the ledger knows that from here on it may be taken
    MARKED = "marked"
    HANDED_OVER = "handed_over"
    ANSWERED = "answered"


class Accepted(msgspec.Struct, frozen=True, kw_only=True, tag="accepted"):
    """The other side took it: proof, whoever brings it."""

    #: what the other side calls it; empty if it does not say
    provider_id: str = ""
    phase: Phase = Phase.ANSWERED


class NotSent(msgspec.Struct, frozen=True, kw_only=True, tag="not_sent"):
    """It was certainly not taken, and may be tried again."""

    code: str
    phase: Phase
    #: milliseconds that the other side asks to wait
    retry_after: int | None = None
    #: nothing that goes this way will be taken until somebody mends it
    opens_circuit: bool = False
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """It was certainly not taken, and never will be."""

    code: str
    phase: Phase
    reply: int = 0


class Unknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """It may have been taken, and nobody here can know."""

    code: str
    phase: Phase
    reply: int = 0


Outcome = Accepted | NotSent | Rejected | Unknown
