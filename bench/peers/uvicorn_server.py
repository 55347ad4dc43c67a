"""uvicorn as everybody runs it: uvloop, httptools, no access log, on a free port."""

from __future__ import annotations

import socket
from typing import Any, Literal

import uvicorn


def serve(app: Any, *, lifespan: Literal["on", "off"]) -> None:
    """Serve an ASGI application until stopped; print where."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(2048)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan=lifespan,
        log_level="error",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])
