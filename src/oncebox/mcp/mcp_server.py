"""MCP server of all tools, and serving it over stdin and stdout; needs the extra `mcp`."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from oncebox.client.asynchronous import AsyncClient
from oncebox.core.credentials import Credentials
from oncebox.mcp import dispatch
from oncebox.mcp.dispatch import TOOLS
from oncebox.mcp.tool import Tool, ToolContext, ToolProgress, fingerprint_api_key

McpRequestContext: TypeAlias = ServerRequestContext[Any, Any]
#: makes the context of one tool call from its request and a function that reports progress
ContextFactory: TypeAlias = Callable[
    [McpRequestContext, ToolProgress], AbstractAsyncContextManager[ToolContext]
]

_INSTRUCTIONS = """\
Oncebox gives you email addresses, codes, links, webhooks and outgoing mail so that each effect \
happens once, also when you crash and start again.
Name what you attempt with an attempt_id and keep it: the same attempt_id gets the same address, \
the same code and the same result again.
Wrap what must happen once in begin_action and finish_action.
Every answer has next, and every error says what to do and what not to do: follow them."""

_TOOLS_BY_NAME = {tool.name: tool for tool in TOOLS}


def build_server(tool_context: ContextFactory) -> Server[Any]:
    """Return a server of all tools."""
    _silence_package_log()
    listed = [_to_mcp_tool(tool) for tool in TOOLS]

    async def list_tools(_context: McpRequestContext, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        context: McpRequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _TOOLS_BY_NAME.get(params.name)
        if tool is None:
            message = "there is no such tool; tools/list names all tools"
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        async with tool_context(context, partial(_report_progress, context)) as tool_call:
            result = await dispatch.run_tool(tool, params.arguments or {}, tool_call)
        return types.CallToolResult(
            content=[types.TextContent(text=result.text)],
            structured_content=result.content,
            is_error=result.is_refused,
        )

    return Server(
        "oncebox",
        title="Oncebox",
        version=version("oncebox"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={tool.name: tool.input_schema() for tool in TOOLS}.get,
    )


def _to_mcp_tool(tool: Tool) -> types.Tool:
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


async def _report_progress(context: McpRequestContext, done: float, of: float) -> None:
    await context.session.report_progress(done, of, "waiting")


def _silence_package_log() -> None:
    """Keep the package ``mcp`` from logging contents of requests."""
    logger = logging.getLogger("mcp")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def serve_stdio(access: Credentials) -> None:
    """Serve until the caller closes our input."""
    # Exit at once: the ledger has all state, and the reader of stdin cannot be stopped.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        asyncio.run(_serve(access))
    except* BrokenPipeError:
        os._exit(0)  # the caller is gone


async def _serve(access: Credentials) -> None:
    stopping = asyncio.Event()
    fingerprint = fingerprint_api_key(access.key)
    async with AsyncClient(access.url, access.key) as client:

        @asynccontextmanager
        async def tool_context(
            _context: McpRequestContext, progress: ToolProgress
        ) -> AsyncIterator[ToolContext]:
            yield ToolContext(
                client=client,
                key_fingerprint=fingerprint,
                report_progress=progress,
                stopping=stopping,
            )

        server = build_server(tool_context)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
