"""The page of the agent's tools, from their table."""

from collections.abc import Sequence
from typing import Any

from oncebox.mcp.dispatch import ADVICE, TOOLS
from oncebox.mcp.tool import Tool
from tests.docs.markdown import page as _page
from tests.docs.markdown import table as _table
from tests.docs.reference import _kind, _said

_REFUSALS = """\
## Refusals

What a tool returns besides the error itself, in a result with `isError`.
All codes are in [errors](errors.md); `arguments_invalid` is specific to the tools."""


def page() -> str:
    """Return the page of the tools."""
    intro = (
        "The tools of `oncebox mcp` and `/mcp`; to connect, see [MCP tools](../mcp.md).\n"
        "Optional arguments may be omitted, and so are answer fields without a value.\n"
        "The hints inform clients that ask the user; they grant no permission."
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
    return _page("MCP tool reference", intro, "\n\n".join(parts))


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
