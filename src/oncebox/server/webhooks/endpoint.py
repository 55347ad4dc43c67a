"""Webhook endpoint ``/in/{public_id}``: handshake, verify, store or quarantine; provider keys."""

import asyncio
from collections.abc import Awaitable, Callable

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import EgressError, KeyFetchRequired, OnceboxError, SignatureInvalid
from oncebox.errors.http import (
    KeyServiceUnreachable,
    MethodNotAllowed,
    SenderNotAllowed,
    SignatureRefused,
)
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.deliveries.quarantine import QuarantineWriter
from oncebox.server.http.request_limits import (
    ACCEPTED,
    ACCEPTED_HEADERS,
    Headers,
    OnStored,
    Receive,
    Scope,
    Send,
    request_context,
)
from oncebox.server.webhooks import request_verification
from oncebox.server.webhooks.request_verification import (
    CompiledSource,
    compile_source,
    verify_request,
)
from oncebox.webhooks.handshakes import answer_handshake
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import HandshakeReply, SubscriptionConfirmation

#: returns a small document by its URL; raises EgressError
FetchDocument = Callable[[str], Awaitable[bytes]]

_KEY_TTL = 24 * 3600.0
_FAILURE_TTL = 10.0
_MAX_KEYS = 1_000


class ProviderKeyCache:
    """Caches fetched keys; a miss starts a fetch and does not wait for it."""

    def __init__(self, fetch: FetchDocument, telemetry: Telemetry) -> None:
        self._fetch_document = fetch
        self._telemetry = telemetry
        self._cached: dict[str, tuple[float, str | None]] = {}
        self._fetching: dict[str, asyncio.Task[None]] = {}

    def get(self, name: str, /) -> str | None:
        """Return a key, or None if it is not cached."""
        until, key = self._cached.get(name, (0.0, None))
        return key if clock.steady() < until else None

    def fetch_in_background(self, name: str) -> None:
        """Fetch a key in the background; the schemes name only addresses of their providers."""
        until, _ = self._cached.get(name, (0.0, None))
        if name in self._fetching or clock.steady() < until or len(self._fetching) >= _MAX_KEYS:
            return
        task = asyncio.create_task(self._fetch(name))
        self._fetching[name] = task
        task.add_done_callback(lambda _task: self._fetching.pop(name, None))

    async def _fetch(self, name: str) -> None:
        try:
            key = (await self._fetch_document(name)).decode("ascii")
        except (EgressError, UnicodeDecodeError) as error:
            self._telemetry.log.warning("key_not_fetched", error=type(error).__name__)
            self._store(name, None, _FAILURE_TTL)
        else:
            self._store(name, key, _KEY_TTL)

    def _store(self, name: str, key: str | None, seconds: float) -> None:
        if len(self._cached) >= _MAX_KEYS:
            self._cached.pop(next(iter(self._cached)))
        self._cached[name] = (clock.steady() + seconds, key)

    async def close(self) -> None:
        """Stop fetching."""
        for task in list(self._fetching.values()):
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)


#: path of the webhook endpoint
PATH_PREFIX = "/in/"
#: reasons other than the signature: the sender is genuine, but not allowed here
_UNWANTED_REASONS = frozenset({"address_not_allowed", "unexpected_sender", "topic_not_allowed"})

_ACCEPTED = HandshakeReply(status=200, body=ACCEPTED)


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


