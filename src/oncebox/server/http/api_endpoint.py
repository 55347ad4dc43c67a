"""API endpoint: authenticate, decode, call the route handler, encode its response."""

import asyncio
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from oncebox.components import Components
from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import NotFound, OnceboxError, StoreError
from oncebox.errors.http import (
    BodyNotJson,
    FieldsInvalid,
    Forbidden,
    IdempotencyKeyMissing,
    KeyLimitReached,
    MediaUnsupported,
    MethodNotAllowed,
    RequestMalformed,
    TooManyRequests,
    Unauthenticated,
)
from oncebox.ledger.admin import idempotency
from oncebox.ledger.admin.api_keys import ApiKeyCache, Requester
from oncebox.model.admin.access import ApiKey
from oncebox.model.admin.idempotency import IdempotentRequest, StoredResponse
from oncebox.model.client_address import limit_key
from oncebox.model.deliveries.delivery import Headers
from oncebox.server.http import problems, routing
from oncebox.server.http.request_context import (
    CONTEXT,
    Receive,
    RequestContext,
    Scope,
    Send,
    is_local,
)
from oncebox.server.http.routing import (
    ACCEPT,
    OPERATOR,
    WORKER,
    ApiCall,
    Creator,
    Download,
    EventStream,
    HandlerResponse,
    Route,
)
from oncebox.server.rate_limits import TokenBuckets
from oncebox.settings_loading import variable_name

RawHeaders = list[tuple[bytes, bytes]]
#: counts a request in progress towards the limit of its key
CountRequest = Callable[[ApiKey], None]

