"""MCP tools send_email and send_status."""

from typing import Annotated

from msgspec import Meta

from oncebox.mcp.tool import Id, Line, Tool, ToolAnswer, ToolArguments, ToolContext, UnixMillis
from oncebox.model.sends.email import Email
from oncebox.model.sends.send import AnswerStatus, SendState
from oncebox.schemas.inboxes import AttemptId
from oncebox.schemas.pull import LONGEST_WAIT
from oncebox.schemas.sends import SendAnswer

_Address = Annotated[str, Meta(max_length=320)]
_Addresses = Annotated[tuple[_Address, ...], Meta(min_length=1, max_length=50)]
_WaitSeconds = Annotated[
    float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the outcome, at most 55.")
]
_NO_SECOND_SEND = "Do not send it again under another event_type, entity_id or version."
_NEXT_BY_STATUS = {
    AnswerStatus.SENT: f"It was sent. {_NO_SECOND_SEND}",
    AnswerStatus.DUPLICATE: f"It was sent before; there is no second mail. {_NO_SECOND_SEND}",
    AnswerStatus.IN_FLIGHT: "It is stored and will be sent. Call send_status later. "
    f"{_NO_SECOND_SEND}",
    AnswerStatus.UNKNOWN: "It is unknown whether it was sent. Tell the user; a person or the "
    f"provider decides. {_NO_SECOND_SEND}",
    AnswerStatus.FAILED: "It was proven not sent; code says why. Tell the user, or correct it and "
    "call send_email with the same event_type and entity_id.",
    AnswerStatus.SUPPRESSED: "A recipient is suppressed. Tell the user. Do not try their other "
    "addresses.",
    AnswerStatus.CANCELLED: "It was cancelled. Ask the user before you send it again.",
    AnswerStatus.EXPIRED: "It expired before it was sent. Ask the user whether it is still wanted.",
    AnswerStatus.LOGGED: "It is stored and not sent: no transport is configured. Tell the user.",
}
_NEXT_OTHERWISE = f"Tell the user its state. {_NO_SECOND_SEND}"


class SendEmail(ToolArguments, frozen=True, kw_only=True):
    """A mail and its subject matter."""

    to: Annotated[_Address | _Addresses, Meta(description="Recipients.")]
    subject: Annotated[str, Meta(min_length=1, max_length=998)]
    text: Annotated[str, Meta(max_length=200_000, description="The plain text.")]
    event_type: Annotated[Line, Meta(description="What happened, such as order.confirmation.")]
    entity_id: Annotated[Line, Meta(description="What it happened to, such as order_4821.")]
    version: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="Increase it for an intended second mail.")
    ] = 1
    html: Annotated[str, Meta(max_length=400_000, description="The HTML version.")] = ""
    sender: Annotated[
        str, Meta(max_length=320, description="From address; empty: the configured one.")
    ] = ""
    reply_to: Annotated[tuple[str, ...], Meta(max_length=10)] = ()
    attempt_id: Annotated[AttemptId | None, Meta(description="The attempt that it belongs to.")] = (
        None
    )
    within: _WaitSeconds = 10.0


class SendStatus(ToolArguments, frozen=True, kw_only=True):
    """The id of a send."""

    send_id: Annotated[Id, Meta(description="From send_email.")]
    within: _WaitSeconds = 0.0


class SendStatusAnswer(ToolAnswer, frozen=True, kw_only=True):
    """The state of a send."""

    send_id: str
    status: Annotated[AnswerStatus, Meta(description="Outcome of this call.")]
    state: Annotated[SendState, Meta(description="State of the send.")]
    message_id: Annotated[str, Meta(description="Message-ID, the same for every repeat.")]
    created: Annotated[bool, Meta(description="This call created it.")] = False
    drift: Annotated[bool, Meta(description="The stored mail has other content, and stays.")] = (
        False
    )
    code: Annotated[str | None, Meta(description="Result of its last try.")] = None
    delivery: Annotated[str | None, Meta(description="What the provider reported.")] = None
    retry_after: Annotated[
        float | None, Meta(description="Seconds until the next check; unset: it has ended.")
    ] = None
    ended_at: UnixMillis | None = None


async def send_email(context: ToolContext, args: SendEmail) -> SendStatusAnswer:
    """Send a mail once."""
    email = Email(
        sender=args.sender,
        to=args.to,
        reply_to=args.reply_to,
        subject=args.subject,
        text=args.text,
        html=args.html,
    )
    work = context.client.sends.send(
        email,
        wait=args.within,
        event_type=args.event_type,
        entity_id=args.entity_id,
        version=args.version,
        attempt_id=args.attempt_id,
    )
    return _status_answer(await context.wait(work, args.within))


async def send_status(context: ToolContext, args: SendStatus) -> SendStatusAnswer:
    """Return the state of a send."""
    work = context.client.sends.wait(args.send_id, within=args.within)
    return _status_answer(await context.wait(work, args.within))


def _status_answer(send: SendAnswer) -> SendStatusAnswer:
    """Return the answer without texts of other servers."""
    return SendStatusAnswer(
        send_id=send.id,
        status=send.status,
        state=send.state,
        message_id=send.message_id,
        created=send.created,
        drift=send.drift,
        code=send.code,
        delivery=send.delivery,
        retry_after=send.retry_after,
        ended_at=send.ended_at,
        next=_NEXT_BY_STATUS.get(send.status, _NEXT_OTHERWISE),
    )


TOOLS = (
    Tool(
        name="send_email",
        title="Send an email",
        description="Send an email once for each event_type, entity_id and recipients. Calling "
        "again with the same is safe, also with other text, and returns its state.",
        arguments=SendEmail,
        answer=SendStatusAnswer,
        run=send_email,
        open_world=True,
    ),
    Tool(
        name="send_status",
        title="Get the state of a send",
        description="Return the state of an email that was sent with send_email.",
        arguments=SendStatus,
        answer=SendStatusAnswer,
        run=send_status,
        read_only=True,
    ),
)
