"""An endpoint: one path of the API, from the bytes of a request to the bytes of its answer."""

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from oncebox.edge import problem
from oncebox.edge.guard import Receive, Scope, Send, visit
from oncebox.edge.http import requests, streaming
from oncebox.edge.http.answered import Answered
from oncebox.edge.http.auth import Auth
from oncebox.edge.http.call import Call, Rooms
from oncebox.edge.http.download import Download
from oncebox.edge.http.route import Creator, Route
from oncebox.edge.http.streaming import Streamed
from oncebox.errors import OnceboxError, StoreError
from oncebox.model.delivery import Headers
from oncebox.model.idempotency import Answer, Asked
from oncebox.model.key import ApiKey
from oncebox.refusals import MethodNotAllowed

#: who asks where nobody has to say
_NOBODY = ApiKey(id="", tenant="", name="", hint="", scopes=(), created_at=0)
#: answers are for who asked, and are what they say they are
_HEADERS = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class Endpoint:
    """An ASGI application for one path and all its methods."""

    def __init__(
        self, routes: Iterable[Route], rooms: Rooms, auth: Auth, stopping: asyncio.Event
    ) -> None:
        """Serve the routes of one path."""
        self._routes = {route.method: route for route in routes}
        if "GET" in self._routes:
            self._routes["HEAD"] = self._routes["GET"]
        self._decoders = {
            method: msgspec.json.Decoder(route.body)
            for method, route in self._routes.items()
            if route.body is not None
        }
        self._rooms = rooms
        self._auth = auth
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            answer = await self._answer(scope, receive)
        except requests.ClientGone:
            return
        except OnceboxError as error:
            if isinstance(error, StoreError):
                self._rooms.telemetry.store_errors.labels(error.code).inc()
            await self.refuse(scope, send, error)
            return
        if isinstance(answer, Streamed):
            await streaming.send_all(answer, send)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def refuse(self, scope: Scope, send: Send, error: OnceboxError) -> None:
        """Answer with a problem."""
        await refuse(scope, send, error, allow=", ".join(sorted(self._routes)))

    def request_key(self, headers: requests.Headers) -> str | None:
        """Return the caller's key for a request, if it has one.

        Raises: IdempotencyKeyMissing, FieldsInvalid.
        """
        return requests.given_key(headers)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Streamed:
        route = self._routes.get(scope["method"])
        if route is None:
            raise MethodNotAllowed
        visit(scope).route = route.path
        call, body = await self._understood(route, scope, receive)
        if route.creator is not None:
            return await self._created(route, route.creator, call, scope, body)
        if route.streamer is not None and _wants_stream(scope, call):
            visit(scope).route = f"{route.path} (stream)"  # apart: it takes as long as it likes
            return await route.streamer(call)
        assert route.handler is not None  # noqa: S101 - a route has one or the other
        return told(route, await route.handler(call))

    async def _understood(self, route: Route, scope: Scope, receive: Receive) -> tuple[Call, bytes]:
        """Check who asks, then read what is asked; a stranger's body is not even read."""
        headers = scope["headers"]
        key = _NOBODY
        if not route.is_open:
            key = await self._auth.check(headers, visit(scope).address, route)
        path = requests.decode_path(scope["path_params"])
        query = route.query and requests.decode_query(route.query, scope["query_string"])
        body, decoded = b"", None
        decoder = self._decoders.get(route.method)
        if decoder is not None:
            body = await requests.read_body(receive)
            requests.check_media(headers, body)
            decoded = requests.decode_body(decoder, body)

        async def left() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        async def check() -> None:
            if not route.is_open:
                await self._auth.check(headers, visit(scope).address, route)

        request_key = self.request_key(headers) if route.keyed else None
        call = Call(
            rooms=self._rooms,
            key=key,
            path=path,
            query=query,
            body=decoded,
            left=left,
            stopping=self._stopping,
            headers=visit(scope).headers,
            check=check,
            request_key=request_key,
        )
        return call, body

    async def _created(
        self, route: Route, creator: Creator, call: Call, scope: Scope, body: bytes
    ) -> Answer:
        """Create once; a repeat with the same key gets the first answer."""
        asked = Asked(
            tenant=call.tenant,
            # Of one key only: another would be told what this one created.
            route=f"{route.method} {scope['path']} {call.key.id}",
            key=requests.idempotency_key(scope["headers"]),
            body_hash=hashlib.sha256(body).digest(),
        )
        creation = creator(call)
        answer, repeated = await self._rooms.counter.create(
            asked, lambda tx: told(route, creation(tx))
        )
        if repeated:
            again = (*answer.headers, ("idempotency-replayed", "true"))
            return msgspec.structs.replace(answer, headers=again)
        if route.after is not None:
            await route.after(call)
        return answer


def _wants_stream(scope: Scope, call: Call) -> bool:
    return scope["method"] == "GET" and streaming.is_wanted(call.headers.get(b"accept", b""))


def told(route: Route, value: Any) -> Answer:
    """Return what a handler returned as it is sent."""
    if value is None:
        return Answer(route.status, _HEADERS, b"")
    status = route.status
    more: Headers = ()
    if isinstance(value, Answered):
        value, status, more = value
    elif isinstance(value, Download):
        value, more = value.body, value.headers
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    length = ("content-length", str(len(body)))
    usual = [each for each in _HEADERS if each[0] not in dict(more)] if more else _HEADERS
    return Answer(status, (("content-type", route.media), length, *usual, *more), body)


async def refuse(
    scope: Scope, send: Send, error: OnceboxError | type[OnceboxError], allow: str = ""
) -> None:
    """Answer with a problem."""
    described = problem.describe(error, visit(scope).request_id)
    headers, body = problem.response(described, getattr(error, "retry_after", None))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", allow.encode()))
    await send({"type": "http.response.start", "status": described.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