class WebhookEndpoint:
    """Accepts webhooks; a 2xx means that the request is on disk."""

    def __init__(
        self,
        sources: SourceCache,
        intake: Intake,
        quarantine: QuarantineWriter,
        fetch: FetchDocument,
        telemetry: Telemetry,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._sources = sources
        self._intake = intake
        self._quarantine = quarantine
        self._fetch = fetch
        self._keys = ProviderKeyCache(fetch, telemetry)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            reply = await self._handle(scope, receive)
        except OnceboxError as error:
            await request_context(scope).refuse(error)
        except ClientGone:
            return
        else:
            await _send_reply(reply, send)

    def accept_fast(
        self, path: str, headers: Headers, body: bytes, address: str, on_stored: OnStored
    ) -> bool:
        """Accept an authentic POST with one event; return False for anything else.

        See docs/decisions/0015-use-connection-limits-and-a-fast-path-for-http.md.
        """
        try:
            compiled = self._sources.at(path[len(PATH_PREFIX) :], compile_source)
            if compiled.scheme.handshake is not None or compiled.source.order_by is not None:
                return False
            request = WebhookRequest(
                url=_request_url("http", path, headers), headers=_header_text(headers), body=body
            )
            verified = verify_request(
                compiled, request, address=address, now=self._clock(), keys=self._keys
            )
            if verified.batch or len(verified.events) != 1:
                return False
            (new,) = request_verification.draft_deliveries(
                self._intake, compiled, request, verified
            )
            self._intake.accept_with_callback(new, on_stored)
        except OnceboxError:
            return False  # the ASGI path reports the error
        return True

    async def close(self) -> None:
        """Stop fetching keys."""
        await self._keys.close()

    async def _handle(self, scope: Scope, receive: Receive) -> HandshakeReply:
        compiled = self._sources.at(scope["path"][len(PATH_PREFIX) :], compile_source)
        body = await _read_body(receive)
        request = WebhookRequest(
            method=scope["method"],
            url=_request_url(
                scope["scheme"], scope["path"], scope["headers"], scope["query_string"]
            ),
            headers=_header_text(scope["headers"]),
            body=body,
        )
        try:
            reply = await self._handshake(compiled, request)
            return reply or await self._accept(compiled, request, request_context(scope).address)
        except KeyFetchRequired as wanted:
            self._keys.fetch_in_background(wanted.name)
            raise
        except SignatureInvalid as error:
            self._quarantine.put(
                compiled.source.name,
                tenant=compiled.source.tenant,
                reason=error.reason,
                headers=request.headers,
                body=request.body,
                method=request.method,
                url=request.url,
            )
            # The sender is never told which part of the signature is wrong.
            allowed = error.reason not in _UNWANTED_REASONS
            raise (SignatureRefused if allowed else SenderNotAllowed) from error

    async def _handshake(
        self, compiled: CompiledSource, request: WebhookRequest
    ) -> HandshakeReply | None:
        """Answer a provider's handshake; None if the request is none."""
        if compiled.scheme.handshake is None and request.method == "POST":
            return None
        reply = answer_handshake(
            compiled.scheme,
            request,
            compiled.secrets,
            now=self._clock(),
            options=compiled.options,
            keys=self._keys,
        )
        if isinstance(reply, SubscriptionConfirmation):
            try:
                await self._fetch(reply.url)
            except EgressError as error:
                raise KeyServiceUnreachable from error
            return _ACCEPTED
        if reply is None and request.method != "POST":
            raise MethodNotAllowed
        return reply

    async def _accept(
        self, compiled: CompiledSource, request: WebhookRequest, address: str
    ) -> HandshakeReply:
        verified = verify_request(
            compiled, request, address=address, now=self._clock(), keys=self._keys
        )
        await request_verification.store_events(self._intake, compiled, request, verified)
        return _ACCEPTED


async def _read_body(receive: Receive) -> bytes:
    """Return the whole body; the request limits bound it."""
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        whole: bytes = message.get("body", b"")
        return whole
    pieces = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        pieces.append(message.get("body", b""))
    if message["type"] != "http.request":
        raise ClientGone
    return b"".join(pieces)


def _header_text(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return headers as text, in order, without loss."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])


def _request_url(scheme: str, path: str, headers: Headers, query: bytes = b"") -> str:
    """Return the requested URL; schemes that sign it need the public URL in their settings."""
    host = next((value for name, value in headers if name == b"host"), b"")
    url = f"{scheme}://{host.decode('latin-1')}{path}"
    return f"{url}?{query.decode('latin-1')}" if query else url


async def _send_reply(reply: HandshakeReply, send: Send) -> None:
    if reply is _ACCEPTED:
        headers = ACCEPTED_HEADERS
    else:
        pairs = (*reply.headers, ("content-length", str(len(reply.body))))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
