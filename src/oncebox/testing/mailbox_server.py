"""`MailboxServer`: a mailbox API on this machine, with mails that a test delivers, and faults.

    async with MailboxServer(FakeGmail()) as server:
        server.api.deliver(mail)
        server.script("429(3)", "html")

Each fault happens to one request, in order; see `ApiFault.parse`.
"""

import asyncio
import re
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Generic, Self, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.testing.loopback import FaultScript, LoopbackServer

_FAULT = re.compile(r"(?P<word>[a-z_]+|[345][0-9]{2})(?:\((?P<argument>.*)\))?")
_WORDS = frozenset({"ok", "html", "wrong_types", "huge", "endless", "silence", "drop", "redirect"})
_GIBIBYTE = 1024 * 1024 * 1024
_HTML = b"<!DOCTYPE html><html><body>It works!</body></html>"


class ApiFault(msgspec.Struct, frozen=True):
    """What happens to one request instead of its answer."""

    word: str
    argument: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the fault of a name.

        ``ok`` · a status such as ``500``, ``429(SECONDS)`` or ``429(Wed, 18 Nov 2026 …)`` with
        Retry-After · ``html`` · ``wrong_types`` · ``huge``: 2 GiB are announced · ``endless``:
        bytes without end · ``silence`` · ``drop`` · ``redirect(URL)``

        Raises: ValueError.
        """
        form = _FAULT.fullmatch(text)
        if form is None or (form["word"] not in _WORDS and not form["word"].isdecimal()):
            raise ValueError(f"there is no fault {text!r}; write one such as html or 429(3)")
        return cls(form["word"], form["argument"] or "")


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A received request."""

    method: str
    #: without query, decoded
    path: str
    #: the target as it was sent
    target: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter."""
        return next((value for key, value in self.query if key == name), default)

    def __repr__(self) -> str:
        return f"ApiRequest({self.method} {self.path})"


class ApiReply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class StoredMail(msgspec.Struct, kw_only=True):
    """A mail in a fake mailbox."""

    id: str
    raw: bytes
    #: when the server says it was received
    at: int
    #: its place in the order of arrival
    number: int

    def __repr__(self) -> str:
        return f"StoredMail({self.id})"


class FakeMailbox(ABC):
    """Base of the fake APIs: mails, a clock, a key."""

    def __init__(self, *, now: Clock = clock.system, key: str = "key") -> None:
        self.now = now
        #: what requests must carry; see `authorized`
        self.key = key
        self.mails: dict[str, StoredMail] = {}
        #: the port of the server, for links
        self.origin = ""
        #: ids whose download fails with 500
        self.broken: set[str] = set()
        self._arrived = 0

    def deliver(self, raw: bytes, *, at: int | None = None) -> str:
        """Let a mail arrive; return its id."""
        self._arrived += 1
        id_ = self.new_id(self._arrived)
        received = self.now() if at is None else at
        mail = StoredMail(id=id_, raw=raw, at=received, number=self._arrived)
        self.mails[id_] = mail
        self.arrived(mail)
        return id_

    def remove(self, id_: str) -> None:
        """Delete a mail, as its owner may."""
        del self.mails[id_]

    def new_id(self, number: int) -> str:
        """Return the id of a mail."""
        return f"m{number:06d}"

    def arrived(self, mail: StoredMail) -> None:
        """Record the arrival of a mail."""
        del mail

    def authorized(self, request: ApiRequest) -> bool:
        """Tell whether a request carries the key."""
        return request.headers.get("authorization") == f"Bearer {self.key}"

    @abstractmethod
    def answer(self, request: ApiRequest) -> ApiReply:
        """Answer an authorized request."""

    def unauthorized(self) -> ApiReply:
        """Return the answer to a request without the key."""
        return json_reply({"error": "unauthorized"}, 401)

    def stream(self, request: ApiRequest) -> AsyncIterator[bytes] | None:
        """Return an event stream, if that is what a request is for."""
        del request
        return None

    def raw_reply(self, id_: str, kind: str = "message/rfc822") -> ApiReply:
        """Return a mail as it is."""
        if id_ in self.broken:
            return json_reply({"error": "internal"}, 500)
        mail = self.mails.get(id_)
        if mail is None:
            return json_reply({"error": "not found"}, 404)
        return ApiReply(body=mail.raw, headers={"content-type": kind})


Api = TypeVar("Api", bound=FakeMailbox)


def json_reply(value: Any, status: int = 200, **headers: str) -> ApiReply:
    """Return a value as JSON."""
    fields = {"content-type": "application/json", **headers}
    return ApiReply(status=status, body=msgspec.json.encode(value), headers=fields)


def iso_time(at: int) -> str:
    """Return milliseconds as APIs write them."""
    return (
        datetime.fromtimestamp(at / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def time_of(text: str) -> int:
    """Return an ISO 8601 time in milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


