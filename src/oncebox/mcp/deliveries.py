"""MCP tools claim_delivery and complete_delivery."""

import hashlib
import re
from typing import Annotated, Literal

from msgspec import Meta

from oncebox.errors import LeaseLost
from oncebox.mcp.tool import (
    DEFAULT_LEASE,
    Fence,
    Id,
    Lease,
    Line,
    Tool,
    ToolAnswer,
    ToolArguments,
    ToolContext,
    UnixMillis,
)
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.fields import SourceName
from oncebox.schemas.inboxes import AttemptId
from oncebox.schemas.pull import LONGEST_WAIT, ClaimedDelivery

#: who the ledger says is at work
_WORKER_NAME = "mcp"
#: what names things; no room for a sentence
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
#: seconds for the network, besides the wait
_NETWORK_TIMEOUT = 8.0

_NEXT_CLAIMED = (
    "Work on it, then call complete_delivery with delivery_id and fence. Wrap what must happen "
    "once in begin_action and finish_action, with delivery_id as attempt_id."
)
_NEXT_NOTHING = "There is no work now. Call again later, with the same attempt_id."
_NEXT_OVER = (
    "The delivery of this attempt is settled, or somebody else has it. Do not work on it. For the "
    "next one, call with a new attempt_id."
)


class ClaimDelivery(ToolArguments, frozen=True, kw_only=True):
    """For which attempt, and from where."""

    attempt_id: Annotated[
        AttemptId, Meta(description="New for each delivery; the same one gets the same again.")
    ]
    source: Annotated[
        SourceName | None, Meta(description="Where it comes from; unset: all of this key.")
    ] = None
    lease: Lease = DEFAULT_LEASE
    within: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for one, at most 55.")
    ] = 0.0


class ClaimAnswer(ToolAnswer, frozen=True, kw_only=True):
    """What is yours to do now."""

    status: Annotated[
        Literal["claimed", "nothing", "over"],
        Meta(description="claimed: it is yours; over: it is settled or somebody else's"),
    ]
    delivery_id: str | None = None
    fence: Annotated[int | None, Meta(description="For complete_delivery.")] = None
    source: str | None = None
    type: Annotated[str | None, Meta(description="What happened; none if it is no plain word.")] = (
        None
    )
    key: Annotated[
        str | None, Meta(description="The provider's id of it; none if it is no plain word.")
    ] = None
    tries: int | None = None
    late: Annotated[bool, Meta(description="It comes after its time or out of its turn.")] = False
    received_at: UnixMillis | None = None
    lease_until: UnixMillis | None = None


class CompleteDelivery(ToolArguments, frozen=True, kw_only=True):
    """How it ended."""

    delivery_id: Annotated[Id, Meta(description="From claim_delivery.")]
    fence: Annotated[Fence, Meta(description="From claim_delivery.")]
    outcome: Annotated[
        Literal["done", "retry", "give_up"],
        Meta(description="done; retry: try again later; give_up: trying again will not help"),
    ] = "done"
    why: Annotated[Line | None, Meta(description="Why not, in your own words.")] = None


class SettledAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Where the delivery stands."""

    state: DeliveryState
    due_at: Annotated[int | None, Meta(description="When it is tried again, in ms since 1970.")] = (
        None
    )


async def claim_delivery(hand: ToolContext, asked: ClaimDelivery) -> ClaimAnswer:
    """Claim one delivery for an attempt, or tell again which one it has."""
    work = hand.client.within(_NETWORK_TIMEOUT).deliveries.claim(
        asked.source,
        wait=asked.within,
        lease=asked.lease,
        worker=_WORKER_NAME,
        request_key=_request_key(hand.key_fingerprint, asked.attempt_id),
    )
    claimed = await hand.wait(work, asked.within)
    if not claimed.deliveries:
        return ClaimAnswer(status="nothing", next=_NEXT_NOTHING)
    (delivery,) = claimed.deliveries
    try:
        # A repeat is told the same claim whatever became of it; the fence knows whether it holds.
        held = await hand.client.deliveries.heartbeat(
            delivery.id, delivery.fence, lease=asked.lease
        )
    except LeaseLost:
        return ClaimAnswer(status="over", delivery_id=delivery.id, next=_NEXT_OVER)
    return _claimed_answer(delivery, held.until)


async def complete_delivery(hand: ToolContext, asked: CompleteDelivery) -> SettledAnswer:
    """Settle a delivery."""
    if asked.outcome == "done":
        ended = await hand.client.deliveries.complete(asked.delivery_id, asked.fence)
    else:
        ended = await hand.client.deliveries.fail(
            asked.delivery_id,
            asked.fence,
            asked.why or f"the agent said {asked.outcome}",
            permanent=asked.outcome == "give_up",
        )
    return SettledAnswer(
        state=ended.state,
        due_at=ended.due_at,
        next="It is settled. Do not work on it any more. For the next one, call claim_delivery "
        "with a new attempt_id.",
    )


def _request_key(mark: str, attempt_id: str) -> str:
    """Return what makes a repeat of an attempt's claim the same claim: this caller's only."""
    said = f"{mark}\0{attempt_id}".encode()
    return f"mcp_{hashlib.sha256(said).hexdigest()}"


def _claimed_answer(delivery: ClaimedDelivery, until: int) -> ClaimAnswer:
    return ClaimAnswer(
        status="claimed",
        delivery_id=delivery.id,
        fence=delivery.fence,
        source=delivery.source,
        type=_plain_name(delivery.type),
        key=_plain_name(delivery.key),
        tries=delivery.tries,
        late=delivery.late,
        received_at=delivery.received_at,
        lease_until=until,
        next=_NEXT_CLAIMED,
    )


def _plain_name(text: str) -> str | None:
    """Return what a sender calls something, if it can be nothing but a name."""
    return text if _PLAIN_NAME.fullmatch(text) else None


TOOLS = (
    Tool(
        name="claim_delivery",
        title="Claim a delivery",
        description="Claim one delivery, such as a webhook, to work on. It is yours for lease "
        "seconds. The same attempt_id gets the same one again, also after a crash.",
        arguments=ClaimDelivery,
        answer=ClaimAnswer,
        run=claim_delivery,
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=True,
    ),
    Tool(
        name="complete_delivery",
        title="Complete a delivery",
        description="Say that a claimed delivery is done, is to be tried again, or is given up.",
        arguments=CompleteDelivery,
        answer=SettledAnswer,
        run=complete_delivery,
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
    ),
)
