"""MCP tools begin_action and finish_action."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from oncebox.client.core.work import new_request_key
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
from oncebox.model.attempts import ActionState
from oncebox.schemas.inboxes import AttemptId

_NEXT_BY_STATE = {
    "begun": "Do it now, once, then call finish_action with fence. If a service takes an "
    "idempotency key, pass key.",
    "look": "It was begun before, and its outcome is unknown. Look whether it happened, then call "
    "finish_action with fence: done or not_done. Do not do it before you have looked.",
    "done": "It has happened. Use result. Do not do it again.",
    "in_flight": "Another caller is doing it. Call begin_action again after lease_until. Do not "
    "do it yourself.",
    "held": "Its outcome is unknown. Tell the user that a person must decide. Do not do it again.",
}
_NO_RESULT_NEXT = "It has happened; its result is not stored. Do not do it again."
_NEXT_WHEN_FINISHED = {
    ActionState.DONE: "It is recorded. Do not do it again: begin_action returns result now.",
    ActionState.NOT_DONE: "It is recorded. To try again, call begin_action first.",
}


class BeginAction(ToolArguments, frozen=True, kw_only=True):
    """An action that must happen once."""

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
    """The state of an action."""

    state: Annotated[
        Literal["begun", "look", "done", "in_flight", "held"],
        Meta(description="Only begun means: do it."),
    ]
    fence: Annotated[int | None, Meta(description="For finish_action; unset if not yours.")] = None
    key: Annotated[str, Meta(description="Idempotency key, the same for every repeat.")]
    lease_until: UnixMillis | None = None
    result: Annotated[Any, Meta(description="The stored result, if it is done.")] = None


class FinishAction(ToolArguments, frozen=True, kw_only=True):
    """The outcome of an action."""

    attempt_id: Annotated[AttemptId, Meta(description="As in begin_action.")]
    name: Annotated[Line, Meta(description="As in begin_action.")]
    fence: Annotated[Fence, Meta(description="From begin_action.")]
    outcome: Annotated[
        Literal["done", "not_done"],
        Meta(description="not_done only if you know that it did not happen."),
    ]
    result: Annotated[Any, Meta(description="The result for repeats.")] = None
    artifact_id: Annotated[
        Id | None, Meta(description="The code or link that it used, from wait_for_….")
    ] = None


class FinishedAnswer(ToolAnswer, frozen=True, kw_only=True):
    """The recorded state."""

    state: ActionState
    result: Annotated[Any, Meta(description="The result that was stored first.")] = None


async def begin_action(context: ToolContext, args: BeginAction) -> BegunAnswer:
    """Begin an action, or return its state.

    Each call has its own request key: a call repeated after a crash must not get ``begun`` again.
    """
    begun = await context.client.attempts.begin(
        args.attempt_id,
        args.name,
        safe=args.safe,
        lease=args.lease,
        request_key=new_request_key(),
    )
    return BegunAnswer(
        state=begun.state,
        fence=begun.fence,
        key=begun.key,
        lease_until=begun.lease_until,
        result=begun.result,
        next=_NO_RESULT_NEXT
        if begun.state == "done" and not begun.has_result
        else _NEXT_BY_STATE[begun.state],
    )


async def finish_action(context: ToolContext, args: FinishAction) -> FinishedAnswer:
    """Record the outcome of an action."""
    attempts, action_id = context.client.attempts, (args.attempt_id, args.name, args.fence)
    if args.outcome == "done":
        uses = () if args.artifact_id is None else (args.artifact_id,)
        action = await attempts.done(*action_id, args.result, uses=uses)
    else:
        action = await attempts.not_done(*action_id)
    return FinishedAnswer(
        state=action.state,
        result=action.result,
        next=_NEXT_WHEN_FINISHED.get(action.state, "Call begin_action to get its state."),
    )


TOOLS = (
    Tool(
        name="begin_action",
        title="Begin an action",
        description="Call this before anything that must happen once for an attempt: submitting a "
        "code, paying, posting. It returns whether to do it, or that it has happened.",
        arguments=BeginAction,
        answer=BegunAnswer,
        run=begin_action,
        idempotent=False,
    ),
    Tool(
        name="finish_action",
        title="Finish an action",
        description="Record that an action happened, with the result for repeats, or that it did "
        "not. It may be called late.",
        arguments=FinishAction,
        answer=FinishedAnswer,
        run=finish_action,
    ),
)