class MailboxServer(LoopbackServer, Generic[Api]):
    """Serves a fake mailbox by HTTP."""

    def __init__(
        self,
        api: Api,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(host, port, tls)
        self.api = api
        #: every request, faults included
        self.requests: list[ApiRequest] = []
        self._script = FaultScript(ApiFault.parse)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.api.origin = self.url
        return self

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def script(self, *faults: ApiFault | str) -> None:
        """Let these happen to the next requests."""
        self._script.add(*faults)

    def always(self, fault: ApiFault | str | None) -> None:
        """Let this happen to every request; None: no fault any more."""
        self._script.always(*([] if fault is None else [fault]))

    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve HTTP to one client."""
        try:
            while await self._serve_one(reader, writer):
                await writer.drain()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read_request(reader)
        if request is None:
            return False
        self.requests.append(request)
        fault = self._script.take()
        if fault is not None and fault.word != "ok":
            return await _fail(fault, reader, writer)
        events = self.api.stream(request)
        if events is not None:
            await _send_events(events, reader, writer)
            return False
        known = self.api.authorized(request)
        reply = self.api.answer(request) if known else self.api.unauthorized()
        date = datetime.fromtimestamp(self.api.now() / 1000, UTC)
        headers = {"date": format_datetime(date, usegmt=True), **reply.headers}
        writer.write(_head(reply.status, {**headers, "content-length": str(len(reply.body))}))
        writer.write(reply.body)
        return True


async def _read_request(reader: asyncio.StreamReader) -> ApiRequest | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    return ApiRequest(
        method=method,
        path=unquote(parts.path),
        target=target,
        query=tuple(parse_qsl(parts.query, keep_blank_values=True)),
        headers=headers,
        body=body,
    )


async def _fail(
    fault: ApiFault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Do what a script says; tell whether the connection lives on."""
    if fault.word in {"drop", "silence", "huge", "endless"}:
        await _break(fault.word, reader, writer)
        return False
    status, headers, body = 200, {"content-type": "text/html"}, _HTML
    if fault.word == "wrong_types":
        headers, body = {"content-type": "application/json"}, b'[{"id": 7, "value": "x"}, null]'
    elif fault.word == "redirect":
        status, headers, body = 302, {"location": fault.argument}, b""
    elif fault.word.isdecimal():
        status, body = int(fault.word), b"{}"
        headers = {"retry-after": fault.argument} if fault.argument else {}
    writer.write(_head(status, {**headers, "content-length": str(len(body))}) + body)
    return True


async def _break(word: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give no answer that ends."""
    if word == "drop":
        writer.transport.abort()
        return
    if word == "endless":
        writer.write(_head(200, {"content-type": "application/json"}))
        while not writer.is_closing():
            writer.write(b" " * 65_536)
            await writer.drain()
    elif word == "huge":
        writer.write(_head(200, {"content-length": str(2 * _GIBIBYTE)}) + b"{")
        await writer.drain()
    await reader.read()


async def _send_events(
    events: AsyncIterator[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(_head(200, {"content-type": "text/event-stream", "connection": "close"}))
    gone = asyncio.ensure_future(reader.read())
    try:
        async for event in events:
            writer.write(event)
            await writer.drain()
            if gone.done():
                return
    finally:
        gone.cancel()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} ", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
