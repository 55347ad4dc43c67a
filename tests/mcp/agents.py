"""Agents for tests: the official MCP client over either door, and all that it was told."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
import jsonschema
import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

T = TypeVar("T")

#: seconds; nobody waits so long, but a busy machine is slow
_PATIENCE = 100.0


class Agent:
    """A client in a thread of its own, so that tests read straight down; ``with Agent(…)``."""

    def __init__(self, connect: Callable[[AsyncExitStack], Coroutine[Any, Any, Client]]) -> None:
        self.told: list[tuple[str, str]] = []
        self.tools: dict[str, types.Tool] = {}
        #: how often a wait told how far it is
        self.ticks: list[tuple[float, float | None]] = []
        #: where its process leaves its number and its words, if it has one
        self.folder: Path | None = None
        self._connect = connect
        self._up = threading.Event()
        self._failed: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._up.wait(_PATIENCE)
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(_PATIENCE)

    def ask(self, tool: str, /, **arguments: Any) -> types.CallToolResult:
        """Call a tool; whatever it answers is by its schema."""
        return self.begin(tool, **arguments).result(_PATIENCE)

    def begin(self, tool: str, /, **arguments: Any) -> Future[types.CallToolResult]:
        """Call a tool and do not wait for its answer."""
        return self.do(self._call(tool, arguments))

    def do(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something where the client lives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def get(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer."""
        return content(self.ask(tool, **arguments))

    def refused(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool that says no; return its words."""
        return refusal(self.ask(tool, **arguments))

    async def _call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        result = await self._client.call_tool(tool, arguments, progress_callback=self._tick)
        self.told.append((tool, result.model_dump_json()))
        schema = self.tools[tool].output_schema
        assert schema is not None
        if not result.is_error:
            jsonschema.validate(result.structured_content, schema)
            (text,) = result.content
            assert isinstance(text, types.TextContent)
            assert json.loads(text.text) == result.structured_content
        return result

    async def _tick(self, progress: float, total: float | None, message: str | None) -> None:
        self.ticks.append((progress, total))

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._failed = error
        finally:
            self._up.set()

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as stack:
            self._client = await self._connect(stack)
            listed = await self._client.list_tools()
            self.tools = {tool.name: tool for tool in listed.tools}
            self.told.append(("list", listed.model_dump_json()))
            self._up.set()
            await self._over.wait()


def over_http(url: str, key: str, mode: str = "auto") -> Agent:
    """Return an agent that speaks to ``/mcp``."""

    async def connect(stack: AsyncExitStack) -> Client:
        headers = {"Authorization": f"Bearer {key}"}
        http = httpx2.AsyncClient(headers=headers, timeout=_PATIENCE)
        await stack.enter_async_context(http)
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        return await stack.enter_async_context(Client(transport, mode=mode))

    return Agent(connect)


def over_stdio(url: str, key: str, folder: Path, mode: str = "auto") -> Agent:
    """Return an agent with an ``oncebox mcp`` of its own, whose words on stderr are kept."""
    server = StdioServerParameters(
        command="sh",
        args=["-c", f'echo $$ > "{folder}/pid"; exec "{sys.executable}" -m oncebox mcp'],
        env={"ONCEBOX_URL": url, "ONCEBOX_API_KEY": key, "ONCEBOX_DATA_DIR": str(folder)},
    )

    async def connect(stack: AsyncExitStack) -> Client:
        errors = stack.enter_context((folder / "stderr").open("a"))
        return await stack.enter_async_context(Client(stdio_client(server, errors), mode=mode))

    agent = Agent(connect)
    agent.folder = folder
    return agent


def content(result: types.CallToolResult) -> dict[str, Any]:
    """Return what a tool answered."""
    assert not result.is_error, result.content
    found = result.structured_content
    assert isinstance(found, dict)
    return found


def refusal(result: types.CallToolResult) -> str:
    """Return the words of a tool that said no."""
    assert result.is_error, result.structured_content
    assert result.structured_content is None
    (text,) = result.content
    assert isinstance(text, types.TextContent)
    return text.text