_IDEMPOTENCY_KEY = b"idempotency-key"
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
#: C0 and C1 controls
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
_FIELD = re.compile(r"(unknown|required) field `(.*)`\Z", re.DOTALL)
#: a name that may be repeated: it is no sentence
_PLAIN_FIELD = re.compile(r"[A-Za-z0-9_-]{1,40}")
_KEY = re.compile(r"[!-~]{1,255}")
_KEY_IN_QUOTES = re.compile(r"[ -~]{1,255}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


async def read_body(receive: Receive) -> bytes:
    """Return the whole body.

    Raises: ClientGone.
    """
    chunks = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def check_media(headers: RawHeaders, body: bytes) -> None:
    """Refuse a body that is not declared as JSON, or is compressed.

    Raises: MediaUnsupported.
    """
    if not body:
        return
    found = dict(headers)
    if found.get(b"content-encoding", b"identity").lower() != b"identity":
        raise MediaUnsupported("send the body uncompressed, without Content-Encoding")
    media = found.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media != b"application/json":
        raise MediaUnsupported("send the body as JSON, with Content-Type: application/json")


def decode_body(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Decode a body; an empty one is an object without fields.

    Raises: BodyNotJson, FieldsInvalid.
    """
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise _fields_invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyNotJson from error


def decode_query(kind: type[msgspec.Struct], query: bytes) -> Any:
    """Decode a query string.

    Raises: FieldsInvalid, RequestMalformed.
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError as error:
        raise RequestMalformed from error
    values = dict(pairs)
    if len(values) < len(pairs):
        raise FieldsInvalid("a parameter is repeated; send it once")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        refused = _fields_invalid(error)
        refused.pointer = refused.pointer.removeprefix("/")
        raise refused from None


def decode_path(parts: Mapping[str, str]) -> dict[str, str]:
    """Decode the parameters of a path; no object has an id that is not text.

    Raises: NotFound.
    """
    try:
        decoded = {name: unquote_to_bytes(part).decode() for name, part in parts.items()}
    except UnicodeDecodeError as error:
        raise NotFound from error
    if any(_CONTROLS.search(part) for part in decoded.values()):
        raise NotFound
    return decoded


def idempotency_key(headers: RawHeaders) -> str:
    """Return the Idempotency-Key of a request, which may be a quoted string.

    Raises: IdempotencyKeyMissing, FieldsInvalid.
    """
    found = [value for name, value in headers if name == _IDEMPOTENCY_KEY]
    if len(found) != 1 or not found[0].strip():
        raise IdempotencyKeyMissing(
            "send one Idempotency-Key: any text that is new for every new request, such as a UUID"
        )
    text = found[0].decode("latin-1").strip()
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not (_KEY_IN_QUOTES if quoted else _KEY).fullmatch(key):
        raise FieldsInvalid(
            "use 1 to 255 visible ASCII characters; in quotes, also spaces",
            pointer="Idempotency-Key",
        )
    return key


def _fields_invalid(error: msgspec.ValidationError) -> FieldsInvalid:
    """Return msgspec's error with a JSON pointer, and without quoting any value."""
    said, _, where = str(error).partition(" - at `")
    steps = [name or number for name, number in _STEP.findall(where.rstrip("`"))]
    field = _FIELD.search(said)
    if field is not None and _PLAIN_FIELD.fullmatch(field[2]):
        steps.append(field[2])
    elif field is not None:
        said = f"Object contains an {field[1]} field; its name is not repeated here"
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)
    if said.startswith("Invalid enum value"):
        said = "Expected one of the allowed values"
    return FieldsInvalid(said.replace("`", "'"), pointer=pointer)


#: scopes that keys have for single sources
_OF_SOURCE = frozenset({WORKER, ACCEPT})
_BEARER_PREFIX = b"bearer "
_MAX_HEADER = 200
_MAX_VALID_DIGESTS = 1_000


class ApiKeyAuth:
    """Authenticates calls; every invalid key gets the same answer."""

    def __init__(
        self,
        keys: ApiKeyCache,
        telemetry: Telemetry,
        *,
        home: str,
        wrong_keys: int,
        requests_per_key: int = sys.maxsize,
    ) -> None:
        """Allow each address so many wrong keys per minute; 0 is any number."""
        self._requests_per_key = requests_per_key
        self._in_progress: Counter[str] = Counter()
        self._keys = keys
        self._telemetry = telemetry
        self._home = home
        self._buckets = TokenBuckets(wrong_keys / 60, burst=wrong_keys) if wrong_keys else None
        #: digests of keys that were valid; the limit of wrong keys does not apply to them
        self._valid_digests: dict[bytes, None] = {}

    @contextmanager
    def in_progress(self) -> Iterator[CountRequest]:
        """Yield a function that counts the request as one of its key, until it is answered.

        The function raises: KeyLimitReached.
        """
        counted: list[str] = []

        def count(key: ApiKey) -> None:
            if self._in_progress[key.id] >= self._requests_per_key:
                raise KeyLimitReached(
                    f"{self._requests_per_key} requests of this key are in progress; wait for "
                    "some to end, or raise the setting http.requests_per_key",
                    retry_after=5.0,
                )
            self._in_progress[key.id] += 1
            counted.append(key.id)

        try:
            yield count
        finally:
            for id_ in counted:
                self._in_progress[id_] -= 1
                if not self._in_progress[id_]:
                    del self._in_progress[id_]

    async def authorize(self, headers: RawHeaders, address: str, route: Route) -> ApiKey:
        """Return the key of a call that its scopes permit.

        Raises: Unauthenticated, Forbidden, TooManyRequests, StoreError.
        """
        key = await self.authenticate(headers, address)
        has_source = any(
            scope.partition(":")[0] in route.scopes & _OF_SOURCE for scope in key.scopes
        )
        is_foreign = route.home and key.tenant != self._home
        if is_foreign or not (has_source or key.may(*route.scopes)):
            raise Forbidden
        return key

    async def authenticate(self, headers: RawHeaders, address: str) -> ApiKey:
        """Return the key that came with a request, whatever its scopes.

        Raises: Unauthenticated, TooManyRequests, StoreError.
        """
        text = _bearer_token(headers)
        digest = hashlib.sha256(text.encode()).digest()
        was_valid = digest in self._valid_digests
        if self._buckets is not None and not was_valid:
            wait = self._buckets.wait(limit_key(address), clock.steady())
            if wait:
                raise TooManyRequests(retry_after=wait)
        key = await self._keys.check(text)
        if key is None:
            self._valid_digests.pop(digest, None)
            self._telemetry.wrong_keys.inc()
            if self._buckets is not None:
                self._buckets.take(limit_key(address), clock.steady())
            raise Unauthenticated
        if not was_valid:
            while len(self._valid_digests) >= _MAX_VALID_DIGESTS:
                del self._valid_digests[next(iter(self._valid_digests))]
            self._valid_digests[digest] = None
        return key


def _bearer_token(headers: RawHeaders) -> str:
    """Return the key's text; empty if there is none, or more than one."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or len(found[0]) > _MAX_HEADER:
        return ""
    if found[0][: len(_BEARER_PREFIX)].lower() != _BEARER_PREFIX:
        return ""
    return found[0][len(_BEARER_PREFIX) :].decode("latin-1")


#: the key of calls that need none
_ANONYMOUS = ApiKey(id="", tenant="", name="", hint="", scopes=(), created_at=0)
_RESPONSE_HEADERS = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))


class ApiEndpoint:
    """ASGI application of one path and all its methods."""

    def __init__(
        self,
        routes: Iterable[Route],
        components: Components,
        auth: ApiKeyAuth,
        stopping: asyncio.Event,
    ) -> None:
        """Serve the routes of one path."""
        self._routes = {route.method: route for route in routes}
        if "GET" in self._routes:
            self._routes["HEAD"] = self._routes["GET"]
        self._decoders = {
            route.method: msgspec.json.Decoder(route.body)
            for route in self._routes.values()
            if route.body is not None
        }
        self._components = components
        self._auth = auth
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        with self._auth.in_progress() as count:
            await self._serve(scope, receive, send, count)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, count: CountRequest) -> None:
        try:
            answer = await self._handle(scope, receive, count)
        except ClientGone:
            return
        except OnceboxError as error:
            if isinstance(error, StoreError):
                self._components.telemetry.count_store_error("api", error)
            await self.send_error(scope, send, error)
            return
        if isinstance(answer, EventStream):
            await routing.send_stream(answer, send)
            return
        headers = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def send_error(self, scope: Scope, send: Send, error: OnceboxError) -> None:
        """Answer with a problem."""
        await send_problem(scope, send, error, allow=", ".join(sorted(self._routes)))

    def read_idempotency_key(self, headers: RawHeaders) -> str | None:
        """Return the Idempotency-Key of a request, if it has one.

        Raises: IdempotencyKeyMissing, FieldsInvalid.
        """
        given = any(name == _IDEMPOTENCY_KEY for name, _ in headers)
        return idempotency_key(headers) if given else None

    async def _handle(
        self, scope: Scope, receive: Receive, count: CountRequest
    ) -> StoredResponse | EventStream:
        route = self._routes.get(scope["method"])
        if route is None:
            raise MethodNotAllowed
        context: RequestContext = scope[CONTEXT]
        context.route = route.path
        call, body = await self._read_call(route, context, scope, receive, count)
        if route.creator is not None:
            return await self._create_once(route.creator, call, scope["path"], body)
        if route.streamer is not None and _wants_stream(scope, call):
            context.route = f"{route.path} (stream)"  # apart: a stream has no time limit
            return await route.streamer(call)
        assert route.handler is not None  # noqa: S101 - a route has one or the other
        return encode_response(route, await route.handler(call))

    async def _read_call(
        self,
        route: Route,
        context: RequestContext,
        scope: Scope,
        receive: Receive,
        count: CountRequest,
    ) -> tuple[ApiCall, bytes]:
        """Authorize, then decode: the body of an unauthorized request is not read."""
        headers = scope["headers"]

        async def check_key() -> ApiKey:
            return await self._auth.authorize(headers, context.address, route)

        async def client_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        key = _ANONYMOUS
        if route.scopes and not self._is_opened(route, context):
            key = await check_key()
            count(key)
        path = decode_path(scope["path_params"])
        query = route.query and decode_query(route.query, scope["query_string"])
        body, decoded = b"", None
        decoder = self._decoders.get(route.method)
        if decoder is not None:
            body = await read_body(receive)
            check_media(headers, body)
            decoded = decode_body(decoder, body)
        request_key = None
        if route.creator is not None:
            request_key = idempotency_key(headers)
        elif route.keyed:
            request_key = self.read_idempotency_key(headers)
        call = ApiCall(
            components=self._components,
            ledger=self._components.ledger,
            route=route,
            key=key,
            tenant=key.tenant,
            requester=Requester(tenant=key.tenant, key=key.id, sees_all=key.may(OPERATOR)),
            path=path,
            query=query,
            body=decoded,
            client_gone=client_gone,
            stopping=self._stopping,
            headers=context.headers,
            request_id=context.request_id,
            recheck_key=check_key,
            idempotency_key=request_key,
        )
        return call, body

    def _is_opened(self, route: Route, context: RequestContext) -> bool:
        """Say whether a route that needs a key elsewhere needs none here.

        Raises: Unauthenticated, with the remedy, if there is no key either.
        """
        if not route.opened_by:
            return False
        if getattr(self._components.settings.http, route.opened_by) or is_local(context):
            return True
        if b"authorization" not in context.headers:
            setting = variable_name(f"http.{route.opened_by}")
            raise Unauthenticated(
                "from another machine this needs a key: send Authorization: Bearer KEY, made by "
                f"oncebox key new --scope metrics; or set {setting}=true"
            )
        return False

    async def _create_once(
        self, creator: Creator, call: ApiCall, path: str, body: bytes
    ) -> StoredResponse:
        """Create once; a repeat with the same key gets the first response."""
        route = call.route
        request = IdempotentRequest(
            tenant=call.tenant,
            # Of one API key: another must not get the response to this one.
            route=f"{route.method} {path} {call.key.id}",
            key=call.idempotency_key or "",
            body_hash=hashlib.sha256(body).digest(),
        )
        answer, repeated = await idempotency.create_once(
            call.ledger,
            self._components.master_key,
            request,
            lambda tx: encode_response(route, creator(call, tx)),
            None if route.before is None else partial(route.before, call),
        )
        if repeated:
            again = (*answer.headers, ("idempotency-replayed", "true"))
            return msgspec.structs.replace(answer, headers=again)
        if route.after is not None:
            await route.after(call)
        return answer


def _wants_stream(scope: Scope, call: ApiCall) -> bool:
    return scope["method"] == "GET" and routing.accepts_event_stream(
        call.headers.get(b"accept", b"")
    )


def encode_response(route: Route, value: Any) -> StoredResponse:
    """Encode what a handler returned."""
    if value is None:
        return StoredResponse(route.status, _RESPONSE_HEADERS, b"")
    status = route.status
    more: Headers = ()
    if isinstance(value, HandlerResponse):
        value, status, more = value
    elif isinstance(value, Download):
        value, more = value.body, value.headers
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    length = ("content-length", str(len(body)))
    own = {name for name, _ in more}
    usual = [each for each in _RESPONSE_HEADERS if each[0] not in own]
    return StoredResponse(status, (("content-type", route.media), length, *usual, *more), body)


async def send_problem(
    scope: Scope, send: Send, error: OnceboxError | type[OnceboxError], allow: str = ""
) -> None:
    """Answer with a problem."""
    context: RequestContext = scope[CONTEXT]
    context.code = error.code
    described = problems.describe(error, context.request_id)
    headers, body = problems.response(described, getattr(error, "retry_after", None))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", allow.encode()))
    await send({"type": "http.response.start", "status": described.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
