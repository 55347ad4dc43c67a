"""`ScriptedProvider`: a mail provider's HTTP API that fails as scripted.

    with ScriptedProvider() as provider:
        provider.script("accept_then_drop", "429(2)")
        ...  # send to provider.url, with any key such as re_test
        assert provider.count("<id@example.com>") == 1

It behaves as Resend does. In a synchronous block it runs in a thread of its own, in an asynchronous
one in the running loop. Other processes query it by ``GET /__accepted`` and script it by
``POST /__script`` with ``{"faults": […], "always": …}``.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httptools
import httpx2
import msgspec

from oncebox.core import clock
from oncebox.testing.loopback import FaultScript, LoopbackServer
from oncebox.testing.provider_protocol import (
    Now,
    ProviderFault,
    ProviderFaultAction,
    ProviderMail,
    ProviderRequest,
    ProviderResponse,
    ProviderWebhook,
)
from oncebox.testing.resend import Resend

_CHUNK_BYTES = 65_536
#: more than any provider accepts
_MAX_BODY_BYTES = 64 * 1024 * 1024
_GARBAGE_RESPONSE = ProviderResponse(
    status=200, body=b"<html>It works!", headers={"content-type": "text/html"}
)
#: answers the requests of test processes; None for all others
ControlHandler = Callable[[ProviderRequest], ProviderResponse | None]


@dataclass(slots=True)
class ProviderState:
    """State shared by all connections to a server."""

    behaviour: Resend
    script: FaultScript[ProviderFault]
    now: Now
    #: every request that sends mail, as far as it was received
    received: list[ProviderRequest] = field(default_factory=list)
    connections: int = 0


class _ConnectionOver(Exception):
    """The connection is over."""


class _IncomingRequest:
    """Callbacks of httptools for one request."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.has_headers = False
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.has_headers = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


