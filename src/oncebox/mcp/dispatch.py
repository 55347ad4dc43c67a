"""Tool dispatch: list of all tools, argument validation, errors as advice to the model.

See docs/decisions/0019-use-the-api-client-for-mcp-tools.md.
"""

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
    """Raise ``ExtraMissing`` if the tools cannot be loaded."""
    if find_spec("mcp") is None:
        raise ExtraMissing(
            "the tools for agents are not installed; run: pip install 'oncebox[mcp]'"
        )


class Advice(NamedTuple):
    """What the model should do after an error, and what it must not do."""

    do: str
    do_not: str


_NO_NEW_MAIL = "Do not request another code or link."
_NO_GUESS = "Do not guess ids, and do not try ids of others."

#: by error code; other errors get advice by whether a retry is safe
ADVICE: dict[str, Advice] = {
    "artifact_in_flight": Advice(
        "Another worker of this attempt holds it for a short time: call again later.",
        _NO_NEW_MAIL,
    ),
    "artifact_used": Advice(
        "A worker of this attempt has used it. Continue with what comes after it; to wait for a "
        "newer one, pass the sequence of the last as after.",
        f"Do not use it again. {_NO_NEW_MAIL}",
    ),
    "already_claimed": Advice(
        "Another caller has it: leave it to them. If it should be yours, ask the user who else is "
        "working on this attempt.",
        "Do not request another code or link: it would make the one in use worthless.",
    ),
    "wait_contested": Advice(
        "Call again with sender, purpose or subject, so that only one matches; else let the user "
        "choose.",
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
        "It is too old and was deleted. Ask the user whether to start over.",
        "Do not guess what it said.",
    ),
    "inbox_conflict": Advice(
        "Call open_inbox with exactly the arguments of the first call, or with another label. If "
        "you never opened it, another agent did: choose an attempt_id of your own.",
        "Do not use the address of another attempt.",
    ),
    "resend_limit_reached": Advice(
        "Continue with wait_for_code or wait_for_link: the mail may be late. Else tell the user.",
        "Do not ask the site for another mail, and do not open another inbox to get around this.",
    ),
    "cursor_invalid": Advice("Call again with the same arguments, without resume.", _NO_NEW_MAIL),
    "cursor_mismatch": Advice(
        "Send resume with exactly the arguments of the call that returned it, or omit it.",
        _NO_NEW_MAIL,
    ),
    "not_found": Advice(
        "Use an id that a tool returned to you with this key; ids of others are not found.",
        _NO_GUESS,
    ),
    "lease_lost": Advice(
        "Stop: another caller has it, or it is settled. To get its state, call begin_action or "
        "claim_delivery with the same attempt_id.",
        "Do not do the work again.",
    ),
    "request_key_reused": Advice(
        "Call claim_delivery with the same source as before, or with a new attempt_id.",
        "Do not work on a delivery that you have not claimed.",
    ),
    "send_key_conflict": Advice(
        "The mail of this event_type and entity_id has another sender or other recipients; it is "
        "not replaced. If you need a second mail, use another version.",
        "Do not change entity_id to get around this.",
    ),
    "send_cooling_down": Advice(
        "A recipient has just been sent such a mail. Do nothing, or ask the user.",
        "Do not change event_type to get around this.",
    ),
    "send_budget_spent": Advice(
        "Too many mails were requested. Tell the user, or continue later.",
        "Do not send the same mail under another key.",
    ),
    "forbidden": Advice(
        "Tell the user that this API key lacks the scope: agent for inboxes, actions and mail, "
        "worker:SOURCE for deliveries.",
        "Do not repeat the call.",
    ),
    "unauthenticated": Advice(
        "Tell the user that the API key is missing, wrong, revoked or expired.",
        "Do not repeat the call.",
    ),
    "arguments_invalid": Advice(
        "Correct the arguments by the schema of the tool, and call again.",
        "Do not omit what identifies the attempt.",
    ),
}
_RETRY = Advice(
    "Call again in a few seconds with exactly the same arguments.",
    "Do not change the arguments, and do not ask the site for another mail.",
)
_CHECK_FIRST = Advice(
    "It may have happened. Tell the user, or check the state before you call again.",
    "Do not simply call again.",
)
_FIX_REQUEST = Advice(
    "Correct what the message names, or tell the user.", "Do not repeat the call unchanged."
)
_UNEXPECTED = Advice(
    "Tell the user; the log of Oncebox has the reason.", "Do not simply call again."
)
#: characters of a validation error that the model sees
_MAX_MESSAGE_LENGTH = 300

_log = logging.getLogger("oncebox.mcp")


class ToolResult(NamedTuple):
    """What the model receives."""

    text: str
    #: the answer by its schema; None after an error
    content: dict[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the call failed."""
        return self.content is None


async def run_tool(tool: Tool, given: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Run a tool; errors become text that helps a model."""
    try:
        arguments = msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        message = str(error)[:_MAX_MESSAGE_LENGTH]
        return _refusal("arguments_invalid", message, ADVICE["arguments_invalid"])
    try:
        answer = await tool.run(context, arguments)
    except OnceboxError as error:
        return _refusal(error.code, str(error) or type(error).__doc__ or error.code, _advice(error))
    except Exception as error:  # noqa: BLE001 - nothing above would log it
        # Only its class: the message may contain what must not be in a log.
        _log.error("the tool %s failed: %s", tool.name, type(error).__name__)
        return _refusal("internal_error", "something went wrong here", _UNEXPECTED)
    encoded = msgspec.json.encode(answer)
    return ToolResult(encoded.decode(), msgspec.json.decode(encoded, type=dict[str, Any]))


def _refusal(code: str, message: str, advice: Advice) -> ToolResult:
    """Return an error as three lines: what, what to do, what not to do; no sender wrote any."""
    first = message.partition("\n")[0].rstrip(".")
    return ToolResult(f"{code}: {first}.\n{advice.do}\n{advice.do_not}")


def _advice(error: OnceboxError) -> Advice:
    found = ADVICE.get(error.code)
    if found is not None:
        return found
    if error.retry_safe:
        return _RETRY
    return _CHECK_FIRST if is_transient(error) else _FIX_REQUEST


TOOLS: tuple[Tool, ...] = (*inboxes.TOOLS, *actions.TOOLS, *sends.TOOLS, *deliveries.TOOLS)
