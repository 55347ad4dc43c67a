"""An OAuth token endpoint on loopback whose refresh tokens are good once (RFC 9700, 4.14.2)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs


class TokenEndpoint:
    """Gives the access token ``key`` for ``refresh-1``, then for ``refresh-2``, and so on."""

    def __init__(self) -> None:
        self.number = 1
        #: the refresh tokens that were good, and those that were not
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.url = ""

    def answer(self, refresh_token: str) -> tuple[int, dict[str, object]]:
        """Replace a refresh token."""
        if refresh_token != f"refresh-{self.number}":
            self.refused.append(refresh_token)
            return 400, {"error": "invalid_grant"}
        self.accepted.append(refresh_token)
        self.number += 1
        newest = f"refresh-{self.number}"
        return 200, {"access_token": "key", "expires_in": 3600, "refresh_token": newest}


@contextmanager
def rotating_tokens() -> Iterator[TokenEndpoint]:
    """Run a token endpoint."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, answer = endpoint.answer(parse_qs(body)["refresh_token"][0])
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            del args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/token"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