class ProviderConnection:
    """Answers one client until it disconnects, or until the script ends it."""

    def __init__(
        self,
        state: ProviderState,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        control: ControlHandler,
    ) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._control = control

    async def run(self) -> None:
        """Serve until the end."""
        self._state.connections += 1
        try:
            while True:
                await self._serve_one()
        except (_ConnectionOver, OSError, EOFError, httptools.HttpParserError):
            pass
        finally:
            self._writer.close()

    async def _serve_one(self) -> None:
        reading = _IncomingRequest()
        parser = httptools.HttpRequestParser(reading)
        await self._read(parser, lambda: reading.has_headers)
        request = _to_request(parser, reading)
        fault: ProviderFault | None = None
        place = len(self._state.received)
        if self._state.behaviour.is_send_request(request):
            fault = self._state.script.take() or ProviderFault()
            self._state.received.append(request)
            if fault.action is ProviderFaultAction.DROP_BEFORE_BODY:
                self._drop()
        request = await self._read_rest(parser, reading)
        if fault is None:
            await self._send(self._control(request) or self._answer(request, ProviderFault()))
        else:
            self._state.received[place] = request
            await self._apply_fault(request, fault)
        if not parser.should_keep_alive():
            raise _ConnectionOver

    async def _read_rest(
        self, parser: httptools.HttpRequestParser, reading: _IncomingRequest
    ) -> ProviderRequest:
        if reading.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self._read(parser, lambda: reading.is_complete or len(reading.body) > _MAX_BODY_BYTES)
        if not reading.is_complete:
            await self._send(ProviderResponse(status=413))
            raise _ConnectionOver
        return _to_request(parser, reading)

    async def _apply_fault(self, request: ProviderRequest, fault: ProviderFault) -> None:
        accepts = fault.accepts_mail or fault.action in {
            ProviderFaultAction.PROCEED,
            ProviderFaultAction.PARTIAL,
        }
        if fault.action is ProviderFaultAction.PROCEED and not fault.accepts_mail:
            await asyncio.sleep(fault.seconds)
        try:
            answer = self._answer(request, fault) if accepts else None
            if fault.accepts_mail and fault.action is ProviderFaultAction.PROCEED:
                await asyncio.sleep(fault.seconds)
            await self._respond(fault, answer)
        finally:
            if accepts:
                self._state.behaviour.finish(request)

    def _answer(self, request: ProviderRequest, fault: ProviderFault) -> ProviderResponse:
        return self._state.behaviour.answer(request, fault, self._state.now)

    async def _respond(self, fault: ProviderFault, answer: ProviderResponse | None) -> None:
        if fault.action is ProviderFaultAction.DROP:
            self._drop()
        elif fault.action is ProviderFaultAction.HANG_UP:
            raise _ConnectionOver
        elif fault.action is ProviderFaultAction.SILENCE:
            await self._until_disconnected()
        elif fault.action is ProviderFaultAction.GARBAGE:
            await self._send(_GARBAGE_RESPONSE)
        elif answer is None or fault.action is ProviderFaultAction.REFUSE:
            await self._send(self._state.behaviour.error_response(fault))
        else:
            await self._send(answer)

    async def _read(self, parser: httptools.HttpRequestParser, done: Callable[[], bool]) -> None:
        while not done():
            piece = await self._reader.read(_CHUNK_BYTES)
            if not piece:
                raise _ConnectionOver
            parser.feed_data(piece)

    async def _until_disconnected(self) -> None:
        while await self._reader.read(_CHUNK_BYTES):
            pass
        raise _ConnectionOver

    def _drop(self) -> None:
        self._writer.transport.abort()
        raise _ConnectionOver

    async def _send(self, answer: ProviderResponse) -> None:
        lines = [f"HTTP/1.1 {answer.status} "]  # the reason phrase may be empty
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines.append(f"content-length: {len(answer.body)}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)
        await self._writer.drain()


def _to_request(parser: httptools.HttpRequestParser, reading: _IncomingRequest) -> ProviderRequest:
    path = httptools.parse_url(reading.url).path or b"/"
    return ProviderRequest(
        method=parser.get_method().decode("ascii"),
        path=path.decode("latin-1"),
        headers=reading.headers,
        body=bytes(reading.body),
    )


class ScriptedProvider(LoopbackServer):
    """A provider on this machine. Its lists may be read from any thread."""

    def __init__(
        self,
        personality: Resend | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Prepare; port 0 chooses a free port."""
        super().__init__(host, port)
        self.behaviour = personality or Resend()
        self._clock_offset = 0.0
        self._script = FaultScript(ProviderFault.parse)
        self._state = ProviderState(self.behaviour, self._script, self._now)

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://{self.host}:{self.port}"

    def script(self, *faults: ProviderFault | str) -> None:
        """Let these happen to the next requests that send mail; see ``ProviderFault.parse``."""
        self._script.add(*faults)

    def always(self, fault: ProviderFault | str | None) -> None:
        """Let this happen to every such request; None: no fault any more."""
        self._script.always(*([] if fault is None else [fault]))

    def advance(self, seconds: float) -> None:
        """Advance its clock, which expires keys and rate limits."""
        self._clock_offset += seconds

    def webhook(
        self, event: str, mail: ProviderMail, secret: str, **details: Any
    ) -> ProviderWebhook:
        """Return a signed webhook about an accepted mail, such as ``email.delivered``."""
        return self.behaviour.webhook(event, mail, secret, **details)

    def send_webhook(
        self, url: str, event: str, mail: ProviderMail, secret: str, **details: Any
    ) -> int:
        """Send such a webhook; return the status of the response."""
        hook = self.webhook(event, mail, secret, **details)
        return httpx2.post(url, content=hook.body, headers=hook.headers).status_code

    @property
    def accepted(self) -> list[ProviderMail]:
        """Every accepted mail, whatever reply the client got."""
        return list(self.behaviour.accepted)

    def count(self, message_id: str) -> int:
        """Return how often a mail was accepted."""
        return sum(each.message_id == message_id for each in self.accepted)

    @property
    def received(self) -> list[ProviderRequest]:
        """Every request that sends mail, as far as it was received."""
        return list(self._state.received)

    @property
    def connections(self) -> int:
        """The number of connections."""
        return self._state.connections

    @property
    def script_is_over(self) -> bool:
        """Whether everything in the script has happened."""
        return self._script.is_over

    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve HTTP to one client."""
        await ProviderConnection(self._state, reader, writer, self._control).run()

    def _now(self) -> float:
        return clock.steady() + self._clock_offset

    def _control(self, request: ProviderRequest) -> ProviderResponse | None:
        if (request.method, request.path) == ("GET", "/__accepted"):
            fields = ("id", "key", "message_id", "recipients", "tags")
            listed = [{name: getattr(mail, name) for name in fields} for mail in self.accepted]
            body, headers = msgspec.json.encode(listed), {"content-type": "application/json"}
            return ProviderResponse(status=200, body=body, headers=headers)
        if (request.method, request.path) == ("POST", "/__script"):
            try:
                wanted = msgspec.json.decode(request.body, type=_ScriptRequest)
                self.script(*wanted.faults)
                if wanted.always is not msgspec.UNSET:
                    self.always(wanted.always)
            except (msgspec.DecodeError, ValueError) as error:
                return ProviderResponse(status=400, body=str(error).encode())
            return ProviderResponse(status=204)
        return None


class _ScriptRequest(msgspec.Struct, forbid_unknown_fields=True):
    faults: list[str] = []
    always: str | msgspec.UnsetType | None = msgspec.UNSET
