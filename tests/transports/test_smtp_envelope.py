"""Envelopes: what no server is told, what only some are, and how a mail looks on the wire."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.sends.transports import SendAccepted, SendPhase, SendRejected
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports import smtp
from oncebox.transports.smtp_connection import dot_stuff
from tests.transports.handover import MESSAGE, Marks, parcel, to

MANY = tuple(f"r{number}@example.net" for number in range(10_000))
EVIL = [
    "", "bob", "@example.net", "bob@", "bob@@example.net", "bob@example.net\r\nRSET",
    "bob\n@example.net", "bob\0@example.net", "bob @example.net", "bob@example.net> SIZE=1",
    "<bob@example.net>", "bob@exa\u2028mple.net", "@a,@b:bob@example.net", "bob\ud800@example.net",
    '"bob\r"@example.net', "x" * 300 + "@example.net", "bob@\u00a0example.net",
    "bob@xn--\u00fc.net",
]  # fmt: skip


@pytest.mark.parametrize("address", EVIL)
async def test_what_is_no_address_is_never_said(address: str) -> None:
    async with ScriptedSmtp() as server:
        way = to(server)
        outcome = await way.send(parcel(recipients=("kim@example.net", address)), Marks())
        sender = await way.send(parcel(sender=address or "x"), Marks())

    assert outcome == SendRejected(code="recipient_invalid", phase=SendPhase.CONNECT)
    assert sender == SendRejected(code="sender_invalid", phase=SendPhase.CONNECT)
    assert server.connections == 0


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"recipients": ()}, "no_recipient"),
        ({"recipients": MANY}, "too_many_recipients"),
        ({"message": b"Subject: x\n\nbody\r\n"}, "message_malformed"),
        ({"message": b"Subject: x\r\n\r\nbody\r.\r\n"}, "message_malformed"),
        ({"message": b"Subject: x\r\n\r\n\n.\r\rbody"}, "message_malformed"),
        ({"message": b"Subject: x\r\n\r\nbody\r"}, "message_malformed"),
        ({"message": b"Subject: x\r\n\r\nbo\0dy\r\n"}, "message_malformed"),
        ({"message": b"Subject: x\r\n\r\n" + b"x" * 999 + b"\r\n"}, "line_too_long"),
    ],
)
async def test_what_no_server_may_get_is_refused_by_us(changed: dict[str, Any], code: str) -> None:
    async with ScriptedSmtp() as server:
        outcome = await to(server).send(parcel(**changed), Marks())

    assert outcome == SendRejected(code=code, phase=SendPhase.CONNECT)
    assert server.connections == 0


@pytest.mark.parametrize(
    ("changed", "offered", "code"),
    [
        ({"recipients": ("jürgen@example.net",)}, ["8BITMIME"], "smtputf8_missing"),
        ({"sender": "jürgen@example.net"}, ["8BITMIME"], "smtputf8_missing"),
        ({"message": "Subject: ü\r\n\r\n".encode()}, ["8BITMIME"], "smtputf8_missing"),
        ({"message": b"Subject: x\r\n\r\n\xfc\r\n"}, ["SMTPUTF8"], "eightbitmime_missing"),
        ({"message": b"Subject: x\r\n\r\n" + b"y\r\n" * 50}, ["SIZE 100"], "message_too_large"),
    ],
)
async def test_what_a_server_does_not_offer_is_not_asked_of_it(
    changed: dict[str, Any], offered: list[str], code: str
) -> None:
    async with ScriptedSmtp(extensions=offered) as server:
        way, marks = to(server), Marks()
        outcome = await way.send(parcel(**changed), marks)
        await way.close()

    assert outcome == SendRejected(code=code, phase=SendPhase.GREETED)
    assert (marks.asked, server.accepted) == (0, [])
    assert not any(each.startswith("MAIL") for each in server.commands)


@pytest.mark.parametrize(
    ("changed", "offered", "options"),
    [
        ({}, [], ()),
        ({}, ["SIZE"], (f"SIZE={len(MESSAGE)}",)),
        ({}, ["SIZE 0", "8BITMIME", "SMTPUTF8"], (f"SIZE={len(MESSAGE)}",)),
        ({"message": b"Subject: x\r\n\r\n\xfc\r\n"}, ["8BITMIME"], ("BODY=8BITMIME",)),
        ({"recipients": ("jürgen@example.net",)}, ["SMTPUTF8"], ("SMTPUTF8",)),
        ({"recipients": ("bob@münchen.example",)}, [], ()),
        ({"sender": ""}, [], ()),
    ],
)
async def test_what_a_server_offers_is_used_only_where_it_is_needed(
    changed: dict[str, Any], offered: list[str], options: tuple[str, ...]
) -> None:
    async with ScriptedSmtp(extensions=offered) as server:
        way = to(server)
        assert isinstance(await way.send(parcel(**changed), Marks()), SendAccepted)
        await way.close()

    (mail,) = server.accepted
    assert mail.options == options
    assert mail.recipients[0].partition("@")[2].isascii()


lines = st.lists(st.sampled_from([b"", b".", b"..", b"a", b".a", b"a.", b" ."]))


@given(lines, st.booleans())
def test_a_stuffed_mail_has_no_dot_of_its_own_and_is_read_back(
    lines: list[bytes], ended: bool
) -> None:
    message = b"\r\n".join(lines) + (b"\r\n" if ended else b"")

    wire = dot_stuff(message)

    assert b"\r\n.\r\n" not in b"\r\n" + wire
    assert wire.endswith(b"\r\n") or not wire
    read = b"".join(line.removeprefix(b".") for line in wire.splitlines(keepends=True))
    assert read.removesuffix(b"\r\n") == message.removesuffix(b"\r\n")


@given(st.binary(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_no_line_of_an_envelope_is_two(message: bytes, local: str, domain: str) -> None:
    tried = parcel(message=message, recipients=(f"{local}@{domain}",))

    if smtp.find_flaw(tried, 100) is None:
        for _, line in smtp.envelope_commands(tried, {"size": "", "smtputf8": "", "8bitmime": ""}):
            assert not set(line) & {0, 10, 13}
            assert line.count(b"<") == line.count(b">") == 1
        assert b"\r\n.\r\n" not in dot_stuff(message)
