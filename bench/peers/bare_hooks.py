"""A bare ASGI app: verifies the signature, decodes the JSON, stores nothing. It stays as it is.

What it answers is forgotten at once, so it is no rival; it shows what HTTP alone costs here.
"""

from __future__ import annotations

import argparse
import hmac
import json
import sys
from typing import Any

from bench import hookload
from bench.peers.uvicorn_server import serve

ANSWER = b'{"status":"accepted"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"21")]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Take one webhook."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    given = dict(scope["headers"]).get(b"x-hub-signature-256", b"")
    signature = hmac.digest(hookload.SECRET, body, "sha256").hex()
    is_genuine = hmac.compare_digest(f"sha256={signature}".encode(), given)
    json.loads(body)
    status = 200 if is_genuine else 401
    await send({"type": "http.response.start", "status": status, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    """Measure and report, or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--seconds", type=float, default=hookload.SECONDS)
    options = parser.parse_args()
    if options.serve:
        serve(app, lifespan="off")
        return
    server = [sys.executable, "-m", "bench.peers.bare_hooks", options.url, "--serve"]
    hookload.measure(server, "uvicorn, nothing stored", seconds=options.seconds)


if __name__ == "__main__":
    main()
