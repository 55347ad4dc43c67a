"""A bare ASGI app that answers 200 to everything. It stays as it is."""

from __future__ import annotations

from typing import Any

HEADERS = [(b"content-type", b"text/plain"), (b"content-length", b"2")]


async def app(scope: Any, _receive: Any, send: Any) -> None:
    """Answer one request."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"ok"})
