"""Fuzzing: the same answers in any packets, and no request that another reader reads differently.

Hypothesis chooses the cases. ``ONCEBOX_FUZZ_CASES=200000 python -m pytest -s`` on this file runs
more, chosen at random since that is faster, and prints how many and from which seed.
"""

import asyncio
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import TypeVar

import h11
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.core.metrics import Telemetry
from oncebox.server.http.http_connection import HttpConnection
from oncebox.server.http.request_context import Receive, RequestContext, Scope, Send
from oncebox.server.http.server_state import ServerState
from oncebox.settings import HttpSettings
from tests.support.connections import Transport

T = TypeVar("T")
CASES = int(os.environ.get("ONCEBOX_FUZZ_CASES", "1000"))
BY_HAND = "ONCEBOX_FUZZ_CASES" in os.environ
MAX_BODY = 60

# requests that are right, or nearly

METHODS = [b"POST", b"POST", b"GET", b"HEAD", b"OPTIONS", b"CONNECT", b"get", b""]
TARGETS = [b"/in/%41?b=c", b"/v1/x", b"http://a/in/x", b"*", b"a:443", b"/in/x#y", b"/in/ x", b"//"]
VERSIONS = [b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.10", b""]
BLANKS = [b" ", b" ", b" ", b"  ", b"\t", b""]
ENDS = [b"\r\n"] * 20 + [b"\n", b"\r", b"\r\r\n", b"\r\n ", b"\0\r\n"]
PLAIN_FIELDS = [
    b"X: y", b"X:", b"X: a\tb \t", b"x-request-id: abc", b"Expect: 100-continue", b"Expect: x",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Upgrade: h2c",
    b"Content-Type: a/b", b"TE: trailers", b"X: \xff", b"Cookie: a=b",
]  # fmt: skip
FIELDS = [
    *PLAIN_FIELDS, b"Host: b", b"Content-Length: 5", b"Content-Length: 05", b"Content-Length: 5, 5",
    b"Content-Length: -5", b"Content_Length: 5", b"Content-Length : 5", b"X\xff: y", b"X: \x01",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b" y", b"nothing", b": y",
    b"Transfer-Encoding: identity", b"Content-Length: 4", b"X: " + b"y" * 550,
]  # fmt: skip
BODIES = [b"x", b"hello", b"\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"y" * 70]
PLAIN_EXTENSIONS = [b"", b"", b"", b";a=b", b' ; a="b c"', b";"]
EXTENSIONS = [*PLAIN_EXTENSIONS, b" ", b";\x7f", b";" * 590, b";" * 620]
PLAIN_TRAILERS = [b"", b"", b"A: b\r\n", b"A: b\r\nC:\r\n"]
TRAILERS = [*PLAIN_TRAILERS, b"Host: b\r\n", b"A\r\n", b"A: b\n", b"A: " + b"b" * 620 + b"\r\n"]
JUNK = [b"\r\n", b"\r\n\r\n", b"\r", b"\n", b"\0", b"5", b":", b" ", b"\xff", b"", b"", b""]


class Choices:
    """Chooses: by Hypothesis, or at random."""

    def __init__(self, number: Callable[[int], int]) -> None:
        """Use what returns a number from 0 up to, and without, another."""
        self.number = number

    def pick(self, options: Sequence[T]) -> T:
        """Return one of them."""
        return options[self.number(len(options))]

    def unless(self, is_right: bool, options: Sequence[T], right: T) -> T:
        """Return one of them, or the right one."""
        return right if is_right else self.pick(options)


def chunks(choose: Choices, *, is_right: bool) -> bytes:
    """Return a body in chunks."""
    out, extensions = b"", PLAIN_EXTENSIONS if is_right else EXTENSIONS
    for _ in range(choose.number(4)):
        body = choose.pick(BODIES[:5])
        size = len(body) + choose.unless(is_right, [0, 0, 0, 0, 0, 1, -1], 0)
        style = choose.unless(is_right, [b"%x", b"%X", b"0%x", b"0x%x", b"+%x"], b"%x")
        ends = [choose.unless(is_right, ENDS, b"\r\n") for _ in range(2)]
        out += (style % size) + choose.pick(extensions) + ends[0] + body + ends[1]
    trailers = choose.pick(PLAIN_TRAILERS if is_right else TRAILERS)
    return out + b"0" + choose.pick(extensions) + b"\r\n" + trailers + b"\r\n"


def request(choose: Choices) -> bytes:
    """Return one request; two of three are right."""
    is_right = choose.number(3) > 0
    method = choose.unless(is_right, METHODS, b"POST")
    target = choose.pick(TARGETS[:3]) if is_right else choose.pick(TARGETS)
    blanks = [choose.unless(is_right, BLANKS, b" ") for _ in range(2)]
    line = method + blanks[0] + target + blanks[1] + choose.unless(is_right, VERSIONS, b"HTTP/1.1")
    fields = [choose.unless(is_right, [b"Host: a"] * 9 + [b"X: y"], b"Host: a")]
    fields += [choose.pick(PLAIN_FIELDS if is_right else FIELDS) for _ in range(choose.number(4))]
    kind, body = choose.number(3 if is_right else 4), b""
    if kind == 1:
        body = choose.pick(BODIES)
        slip = choose.unless(is_right, [0, 0, 0, 1, -1], 0)
        fields.append(b"Content-Length: %d" % (len(body) + slip))
    elif kind == 2:
        fields.append(b"Transfer-Encoding: chunked")
        body = chunks(choose, is_right=is_right)
    elif kind == 3:
        body = chunks(choose, is_right=is_right)
    lines = [line, *fields, b""]
    head = b"".join([each + choose.unless(is_right, ENDS, b"\r\n") for each in lines])
    before = choose.pick([b"\r\n", b"\r", b"\n", b""]) if not choose.number(15) else b""
    return before + head + body


def stream(choose: Choices) -> bytes:
    """Return some requests, perhaps with bytes changed."""
    data = b"".join([request(choose) for _ in range(1 + choose.number(3))])
    for _ in range(choose.pick([0, 0, 0, 1, 2])):
        at = choose.number(len(data) + 1)
        data = data[:at] + choose.pick(JUNK) + data[at + choose.number(4) :]
    return data


def cut(choose: Choices, data: bytes) -> list[bytes]:
    """Return it in packets."""
    places = [0]
    while places[-1] < len(data) and len(places) < 30:
        places.append(min(len(data), places[-1] + 1 + choose.number(90)))
    return [data[a:b] for a, b in pairwise([*places, len(data)]) if a < b]


def try_out(case: Callable[[Choices], None]) -> None:
    """Run cases that Hypothesis chooses, and if there shall be more, that chance chooses."""

    @settings(
        max_examples=min(CASES, 1000),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def chosen(data: st.DataObject) -> None:
        case(Choices(lambda end: data.draw(st.integers(0, end - 1))))

    chosen()
    if BY_HAND:
        seed = time.time_ns()
        sys.stdout.write(f"seed {seed}\n")
        for number in range(CASES):
            random = Random(seed + number)
            case(Choices(random.randrange))


# our reading


class Answers:
    """What reached a handler or an application, and answers at once."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[tuple[bytes, bytes]], bytes]] = []

    def handle(self, exchange: RequestContext, body: bytes) -> None:
        """Take a webhook."""
        assert exchange.head.length in {None, len(body)}
        self.requests.append((exchange.head.method, exchange.head.fields, body))
        exchange.respond(200, [], b"ok")

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take anything else."""
        body, message = b"", await receive()
        while message["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                self.requests.append((scope["method"], scope["headers"], body))
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"ok"})
                return
            message = await receive()


EMPTY_LINES = re.compile(rb"\A(?:\r\n)+")
CHANGING = re.compile(
    rb"HTTP/1.1 100 Continue\r\n\r\n|(?:date|content-length): [^\r]*\r\n|req_[0-9a-z]+-[0-9a-f]+"
)


async def read(packets: list[bytes], state: ServerState, answers: Answers) -> bytes:
    """Return what is answered, without what changes every time; nothing is left behind."""
    answers.requests.clear()
    connection, transport = HttpConnection(state), Transport()
    connection.connection_made(transport)
    for packet in packets:
        connection.data_received(packet)
        if state.in_flight:
            await settle(transport)
    connection.connection_lost(None)
    if state.in_flight:
        await settle(transport)
    assert (state.in_flight, state.body_bytes, state.connections.open) == (0, 0, set())
    return CHANGING.sub(b"", transport.written) + (b" closed" if transport.ended else b"")


async def settle(transport: Transport) -> None:
    """Let an application answer as much as it can."""
    before = -1
    while before < len(transport.written):
        before = len(transport.written)
        for _ in range(4):
            await asyncio.sleep(0)


def report(kind: str, counts: Counter[str]) -> None:
    """Print how much was tried, and make sure that it was not all refused."""
    sys.stdout.write(f"{kind}: {dict(counts)}\n")
    assert counts["cases"] >= CASES
    assert counts["accepted"] > counts["cases"] / 10
    assert counts["refused"] > counts["cases"] / 10


def test_same_bytes_get_the_same_answers_in_any_packets() -> None:
    counts: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        answers = Answers()
        state = runner.run(started(answers, MAX_BODY))

        def compare(choose: Choices) -> None:
            data = stream(choose)
            whole = runner.run(read([data], state, answers))
            requests = list(answers.requests)
            counts.update(["cases", "accepted" if requests else "refused"])
            bytewise = [data[n : n + 1] for n in range(len(data))]
            for packets in (bytewise, cut(choose, data)):
                assert runner.run(read(packets, state, answers)) == whole
                assert answers.requests == requests

        try_out(compare)
    report("in any packets", counts)


async def started(answers: Answers, max_body: int) -> ServerState:
    limits = HttpSettings(headers=600, header_count=8, body=max_body)
    return ServerState(answers.app, limits, Telemetry(), answers.handle)


# another reader


def read_by_h11(data: bytes) -> Iterator[tuple[str, list[tuple[bytes, bytes]], bytes]]:
    """Yield method, headers and body of whole requests, until the first error."""
    with suppress(h11.RemoteProtocolError):
        while data:
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=100_000)
            # Empty lines between requests are ignored here, but not by h11.
            connection.receive_data(EMPTY_LINES.sub(b"", data))
            request, body = connection.next_event(), b""
            if not isinstance(request, h11.Request):
                return
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
            if not isinstance(event, h11.EndOfMessage):
                return
            yield request.method.decode(), list(request.headers), body
            connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE:
                return
            data, _ = connection.trailing_data


def test_every_request_accepted_here_is_the_same_to_another_reader() -> None:
    """We may refuse more than h11, but what we accept has one reading, the same as h11's."""
    counts: Counter[str] = Counter()
    with asyncio.Runner() as runner:
        answers = Answers()
        state = runner.run(started(answers, 100 * MAX_BODY))

        def compare(choose: Choices) -> None:
            data = stream(choose)
            runner.run(read([data], state, answers))
            theirs = list(read_by_h11(data))
            counts.update(["cases", "accepted" if answers.requests else "refused"])
            for ours, other in zip(answers.requests, theirs, strict=False):
                assert ours == other
                counts["compared"] += 1
            if len(answers.requests) > len(theirs):
                counts["refused by h11 only"] += 1
                assert b" ;" in data  # it takes no blank before an extension

        try_out(compare)
    report("against h11", counts)
