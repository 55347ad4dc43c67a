"""A connection without a socket: what comes is handed to it, what it writes is kept."""

import asyncio

from oncebox.core.metrics import Telemetry
from oncebox.server.http.http_connection import HttpConnection
from oncebox.server.http.request_context import App, Receive, Scope, Send, WebhookHandler
from oncebox.server.http.server_state import ServerState
from oncebox.settings import HttpSettings


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        """Begin open, with nothing written."""
        super().__init__()
        self.written = b""
        self.closed = False
        self.ended = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written += bytes(data)

    def close(self) -> None:
        """Close."""
        self.closed = True

    def abort(self) -> None:
        """Close at once."""
        self.closed = True

    def is_closing(self) -> bool:
        """Say whether it is closed."""
        return self.closed

    def get_write_buffer_size(self) -> int:
        """Say that everything was sent."""
        return 0

    def can_write_eof(self) -> bool:
        """Say that half of it can be closed."""
        return True

    def write_eof(self) -> None:
        """Close the half that is written to."""
        self.ended = True

    def pause_reading(self) -> None:
        """Note it."""
        self.paused = True

    def resume_reading(self) -> None:
        """Note it."""
        self.paused = False


async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    """Answer nothing."""


def connected(
    webhooks: WebhookHandler | None, app: App = nothing, settings: HttpSettings | None = None
) -> tuple[HttpConnection, Transport]:
    """Return a connection that is open, and its other side."""
    state = ServerState(app, settings or HttpSettings(), Telemetry(), webhooks)
    connection = HttpConnection(state)
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport
