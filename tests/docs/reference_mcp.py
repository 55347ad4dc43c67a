"""The page of the agent's tools, from their table."""

from collections.abc import Sequence
from typing import Any

from oncebox.mcp.tool import Tool
from oncebox.mcp.tools import TOOLS
from oncebox.mcp.words import ADVICE
from tests.docs.markdown import page as _page
from tests.docs.markdown import table as _table
from tests.docs.reference import _kind, _said

_REFUSALS = """\
## Refusals

What a tool says besides the error itself, as a result with `isError`.
All codes are in [errors](errors.md); `arguments_invalid` is the tools' own."""


def page() -> str:
    """Return the page of the tools."""
    intro = (
        "The tools of `oncebox mcp` and `/mcp`; how to connect is in [MCP](../mcp.md).\n"
        "What is not needed may be left out, and what an answer does not have is left out.\n"
        "Hints are for whoever asks the user; they allow nothing."
    )
    hints = ("read_only", "destructive", "idempotent", "open_world")
    rows = (
        (f"`{tool.name}`", *("yes" if getattr(tool, hint) else "no" for hint in hints))
        for tool in TOOLS
    )
    head = ("tool", *(hint.replace("_", " ") for hint in hints))
    refusals = _table(
        ("code", "what to do", "what not to do"),
        ((f"`{code}`", advice.do, advice.do_not) for code, advice in ADVICE.items()),
    )
    parts = [
        _table(head, rows),
        *(_tool(tool) for tool in TOOLS),
        _REFUSALS,
        refusals,
    ]
    return _page("MCP tools", intro, "\n\n".join(parts))


def _tool(tool: Tool) -> str:
    asked = _schema_table(("argument", "is", "needed", "meaning"), tool.input_schema())
    told = _schema_table(("answer", "is", "always", "meaning"), tool.output_schema())
    return f"## {tool.name}\n\n{tool.description}\n\n{asked}\n\n{told}"


def _schema_table(head: Sequence[str], schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = (
        (f"`{name}`", _kind(field, schema.get("$defs", {})), "yes" if name in required else "",
         _said(field))
        for name, field in schema["properties"].items()
    )  # fmt: skip
    return _table(head, rows)
