"""Another server's word on the grammar, where it is right: aiosmtpd hears what we hear."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP

from tests.support.mail import Line, receiving

#: commands that both must judge alike, by the first digit of the reply
AGREED = (
    ("NOOP",),
    ("HELP",),
    ("VRFY ann@example.com",),
    ("RSET",),
    ("EXPN list",),
    ("XYZZY",),
    ("EHLO",),
    ("HELO",),
    ("MAIL",),
    ("MAIL FROM:",),
    ("MAIL FROM:<ann@example.com> SIZE=10",),
    ("MAIL FROM:<ann@example.com> SIZE=x",),
    ("MAIL FROM:<ann@example.com> SIZE=99999999999",),
    ("MAIL FROM:<ann@example.com> BODY=8BITMIME",),
    ("MAIL FROM:<ann@example.com> BODY=9BIT",),
    ("MAIL FROM:<ann@example.com> XYZ=1",),
    ("MAIL FROM:<>",),
    ("mail from:<Ann@Example.com>",),
    ("MAIL FROM: <ann@example.com>",),
    ("MAIL FROM:<ann@example.com>", "MAIL FROM:<ann@example.com>"),
    ("RCPT TO:<a@oncebox.test>",),
    ("MAIL FROM:<ann@example.com>", "RCPT"),
    ("MAIL FROM:<ann@example.com>", "RCPT TO:"),
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<a@oncebox.test>", "RCPT TO:<b@oncebox.test>"),
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<a@oncebox.test> XYZ=1"),
    ("MAIL FROM:<ann@example.com>", "DATA"),
    ("DATA",),
    ("DATA now",),
    ("MAIL FROM:<ann@example.com>", "RSET", "RCPT TO:<a@oncebox.test>"),
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<a@oncebox.test>", "DATA", "x\r\n..y\r\n.", "NOOP"),
    ("QUIT",),
)
#: where it is not: what it takes and we do not, each with the reason
STRICTER = {
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<>"): "nobody is no recipient",
    ("MAIL FROM:ann@example.com",): "a path stands in angle brackets",
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<../../etc/x@oncebox.test>"): "no dots in a row",
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<u%evil@oncebox.test>"): "no routing in an address",
    ("MAIL FROM:<ann@example.com>", f"RCPT TO:<{'a' * 400}@oncebox.test>"): "64 bytes at most",
    ("MAIL FROM:<ann@example.com>", "RCPT TO:<@r1,@r2:a@oncebox.test>"): "no source routes",
    ("MAIL FROM:<a\x00b@example.com>",): "no controls",
}


class Taking:
    """Takes every mail."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - its own name
        self.bodies.append(envelope.content)
        return "250 ok"


@asynccontextmanager
async def oracle() -> AsyncIterator[tuple[int, Taking]]:
    """Serve the other server on a free port."""
    taking = Taking()
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(taking, hostname="mx.oncebox.test", enable_SMTPUTF8=True), "127.0.0.1", 0
    )
    async with server:
        yield server.sockets[0].getsockname()[1], taking


async def answers(port: int, commands: tuple[str, ...]) -> list[str]:
    """Return the first digits of the replies."""
    line = Line(*await asyncio.open_connection("127.0.0.1", port))
    await line.hello()
    found = [(await line.ask(command))[0] for command in commands]
    line.close()
    return found


@pytest.mark.parametrize("commands", AGREED, ids=map(str, range(len(AGREED))))
async def test_both_judge_alike(tmp_path: Path, commands: tuple[str, ...]) -> None:
    async with oracle() as (port, taking), receiving(tmp_path) as server:
        theirs, ours = await answers(port, commands), await answers(server.port, commands)

    assert ours == theirs
    assert server.shelf.bodies == taking.bodies


@pytest.mark.parametrize("commands", STRICTER, ids=lambda commands: STRICTER[commands])
async def test_where_it_is_too_kind_we_are_not(tmp_path: Path, commands: tuple[str, ...]) -> None:
    async with oracle() as (port, _), receiving(tmp_path) as server:
        theirs, ours = await answers(port, commands), await answers(server.port, commands)

    assert (theirs[-1], ours[-1]) == ("2", "5")
