"""The tools at ``/mcp``: each request stands alone, and each call is made with its caller's key.

The API is spoken to through the client, over ASGI in the same process: no socket, no second way in.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from oncebox.client import AsyncClient
from oncebox.mcp.hand import Hand, Progress, mark_of
from oncebox.mcp.server import Context, server

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

#: names the service in requests that never leave the process
_HERE = "http://oncebox.internal"
_GONE = "http.disconnect"


class HttpTools:
    """An ASGI application; whoever calls it has checked the caller's key, Host and Origin."""

    def __init__(self, api: App, stopping: asyncio.Event) -> None:
        """Speak to this API; ``stopping`` is set when nobody should be kept waiting."""
        self._api = api
        self._stopping = stopping
        self._server = server(self._hand)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request, unless the caller goes away meanwhile."""
        body, gone = await _whole(receive), asyncio.Event()
        if body is None:
            return
        serving = asyncio.ensure_future(self._serve(scope, _replayed(body, gone), send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            gone.set()
            serving.cancel()
            leaving.cancel()

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        # One for each request: it holds nothing between two, and ends what it has begun.
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def _hand(self, context: Context, progress: Progress) -> AsyncIterator[Hand]:
        """Return the hand of one call: a client with the key and the address of its caller."""
        request = context.request
        assert request is not None  # noqa: S101 - every call here came by HTTP
        key = request.headers["authorization"].partition(" ")[2]
        client = request.scope.get("client") or ("", 0)
        transport = httpx2.ASGITransport(self._api, client=client)
        async with AsyncClient(_HERE, key, transport=transport) as mine:
            yield Hand(client=mine, mark=mark_of(key), progress=progress, stopping=self._stopping)


async def _whole(receive: Receive) -> bytes | None:
    """Return the body of a request; None if the caller has gone."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == _GONE:
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, gone: asyncio.Event) -> Receive:
    """Return what hands a body on, once."""
    parts = [body]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await gone.wait()
        return {"type": _GONE}

    return receive


async def _left(receive: Receive) -> None:
    """Return when the caller has gone."""
    while (await receive())["type"] != _GONE:
        pass
