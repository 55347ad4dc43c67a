"""Tool dispatch: list of all tools, argument validation, errors as advice to the model."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from oncebox.client.core.calls import is_transient
from oncebox.errors import ExtraMissing, OnceboxError
from oncebox.mcp import actions, deliveries, inboxes, sends
from oncebox.mcp.tool import Tool, ToolContext


def check_installed() -> None:
    """Make sure that the tools can be loaded.

    Raises: ExtraMissing.
    """
    if find_spec("mcp") is None:
        raise ExtraMissing(
            "the tools for agents are not installed; run: pip install 'oncebox[mcp]'"
        )


class Advice(NamedTuple):
    """What helps, and what would do harm."""

    do: str
    do_not: str


_NO_NEW_MAIL = "Do not request another code or link."
_NO_GUESS = "Do not guess ids, and do not try ids of others."

#: by code; what is not listed is told by whether it may pass
ADVICE: dict[str, Advice] = {
    "already_claimed": Advice(
        "Somebody else has it: leave it to them. If it should be yours, ask the user who else is "
        "at this attempt.",
        "Do not request another code or link: it would make the one in use worthless.",
    ),
    "wait_contested": Advice(
        "Call again with sender, purpose or subject, so that only one can be meant; else let the "
        "user choose.",
        f"Do not guess. {_NO_NEW_MAIL}",
    ),
    "inbox_closed": Advice(
        "Call open_inbox with another label, and give the new address to the site.",
        "Do not wait for this inbox again.",
    ),
    "link_refused": Advice(
        "The link leads to a host that is not allowed. Ask the user whether to allow it, then call "
        "open_inbox with another label and link_hosts.",
        "Do not request another link: it would lead to the same place.",
    ),
    "artifact_purged": Advice(
        "It is too old, and no longer kept. Ask the user whether to begin anew.",
        "Do not guess what it said.",
    ),
    "inbox_conflict": Advice(
        "Call open_inbox with exactly the arguments of the first time, or with another label. If "
        "you never opened it, another agent did: choose an attempt_id of your own.",
        "Do not use the address of somebody else's attempt.",
    ),
    "resend_limit_reached": Advice(
        "Go on with wait_for_code or wait_for_link: the mail may be late. Else tell the user.",
        "Do not ask the site for another mail, and do not open another inbox to get around this.",
    ),
    "cursor_invalid": Advice("Call again with the same arguments, without resume.", _NO_NEW_MAIL),
    "cursor_mismatch": Advice(
        "Send resume with exactly the arguments of the call that gave it, or leave it out.",
        _NO_NEW_MAIL,
    ),
    "not_found": Advice(
        "Use an id that a tool has given you with this key; what is another's looks missing.",
        _NO_GUESS,
    ),
    "lease_lost": Advice(
        "Stop: somebody else has it, or it is settled. To learn how it stands, call begin_action "
        "or claim_delivery with the same attempt_id.",
        "Do not do the work again.",
    ),
    "request_key_reused": Advice(
        "Call claim_delivery with the same source as before, or with a new attempt_id.",
        "Do not work on a delivery that you have not claimed.",
    ),
    "send_key_conflict": Advice(
        "The mail of this event_type and entity_id has another sender or other recipients, and "
        "stays. If a second one is really meant, use another version.",
        "Do not change entity_id to get around this.",
    ),
    "send_cooling_down": Advice(
        "A recipient is just getting such a mail. Leave it at that, or ask the user.",
        "Do not change event_type to get around this.",
    ),
    "send_budget_spent": Advice(
        "Too many mails were asked for. Tell the user, or go on later.",
        "Do not send the same under another key.",
    ),
    "forbidden": Advice(
        "Tell the user that this API key lacks the scope: agent for inboxes, actions and mail, "
        "worker:SOURCE for deliveries.",
        "Do not call the same again.",
    ),
    "unauthenticated": Advice(
        "Tell the user that the API key is missing, wrong, revoked or over.",
        "Do not call the same again.",
    ),
    "arguments_invalid": Advice(
        "Mend the arguments as the schema of the tool says, and call again.",
        "Do not leave out what identifies the attempt.",
    ),
}
_RETRY = Advice(
    "Call again in a few seconds with exactly the same arguments.",
    "Do not change the arguments, and do not ask the site for another mail.",
)
_CHECK_FIRST = Advice(
    "It may have happened all the same. Tell the user, or look how it stands before you call "
    "again.",
    "Do not simply call again.",
)
_FIX_REQUEST = Advice(
    "Mend what the message names, or tell the user.", "Do not call the same again unchanged."
)


def refusal_text(error: OnceboxError) -> str:
    """Say no in three lines: what, what helps, what does harm; none is a sender's own text."""
    return format_refusal(
        error.code, str(error) or type(error).__doc__ or error.code, advice_for(error)
    )


def format_refusal(code: str, message: str, given: Advice) -> str:
    """Return the three lines of a refusal."""
    first = message.partition("\n")[0].rstrip(".")
    return f"{code}: {first}.\n{given.do}\n{given.do_not}"


def advice_for(error: OnceboxError) -> Advice:
    """Return what helps."""
    found = ADVICE.get(error.code)
    if found is not None:
        return found
    if error.retry_safe:
        return _RETRY
    return _CHECK_FIRST if is_transient(error) else _FIX_REQUEST


_log = logging.getLogger("oncebox.mcp")
_UNEXPECTED = Advice(
    "Tell the user; whoever runs Oncebox finds the reason in its log.", "Do not simply call again."
)
#: characters of what is wrong with arguments
_MAX_MESSAGE_LENGTH = 300


class ToolResult(NamedTuple):
    """What a model hears."""

    text: str
    #: the answer by its schema; none where the tool said no
    content: dict[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the tool said no."""
        return self.content is None


async def run_tool(tool: Tool, given: Mapping[str, Any], hand: ToolContext) -> ToolResult:
    """Run a tool; whatever goes wrong is told in words that help a model."""
    try:
        asked = msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        message = str(error)[:_MAX_MESSAGE_LENGTH]
        return ToolResult(format_refusal("arguments_invalid", message, ADVICE["arguments_invalid"]))
    try:
        answer = await tool.run(hand, asked)
    except OnceboxError as error:
        return ToolResult(refusal_text(error))
    except Exception as error:  # noqa: BLE001 - the last place that hears of it
        # Only what kind it is: its words may hold what must not be in a log.
        _log.error("the tool %s failed: %s", tool.name, type(error).__name__)
        return ToolResult(
            format_refusal("internal_error", "something went wrong here", _UNEXPECTED)
        )
    encoded = msgspec.json.encode(answer)
    return ToolResult(encoded.decode(), msgspec.json.decode(encoded, type=dict[str, Any]))


TOOLS: tuple[Tool, ...] = (*inboxes.TOOLS, *actions.TOOLS, *sends.TOOLS, *deliveries.TOOLS)
