"""Whatever the bytes are, a mail comes out, and it can be stored."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.mail import parser as parsing
from oncebox.mail.limits import WARNING_MEANINGS
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus
from tests.mail.mails import LIMITS, alternative, html, nested, plain

SEEDS = [
    plain(),
    plain("Hello\r\n> quoted \r\n", content_type="text/plain; format=flowed; charset=utf-8"),
    html("<style>.h{display:none}</style><p class=h style='color:#fff'>x<a href='y'>z</a><!--c-->"),
    alternative("Your code is 482913", "<table bgcolor='#fff'><td style='font-size:0'>4829</td>"),
    nested(5),
    b'From: =?utf-8?q?a=40b?= <c@d.example>, "e" (f) <g@h.example>;\r\nTo: i:j@k.example;\r\n\r\n',
    plain(
        b"--b\r\nContent-Disposition: attachment; filename*0*=utf-8''a%2F; filename*1=b\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--b--\r\n",
        content_type='multipart/mixed; boundary="b"',
    ),
    b"Subject: =?gb18030?b?hDGkNw==?= =?big5?q?=81?= =?iso-2022-kr?q?=1B=24=29C=0E?=\r\n\r\n",
]  # fmt: skip
PIECES = [
    b"\r\n", b"\n", b"\r", b"\x00", b"\xff", b"--b\r\n", b"--b--", b"Content-Type: text/html\r\n",
    b"Content-Type: multipart/alternative; boundary=b\r\n", b"charset=gb18030", b"charset=idna",
    b"=?utf-8?b?////?=", b"=?utf-16?q?=D8=00?=", b"\xed\xa0\x80", b"&#xD800;", b"From: a@b\r\n",
    b"<div style='color:#", b"<style>@media{", b"<template>", b"\xf4\x90\x80\x80", b"(", b'"', b"<",
    b"Date: Mon, 99 Foo 0 25:61:61 +9999\r\n", b"a@xn--\xff", b"\\", b"%", b"*", b"=", b"\x1b$B",
    b"<style>a . >{display:none}",
]  # fmt: skip


def _edited(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for place, dropped, inserted in edits:
        at = int(place * len(seed))
        seed = seed[:at] + inserted + seed[at + dropped :]
    return seed


mutated = st.builds(
    _edited,
    st.sampled_from(SEEDS),
    st.lists(
        st.tuples(
            st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.binary(max_size=4)
        ),
        min_size=1,
        max_size=6,
    ),
)
made = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=40).map(b"".join)
many = settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@many
@given(st.binary(max_size=300) | made | mutated)
def test_any_bytes_become_a_message_that_can_be_stored(raw: bytes) -> None:
    parsed = parsing._parse(raw, LIMITS)  # what it is before the net catches it

    assert parsed.status in {ParseStatus.PARSED, ParseStatus.LIMITED}
    packed = msgspec.msgpack.encode(parsed)  # no lone surrogate, no oversized number
    assert msgspec.msgpack.decode(packed, type=ParsedMail) == parsed
    assert b"\\u0000" not in msgspec.json.encode(parsed)  # some stores cannot hold it
    assert set(parsed.warnings) <= set(WARNING_MEANINGS)
    assert len(parsed.identity) in {0, 32}
    assert len(parsed.outline) == 32


@many
@given(made | mutated)
def test_the_same_bytes_are_always_the_same_message(raw: bytes) -> None:
    assert parsing.parse(raw, LIMITS) == parsing.parse(raw, LIMITS)


def test_an_error_of_ours_costs_a_mail_its_structure_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("oncebox.mail.mime.parts.leaf_parts", broken)

    assert parsing.parse(plain(), LIMITS) == ParsedMail(status=ParseStatus.UNPARSED)
