"""What is known of an HTTP request besides its head, for those who answer it; ASGI types."""

from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any

from oncebox.core import clock, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError
from oncebox.server.http import problems

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

#: the header that names a request, in both directions
REQUEST_ID = b"x-request-id"
#: key of the request context in an ASGI scope
CONTEXT = "oncebox.context"
#: webhooks arrive below this path
WEBHOOK_PATH = "/in/"


class RequestContext:
    """A request that is being answered."""

    #: name of the route in metrics
    route = "none"
    #: status of the response; 0 until it starts
    status = 0

    def __init__(self, id_header: bytes, address: str, headers: dict[bytes, bytes]) -> None:
        self.id_header = id_header
        #: the client's address; behind a trusted proxy, the one the proxy reports
        self.address = address
        #: by name; of a field that occurs several times, the last value
        self.headers = headers
        self.began = clock.steady()

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return self.id_header.decode()


def request_context(scope: Scope) -> RequestContext:
    """Return the context of a request."""
    found: RequestContext = scope[CONTEXT]
    return found


def problem_messages(
    error: OnceboxError | type[OnceboxError],
    context: RequestContext,
    headers: Headers = [],  # noqa: B006 - never changed
) -> tuple[Message, Message]:
    """Return an error as an ASGI response."""
    described = problems.describe(error, context.request_id)
    own, body = problems.response(described, getattr(error, "retry_after", None))
    return (
        {"type": "http.response.start", "status": described.status, "headers": [*own, *headers]},
        {"type": "http.response.body", "body": body},
    )


class RequestIds:
    """Ids of requests: that of this process, and a number."""

    def __init__(self) -> None:
        self._prefix = ids.new("req").encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        """Return the next id."""
        return b"%s-%x" % (self._prefix, next(self._numbers))


class InProcessApp:
    """Gives requests made in this process, without a connection, their context."""

    def __init__(self, app: App, telemetry: Telemetry) -> None:
        self._app = app
        self._count = telemetry.http.count
        self._ids = RequestIds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        client = scope.get("client")
        context = RequestContext(
            self._ids.new(), client[0] if client else "", dict(scope["headers"])
        )
        scope[CONTEXT] = context

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status = message["status"]
                message["headers"] = [*message["headers"], (REQUEST_ID, context.id_header)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self._count(context.route, context.status, clock.steady() - context.began)
