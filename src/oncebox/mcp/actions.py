"""MCP tools begin_action and finish_action."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from oncebox.client.core.work import new_request_key
from oncebox.mcp.tool import (
    DEFAULT_LEASE,
    Fence,
    Lease,
    Line,
    Tool,
    ToolAnswer,
    ToolArguments,
    ToolContext,
    UnixMillis,
)
from oncebox.model.attempts import ActionState
from oncebox.schemas.inboxes import AttemptId

_NEXT_BY_STATE = {
    "begun": "Do it now, once, then call finish_action with fence. If a service takes an "
    "idempotency key, hand it key.",
    "look": "It was begun before, and nobody knows whether it happened. Look whether it did, then "
    "call finish_action with fence: done or not_done. Do not do it before you have looked.",
    "done": "It has happened. Use result. Do not do it again.",
    "in_flight": "Somebody is doing it. Call begin_action again after lease_until. Do not do it "
    "yourself.",
    "held": "Nobody knows whether it happened. Tell the user that a person must resolve it. Do not "
    "do it again.",
}
_NEXT_WHEN_FINISHED = {
    ActionState.DONE: "It is on record. Do not do it again: begin_action gives result from now on.",
    ActionState.NOT_DONE: "It is on record. To try again, call begin_action first.",
}


class BeginAction(ToolArguments, frozen=True, kw_only=True):
    """What is to happen once."""

    attempt_id: Annotated[AttemptId, Meta(description="Your name for what you attempt.")]
    name: Annotated[Line, Meta(description="What is done, such as verify or pay.")]
    safe: Annotated[
        Literal["once", "idempotent", "verify"],
        Meta(
            description="If you crash in between: hold for a person, repeat with the same key, or "
            "look whether it happened."
        ),
    ] = "once"
    lease: Lease = DEFAULT_LEASE


class BegunAnswer(ToolAnswer, frozen=True, kw_only=True):
    """What to do now."""

    state: Annotated[
        Literal["begun", "look", "done", "in_flight", "held"],
        Meta(description="Only begun means: do it."),
    ]
    fence: Annotated[int | None, Meta(description="For finish_action; none if not yours.")] = None
    key: Annotated[str, Meta(description="Idempotency key, the same for every repeat.")]
    lease_until: UnixMillis | None = None
    result: Annotated[Any, Meta(description="What was stored, if it is done.")] = None


class FinishAction(ToolArguments, frozen=True, kw_only=True):
    """How it ended."""

    attempt_id: Annotated[AttemptId, Meta(description="As in begin_action.")]
    name: Annotated[Line, Meta(description="As in begin_action.")]
    fence: Annotated[Fence, Meta(description="From begin_action.")]
    outcome: Annotated[
        Literal["done", "not_done"],
        Meta(description="not_done only if you know that it did not happen."),
    ]
    result: Annotated[Any, Meta(description="What repeats shall get.")] = None


class FinishedAnswer(ToolAnswer, frozen=True, kw_only=True):
    """What is on record."""

    state: ActionState
    result: Annotated[Any, Meta(description="The first that was stored.")] = None


async def begin_action(hand: ToolContext, asked: BeginAction) -> BegunAnswer:
    """Begin an action, or say how it stands.

    Each call is a begin of its own: one that is made again after a crash must not hear ``begun``
    a second time.
    """
    begun = await hand.client.attempts.begin(
        asked.attempt_id,
        asked.name,
        safe=asked.safe,
        lease=asked.lease,
        request_key=new_request_key(),
    )
    return BegunAnswer(
        state=begun.state,
        fence=begun.fence,
        key=begun.key,
        lease_until=begun.lease_until,
        result=begun.result,
        next=_NEXT_BY_STATE[begun.state],
    )


async def finish_action(hand: ToolContext, asked: FinishAction) -> FinishedAnswer:
    """Record how an action ended."""
    say, of = hand.client.attempts, (asked.attempt_id, asked.name, asked.fence)
    if asked.outcome == "done":
        action = await say.done(*of, asked.result)
    else:
        action = await say.not_done(*of)
    return FinishedAnswer(
        state=action.state,
        result=action.result,
        next=_NEXT_WHEN_FINISHED.get(action.state, "Call begin_action to learn how it stands."),
    )


TOOLS = (
    Tool(
        name="begin_action",
        title="Begin an action",
        description="Call this before anything that must happen once for an attempt: submitting a "
        "code, paying, posting. It says whether to do it, or that it has happened.",
        arguments=BeginAction,
        answer=BegunAnswer,
        run=begin_action,
        read_only=False,
        destructive=False,
        idempotent=False,
        open_world=False,
    ),
    Tool(
        name="finish_action",
        title="Finish an action",
        description="Say that an action happened, with what repeats shall get, or that it did "
        "not. Late is not too late.",
        arguments=FinishAction,
        answer=FinishedAnswer,
        run=finish_action,
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=False,
    ),
)
