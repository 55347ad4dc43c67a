"""Request framing: one way to read a request, whatever packets it arrives in."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import h11
import pytest
from httptools import HttpRequestParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncebox.errors import OnceboxError
from oncebox.errors.http import HeadersTooLarge, RequestMalformed
from oncebox.server.http import request_parsing
from oncebox.server.http.request_parsing import (
    ChunkedBody,
    HeadLimits,
    LengthBody,
    RequestHead,
    body_reader,
    find_head,
    parse_head,
)

LIMITS = HeadLimits(size=2_000, fields=20)
GET = b"GET /a?b=c HTTP/1.1\r\nHost: example.com\r\n\r\n"


class Parsed(NamedTuple):
    """What came of some bytes: whole requests, and how it ended."""

    requests: list[tuple[RequestHead, bytes]]
    #: the error's code, or what was missing
    end: str


def parse(packets: Iterator[bytes], limits: HeadLimits = LIMITS) -> Parsed:
    """Parse as a connection does."""
    requests: list[tuple[RequestHead, bytes]] = []
    held, searched = b"", 0
    head: RequestHead | None = None
    reader: LengthBody | ChunkedBody = LengthBody(0)
    body = b""
    try:
        for packet in packets:
            held += packet
            while held or (head is not None and reader.done):
                if head is None:
                    size = find_head(held, searched, limits)
                    if not size:
                        searched = len(held)
                        break
                    head, held, searched = parse_head(held[:size], limits), held[size:], 0
                    reader, body = body_reader(head, limits), b""
                if not reader.done:
                    part, held = reader.take(held)
                    body += part
                if not reader.done:
                    continue
                requests.append((head, body))
                head = None
    except OnceboxError as error:
        return Parsed(requests, error.code)
    return Parsed(requests, "body" if head is not None else "head" if held else "")


def whole(data: bytes) -> Parsed:
    return parse(iter([data]))


def bytewise(data: bytes) -> Parsed:
    return parse(data[n : n + 1] for n in range(len(data)))


def post(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"POST /in/x HTTP/1.1", b"Host: a", *lines, b"", body))


def chunked(body: bytes, *lines: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", *lines, body=body)


MALFORMED = {
    "bare LF after the request line": b"GET / HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF everywhere": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
    "obsolete folding": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "obsolete folding by tab": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n",
    "folding before the first field": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n",
    "BEL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \x07\r\n\r\n",
    "DEL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
    "a blank before the colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "an empty name": b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "a line without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nnothing\r\n\r\n",
    "a name beyond ASCII": b"GET / HTTP/1.1\r\nHost: a\r\nX\xff: b\r\n\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\nHost: a\r\n\r\n",
    "HTTP/0.9 without a version": b"GET /\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    "HTTP/1.10": b"GET / HTTP/1.10\r\nHost: a\r\n\r\n",
    "HTTP/1": b"GET / HTTP/1\r\nHost: a\r\n\r\n",
    "http/1.1": b"GET / http/1.1\r\nHost: a\r\n\r\n",
    "RTSP": b"OPTIONS / RTSP/1.0\r\nHost: a\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a blank after the version": b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
    "a blank before the method": b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tab after the method": b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a blank in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target beyond ASCII": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "a control in the target": b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: a\r\n\r\n",
    "asterisk form of GET": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "authority form": b"GET example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a Host that is none": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a Host with user": b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "two Hosts in one": b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "two Content-Types": post(b"Content-Type: a/b", b"Content-Type: c/d"),
    "two lengths": post(b"Content-Length: 2", b"Content-Length: 3", body=b"hi"),
    "the same length twice": post(b"Content-Length: 2", b"Content-Length: 2", body=b"hi"),
    "a list of lengths": post(b"Content-Length: 2, 2", body=b"hi"),
    "a negative length": post(b"Content-Length: -1", body=b"hi"),
    "a length with a sign": post(b"Content-Length: +2", body=b"hi"),
    "a length in hex": post(b"Content-Length: 0x2", body=b"hi"),
    "a length with an underscore": post(b"Content-Length: 0_2", body=b"hi"),
    "a length with a blank inside": post(b"Content-Length: 2 1", body=b"hi"),
    "a length with a fraction": post(b"Content-Length: 2.0", body=b"hi"),
    "an empty length": post(b"Content-Length: "),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999999"),
    "length and chunks": post(
        b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "chunks and length": post(
        b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n"
    ),
    "another coding": post(b"Transfer-Encoding: gzip", body=b"0\r\n\r\n"),
    "two codings": post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"),
    "two coding fields": post(
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n"
    ),
    "identity before chunked": post(
        b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"
    ),
    "an obscured coding": post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "a quoted coding": post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "an empty coding": post(b"Transfer-Encoding:", body=b"0\r\n\r\n"),
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no chunk size": chunked(b"\r\nhi\r\n0\r\n\r\n"),
    "a chunk size that is none": chunked(b"zz\r\nhi\r\n0\r\n\r\n"),
    "a negative chunk size": chunked(b"-2\r\nhi\r\n0\r\n\r\n"),
    "a chunk size with a sign": chunked(b"+2\r\nhi\r\n0\r\n\r\n"),
    "a chunk size with a prefix": chunked(b"0x2\r\nhi\r\n0\r\n\r\n"),
    "a chunk size with an underscore": chunked(b"0_2\r\nhi\r\n0\r\n\r\n"),
    "a chunk size with a blank before": chunked(b" 2\r\nhi\r\n0\r\n\r\n"),
    "a chunk size with a blank behind": chunked(b"2 \r\nhi\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": chunked(b"1" * 17 + b"\r\nhi\r\n0\r\n\r\n"),
    "a chunk size that ends by LF": chunked(b"2\nhi\r\n0\r\n\r\n"),
    "a chunk longer than its size": chunked(b"2\r\nhi!\r\n0\r\n\r\n"),
    "a chunk that ends by LF": chunked(b"2\r\nhi\n0\r\n\r\n\r\n"),
    "a NUL in an extension": chunked(b"2;a=\0\r\nhi\r\n0\r\n\r\n"),
    "an LF in an extension": chunked(b"2;a=\nb\r\nhi\r\n0\r\n\r\n"),
    "a length in a trailer": chunked(b"0\r\nContent-Length: 99\r\n\r\n"),
    "a coding in a trailer": chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a host in a trailer": chunked(b"0\r\nHost: evil.example.com\r\n\r\n"),
    "an authorization in a trailer": chunked(b"0\r\nAuthorization: Bearer x\r\n\r\n"),
    "a trailer that is no field": chunked(b"0\r\nnothing\r\n\r\n"),
    "a folded trailer": chunked(b"0\r\nA: b\r\n c\r\n\r\n"),
    "a trailer with a blank before the colon": chunked(b"0\r\nA : b\r\n\r\n"),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_ambiguous_or_wrong_framing_is_malformed_in_any_packets(data: bytes) -> None:
    assert whole(data) == bytewise(data) == Parsed([], RequestMalformed.code)


TOO_LARGE = {
    "a head": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 2_000 + b"\r\n\r\n",
    "a head without an end": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 2_000,
    "a request line without an end": b"GET /" + b"a" * 2_000,
    "too many fields": b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20 + b"\r\n",
    "an extension": chunked(b"2;" + b"a" * 2_020 + b"\r\nhi\r\n0\r\n\r\n"),
    "an extension without an end": chunked(b"2;" + b"a" * 2_020),
    "many extensions": chunked(b"1;a=b\r\nx\r\n" * 600 + b"0\r\n\r\n"),
    "a trailer": chunked(b"0\r\nA: " + b"b" * 2_020 + b"\r\n\r\n"),
    "a trailer without an end": chunked(b"0\r\nA: " + b"b" * 2_020),
    "many trailers": chunked(b"0\r\n" + b"A: b\r\n" * 600 + b"\r\n"),
}


@pytest.mark.parametrize("data", TOO_LARGE.values(), ids=TOO_LARGE)
def test_head_extension_or_trailer_beyond_the_limit_is_too_large_in_any_packets(
    data: bytes,
) -> None:
    assert whole(data) == bytewise(data) == Parsed([], HeadersTooLarge.code)


@pytest.mark.parametrize(("count", "code"), [(49_999, ""), (50_000, HeadersTooLarge.code)])
def test_number_of_chunks_has_a_limit(count: int, code: str) -> None:
    assert whole(chunked(b"1\r\nx\r\n" * count + b"0\r\n\r\n")).end == code


@pytest.mark.parametrize(
    ("target", "code"),
    [(b"/" + b"a" * 4_095, ""), (b"/" + b"a" * 4_096, HeadersTooLarge.code)],
    ids=["longest", "longer"],
)
def test_request_target_has_a_limit(target: bytes, code: str) -> None:
    data = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target

    assert parse(iter([data]), HeadLimits(30_000, 20)).end == code


@pytest.mark.parametrize(
    ("size", "code"), [(7_999, ""), (8_000, HeadersTooLarge.code)], ids=["longest", "longer"]
)
def test_one_field_has_a_limit(size: int, code: str) -> None:
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n" % (b"a" * size)

    assert parse(iter([data]), HeadLimits(30_000, 20)).end == code


VALID = {
    "a length": (post(b"Content-Length: 5", body=b"hello"), b"hello"),
    "a length of GET": (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
    "a length with leading zeros": (post(b"Content-Length: 0005", body=b"hello"), b"hello"),
    "a padded length": (post(b"Content-Length: \t5 ", body=b"hello"), b"hello"),
    "no length": (post(), b""),
    "chunks": (chunked(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), b"hello world"),
    "upper-case sizes": (chunked(b"A\r\n0123456789\r\n0\r\n\r\n"), b"0123456789"),
    "sizes with leading zeros": (chunked(b"0005\r\nhello\r\n000\r\n\r\n"), b"hello"),
    "an extension": (chunked(b'5;a="b c";d\r\nhello\r\n0;e\r\n\r\n'), b"hello"),
    "a blank before an extension": (chunked(b"5 ; a=b\r\nhello\r\n0\r\n\r\n"), b"hello"),
    "trailers": (chunked(b"5\r\nhello\r\n0\r\nVary: *\r\nDigest: x\r\n\r\n"), b"hello"),
    "chunks that look like a request": (chunked(b"%x\r\n%s\r\n0\r\n\r\n" % (len(GET), GET)), GET),
    "a body that looks like a request": (
        post(b"Content-Length: %d" % len(GET), body=GET),
        GET,
    ),
    "an upgrade with a length": (
        post(
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABk",
            b"Content-Length: %d" % len(GET),
            body=GET,
        ),
        GET,
    ),
    "an upgrade with chunks": (
        chunked(b"5\r\nhello\r\n0\r\n\r\n", b"Connection: upgrade", b"Upgrade: websocket"),
        b"hello",
    ),
}


@pytest.mark.parametrize(("data", "body"), VALID.values(), ids=VALID)
def test_body_has_exactly_the_announced_bytes_and_what_follows_is_the_next_request(
    data: bytes, body: bytes
) -> None:
    for parsed in (whole(data + GET), bytewise(data + GET)):
        assert [found for _, found in parsed.requests] == [body, b""]
        assert parsed.requests[1][0].path == "/a"
        assert parsed.end == ""


@pytest.mark.parametrize(("data", "body"), VALID.values(), ids=VALID)
def test_request_cut_short_is_never_complete(data: bytes, body: bytes) -> None:
    for size in range(len(data)):
        parsed = whole(data[:size])

        assert parsed.requests == []
        assert parsed.end in ({"", "head", "body"} if size == 0 else {"head", "body"})


def test_trailer_fields_are_not_headers() -> None:
    ((head, _),) = whole(chunked(b"0\r\nX-Hub-Signature: forged\r\n\r\n")).requests

    assert b"x-hub-signature" not in head.by_name


@pytest.mark.parametrize(
    ("lines", "keep_alive"),
    [
        (b"HTTP/1.1\r\nHost: a", True),
        (b"HTTP/1.1\r\nHost: a\r\nConnection: close", False),
        (b"HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, Close", False),
        (b"HTTP/1.0", False),
        (b"HTTP/1.0\r\nConnection: Keep-Alive", True),
    ],
)
def test_connection_is_kept_if_both_sides_can(lines: bytes, keep_alive: bool) -> None:
    ((head, _),) = whole(b"GET / " + lines + b"\r\n\r\n").requests

    assert head.keep_alive is keep_alive


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", b""),
        (b"/a%20b?c=%20", "/a b", b"c=%20"),
        (b"/a#b?c", "/a", b""),
        (b"//a/b", "//a/b", b""),
        (b"http://example.com/a?b", "/a", b"b"),
        (b"http://user:pass@example.com:8080/a", "/a", b""),
        (b"HTTP://example.com", "/", b""),
    ],
)
def test_target_in_origin_or_absolute_form_has_a_path_and_a_query(
    target: bytes, path: str, query: bytes
) -> None:
    ((head, _),) = whole(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % target).requests

    assert (head.path, head.query) == (path, query)


def test_values_are_trimmed_and_names_are_in_lower_case() -> None:
    ((head, _),) = whole(b"GET / HTTP/1.1\r\nHOST: a\r\nX-Y: \t caf\xc3\xa9 \t \r\n\r\n").requests

    assert head.fields == [(b"host", b"a"), (b"x-y", b"caf\xc3\xa9")]


def test_fields_that_occur_several_times_are_all_there_and_in_order() -> None:
    lines = (b"X: 1", b"Y: 2", b"X: 3", b"x: 4", b"Z:", b"Y: 2", b"X: 1")
    ((head, _),) = whole(post(*lines)).requests

    assert head.fields == [
        (b"host", b"a"), (b"x", b"1"), (b"y", b"2"), (b"x", b"3"), (b"x", b"4"), (b"z", b""),
        (b"y", b"2"), (b"x", b"1"),
    ]  # fmt: skip
    assert head.by_name == {b"host": b"a", b"x": b"1", b"y": b"2", b"z": b""}


def lenient_parser(sink: object) -> HttpRequestParser:
    """Return a parser that lets pass what others have let pass."""
    parser = HttpRequestParser(sink)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_lf_after_cr=True,
        lenient_optional_cr_before_lf=True,
    )
    return parser


#: no text of a field, wherever it is
NO_TEXT = [*(bytes([code]) for code in (*range(9), *range(10, 32), 127)), b"\r\n ", b"\r\n\t"]


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("more", [(), (b"X: again",)], ids=["once", "repeated"])
@pytest.mark.parametrize("odd", NO_TEXT, ids=repr)
def test_control_characters_in_a_field_are_malformed_whatever_the_parser_lets_pass(
    odd: bytes, more: tuple[bytes, ...], lenient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lenient:
        monkeypatch.setattr(request_parsing, "HttpRequestParser", lenient_parser)
    for value in (odd, b"a" + odd, odd + b"a", b"a%sb" % odd, b"a%sY: b" % odd):
        assert whole(post(b"X: " + value, *more)) == Parsed([], RequestMalformed.code)


# packets

LINES = st.sampled_from([
    b"Host: a", b"Host: b", b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: x",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", b"Connection: close",
    b"Connection: Upgrade", b"Upgrade: h2c", b"X: y", b" folded", b"X : y", b"", b"Expect: x",
])  # fmt: skip
PIECES = st.sampled_from([
    GET, b"hello", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\r\n", b"\n", b"\r", b"\0", b"5;x\r\n", b"a",
    b"0\r\nA: b\r\n\r\n", b"fffffffffffffffff\r\n", b"POST /in/x HTTP/1.1\r\n", b":", b" ",
])  # fmt: skip
REQUESTS = st.builds(
    lambda lines, pieces: post(*lines, body=b"".join(pieces)),
    st.lists(LINES, max_size=5),
    st.lists(PIECES, max_size=5),
)
STREAMS = st.one_of(
    REQUESTS,
    st.lists(PIECES, max_size=8).map(b"".join),
    st.builds(
        lambda data, at, byte: data[: at % (len(data) + 1)] + byte + data[at % (len(data) + 1) :],
        REQUESTS,
        st.integers(0, 500),
        st.binary(min_size=1, max_size=3),
    ),
)


@settings(max_examples=1_000)
@given(STREAMS, st.lists(st.integers(1, 60), max_size=40))
def test_packets_make_no_difference(data: bytes, cuts: list[int]) -> None:
    places = [0]
    for cut in cuts:
        places.append(min(len(data), places[-1] + cut))
    places.append(len(data))
    packets = [data[a:b] for a, b in pairwise(places)]

    assert parse(iter(packets)) == whole(data) == bytewise(data)


# another reader


def read_by_h11(data: bytes) -> list[tuple[str, bytes]] | None:
    """Return method and body of whole requests; None: an error."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=100_000)
    requests: list[tuple[str, bytes]] = []
    try:
        connection.receive_data(data)
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                method, body = event.method.decode(), b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                requests.append((method, body))
                connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return requests
                connection.start_next_cycle()
            else:
                return requests
    except h11.RemoteProtocolError:
        return None


@settings(max_examples=2_000)
@given(STREAMS)
@example(GET + GET)
def test_what_is_accepted_here_is_the_same_to_another_reader(data: bytes) -> None:
    """Where both read a first request, they read the same one; we may refuse more than h11."""
    ours, theirs = whole(data), read_by_h11(data)
    if not ours.requests or theirs is None:
        return
    head, body = ours.requests[0]

    assert theirs
    assert theirs[0] == (head.method, body)


# requests that others have collected


def decoded(path: Path) -> bytes:
    text = path.read_bytes().replace(b"\r\n", b"").replace(b"\n", b"")
    out, at = b"", 0
    escapes = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0"}
    while at < len(text):
        if text[at : at + 1] != b"\\":
            out, at = out + text[at : at + 1], at + 1
        elif text[at + 1 : at + 2] == b"x":
            out, at = out + bytes([int(text[at + 2 : at + 4], 16)]), at + 4
        else:
            out, at = out + escapes[text[at + 1 : at + 2]], at + 2
    return out
