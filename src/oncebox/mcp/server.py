"""The tools as an MCP server; importing it takes a second, and needs the extra ``mcp``."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from oncebox.mcp import desk
from oncebox.mcp.hand import Hand, Progress
from oncebox.mcp.tool import Tool
from oncebox.mcp.tools import TOOLS

Context: TypeAlias = ServerRequestContext[Any, Any]
#: makes a hand for one call, by whose context it is and how progress is told
Hands: TypeAlias = Callable[[Context, Progress], AbstractAsyncContextManager[Hand]]

_INSTRUCTIONS = """\
Oncebox gives you email addresses, codes, links, webhooks and outgoing mail so that each effect \
happens once, also when you crash and start again.
Name what you attempt with an attempt_id and keep it: the same attempt_id gets the same address, \
the same code and the same result again.
Wrap what must happen once in begin_action and finish_action.
Every answer has next, and every refusal says what to do and what not to do: follow them."""

_BY_NAME = {tool.name: tool for tool in TOOLS}


def server(hands: Hands) -> Server[Any]:
    """Return a server of all tools, whose calls are made by the hands that are given."""
    _keep_quiet()
    listed = [_listed(tool) for tool in TOOLS]

    async def list_tools(_context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _BY_NAME.get(params.name)
        if tool is None:
            message = "there is no such tool; tools/list names all there are"
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        async with hands(context, partial(_progress, context)) as hand:
            return _result(await desk.call(tool, params.arguments or {}, hand))

    return Server(
        "oncebox",
        title="Oncebox",
        version=version("oncebox"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=_schema_of,
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world,
        ),
    )


def _schema_of(name: str) -> dict[str, Any] | None:
    tool = _BY_NAME.get(name)
    return None if tool is None else tool.input_schema()


async def _progress(context: Context, done: float, of: float) -> None:
    await context.session.report_progress(done, of, "waiting")


def _result(told: desk.Told) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=told.text)],
        structured_content=told.content,
        is_error=told.is_refused,
    )


def _keep_quiet() -> None:
    """Keep the package from quoting requests in its own words; what matters is told by us."""
    logger = logging.getLogger("mcp")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
