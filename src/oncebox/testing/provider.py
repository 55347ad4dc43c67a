"""`ScriptedProvider`: a mail provider's HTTP API that fails as scripted.

    with ScriptedProvider() as provider:
        provider.script("accept_then_drop", "429(2)")
        ...  # send to provider.url, with any key such as re_test
        assert provider.count("<id@example.com>") == 1

It speaks HTTP as Resend does, or as another personality. In a synchronous block it runs in a
thread of its own, in an asynchronous one in the running loop. Other processes ask it by
``GET /__accepted`` and tell it by ``POST /__script`` with ``{"faults": […], "always": …}``.
"""

import asyncio
import http
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httptools
import httpx2
import msgspec

from oncebox.core import clock
from oncebox.testing.loopback import LoopbackServer
from oncebox.testing.provider_protocol import (
    Now,
    ProviderBehaviour,
    ProviderFault,
    ProviderFaultAction,
    ProviderMail,
    ProviderRequest,
    ProviderResponse,
    ProviderScript,
    ProviderWebhook,
)
from oncebox.testing.resend import Resend

_CHUNK_BYTES = 65_536
#: more than any provider takes
_MAX_BODY_BYTES = 64 * 1024 * 1024
_GARBAGE_RESPONSE = ProviderResponse(
    status=200, body=b"<html>It works!", headers={"content-type": "text/html"}
)
_TOO_LARGE_RESPONSE = ProviderResponse(status=413)

#: answers those who ask the server itself, and nobody else
ControlHandler = Callable[[ProviderRequest], ProviderResponse | None]


@dataclass(slots=True)
class ProviderState:
    """What all connections to a server share."""

    behaviour: ProviderBehaviour
    script: ProviderScript
    now: Now
    #: every request that brought mail, as far as it came
    received: list[ProviderRequest] = field(default_factory=list)
    connections: int = 0


class _ConnectionOver(Exception):
    """The connection is over."""


class _IncomingRequest:
    """One request as it comes in; what httptools calls."""

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
    """Answers one client until it goes, or until the script ends it."""

    def __init__(
        self,
        house: ProviderState,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        control: ControlHandler,
    ) -> None:
        """Read nothing yet."""
        self._state = house
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
        """Read one request and answer it."""
        reading = _IncomingRequest()
        parser = httptools.HttpRequestParser(reading)
        await self._read(parser, lambda: reading.has_headers)
        request = _to_request(parser, reading)
        fault: ProviderFault | None = None
        place = len(self._state.received)
        if self._state.behaviour.is_send_request(request):
            fault = self._state.script.next()
            self._state.received.append(request)
            if fault.action is ProviderFaultAction.DROP_BEFORE_BODY:
                self._drop()
        request = await self._read_rest(parser, reading)
        if fault is None:
            await self._send(self._answer_unscripted(request))
        else:
            self._state.received[place] = request
            await self._apply_fault(request, fault)
        if not parser.should_keep_alive():
            raise _ConnectionOver

    async def _read_rest(
        self, parser: httptools.HttpRequestParser, reading: _IncomingRequest
    ) -> ProviderRequest:
        """Read the rest of a request."""
        if reading.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self._read(parser, lambda: reading.is_complete or len(reading.body) > _MAX_BODY_BYTES)
        if not reading.is_complete:
            await self._send(_TOO_LARGE_RESPONSE)
            raise _ConnectionOver
        return _to_request(parser, reading)

    def _answer_unscripted(self, request: ProviderRequest) -> ProviderResponse:
        """Answer what the script is not about."""
        told = self._control(request)
        if told is not None:
            return told
        return self._state.behaviour.answer(request, ProviderFault(), self._state.now)

    async def _apply_fault(self, request: ProviderRequest, fault: ProviderFault) -> None:
        """Do what the script says to a request that brings mail."""
        takes = fault.accepts_mail or fault.action in {
            ProviderFaultAction.PROCEED,
            ProviderFaultAction.PARTIAL,
        }
        if fault.action is ProviderFaultAction.PROCEED and not fault.accepts_mail:
            await asyncio.sleep(fault.seconds)
        try:
            answer = self._answer(request, fault) if takes else None
            if fault.accepts_mail and fault.action is ProviderFaultAction.PROCEED:
                await asyncio.sleep(fault.seconds)
            await self._respond(fault, answer)
        finally:
            if takes:
                self._state.behaviour.finish(request)

    def _answer(self, request: ProviderRequest, fault: ProviderFault) -> ProviderResponse:
        return self._state.behaviour.answer(request, fault, self._state.now)

    async def _respond(self, fault: ProviderFault, answer: ProviderResponse | None) -> None:
        """Answer, or not."""
        if fault.action is ProviderFaultAction.DROP:
            self._drop()
        elif fault.action is ProviderFaultAction.HANG_UP:
            raise _ConnectionOver
        elif fault.action is ProviderFaultAction.SILENCE:
            await self._until_gone()
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

    async def _until_gone(self) -> None:
        """Read on, so that what was said is heard."""
        while await self._reader.read(_CHUNK_BYTES):
            pass
        raise _ConnectionOver

    def _drop(self) -> None:
        self._writer.transport.abort()
        raise _ConnectionOver

    async def _send(self, answer: ProviderResponse) -> None:
        lines = [f"HTTP/1.1 {answer.status} {_reason_phrase(answer.status)}"]
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


