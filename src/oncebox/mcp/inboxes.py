"""MCP tools open_inbox, wait_for_code, wait_for_link, wait_for_message, request_resend."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct

from oncebox.client.errors import WaitInFlight, WaitTimedOut
from oncebox.mcp.tool import (
    Id,
    Tool,
    ToolAnswer,
    ToolArguments,
    ToolContext,
    UnixMillis,
    WaitSeconds,
)
from oncebox.model.inboxes.inbox import InboxState
from oncebox.schemas.artifacts import (
    Grant,
    InspectedMessage,
    ResumeToken,
    SenderRules,
    SubjectPattern,
)
from oncebox.schemas.inboxes import (
    AttemptId,
    DomainName,
    Label,
    LinkHost,
    Policy,
    Seconds,
    SenderRule,
)

_Purpose = Literal["any", "signup", "login", "reset", "invite"]
#: seconds; below the minute after which many clients time out
_DEFAULT_WAIT = 45.0
#: seconds for the last answer to arrive; with the longest wait, still below that minute
_RESPONSE_GRACE = 4.0
#: messages that did not match, listed in an answer
_MAX_UNMATCHED = 10

_CONFIRM = (
    "begin_action before, and finish_action with artifact_id after. After a crash, the same call "
    "returns it again."
)
_NO_SECOND_MAIL = "Do not ask the site for another mail: a newer one would invalidate this one."


class OpenInbox(ToolArguments, frozen=True, kw_only=True):
    """The purpose and the policy of an address."""

    attempt_id: Annotated[AttemptId, Meta(description="Your name for what you attempt; keep it.")]
    label: Annotated[Label, Meta(description="Distinguishes several inboxes of one attempt.")] = ""
    senders: Annotated[
        tuple[SenderRule, ...],
        Meta(
            max_length=50,
            description="Addresses or domains whose proven mail counts; empty: any.",
        ),
    ] = ()
    link_hosts: Annotated[
        tuple[LinkHost, ...], Meta(max_length=50, description="Hosts that links may lead to.")
    ] = ()
    purpose: Annotated[_Purpose, Meta(description="Purpose of the mail.")] = "any"
    authenticated: Annotated[
        bool | None,
        Meta(description="Whether SPF or DKIM must prove the sender."),
    ] = None
    lifetime: Annotated[
        Seconds | None, Meta(description="Seconds until it closes; unset: as configured.")
    ] = None


class InboxAnswer(ToolAnswer, frozen=True, kw_only=True):
    """An address."""

    inbox_id: str
    email: Annotated[str, Meta(description="Give this address to the site.")]
    attempt_id: str
    state: InboxState
    created: Annotated[bool, Meta(description="False: the attempt had it already.")]
    cursor: Annotated[int, Meta(description="Number of its last message.")]
    warnings: Annotated[tuple[str, ...], Meta(description="Codes.")] = ()


class WaitForCode(ToolArguments, frozen=True, kw_only=True):
    """The code to wait for."""

    inbox_id: Annotated[Id, Meta(description="From open_inbox.")]
    sender: Annotated[
        SenderRules | None, Meta(description="Address or domain of the sender, or a list of them.")
    ] = None
    purpose: Annotated[_Purpose, Meta(description="Purpose of the mail.")] = "any"
    subject: Annotated[
        SubjectPattern | None,
        Meta(description="Pattern of the whole subject, with * and ?."),
    ] = None
    after: Annotated[
        int, Meta(ge=0, le=2**53, description="Only messages with a higher sequence.")
    ] = 0
    within: WaitSeconds = _DEFAULT_WAIT
    resume: Annotated[
        ResumeToken | None, Meta(description="From the last answer, to continue the wait.")
    ] = None


class WaitForLink(WaitForCode, frozen=True, kw_only=True):
    """The link to wait for."""

    host: Annotated[DomainName | None, Meta(description="Host of the link.")] = None


class WaitForMessage(WaitForCode, frozen=True, kw_only=True):
    """The message to wait for."""

    has_attachment: Annotated[
        bool | None, Meta(description="Whether it has attachments; unset: either.")
    ] = None


class UnmatchedMail(Struct, frozen=True, kw_only=True):
    """A message that does not match."""

    message_id: str
    why: Annotated[str, Meta(description="A code.")]
    sender_domain: Annotated[
        str | None, Meta(description="Domain in From, of senders that are not allowed.")
    ] = None
    sender_rules: Annotated[
        tuple[str, ...], Meta(description="The senders that are allowed instead.")
    ] = ()


class WaitAnswer(ToolAnswer, frozen=True, kw_only=True):
    """The result of a wait."""

    status: Annotated[
        Literal["granted", "waiting", "in_flight"],
        Meta(description="granted: yours; waiting: call again; in_flight: another worker has it"),
    ]
    artifact_id: str | None = None
    seconds_left: Annotated[
        float | None, Meta(description="If in_flight: until another worker may get it.")
    ] = None
    sequence: Annotated[int | None, Meta(description="Number of the message in its inbox.")] = None
    sender_domain: str | None = None
    sender_verdict: Annotated[
        str | None, Meta(description="pass: the domain is proven; others: it is not.")
    ] = None
    confidence: Annotated[float | None, Meta(description="From 0 to 1.")] = None
    received_at: UnixMillis | None = None
    duplicates: Annotated[int, Meta(description="Number of further mails with the same value.")] = 0
    warnings: Annotated[tuple[str, ...], Meta(description="Codes.")] = ()
    repeated: Annotated[bool, Meta(description="You got the same before.")] = False
    resume: Annotated[str | None, Meta(description="Send it with the same arguments.")] = None
    messages_inspected: int | None = None
    unfit: Annotated[
        tuple[UnmatchedMail, ...], Meta(description="The last messages that do not match.")
    ] = ()
    mail_seen: Annotated[bool | None, Meta(description="Whether any mail arrived.")] = None


class CodeAnswer(WaitAnswer, frozen=True, kw_only=True):
    """A code, or the reason why there is none yet."""

    code: str | None = None


class LinkAnswer(WaitAnswer, frozen=True, kw_only=True):
    """A link, or the reason why there is none yet."""

    url: str | None = None
    host: str | None = None
    token: Annotated[str | None, Meta(description="The part that looks like a secret.")] = None


class MessageAnswer(WaitAnswer, frozen=True, kw_only=True):
    """A message without its text, or the reason why there is none yet."""

    message_id: str | None = None
    attachments: Annotated[int | None, Meta(description="Number of attachments.")] = None


class RequestResend(ToolArguments, frozen=True, kw_only=True):
    """The attempt."""

    attempt_id: Annotated[AttemptId, Meta(description="As in open_inbox.")]


class ResendAnswer(ToolAnswer, frozen=True, kw_only=True):
    """Permission to request the mail once more."""

    number: Annotated[int, Meta(description="Its number within the attempt.")]
    left: Annotated[int, Meta(description="How many more are allowed.")]


async def open_inbox(context: ToolContext, args: OpenInbox) -> InboxAnswer:
    """Return the address of an attempt."""
    policy = Policy(
        senders=list(args.senders),
        link_hosts=list(args.link_hosts),
        purpose=args.purpose,
        authenticated=args.authenticated,
    )
    inbox = await context.client.inboxes.create(
        attempt_id=args.attempt_id, label=args.label, policy=policy, lifetime=args.lifetime
    )
    return InboxAnswer(
        inbox_id=inbox.id,
        email=inbox.email,
        attempt_id=args.attempt_id,
        state=inbox.state,
        created=inbox.created,
        cursor=inbox.cursor,
        warnings=tuple(inbox.warnings),
        next="Give email to the site, then call wait_for_code or wait_for_link with inbox_id."
        if inbox.state is InboxState.ACTIVE
        else "It is closed or closing. Wait only for mail that was sent already; for anything new "
        "open one with another label. Do not use this address.",
    )


async def wait_for_code(context: ToolContext, args: WaitForCode) -> CodeAnswer:
    """Return the code of an inbox."""
    work = context.client.inboxes.wait_for_code(
        args.inbox_id, within=args.within, **_wait_options(args)
    )
    try:
        grant = await context.wait(work, args.within)
    except WaitTimedOut as late:
        return CodeAnswer(**_waiting_fields(late, "wait_for_code"))
    return CodeAnswer(
        code=grant.value,
        next=f"Use the code now, once; {_CONFIRM} {_NO_SECOND_MAIL}",
        **_granted_fields(grant),
    )


async def wait_for_link(context: ToolContext, args: WaitForLink) -> LinkAnswer:
    """Return the link of an inbox."""
    work = context.client.inboxes.wait_for_link(
        args.inbox_id, host=args.host, within=args.within, **_wait_options(args)
    )
    try:
        grant = await context.wait(work, args.within)
    except WaitTimedOut as late:
        return LinkAnswer(**_waiting_fields(late, "wait_for_link"))
    return LinkAnswer(
        url=grant.value,
        host=grant.link.host if grant.link else None,
        token=grant.link.token if grant.link else None,
        next=f"Open the link now, once; {_CONFIRM} {_NO_SECOND_MAIL}",
        **_granted_fields(grant),
    )


async def wait_for_message(context: ToolContext, args: WaitForMessage) -> MessageAnswer:
    """Return the message of an inbox whose arrival is the signal."""
    work = context.client.inboxes.wait_for_message(
        args.inbox_id,
        has_attachment=args.has_attachment,
        within=args.within,
        **_wait_options(args),
    )
    try:
        grant = await context.wait(work, args.within)
    except WaitTimedOut as late:
        return MessageAnswer(**_waiting_fields(late, "wait_for_message"))
    attachments = UNSET if grant.message is UNSET else grant.message.attachments
    return MessageAnswer(
        message_id=grant.message_id,
        attachments=None if attachments is UNSET else attachments,
        next=f"Act on the arrival now, once; {_CONFIRM}",
        **_granted_fields(grant),
    )


async def request_resend(context: ToolContext, args: RequestResend) -> ResendAnswer:
    """Return permission to request the mail once more."""
    granted = await context.client.attempts.resend(args.attempt_id)
    return ResendAnswer(
        number=granted.number,
        left=granted.left,
        next="Ask the site to send the mail again, once, then wait_for_code or wait_for_link. "
        "Do not call request_resend again before that.",
    )


def _wait_options(args: WaitForCode) -> dict[str, Any]:
    """Return the options of a wait; the attempt of the inbox claims, never the model."""
    return {
        "sender": args.sender,
        "purpose": args.purpose,
        "subject": args.subject,
        "after": args.after,
        "resume": args.resume,
        "grace": _RESPONSE_GRACE,
    }


def _granted_fields(grant: Grant) -> dict[str, Any]:
    return {
        "status": "granted",
        "artifact_id": grant.id,
        "sequence": grant.sequence,
        "sender_domain": grant.sender.domain,
        "sender_verdict": grant.sender.verdict,
        "confidence": grant.confidence,
        "received_at": grant.received_at,
        "duplicates": grant.duplicates,
        "warnings": tuple(grant.warnings),
        "repeated": grant.repeated,
    }


def _waiting_fields(late: WaitTimedOut, tool: str) -> dict[str, Any]:
    """Return the fields of an answer without a match, and what did arrive."""
    fields: dict[str, Any] = {
        "status": "waiting",
        "resume": late.resume,
        "next": f"Call {tool} again with the same arguments and resume. If nothing ever matches, "
        "compare why in unfit with your arguments. Do not ask the site for another mail without "
        "request_resend.",
    }
    if isinstance(late, WaitInFlight):
        fields |= {
            "status": "in_flight",
            "artifact_id": late.artifact_id,
            "seconds_left": late.retry_after,
            "next": f"Another worker of this attempt holds it. Call {tool} again with the same "
            "arguments and resume, after seconds_left. Do not ask the site for another mail.",
        }
    report = late.report
    if report is not None:
        fields |= {
            "messages_inspected": report.messages_inspected,
            "mail_seen": report.smtp_saw or report.unread > 0,
            "warnings": tuple(report.warnings),
            "unfit": tuple(map(_unmatched, report.seen[-_MAX_UNMATCHED:])),
        }
    return fields


def _unmatched(message: InspectedMessage) -> UnmatchedMail:
    return UnmatchedMail(
        message_id=message.message_id,
        why=message.why,
        sender_domain=message.sender_domain if message.sender_rules else None,
        sender_rules=tuple(message.sender_rules),
    )


TOOLS = (
    Tool(
        name="open_inbox",
        title="Open an inbox",
        description="Get the email address of an attempt, such as a signup. The same attempt_id "
        "and label get the same address again, also after a crash.",
        arguments=OpenInbox,
        answer=InboxAnswer,
        run=open_inbox,
    ),
    Tool(
        name="wait_for_code",
        title="Wait for a code",
        description="Wait for the code that was mailed to an inbox, and claim it. It is granted "
        "once and kept for this call; after a crash the same call returns it again.",
        arguments=WaitForCode,
        answer=CodeAnswer,
        run=wait_for_code,
        open_world=True,
    ),
    Tool(
        name="wait_for_link",
        title="Wait for a link",
        description="Wait for the link that was mailed to an inbox, and claim it. Only links to "
        "the link_hosts of the inbox, or to host, are granted.",
        arguments=WaitForLink,
        answer=LinkAnswer,
        run=wait_for_link,
        open_world=True,
    ),
    Tool(
        name="wait_for_message",
        title="Wait for a message",
        description="Wait for a mail whose arrival is the signal, such as 'your export is ready', "
        "and claim it. It is granted once; its text is not returned.",
        arguments=WaitForMessage,
        answer=MessageAnswer,
        run=wait_for_message,
        open_world=True,
    ),
    Tool(
        name="request_resend",
        title="Request a resend",
        description="Get permission before you ask the site for the mail again. Each call uses "
        "one of a few.",
        arguments=RequestResend,
        answer=ResendAnswer,
        run=request_resend,
        idempotent=False,
    ),
)
