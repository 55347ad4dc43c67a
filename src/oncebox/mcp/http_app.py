"""ASGI application at /mcp: stateless MCP over HTTP; each call uses its caller's API key.

The tools call the API through the client, over ASGI in the same process, without a socket.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from oncebox.client.asynchronous import AsyncClient
from oncebox.mcp.mcp_server import McpRequestContext, build_server
from oncebox.mcp.tool import ToolContext, ToolProgress, fingerprint_api_key

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: the address in requests that never leave the process
_INTERNAL_URL = "http://oncebox.internal"
_DISCONNECT = "http.disconnect"


class McpHttpApp:
    """An ASGI application; the key, Host and Origin were checked before."""

    def __init__(self, api: App, stopping: asyncio.Event) -> None:
        self._api = api
        self._stopping = stopping
        self._server = build_server(self._tool_context)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request until it is answered or the caller disconnects."""
        body, gone = await _read_body(receive), asyncio.Event()
        if body is None:
            return
        serving = asyncio.ensure_future(self._serve(scope, _replay_body(body, gone), send))
        leaving = asyncio.ensure_future(_until_disconnect(receive))
        try:
            await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            gone.set()
            serving.cancel()
            leaving.cancel()

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        # One per request: it has no state between requests, and ends what it started.
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def _tool_context(
        self, context: McpRequestContext, progress: ToolProgress
    ) -> AsyncIterator[ToolContext]:
        """Return the context of one call: a client with the key and the address of its caller."""
        request = context.request
        assert request is not None  # noqa: S101 - every call here came over HTTP
        key = request.headers["authorization"].partition(" ")[2]
        client = request.scope.get("client") or ("", 0)
        transport = httpx2.ASGITransport(self._api, client=client)
        async with AsyncClient(_INTERNAL_URL, key, transport=transport) as internal_client:
            yield ToolContext(
                client=internal_client,
                key_fingerprint=fingerprint_api_key(key),
                report_progress=progress,
                stopping=self._stopping,
            )


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request; None if the caller has disconnected."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == _DISCONNECT:
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay_body(body: bytes, gone: asyncio.Event) -> Receive:
    """Return a ``receive`` that returns the body once."""
    parts = [body]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await gone.wait()
        return {"type": _DISCONNECT}

    return receive


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != _DISCONNECT:
        pass
