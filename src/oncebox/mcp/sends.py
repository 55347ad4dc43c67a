"""MCP tools send_email and send_status."""

from typing import Annotated

from msgspec import Meta

from oncebox.mcp.tool import Id, Line, Tool, ToolAnswer, ToolArguments, ToolContext, UnixMillis
from oncebox.model.sends import send as model
from oncebox.model.sends.email import Email
from oncebox.model.sends.send import SendState
from oncebox.schemas.inboxes import AttemptId
from oncebox.schemas.pull import LONGEST_WAIT
from oncebox.schemas.sends import SendAnswer

_Address = Annotated[str, Meta(min_length=3, max_length=320)]
_WaitSeconds = Annotated[
    float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for how it ends, at most 55.")
]
_NO_SECOND_SEND = "Do not send it again under another event_type, entity_id or version."
_NEXT_BY_STATUS = {
    model.AnswerStatus.SENT: f"It is sent. {_NO_SECOND_SEND}",
    model.AnswerStatus.DUPLICATE: f"It was sent before; there is no second mail. {_NO_SECOND_SEND}",
    model.AnswerStatus.IN_FLIGHT: "It is stored and will be sent. Call send_status later. "
    f"{_NO_SECOND_SEND}",
    model.AnswerStatus.UNKNOWN: "Nobody knows whether it was sent. Tell the user; a person or the "
    f"provider ends the doubt. {_NO_SECOND_SEND}",
    model.AnswerStatus.FAILED: "It is proven not sent; code says why. Tell the user, or "
    "mend it and call "
    "send_email with the same event_type and entity_id.",
    model.AnswerStatus.SUPPRESSED: "A recipient takes no mail. Tell the user. Do not try "
    "other addresses "
    "of theirs.",
    model.AnswerStatus.CANCELLED: "It was called off. Ask the user before you send it again.",
    model.AnswerStatus.EXPIRED: "Its time was over before it was sent. Ask the user "
    "whether it is still "
    "wanted.",
    model.AnswerStatus.LOGGED: "It is stored and not sent: no transport is configured. "
    "Tell the user.",
}
_NEXT_OTHERWISE = f"Tell the user how it stands. {_NO_SECOND_SEND}"


class SendEmail(ToolArguments, frozen=True, kw_only=True):
    """A mail, and what it is about."""

    to: Annotated[
        tuple[_Address, ...], Meta(min_length=1, max_length=50, description="Recipients.")
    ]
    subject: Annotated[str, Meta(min_length=1, max_length=998)]
    text: Annotated[str, Meta(max_length=200_000, description="What it says, as plain text.")]
    event_type: Annotated[Line, Meta(description="What happened, such as order.confirmation.")]
    entity_id: Annotated[Line, Meta(description="To what it happened, such as order_4821.")]
    version: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="Another one is a second mail, on purpose.")
    ] = 1
    html: Annotated[str, Meta(max_length=400_000, description="The same as HTML.")] = ""
    sender: Annotated[
        str, Meta(max_length=320, description="Who it is from; empty: as configured.")
    ] = ""
    reply_to: Annotated[tuple[_Address, ...], Meta(max_length=10)] = ()
    attempt_id: Annotated[AttemptId | None, Meta(description="The attempt that it belongs to.")] = (
        None
    )
    within: _WaitSeconds = 10.0


class SendStatus(ToolArguments, frozen=True, kw_only=True):
    """Which send."""

    send_id: Annotated[Id, Meta(description="From send_email.")]
    within: _WaitSeconds = 0.0


class SendStatusAnswer(ToolAnswer, frozen=True, kw_only=True):
    """What became of a mail."""

    send_id: str
    status: Annotated[model.AnswerStatus, Meta(description="What becomes of this call.")]
    state: Annotated[SendState, Meta(description="Where the send stands.")]
    message_id: Annotated[str, Meta(description="Message-ID, the same for every repeat.")]
    created: Annotated[bool, Meta(description="This very call made it.")] = False
    drift: Annotated[bool, Meta(description="The first one said something else, and stays.")] = (
        False
    )
    code: Annotated[str | None, Meta(description="What its last try came to.")] = None
    delivery: Annotated[str | None, Meta(description="What the provider told since.")] = None
    retry_after: Annotated[
        float | None, Meta(description="Seconds until a look is worth it; none: it is over.")
    ] = None
    ended_at: UnixMillis | None = None


async def send_email(hand: ToolContext, asked: SendEmail) -> SendStatusAnswer:
    """Send a mail once."""
    email = Email(
        sender=asked.sender,
        to=asked.to,
        reply_to=asked.reply_to,
        subject=asked.subject,
        text=asked.text,
        html=asked.html,
    )
    work = hand.client.sends.send(
        email,
        wait=asked.within,
        event_type=asked.event_type,
        entity_id=asked.entity_id,
        version=asked.version,
        attempt_id=asked.attempt_id,
    )
    return _status_answer(await hand.wait(work, asked.within))


async def send_status(hand: ToolContext, asked: SendStatus) -> SendStatusAnswer:
    """Return how a send stands."""
    work = hand.client.sends.wait(asked.send_id, within=asked.within)
    return _status_answer(await hand.wait(work, asked.within))


def _status_answer(send: SendAnswer) -> SendStatusAnswer:
    """Leave out what other servers have said in their own words."""
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
        "again with the same is safe, also with other words, and says how it stands.",
        arguments=SendEmail,
        answer=SendStatusAnswer,
        run=send_email,
        read_only=False,
        destructive=False,
        idempotent=True,
        open_world=True,
    ),
    Tool(
        name="send_status",
        title="Look at a send",
        description="Say what became of an email that was sent with send_email.",
        arguments=SendStatus,
        answer=SendStatusAnswer,
        run=send_status,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    ),
)
