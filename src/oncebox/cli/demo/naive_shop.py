"""The naive shop: checks the signature, looks the id up, works, and then writes the id down."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from oncebox.cli.demo.hook import CONNECTIONS
from oncebox.client.receiver import verify

_WITHIN = 5.0


class NaiveShop(ThreadingHTTPServer):
    """A web server whose handler remembers which ids it has handled."""

    daemon_threads = True

    def __init__(self, secret: str) -> None:
        """Listen on a free port."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.secret = secret
        self.handled: set[str] = set()
        self.runs: list[str] = []
        # The work takes so long that every connection's first copy comes while it lasts.
        self._crowd = threading.Barrier(CONNECTIONS)

    def work(self, id_: str) -> None:
        """Do what the webhook asks for, which takes its time."""
        self.runs.append(id_)
        try:
            self._crowd.wait(_WITHIN)
        except threading.BrokenBarrierError:
            return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NaiveShop

    def do_POST(self) -> None:
        """Handle a webhook once, as many programs do."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verify(self.headers.items(), body, self.server.secret)
        id_ = self.headers["webhook-id"]
        if id_ not in self.server.handled:
            self.server.work(id_)
            self.server.handled.add(id_)
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_anything: object) -> None:
        """Be silent."""


@contextmanager
def naive_shop(secret: str) -> Iterator[NaiveShop]:
    """Serve as long as the block lasts."""
    with NaiveShop(secret) as shop:
        thread = threading.Thread(target=shop.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield shop
        finally:
            shop.shutdown()
