"""Webhook endpoint ``/in/{public_id}``: handshake, verify, store or quarantine; provider keys."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from oncebox.core import clock, faults
from oncebox.core.disk_space import DiskLevel, DiskSpace
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    DiskFull,
    EgressError,
    KeyFetchRequired,
    OnceboxError,
    SignatureInvalid,
    StoreError,
    StoreFailed,
)
from oncebox.errors.http import (
    InboundBodyGone,
    InternalError,
    KeyServiceUnreachable,
    MethodNotAllowed,
    SenderNotAllowed,
    SignatureRefused,
)
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.deliveries.quarantine import QuarantineWriter
from oncebox.model.deliveries.delivery import Accepted, NewDelivery
from oncebox.model.deliveries.duplicates import WRONG_SOURCE_REASONS
from oncebox.server.http.request_context import WEBHOOK_PATH, RequestContext
from oncebox.server.webhooks import inbound_mail, request_verification
from oncebox.server.webhooks.inbound_mail import InboundReceiver
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

#: what met a database error, in metrics and log
_PATH = "webhook"
_KEY_TTL = 24 * 3600.0
_FAILURE_TTL = 10.0
_MAX_KEYS = 1_000
#: bytes from which mail is verified in a thread
_LARGE = 256 * 1024


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
            self._telemetry.log.warning("key_fetch_failed", error=type(error).__name__)
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


_ACCEPTED = HandshakeReply(status=200, body=b'{"status":"accepted"}')
_ACCEPTED_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"21")]


class _StoredResponse:
    """Responds to a request after the commit of its delivery, without a task or a future."""

    __slots__ = ("_exchange", "_telemetry")

    def __init__(self, exchange: RequestContext, telemetry: Telemetry) -> None:
        self._exchange = exchange
        self._telemetry = telemetry

    def done(self) -> bool:
        return False

    def set_result(self, _accepted: Accepted, /) -> None:
        faults.point("accept.committed")
        try:
            self._exchange.respond(200, _ACCEPTED_HEADERS, _ACCEPTED.body)
        except Exception:
            # Whether the delivery is on disk does not depend on the response.
            self._telemetry.log.exception("commit_callback_failed")

    def set_exception(self, error: Exception, /) -> None:
        known = error if isinstance(error, OnceboxError) else StoreFailed("the commit failed")
        self._telemetry.refused.labels(known.code).inc()
        if isinstance(known, StoreError):
            self._telemetry.count_store_error(_PATH, known)
        try:
            self._exchange.refuse(known)
        except Exception:
            self._telemetry.log.exception("commit_callback_failed")


class WebhookEndpoint:
    """Accepts webhooks; a 2xx means that the request is on disk."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        sources: SourceCache,
        intake: Intake,
        quarantine: QuarantineWriter,
        fetch: FetchDocument,
        telemetry: Telemetry,
        *,
        clock: Callable[[], int],
        inbound: InboundReceiver,
        disk: DiskSpace | None = None,
    ) -> None:
        self._disk = disk
        self._inbound = inbound
        self._sources = sources
        self._intake = intake
        self._quarantine = quarantine
        self._fetch = fetch
        self._telemetry = telemetry
        self._keys = ProviderKeyCache(fetch, telemetry)
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, exchange: RequestContext, body: bytes) -> None:
        """Accept a complete request, and respond after the commit."""
        if self._disk is not None and self._disk.level >= DiskLevel.NO_WEBHOOKS:
            self._telemetry.refused.labels(DiskFull.code).inc()
            exchange.refuse(DiskFull("the disk is almost full"))
        elif not self._accept_directly(exchange, body):
            task = asyncio.get_running_loop().create_task(self._serve(exchange, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def takes_mail(self, path: str) -> bool:
        """Say whether whole mails arrive at a path, whose bodies may be larger; also if paused."""
        entry = self._sources.by_public_id(path[len(WEBHOOK_PATH) :])
        return entry is not None and request_verification.brings_mail(entry.source)

    def _accept_directly(self, exchange: RequestContext, body: bytes) -> bool:
        """Accept an authentic POST with one event; return False for anything else.

        See docs/decisions/0040-use-one-http-front-end-with-exact-framing.md.
        """
        head = exchange.head
        if head.method != "POST" or head.query or len(head.by_name) < len(head.fields):
            return False
        try:
            compiled = self._sources.at(head.path[len(WEBHOOK_PATH) :], compile_source)
            if not compiled.is_direct:
                return False
            new = self._draft(compiled, exchange, body)
            if new is None:
                return False
            self._intake.enqueue(new, _StoredResponse(exchange, self._telemetry))
        except OnceboxError:
            return False  # the general path reports the error
        return True

    def _draft(
        self, compiled: CompiledSource, exchange: RequestContext, body: bytes
    ) -> NewDelivery | None:
        """Return the delivery of an authentic request with one event, if it is one.

        Raises: SignatureInvalid, KeyFetchRequired, InputRefused.
        """
        now = self._clock()
        if compiled.fast is not None:
            return request_verification.draft_directly(
                self._intake,
                compiled,
                compiled.fast,
                head=exchange.head,
                body=body,
                address=exchange.address,
                now=now,
            )
        request = _webhook_request(exchange, body)
        verified = verify_request(
            compiled, request, address=exchange.address, now=now, keys=self._keys
        )
        if verified.batch or len(verified.events) != 1:
            return None
        (new,) = request_verification.draft_deliveries(self._intake, compiled, request, verified)
        return new

    async def close(self) -> None:
        """Stop fetching keys."""
        await self._keys.close()

    async def _serve(self, exchange: RequestContext, body: bytes) -> None:
        try:
            reply = await self._handle(exchange, body)
        except OnceboxError as error:
            if isinstance(error, StoreError):
                self._telemetry.count_store_error(_PATH, error)
            self._refuse(exchange, error)
        except Exception:
            self._telemetry.log.exception("request_failed", request=exchange.request_id)
            self._refuse(exchange, InternalError())
        else:
            pairs = (*reply.headers, ("content-length", str(len(reply.body))))
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
            is_accepted = reply is _ACCEPTED
            exchange.respond(
                reply.status, _ACCEPTED_HEADERS if is_accepted else headers, reply.body
            )

    def _refuse(self, exchange: RequestContext, error: OnceboxError) -> None:
        """Refuse a request; one with mail in the terms of its provider."""
        try:
            compiled = self._sources.at(exchange.head.path[len(WEBHOOK_PATH) :], compile_source)
        except OnceboxError:
            exchange.refuse(error)
            return
        status = None
        if compiled.inbound is not None:
            status = inbound_mail.refusal_status(compiled.inbound.answers, type(error))
        if status == 0:
            exchange.code = error.code
            exchange.abort()
        else:
            exchange.refuse(error, status)

    async def _handle(self, exchange: RequestContext, body: bytes) -> HandshakeReply:
        compiled = self._sources.at(exchange.head.path[len(WEBHOOK_PATH) :], compile_source)
        request = _webhook_request(exchange, body)
        try:
            reply = await self._handshake(compiled, request)
            return reply or await self._accept(compiled, request, exchange.address)
        except KeyFetchRequired as wanted:
            self._keys.fetch_in_background(wanted.name)
            raise
        except SignatureInvalid as error:
            self._put_aside(compiled, request, error.reason)
            # The response never says which part of the signature is wrong.
            is_signature = error.reason not in WRONG_SOURCE_REASONS
            raise (SignatureRefused if is_signature else SenderNotAllowed) from error
        except InboundBodyGone:
            self._put_aside(compiled, request, "missing_mail_body")
            raise

    def _put_aside(self, compiled: CompiledSource, request: WebhookRequest, reason: str) -> None:
        self._quarantine.put(
            compiled.source.name,
            tenant=compiled.source.tenant,
            reason=reason,
            headers=request.headers,
            body=request.body,
            method=request.method,
            url=request.url,
            secret_headers=compiled.headers_with_secrets(request.headers),
        )

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
        verify = partial(
            verify_request, compiled, request, address=address, now=self._clock(), keys=self._keys
        )
        if compiled.inbound is not None:
            if len(request.body) < _LARGE:
                verify()
            else:
                await asyncio.to_thread(verify)
            return await self._inbound.receive(compiled, request)
        verified = verify()
        await request_verification.store_events(self._intake, compiled, request, verified)
        return _ACCEPTED


def _webhook_request(exchange: RequestContext, body: bytes) -> WebhookRequest:
    head = exchange.head
    host = exchange.headers.get(b"host", b"").decode("latin-1")
    url = f"{exchange.scheme}://{host}{head.path}"
    return WebhookRequest(
        method=head.method,
        url=f"{url}?{head.query.decode('latin-1')}" if head.query else url,
        headers=request_verification.header_text(head.fields),
        body=body,
    )
