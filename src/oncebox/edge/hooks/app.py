"""The raw ASGI application behind ``/in/{public_id}``: verify, commit, answer; nothing else."""

from collections.abc import Callable

from oncebox.edge.express import ACCEPTED, ACCEPTED_HEADERS, Headers, Told
from oncebox.edge.guard import Receive, Scope, Send, visit
from oncebox.edge.hooks import arrivals
from oncebox.edge.hooks.door import Door, Doors
from oncebox.edge.hooks.judgement import judge
from oncebox.edge.hooks.remote_keys import Fetch, RemoteKeys
from oncebox.errors import EgressError, KeyWanted, NotFound, OnceboxError, SignatureInvalid
from oncebox.ledger.deliveries.handover import Quarantine
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.model.source import SourceState
from oncebox.refusals import (
    KeyServiceUnreachable,
    MethodNotAllowed,
    SenderNotWanted,
    SignatureRefused,
    SourcePaused,
    SourceUnready,
)
from oncebox.signature.handshakes import handshake
from oncebox.signature.request import Request
from oncebox.signature.scheme import Confirm, Reply
from oncebox.telemetry import Telemetry

#: where webhooks arrive
PATH = "/in/"
#: reasons that are no matter of the signature: the sender is known, but not wanted here
_NOT_WANTED = frozenset({"address_not_allowed", "unexpected_sender", "topic_not_allowed"})

_ACCEPTED = Reply(status=200, body=ACCEPTED)


class Gone(Exception):
    """The client went away before its request was whole."""


class Hooks:
    """Takes webhooks; a 2xx means that what came is on disk."""

    def __init__(
        self,
        book: SourceBook,
        intake: Intake,
        quarantine: Quarantine,
        fetch: Fetch,
        telemetry: Telemetry,
        *,
        clock: Callable[[], int],
    ) -> None:
        """Take webhooks for all sources in the book."""
        self._book = book
        self._intake = intake
        self._quarantine = quarantine
        self._fetch = fetch
        self._keys = RemoteKeys(fetch, telemetry)
        self._clock = clock
        self._doors = Doors()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            reply = await self._answer(scope, receive)
        except OnceboxError as error:
            await visit(scope).refuse(error)
        except Gone:
            return
        else:
            await _send(reply, send)

    def express(self, path: str, headers: Headers, body: bytes, address: str, told: Told) -> bool:
        """Take a genuine POST with one event; leave whatever is not quite that."""
        try:
            door = self._door(path)
            if door.scheme.handshake is not None or door.source.order_by is not None:
                return False
            request = Request(url=_url("http", path, headers), headers=_text(headers), body=body)
            judged = judge(door, request, address=address, now=self._clock(), keys=self._keys)
            if judged.batch or len(judged.events) != 1:
                return False
            self._intake.enlist(arrivals.draft(self._intake, door, request, judged), told)
        except OnceboxError:
            return False  # whoever looks again, with more time, says why
        return True

    async def close(self) -> None:
        """Stop fetching keys."""
        await self._keys.close()

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        door = self._door(scope["path"])
        body = await _body(receive)
        request = Request(
            method=scope["method"],
            url=_url(scope["scheme"], scope["path"], scope["headers"], scope["query_string"]),
            headers=_text(scope["headers"]),
            body=body,
        )
        try:
            reply = await self._handshake(door, request)
            return reply or await self._take(door, request, visit(scope).address)
        except KeyWanted as wanted:
            self._keys.want(wanted.name)
            raise
        except SignatureInvalid as error:
            self._set_aside(door, request, error)
            raise _refusal(error) from error

    def _door(self, path: str) -> Door:
        """Return where a path leads.

        Raises: NotFound, SourcePaused, SourceUnready.
        """
        entry = self._book.at(path[len(PATH) :])
        if entry is None:
            raise NotFound
        if entry.state is not SourceState.READY:
            raise SourcePaused if entry.state is SourceState.PAUSED else SourceUnready
        try:
            return self._doors.of(entry)
        except OnceboxError as error:
            raise SourceUnready from error

    async def _handshake(self, door: Door, request: Request) -> Reply | None:
        """Answer what a provider asks before it sends anything; None if this asks nothing."""
        if door.scheme.handshake is None and request.method == "POST":
            return None
        reply = handshake(
            door.scheme,
            request,
            door.secrets,
            now=self._clock(),
            options=door.options,
            keys=self._keys,
        )
        if isinstance(reply, Confirm):
            return await self._confirm(reply)
        if reply is None and request.method != "POST":
            raise MethodNotAllowed
        return reply

    async def _confirm(self, confirm: Confirm) -> Reply:
        """Confirm a subscription by fetching its provider's own address, once."""
        try:
            await self._fetch(confirm.url)
        except EgressError as error:
            raise KeyServiceUnreachable from error
        return _ACCEPTED

    async def _take(self, door: Door, request: Request, address: str) -> Reply:
        judged = judge(door, request, address=address, now=self._clock(), keys=self._keys)
        await arrivals.store(self._intake, door, request, judged)
        return _ACCEPTED

    def _set_aside(self, door: Door, request: Request, error: SignatureInvalid) -> None:
        """Keep a rejected request, as far as there is room; nobody waits for it."""
        self._quarantine.put(
            door.source.name,
            tenant=door.source.tenant,
            reason=error.reason,
            headers=request.headers,
            body=request.body,
            method=request.method,
            url=request.url,
        )


def _refusal(error: SignatureInvalid) -> OnceboxError:
    """Return what the sender is told; never which part of the signature is wrong."""
    return SenderNotWanted() if error.reason in _NOT_WANTED else SignatureRefused()


async def _body(receive: Receive) -> bytes:
    """Return the whole body; the guard has bounded it.

    Raises: Gone.
    """
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        whole: bytes = message.get("body", b"")
        return whole
    pieces = [message.get("body", b"")]
    while message.get("more_body"):
        message = await receive()
        pieces.append(message.get("body", b""))
    if message["type"] != "http.request":
        raise Gone
    return b"".join(pieces)


def _text(headers: Headers) -> tuple[tuple[str, str], ...]:
    """Return headers as text, in order; no byte is lost."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])


def _url(scheme: str, path: str, headers: Headers, query: bytes = b"") -> str:
    """Return the address as it was asked for; schemes that sign it need the public one set."""
    host = next((value for name, value in headers if name == b"host"), b"")
    url = f"{scheme}://{host.decode('latin-1')}{path}"
    return f"{url}?{query.decode('latin-1')}" if query else url


async def _send(reply: Reply, send: Send) -> None:
    if reply is _ACCEPTED:
        headers = ACCEPTED_HEADERS
    else:
        pairs = (*reply.headers, ("content-length", str(len(reply.body))))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
