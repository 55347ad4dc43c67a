"""``AsgiApp``: API and webhooks as one ASGI application, for other servers and within a process."""

import asyncio

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import BodyTooLarge, OnceboxError
from oncebox.errors.http import InternalError, RequestMalformed
from oncebox.server.http import problems
from oncebox.server.http.request_context import (
    CONTEXT,
    MAIL_PATHS,
    REQUEST_ID,
    WEBHOOK_PATH,
    App,
    Headers,
    Message,
    Receive,
    RequestContext,
    RequestIds,
    RequestLog,
    Scope,
    Send,
    WebhookHandler,
    takes_mail,
)
from oncebox.server.http.request_parsing import RequestHead
from oncebox.settings import HttpSettings

_DISCONNECT: Message = {"type": "http.disconnect"}


class _ClientGone(Exception):
    """The client disconnected before its request was complete."""


class _AsgiRequest(RequestContext):
    """A request of another server."""

    def __init__(self, scope: Scope, id_header: bytes) -> None:
        headers = scope["headers"]
        by_name = dict(headers)
        length = by_name.get(b"content-length")
        is_counted = length is not None and length.isdigit()
        head = RequestHead(
            method=scope["method"],
            path=scope["path"],
            raw_path=scope.get("raw_path") or b"",
            query=scope["query_string"],
            version=scope["http_version"],
            fields=headers,
            by_name=by_name,
            length=int(length) if length is not None and is_counted else None,
            keep_alive=True,
        )
        client = scope.get("client")
        super().__init__(id_header, head, client[0] if client else "", scope.get("scheme", "http"))
        self.response: asyncio.Future[tuple[int, Headers, bytes]] = (
            asyncio.get_running_loop().create_future()
        )

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if not self.status and not self.response.done():
            self.status = status
            self.response.set_result((status, headers, body))

    def abort(self) -> None:
        self.response.set_exception(ConnectionAbortedError())


class AsgiApp:
    """API and webhooks behind the limits on bodies; connections are the server's business."""

    def __init__(
        self,
        app: App,
        settings: HttpSettings,
        telemetry: Telemetry,
        webhooks: WebhookHandler | None = None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._telemetry = telemetry
        self._webhooks = webhooks
        self._ids = RequestIds()
        self._request_log = RequestLog(telemetry.log)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; there are no web sockets."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = scope[CONTEXT] = _AsgiRequest(scope, self._ids.new())
        body = _Body(request, receive, self._limit(request.head.path))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                named = (REQUEST_ID, request.id_header)
                message["headers"] = [*message.get("headers", ()), named]
            await send(message)

        try:
            await self._answer(scope, request, body, send_with_id)
        except _ClientGone:
            pass
        except Exception as error:
            refused = error if isinstance(error, BodyTooLarge | RequestMalformed) else None
            if refused is None:
                self._telemetry.log.exception("request_failed", request=request.request_id)
            if not request.status:
                await _send_problem(request, refused or InternalError(), send_with_id)
        finally:
            seconds = clock.steady() - request.began
            self._telemetry.http.count(request.route, request.status, seconds)
            self._request_log.ended(request)

    async def _answer(self, scope: Scope, request: _AsgiRequest, body: "_Body", send: Send) -> None:
        if self._webhooks is None or not request.head.path.startswith(WEBHOOK_PATH):
            await self._app(scope, body.receive, send)
            return
        request.route = WEBHOOK_PATH
        self._webhooks(request, await body.read())
        await _send(*await request.response, send)

    def _limit(self, path: str) -> int:
        is_mail = path in MAIL_PATHS or (
            path.startswith(WEBHOOK_PATH) and takes_mail(self._webhooks, path)
        )
        return self._settings.mail_body if is_mail else self._settings.body


class _Body:
    """A request body: within its limit, and of exactly the announced length."""

    def __init__(self, request: RequestContext, receive: Receive, limit: int) -> None:
        self._length = request.head.length
        self._receive = receive
        self._limit = limit
        self._size = 0

    async def receive(self) -> Message:
        """Receive a part of the body.

        Raises: BodyTooLarge, RequestMalformed.
        """
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if max(self._size, self._length or 0) > self._limit:
                raise BodyTooLarge
            is_last = not message.get("more_body", False)
            if is_last and self._length not in {None, self._size}:
                raise RequestMalformed
        return message

    async def read(self) -> bytes:
        """Return the whole body."""
        parts = []
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise _ClientGone
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)


async def _send(status: int, headers: Headers, body: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_problem(request: RequestContext, error: OnceboxError, send: Send) -> None:
    request.code = error.code
    described = problems.describe(error, request.request_id)
    headers, body = problems.response(described)
    await _send(described.status, headers, body, send)
