"""A request that is being answered: its context, the exchange a handler responds to; ASGI types."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any

import msgspec

from oncebox.core import clock, ids
from oncebox.core.logging import Log
from oncebox.errors import OnceboxError
from oncebox.model.client_address import parse_address
from oncebox.server.http import problems
from oncebox.server.http.request_parsing import RequestHead

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
#: where whole mails are sent with their attachments, in bodies with a limit of their own
MAIL_PATHS = frozenset({"/v1/sends", "/v1/sends/batch", "/emails", "/emails/batch"})


class RequestContext(ABC):
    """A request that is being answered."""

    #: name of the route in metrics
    route = "none"
    #: status of the response; 0 until it starts
    status = 0
    #: code of the error it was answered with
    code = ""

    def __init__(self, id_header: bytes, head: RequestHead, address: str, scheme: str) -> None:
        self.id_header = id_header
        self.head = head
        #: header fields by name; of one that occurs several times, the last value
        self.headers = head.by_name
        #: the client's address; behind a trusted proxy, the one the proxy reports
        self.address = address
        self.scheme = scheme
        self.began = clock.steady()

    @property
    def request_id(self) -> str:
        """Id of the request."""
        return self.id_header.decode()

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole response; without a client, or after another response, nothing."""

    @abstractmethod
    def abort(self) -> None:
        """Cut the connection instead of responding."""

    def refuse(self, error: OnceboxError | type[OnceboxError], status: int | None = None) -> None:
        """Respond with a problem, unless a response has started; with its status, or another."""
        if not self.status:
            self.code = error.code
            described = problems.describe(error, self.request_id)
            if status is not None:
                described = msgspec.structs.replace(described, status=status)
            headers, body = problems.response(described, getattr(error, "retry_after", None))
            self.respond(described.status, headers, body)


#: called with a complete request below ``/in/``; must call ``respond`` or ``refuse`` once
WebhookHandler = Callable[[RequestContext, bytes], None]


def takes_mail(handler: WebhookHandler | None, path: str) -> bool:
    """Say whether a handler takes whole mails at a path, so that bodies may be larger there."""
    asked = getattr(handler, "takes_mail", None)
    return asked is not None and bool(asked(path))


#: headers of a request that somebody else passed on
_FORWARDED_BY = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")


def is_local(request: RequestContext) -> bool:
    """Say whether a request comes from this machine; one that was passed on does not."""
    if any(name in request.headers for name in _FORWARDED_BY):
        return False
    try:
        return parse_address(request.address).is_loopback
    except ValueError:
        return False


def request_context(scope: Scope) -> RequestContext:
    """Return the context of a request."""
    found: RequestContext = scope[CONTEXT]
    return found


#: log lines about refused requests per second
_MAX_REFUSALS = 20.0


class RequestLog:
    """Logs how requests ended: those refused with an error, and at level ``debug`` the others.

    Refusals are limited, so that nobody from outside can make other lines disappear.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._second = 0
        self._written = self._left_out = 0

    def ended(self, request: RequestContext) -> None:
        """Log a request that has ended."""
        if request.code:
            self._refused(request)
        elif request.route != WEBHOOK_PATH:
            self._log.debug("request_served", **_request_facts(request))

    def _refused(self, request: RequestContext) -> None:
        second = int(clock.steady())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= _MAX_REFUSALS:
            self._left_out += 1
            return
        more = {"left_out": self._left_out} if self._left_out else {}
        self._written, self._left_out = self._written + 1, 0
        self._log.info("request_refused", **_request_facts(request), code=request.code, **more)


def _request_facts(request: RequestContext) -> dict[str, str | int]:
    return {
        "request": request.request_id,
        "route": request.route,
        "status": request.status,
    }


class RequestIds:
    """Ids of requests: that of this process, and a number."""

    def __init__(self) -> None:
        self._prefix = ids.new("req").encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        """Return the next id."""
        return b"%s-%x" % (self._prefix, next(self._numbers))
