"""Odd requests, and what each gets: on a connection, in one packet and in packets of one byte."""

import asyncio
from typing import Any, NamedTuple

import pytest

from oncebox.server.http.request_context import RequestContext
from oncebox.settings import HttpSettings
from tests.support.connections import connected
from tests.support.http import Recorder, serving, until

KIB = 1024
#: a request that would be smuggled, or that follows in order
NEXT = b"POST /in/next HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nnext"
OK, BAD, LARGE, BIG = 200, 400, 431, 413


class Oddity(NamedTuple):
    """Bytes, what is answered to them, and which bodies reach the handler."""

    data: bytes
    statuses: tuple[int, ...]
    bodies: tuple[bytes, ...] = ()


def get(line: bytes = b"GET /in/x HTTP/1.1", *fields: bytes) -> bytes:
    return b"\r\n".join((line, b"Host: a", *fields, b"", b""))


def post(*fields: bytes, body: bytes = b"") -> bytes:
    return get(b"POST /in/x HTTP/1.1", *fields) + body


def chunked(body: bytes, *fields: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", *fields, body=body)


def refused(data: bytes) -> Oddity:
    """Whatever follows, nothing is read behind it."""
    return Oddity(data + NEXT, (BAD,))


def served(data: bytes, body: bytes = b"") -> Oddity:
    """What follows is the next request."""
    return Oddity(data + NEXT, (OK, OK), (body, b"next"))


def last(data: bytes, body: bytes = b"") -> Oddity:
    """Answered, and then the connection is closed."""
    return Oddity(data + NEXT, (OK,), (body,))


TRAILER = b"5\r\nhello\r\n0\r\n%s\r\n\r\n"
ODDITIES = {
    # request lines
    "two blanks before the target": refused(get(b"GET  /in/x HTTP/1.1")),
    "two blanks before the version": refused(get(b"GET /in/x  HTTP/1.1")),
    "a tab before the version": refused(get(b"GET /in/x\tHTTP/1.1")),
    "a form feed before the version": refused(get(b"GET /in/x\x0cHTTP/1.1")),
    "a vertical tab before the target": refused(get(b"GET\x0b/in/x HTTP/1.1")),
    "a no-break space": refused(get(b"GET\xa0/in/x HTTP/1.1")),
    "a blank and then the line": refused(b" " + get()),
    "a tab and then the line": refused(b"\t" + get()),
    "an LF and then the line": refused(b"\n" + get()),
    "a CR and then the line": refused(b"\r" + get()),
    "an empty line and then the line": served(b"\r\n" + get()),
    "many empty lines and then the line": served(b"\r\n" * 50 + get()),
    "an empty line and half of another": refused(b"\r\n\r" + get()),
    "a byte order mark": refused(b"\xef\xbb\xbf" + get()),
    "a NUL in the method": refused(get(b"G\0ET /in/x HTTP/1.1")),
    "a method in quotes": refused(get(b'"GET" /in/x HTTP/1.1')),
    "a number as a method": refused(get(b"123 /in/x HTTP/1.1")),
    "a response": refused(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "a version with a leading zero": refused(get(b"GET /in/x HTTP/01.1")),
    "a version with a trailing zero": refused(get(b"GET /in/x HTTP/1.01")),
    "a version with a comma": refused(get(b"GET /in/x HTTP/1,1")),
    "a version with a minus": refused(get(b"GET /in/x HTTP/-1.1")),
    "a version with a slash only": refused(get(b"GET /in/x HTTP/")),
    "a version before its time": refused(get(b"GET /in/x HTTP/3.0")),
    "a CR behind the version": refused(get(b"GET /in/x HTTP/1.1\r")),
    "a NUL behind the version": refused(get(b"GET /in/x HTTP/1.1\0")),
    "a comment behind the version": refused(get(b"GET /in/x HTTP/1.1;x")),
    "an ICY request": refused(get(b"SOURCE /in/x ICE/1.0")),
    # targets
    "a question mark only": refused(get(b"GET ?x HTTP/1.1")),
    "a relative path": refused(get(b"GET in/x HTTP/1.1")),
    "a fragment only": refused(get(b"GET #x HTTP/1.1")),
    "an asterisk and more": refused(get(b"OPTIONS *x HTTP/1.1")),
    "an asterisk of POST": refused(post(body=b"").replace(b"/in/x", b"*")),
    "an absolute form without a host": refused(get(b"GET http:///in/x HTTP/1.1")),
    "an absolute form with a wrong port": refused(get(b"GET http://a:99999/in/x HTTP/1.1")),
    "an absolute form with half an address": refused(get(b"GET http://[::1/in/x HTTP/1.1")),
    "an absolute form with two users": refused(get(b"GET http://a@b@c/in/x HTTP/1.1")),
    "an absolute form of a file": refused(get(b"GET file:///in/x HTTP/1.1")),
    "an absolute form of CONNECT": refused(get(b"CONNECT http://a/in/x HTTP/1.1")),
    "a path of CONNECT": refused(get(b"CONNECT /in/x HTTP/1.1")),
    "an absolute form": served(get(b"GET https://b:8443/in/x?y HTTP/1.1")),
    "a DEL in the path": refused(get(b"GET /in/\x7f HTTP/1.1")),
    "a NUL in the path": refused(get(b"GET /in/\0 HTTP/1.1")),
    "an LF in the path": refused(get(b"GET /in/\nx HTTP/1.1")),
    "UTF-8 in the path": refused(get("GET /in/é HTTP/1.1".encode())),
    "an escaped NUL": served(get(b"GET /in/%00 HTTP/1.1")),
    "an escaped line end": served(get(b"GET /in/%0d%0aX:%20y HTTP/1.1")),
    "half an escape": served(get(b"GET /in/%2 HTTP/1.1")),
    "quotes": served(get(b'GET /in/"x"?"y" HTTP/1.1')),
    "dots": served(get(b"GET /in/../../etc/passwd HTTP/1.1")),
    "a long target": Oddity(get(b"GET /in/" + b"x" * 5_000 + b" HTTP/1.1") + NEXT, (LARGE,)),
    # fields
    "a blank in a name": refused(post(b"X Y: z")),
    "a tab before the colon": refused(post(b"X\t: z")),
    "a name in quotes": refused(post(b'"X": z')),
    "a name with a slash": refused(post(b"X/Y: z")),
    "a name with a bracket": refused(post(b"X(Y: z")),
    "a name in UTF-8": refused(post("Contënt-Length: 5".encode())),
    "a colon only": refused(post(b":")),
    "a value without a name": refused(post(b": 5")),
    "a blank line of blanks": refused(post(b" ")),
    "a folded length": refused(post(b"Content-Length:", b" 5", body=b"hello")),
    "a folded host": refused(b"GET /in/x HTTP/1.1\r\nHost:\r\n a\r\n\r\n"),
    "two CR at an end": refused(post(b"X: y\r")),
    "a CR alone at an end": refused(post(b"X: y\rContent-Length: 4")),
    "an LF alone at an end": refused(post(b"X: y\nContent-Length: 4")),
    "a CR alone before the end": refused(b"GET /in/x HTTP/1.1\r\nHost: a\r\n\r\r\n"),
    "an ESC in a value": refused(post(b"X: \x1b[31m")),
    "a vertical tab in a value": refused(post(b"X: a\x0bb")),
    "an empty value": served(post(b"X:")),
    "a tab in a value": served(post(b"X: a\tb")),
    "colons in a value": served(post(b"X: a:b:c")),
    "bytes beyond ASCII in a value": served(post(b"X: \x80\xff")),
    "two keys": refused(post(b"Authorization: Bearer a", b"Authorization: Bearer b")),
    "a Host with a blank": refused(b"GET /in/x HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "a Host with a comma": refused(b"GET /in/x HTTP/1.1\r\nHost: a,b\r\n\r\n"),
    "a Host with a scheme": refused(b"GET /in/x HTTP/1.1\r\nHost: http://a\r\n\r\n"),
    "a Host with a wrong port": refused(b"GET /in/x HTTP/1.1\r\nHost: a:b\r\n\r\n"),
    "a Host with two ports": refused(b"GET /in/x HTTP/1.1\r\nHost: a:1:2\r\n\r\n"),
    "a Host of half an address": refused(b"GET /in/x HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    "a Host beyond ASCII": refused(b"GET /in/x HTTP/1.1\r\nHost: \xe4\r\n\r\n"),
    "an empty Host": served(b"GET /in/x HTTP/1.1\r\nHost:\r\n\r\n"),
    "an address as a Host": served(b"GET /in/x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"),
    "too many fields": Oddity(post(*[b"X: y"] * 101) + NEXT, (LARGE,)),
    "a long field": Oddity(post(b"X: " + b"y" * 9_000) + NEXT, (LARGE,)),
    "a long head that goes wrong first": refused(b"GET /\0" + b"x" * 40_000),
    "a long head that goes wrong later": Oddity(b"GET /" + b"x" * 40_000 + b"\0", (LARGE,)),
    # lengths
    "a length in octal": refused(post(b"Content-Length: 0o4", body=b"next")),
    "a length with an exponent": refused(post(b"Content-Length: 4e0", body=b"next")),
    "a length in other digits": refused(post("Content-Length: \u0664".encode())),
    "a raised length": refused(post(b"Content-Length: \xb2")),
    "a length in quotes": refused(post(b'Content-Length: "4"')),
    "a length with a semicolon": refused(post(b"Content-Length: 4;q=1")),
    "a length with a comma": refused(post(b"Content-Length: 4,")),
    "a length that is none": refused(post(b"Content-Length: four")),
    "a length of minus zero": refused(post(b"Content-Length: -0")),
    "a length of 2 to the 64": refused(post(b"Content-Length: 18446744073709551616")),
    "a length with too many zeros": refused(post(b"Content-Length: " + b"0" * 40 + b"4")),
    "a length as others write it": refused(post(b"Content_Length: 4")),
    "lengths in two spellings": refused(post(b"Content-Length: 4", b"CONTENT-LENGTH: 4")),
    "a length below and a body above": Oddity(
        post(b"Content-Length: 2", body=b"body") + NEXT, (OK, BAD), (b"bo",)
    ),
    "a length of GET": served(get(b"GET /in/x HTTP/1.1", b"Content-Length: 2") + b"hi", b"hi"),
    "a length of DELETE": served(
        get(b"DELETE /in/x HTTP/1.1", b"Content-Length: 2") + b"hi", b"hi"
    ),
    "a length beyond the limit": Oddity(
        post(b"Content-Length: 70000", body=b"x" * 70_000) + NEXT, (BIG, OK), (b"next",)
    ),
    # codings
    "a coding as others write it": refused(post(b"Transfer_Encoding: chunked")),
    "a coding with a parameter": refused(post(b"Transfer-Encoding: chunked;q=1")),
    "a coding with a comma": refused(post(b"Transfer-Encoding: chunked,")),
    "a coding behind a comma": refused(post(b"Transfer-Encoding: ,chunked")),
    "a coding with a vertical tab": refused(post(b"Transfer-Encoding: \x0bchunked")),
    "deflate": refused(post(b"Transfer-Encoding: deflate")),
    "identity": refused(post(b"Transfer-Encoding: identity")),
    "chunked in two lines": refused(
        post(b"Transfer-Encoding: chunked", b"transfer-encoding: chunked")
    ),
    "a coding and a length of zero": refused(chunked(b"0\r\n\r\n", b"Content-Length: 0")),
    "a coding in capitals": served(
        post(b"TRANSFER-ENCODING: CHUNKED", body=b"1\r\nx\r\n0\r\n\r\n"), b"x"
    ),
    "a TE that is no coding": served(post(b"TE: chunked, trailers")),
    # chunks
    "a chunk of nothing but a CRLF": refused(chunked(b"\r\n0\r\n\r\n")),
    "a chunk with a CR behind its size": refused(chunked(b"5\rhello\r\n0\r\n\r\n")),
    "a chunk without an end": refused(chunked(b"5\r\nhello0\r\n\r\n")),
    "a chunk that ends by CR": refused(chunked(b"5\r\nhello\r0\r\n\r\n")),
    "a chunk that is short": refused(chunked(b"6\r\nhello\r\n0\r\n\r\n")),
    "a chunk size in a quote": refused(chunked(b'"5"\r\nhello\r\n0\r\n\r\n')),
    "a chunk size with a fraction": refused(chunked(b"5.0\r\nhello\r\n0\r\n\r\n")),
    "a chunk size with a tab behind": refused(chunked(b"5\t\r\nhello\r\n0\r\n\r\n")),
    "a chunk size in other digits": refused(chunked("\u0665\r\nhello\r\n0\r\n\r\n".encode())),
    "a chunk size with zeros": served(chunked(b"00000005\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "a chunk size with too many zeros": refused(chunked(b"0" * 17 + b"5\r\nhello\r\n0\r\n\r\n")),
    "a chunk of 2 to the 63": Oddity(chunked(b"8000000000000000\r\n") + b"x" * 70_000, (BIG,)),
    "an extension without a name": served(chunked(b"5;\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "an extension with an open quote": served(chunked(b'5;a="\r\nhello\r\n0\r\n\r\n'), b"hello"),
    "an extension with a CR": refused(chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n")),
    "an extension with a DEL": refused(chunked(b"5;\x7f\r\nhello\r\n0\r\n\r\n")),
    "a chunk that looks like the end": served(
        chunked(b"5\r\n0\r\n\r\n\r\n0\r\n\r\n"), b"0\r\n\r\n"
    ),
    "a chunk behind the end": Oddity(
        chunked(b"0\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), (OK, BAD), (b"",)
    ),
    "chunks beyond the limit": Oddity(
        chunked(b"c000\r\n%s\r\n" % (b"x" * 0xC000) * 2 + b"0\r\n\r\n") + NEXT,
        (BIG, OK),
        (b"next",),
    ),
    "chunks beyond the limit that go wrong": Oddity(
        chunked(b"c000\r\n%s\r\n" % (b"x" * 0xC000) * 2 + b"no\r\n") + NEXT, (BIG,)
    ),
    # trailers
    "a trailer": served(chunked(TRAILER % b"Digest: x"), b"hello"),
    "a key in a trailer": refused(chunked(TRAILER % b"aUTHORIZATION: Bearer x")),
    "an upgrade in a trailer": refused(chunked(TRAILER % b"Upgrade: h2c")),
    "a connection in a trailer": refused(chunked(TRAILER % b"Connection: close")),
    "a coding of the content in a trailer": refused(chunked(TRAILER % b"Content-Encoding: gzip")),
    "a cookie in a trailer": refused(chunked(TRAILER % b"Cookie: a=b")),
    "a trailer as others write it": refused(chunked(TRAILER % b"Content_Length: 5")),
    "a trailer that ends by LF": refused(chunked(b"5\r\nhello\r\n0\r\nX: y\n\r\n")),
    "a trailer with a CR": refused(chunked(TRAILER % b"X: a\rb")),
    "a trailer with a NUL": refused(chunked(TRAILER % b"X: \0")),
    "a trailer without a name": refused(chunked(TRAILER % b": x")),
    "a request as a trailer": refused(chunked(b"0\r\n" + NEXT)),
    # connections
    "close in the first of two lines": last(post(b"Connection: close", b"Connection: x")),
    "close in a list": last(post(b"Connection: x ,\tClose")),
    "close in another word": served(post(b"Connection: closed")),
    "HTTP/1.0": last(b"GET /in/x HTTP/1.0\r\n\r\n"),
    "HTTP/1.0 that goes on": served(b"GET /in/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
    "a connection that names the length": served(
        post(b"Connection: content-length", b"Content-Length: 5", body=b"hello"), b"hello"
    ),
    "an upgrade to HTTP/2": served(
        post(
            b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk",
            b"Content-Length: 5", body=b"hello",
        ),
        b"hello",
    ),
    "an upgrade to TLS": served(post(b"Connection: Upgrade", b"Upgrade: TLS/1.0")),
    "an expectation that is met": served(
        post(b"Expect: 100-continue", b"Content-Length: 1", body=b"x"), b"x"
    ),
    "an expectation that nobody knows": served(post(b"Expect: cake")),
    "the preface of HTTP/2 behind a request": Oddity(
        post() + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (OK, BAD), (b"",)
    ),
    "a PROXY header from nobody": refused(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + get()),
    "a PROXY header behind a request": Oddity(
        post() + b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + NEXT, (OK, BAD), (b"",)
    ),
}  # fmt: skip
SETTINGS: dict[str, Any] = {"body": 64 * KIB}


class Handler:
    """Keeps bodies, and answers at once."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, exchange: RequestContext, body: bytes) -> None:
        self.bodies.append(body)
        exchange.respond(200, [], b"ok")


def statuses_in(said: bytes) -> tuple[int, ...]:
    """Return the statuses of all responses but the provisional ones."""
    found = (int(each[:3]) for each in said.split(b"HTTP/1.1 ")[1:])
    return tuple(each for each in found if each != 100)


@pytest.mark.parametrize("size", [1, 7, 1_000_000], ids=["bytewise", "in parts", "whole"])
@pytest.mark.parametrize("oddity", ODDITIES.values(), ids=ODDITIES)
def test_odd_request_gets_its_answer_in_any_packets(oddity: Oddity, size: int) -> None:
    handler = Handler()
    connection, transport = connected(handler, settings=HttpSettings(**SETTINGS))
    for at in range(0, len(oddity.data), size):
        connection.data_received(oddity.data[at : at + size])

    assert statuses_in(transport.written) == oddity.statuses
    assert tuple(handler.bodies) == oddity.bodies
    is_refused = oddity.statuses[-1] in {BAD, LARGE} or oddity.statuses == (OK,)
    assert transport.ended or not is_refused
    assert connection.state.in_flight == 0
    assert connection.state.body_bytes == 0


async def test_odd_requests_get_their_answers_on_sockets() -> None:
    handler = Handler()
    async with serving(Recorder(), handler, **SETTINGS) as server:
        for name, oddity in ODDITIES.items():
            handler.bodies.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(oddity.data)
            writer.write_eof()
            said = await asyncio.wait_for(reader.read(), 10)
            writer.close()

            assert (name, statuses_in(said)) == (name, oddity.statuses)
            assert (name, tuple(handler.bodies)) == (name, oddity.bodies)
        await until(lambda: server.count("oncebox_http_in_flight") == 0)


def test_there_are_enough_oddities() -> None:
    assert len(ODDITIES) > 50
