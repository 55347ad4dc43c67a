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

#: the worker name in the ledger
_WORKER_NAME = "mcp"
#: identifiers, too short for a sentence
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,63}")
#: seconds for the network, besides the wait
_NETWORK_TIMEOUT = 8.0

_NEXT_CLAIMED = (
    "Work on it, then call complete_delivery with delivery_id and fence. Wrap what must happen "
    "once in begin_action and finish_action, with delivery_id as attempt_id."
)
_NEXT_NOTHING = "There is no work now. Call again later, with the same attempt_id."
_NEXT_OVER = (
    "The delivery of this attempt is settled, or another caller has it. Do not work on it. For the "
    "next one, call with a new attempt_id."
)


class ClaimDelivery(ToolArguments, frozen=True, kw_only=True):
    """The attempt and the source of a claim."""

    attempt_id: Annotated[
        AttemptId, Meta(description="New for each delivery; the same one gets the same delivery.")
    ]
    source: Annotated[
        SourceName | None, Meta(description="Its source; unset: all sources of this key.")
    ] = None
    lease: Lease = DEFAULT_LEASE
    within: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for one, at most 55.")
    ] = 0.0


class ClaimAnswer(ToolAnswer, frozen=True, kw_only=True):
    """A claimed delivery."""

    status: Annotated[
        Literal["claimed", "nothing", "over"],
        Meta(description="claimed: it is yours; over: it is settled or another caller has it"),
    ]
    delivery_id: str | None = None
    fence: Annotated[int | None, Meta(description="For complete_delivery.")] = None
    source: str | None = None
    type: Annotated[
        str | None, Meta(description="Event type; unset if it is not a plain name.")
    ] = None
    key: Annotated[
        str | None, Meta(description="The provider's id; unset if it is not a plain name.")
    ] = None
    tries: int | None = None
    late: Annotated[bool, Meta(description="It is late or out of order.")] = False
    received_at: UnixMillis | None = None
    lease_until: UnixMillis | None = None


class CompleteDelivery(ToolArguments, frozen=True, kw_only=True):
    """The outcome of a delivery."""

    delivery_id: Annotated[Id, Meta(description="From claim_delivery.")]
    fence: Annotated[Fence, Meta(description="From claim_delivery.")]
    outcome: Annotated[
        Literal["done", "retry", "give_up"],
        Meta(description="done; retry: try again later; give_up: trying again will not help"),
    ] = "done"
    why: Annotated[Line | None, Meta(description="The reason, if it is not done.")] = None


class SettledAnswer(ToolAnswer, frozen=True, kw_only=True):
    """The state of a delivery."""

    state: DeliveryState
    due_at: Annotated[int | None, Meta(description="Time of the next try, in ms since 1970.")] = (
        None
    )


async def claim_delivery(context: ToolContext, args: ClaimDelivery) -> ClaimAnswer:
    """Claim one delivery for an attempt, or return the one it has."""
    work = context.client.within(_NETWORK_TIMEOUT).deliveries.claim(
        args.source,
        wait=args.within,
        lease=args.lease,
        worker=_WORKER_NAME,
        request_key=_request_key(context.key_fingerprint, args.attempt_id),
    )
    claimed = await context.wait(work, args.within)
    if not claimed.deliveries:
        return ClaimAnswer(status="nothing", next=_NEXT_NOTHING)
    (delivery,) = claimed.deliveries
    try:
        # A repeat gets the same claim in any state; the fence shows whether it is still valid.
        held = await context.client.deliveries.heartbeat(
            delivery.id, delivery.fence, lease=args.lease
        )
    except LeaseLost:
        return ClaimAnswer(status="over", delivery_id=delivery.id, next=_NEXT_OVER)
    return _claimed_answer(delivery, held.until)


async def complete_delivery(context: ToolContext, args: CompleteDelivery) -> SettledAnswer:
    """Settle a delivery."""
    if args.outcome == "done":
        ended = await context.client.deliveries.complete(args.delivery_id, args.fence)
    else:
        ended = await context.client.deliveries.fail(
            args.delivery_id,
            args.fence,
            args.why or f"the agent said {args.outcome}",
            permanent=args.outcome == "give_up",
        )
    return SettledAnswer(
        state=ended.state,
        due_at=ended.due_at,
        next="It is settled. Do not work on it any more. For the next one, call claim_delivery "
        "with a new attempt_id.",
    )


def _request_key(key_fingerprint: str, attempt_id: str) -> str:
    """Return the same key for every claim of this caller for this attempt."""
    identity = f"{key_fingerprint}\0{attempt_id}".encode()
    return f"mcp_{hashlib.sha256(identity).hexdigest()}"


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
    """Return a name that a sender chose, unless it could be more than a name."""
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
        open_world=True,
    ),
    Tool(
        name="complete_delivery",
        title="Complete a delivery",
        description="Record that a claimed delivery is done, should be retried, or is given up.",
        arguments=CompleteDelivery,
        answer=SettledAnswer,
        run=complete_delivery,
    ),
)
