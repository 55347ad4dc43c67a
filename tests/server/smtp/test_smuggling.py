"""No sequence of bytes makes two mails of one, or lets a mail speak for the client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.mail import MailServer, receiving

SMUGGLED = (
    b"MAIL FROM:<admin@victim.example>\r\nRCPT TO:<c@oncebox.test>\r\nDATA\r\n"
    b"Subject: smuggled\r\n\r\nevil\r\n.\r\n"
)
FALSE_ENDS = {
    "S1": b"\n.\n",
    "S2": b"\n.\r\n",
    "S3": b"\r\n.\n",
    "S4": b"\r.\r",
    "S5": b"\r.\r\n",
    "S6": b"\r\n.\r",
    "S7": b"\r\n\x00.\r\n",
    "S8": b"\r\n.\r\r\n",
    "S9a": b"\n\n.\r\r\n",
    "S9b": b"\r\n\x0b.\r\n",
    "S9c": b"\r\n \r.\r\n",
}
#: those without a bare CR or LF are no end, but no harm either
HARMLESS = {"S7", "S9b"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[MailServer]:
    async with receiving(tmp_path) as server:
        yield server
        server.hang_up()


@pytest.mark.parametrize("name", FALSE_ENDS)
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in-pieces"])
async def test_a_false_end_is_none(server: MailServer, name: str, in_pieces: bool) -> None:
    data = b"Subject: one\r\n\r\nbody" + FALSE_ENDS[name] + SMUGGLED
    line = await server.line()
    await line.begin("a@oncebox.test")
    for piece in [data[place : place + 1] for place in range(len(data))] if in_pieces else [data]:
        line.send(piece)
        await line.drain()
    reply = await line.reply()
    if name in HARMLESS:
        assert reply.startswith("250 ")
        assert server.shelf.bodies == [data.removesuffix(b".\r\n")]
    else:
        assert reply.startswith("550 5.5.2 ")
        assert await line.end() == b""
        assert server.shelf.mails == []
    assert "admin@victim.example" not in [told.sender for told, _ in server.shelf.mails]
    line.close()


async def test_behind_the_true_end_a_client_may_go_on_at_once(server: MailServer) -> None:
    """S10: it is the client's own second mail."""
    line = await server.line()
    await line.begin("a@oncebox.test")
    line.send(b"Subject: one\r\n\r\nbody\r\n.\r\n" + SMUGGLED)
    replies = [(await line.reply())[:3] for _ in range(5)]
    line.close()

    assert replies == ["250", "250", "250", "354", "250"]
    first, second = (told for told, _ in server.shelf.mails)
    assert (first.sender, second.sender) == ("ann@example.com", "admin@victim.example")
    assert first.client == second.client == "127.0.0.1"
    assert [to.address for to in second.recipients] == ["c@oncebox.test"]


async def test_a_bare_lf_anywhere_in_a_mail_refuses_it(server: MailServer) -> None:
    """S11."""
    line = await server.line()
    reply = await line.mail(b"Subject: one\r\n\r\nfirst\nsecond\r\n")
    line.close()

    assert reply.startswith("550 5.5.2 ")
    assert server.shelf.mails == []


async def test_dots_are_unstuffed(server: MailServer) -> None:
    """S12."""
    line = await server.line()
    assert (await line.mail(b"..\r\n.x\r\n...\r\n")).startswith("250 ")
    line.close()

    assert server.shelf.bodies == [b".\r\nx\r\n..\r\n"]


async def test_a_command_that_ends_with_a_bare_lf_is_refused_at_once(server: MailServer) -> None:
    """S13."""
    line = await server.connect()
    await line.reply()
    line.send(b"EHLO x\n")
    reply = await line.reply()
    again = await line.ask("MAIL FROM:<ann@example.com>")
    line.close()

    assert reply.startswith("500 ")
    assert again.startswith("503 ")