def _reason_phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


class ScriptedProvider(LoopbackServer):
    """A server on this machine. What it lists may be read from any thread, at any time."""

    def __init__(
        self,
        personality: ProviderBehaviour | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """Prepare; 0 takes any free port."""
        super().__init__(host, port)
        self.behaviour = personality or Resend()
        self._clock_offset = 0.0
        self._script = ProviderScript()
        self._state = ProviderState(self.behaviour, self._script, self._now)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    # What it does

    def script(self, *faults: ProviderFault | str) -> None:
        """Let these happen to the next requests that bring mail; see ``ProviderFault.parse``."""
        self._script.add(*faults)

    def always(self, fault: ProviderFault | str | None) -> None:
        """Let this happen to every such request; None: all goes well again."""
        self._script.always(fault)

    def advance(self, seconds: float) -> None:
        """Move its clock on, by which it forgets keys and counts requests."""
        self._clock_offset += seconds

    def webhook(
        self, event: str, taken: ProviderMail, secret: str, **details: Any
    ) -> ProviderWebhook:
        """Return a signed webhook about a mail that was taken, such as ``email.delivered``."""
        return self.behaviour.webhook(event, taken, secret, **details)

    def send_webhook(
        self, url: str, event: str, taken: ProviderMail, secret: str, **details: Any
    ) -> int:
        """Send such a webhook; return the status of the answer."""
        hook = self.webhook(event, taken, secret, **details)
        return httpx2.post(url, content=hook.body, headers=hook.headers).status_code

    # What it saw

    @property
    def accepted(self) -> list[ProviderMail]:
        """Every mail that was really taken, whatever the client was told."""
        return list(self.behaviour.accepted)

    def count(self, message_id: str) -> int:
        """How often a mail was really taken."""
        return sum(each.message_id == message_id for each in self.accepted)

    @property
    def received(self) -> list[ProviderRequest]:
        """Every request that brought mail, as far as it came."""
        return list(self._state.received)

    @property
    def connections(self) -> int:
        """How many clients came."""
        return self._state.connections

    @property
    def script_is_over(self) -> bool:
        """Whether everything in the script has happened."""
        return self._script.is_over

    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Speak HTTP with one client."""
        await ProviderConnection(self._state, reader, writer, self._control).run()

    def _now(self) -> float:
        return clock.steady() + self._clock_offset

    def _control(self, request: ProviderRequest) -> ProviderResponse | None:
        """Answer those who ask the server itself."""
        if (request.method, request.path) == ("GET", "/__accepted"):
            return _json_response([_mail_summary(each) for each in self.accepted])
        if (request.method, request.path) == ("POST", "/__script"):
            try:
                wish = msgspec.json.decode(request.body, type=_ScriptRequest)
                self.script(*wish.faults)
                if wish.always is not msgspec.UNSET:
                    self.always(wish.always)
            except (msgspec.DecodeError, ValueError) as error:
                return ProviderResponse(status=400, body=str(error).encode())
            return ProviderResponse(status=204)
        return None


class _ScriptRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What another process wants to happen."""

    faults: list[str] = []
    always: str | msgspec.UnsetType | None = msgspec.UNSET


def _json_response(value: object) -> ProviderResponse:
    body = msgspec.json.encode(value)
    return ProviderResponse(status=200, body=body, headers={"content-type": "application/json"})


def _mail_summary(taken: ProviderMail) -> dict[str, Any]:
    return {
        "id": taken.id,
        "key": taken.key,
        "message_id": taken.message_id,
        "recipients": taken.recipients,
        "tags": taken.tags,
    }
