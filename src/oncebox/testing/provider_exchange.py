"""A connection to the scripted provider: correct HTTP/1.1, until its script says otherwise."""

import asyncio
import http
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

from oncebox.testing.personalities.personality import Now, Personality, Request, Response
from oncebox.testing.provider_script import Fault, Script, Turn

_PIECE = 65_536
#: more than any provider takes
_LARGEST_BODY = 64 * 1024 * 1024
_GARBAGE = Response(status=200, body=b"<html>It works!", headers={"content-type": "text/html"})
_TOO_LARGE = Response(status=413)

#: answers those who ask the server itself, and nobody else
Control = Callable[[Request], Response | None]


@dataclass(slots=True)
class House:
    """What all connections to a server share."""

    personality: Personality
    script: Script
    now: Now
    #: every request that brought mail, as far as it came
    received: list[Request] = field(default_factory=list)
    connections: int = 0


class _Gone(Exception):
    """The connection is over."""


class _Reading:
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


class Exchange:
    """Answers one client until it goes, or until the script ends it."""

    def __init__(
        self,
        house: House,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        control: Control,
    ) -> None:
        """Read nothing yet."""
        self._house = house
        self._reader = reader
        self._writer = writer
        self._control = control

    async def run(self) -> None:
        """Serve until the end."""
        self._house.connections += 1
        try:
            while True:
                await self._one()
        except (_Gone, OSError, EOFError, httptools.HttpParserError):
            pass
        finally:
            self._writer.close()

    async def _one(self) -> None:
        """Read one request and answer it."""
        reading = _Reading()
        parser = httptools.HttpRequestParser(reading)
        await self._read(parser, lambda: reading.has_headers)
        request = _request(parser, reading)
        fault: Fault | None = None
        place = len(self._house.received)
        if self._house.personality.brings_mail(request):
            fault = self._house.script.next()
            self._house.received.append(request)
            if fault.turn is Turn.DROP_BEFORE_BODY:
                self._drop()
        request = await self._whole(parser, reading)
        if fault is None:
            await self._say(self._plain(request))
        else:
            self._house.received[place] = request
            await self._meet(request, fault)
        if not parser.should_keep_alive():
            raise _Gone

    async def _whole(self, parser: httptools.HttpRequestParser, reading: _Reading) -> Request:
        """Read the rest of a request."""
        if reading.headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await self._read(parser, lambda: reading.is_complete or len(reading.body) > _LARGEST_BODY)
        if not reading.is_complete:
            await self._say(_TOO_LARGE)
            raise _Gone
        return _request(parser, reading)

    def _plain(self, request: Request) -> Response:
        """Answer what the script is not about."""
        told = self._control(request)
        if told is not None:
            return told
        return self._house.personality.answer(request, Fault(), self._house.now)

    async def _meet(self, request: Request, fault: Fault) -> None:
        """Do what the script says to a request that brings mail."""
        takes = fault.takes or fault.turn in {Turn.PROCEED, Turn.PARTIAL}
        if fault.turn is Turn.PROCEED and not fault.takes:
            await asyncio.sleep(fault.seconds)
        try:
            answer = self._answer(request, fault) if takes else None
            if fault.takes and fault.turn is Turn.PROCEED:
                await asyncio.sleep(fault.seconds)
            await self._end(fault, answer)
        finally:
            if takes:
                self._house.personality.over(request)

    def _answer(self, request: Request, fault: Fault) -> Response:
        return self._house.personality.answer(request, fault, self._house.now)

    async def _end(self, fault: Fault, answer: Response | None) -> None:
        """Answer, or not."""
        if fault.turn is Turn.DROP:
            self._drop()
        elif fault.turn is Turn.HANG_UP:
            raise _Gone
        elif fault.turn is Turn.SILENCE:
            await self._until_gone()
        elif fault.turn is Turn.GARBAGE:
            await self._say(_GARBAGE)
        elif answer is None or fault.turn is Turn.REFUSE:
            await self._say(self._house.personality.refusal(fault))
        else:
            await self._say(answer)

    async def _read(self, parser: httptools.HttpRequestParser, done: Callable[[], bool]) -> None:
        while not done():
            piece = await self._reader.read(_PIECE)
            if not piece:
                raise _Gone
            parser.feed_data(piece)

    async def _until_gone(self) -> None:
        """Read on, so that what was said is heard."""
        while await self._reader.read(_PIECE):
            pass
        raise _Gone

    def _drop(self) -> None:
        self._writer.transport.abort()
        raise _Gone

    async def _say(self, answer: Response) -> None:
        lines = [f"HTTP/1.1 {answer.status} {_phrase(answer.status)}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines.append(f"content-length: {len(answer.body)}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)
        await self._writer.drain()


def _request(parser: httptools.HttpRequestParser, reading: _Reading) -> Request:
    path = httptools.parse_url(reading.url).path or b"/"
    return Request(
        method=parser.get_method().decode("ascii"),
        path=path.decode("latin-1"),
        headers=reading.headers,
        body=bytes(reading.body),
    )


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
