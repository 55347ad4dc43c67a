"""The express: small, whole webhooks are taken without a task and a conversation of their own.

Only what is beyond doubt goes this way. Everything else goes by ASGI, and is told there why
it is refused; so this way never says no, it only says ``not by me``.
"""

from collections.abc import Callable
from typing import Protocol

from oncebox.errors import OnceboxError

#: what every webhook is answered that is on disk
ACCEPTED = b'{"status":"accepted"}'
ACCEPTED_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"21")]
_HEAD = b"".join(b"%s: %s\r\n" % header for header in ACCEPTED_HEADERS)

Headers = list[tuple[bytes, bytes]]
#: hears, once, that a request is on disk, or why it is not
Told = Callable[[OnceboxError | None], None]
#: writes an answer without its first lines, or a whole one that ends the connection
Write = Callable[[bytes, bool], None]


class Taker(Protocol):
    """Who may take a request the short way; says whether it did."""

    def __call__(
        self, path: str, headers: Headers, body: bytes, address: str, told: Told, /
    ) -> bool:
        """Take a request, or leave it untouched."""


class _Nobody:
    """Stands for the task that would wait for more of the body."""

    def set(self) -> None:
        """Wake nobody."""


class Passing:
    """A request on the express; for uvicorn, a conversation that goes on."""

    message_event = _Nobody()
    response_started = False

    def __init__(self, *, keep_alive: bool) -> None:
        """Begin."""
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False


def accepted(name: bytes) -> bytes:
    """Return the answer to a request of this name, but for its first lines."""
    return b"%sx-request-id: %s\r\n\r\n%s" % (_HEAD, name, ACCEPTED)
