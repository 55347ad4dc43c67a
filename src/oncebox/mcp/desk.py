"""The desk: takes the call of a tool as it came, and answers it or says no."""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from oncebox.errors import OnceboxError
from oncebox.mcp import words
from oncebox.mcp.hand import Hand
from oncebox.mcp.tool import Tool

_log = logging.getLogger("oncebox.mcp")
_UNFORESEEN = words.Advice(
    "Tell the user; whoever runs Oncebox finds the reason in its log.", "Do not simply call again."
)
#: characters of what is wrong with arguments
_LONGEST = 300


class Told(NamedTuple):
    """What a model hears."""

    text: str
    #: the answer by its schema; none where the tool said no
    content: dict[str, Any] | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the tool said no."""
        return self.content is None


async def call(tool: Tool, given: Mapping[str, Any], hand: Hand) -> Told:
    """Run a tool; whatever goes wrong is told in words that help a model."""
    try:
        asked = msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        message = str(error)[:_LONGEST]
        return Told(words.told("arguments_invalid", message, words.ADVICE["arguments_invalid"]))
    try:
        answer = await tool.run(hand, asked)
    except OnceboxError as error:
        return Told(words.refusal(error))
    except Exception as error:  # noqa: BLE001 - the last place that hears of it
        # Only what kind it is: its words may hold what must not be in a log.
        _log.error("the tool %s failed: %s", tool.name, type(error).__name__)
        return Told(words.told("unforeseen", "something went wrong here", _UNFORESEEN))
    encoded = msgspec.json.encode(answer)
    return Told(encoded.decode(), msgspec.json.decode(encoded, type=dict[str, Any]))
