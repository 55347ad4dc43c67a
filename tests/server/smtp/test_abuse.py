"""No client gets more than its share, more memory, or anything into a log."""

import asyncio
import gc
import logging
import os
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncebox.errors import DiskFull, RowRefused, StoreError, StoreUnavailable
from tests.support.http import until
from tests.support.mail import PLAIN, SHORT, MailServer, receiving

FROM = "MAIL FROM:<ann@example.com>"
CANARY = "canary-of-the-client"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[MailServer]:
    async with receiving(tmp_path, size=100_000, stop_within=1) as server:
        yield server
        server.hang_up()


def resident() -> int:
    """Return the bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a folder that changes while it is read


async def test_authentication_is_neither_offered_nor_heard(
    server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    """T2."""
    line = await server.line()
    with caplog.at_level(logging.DEBUG):
        reply = await line.ask(f"AUTH PLAIN {CANARY}")
    line.close()

    assert reply.startswith("502 5.5.1 ")
    assert CANARY not in caplog.text


async def test_an_endless_line_ends_early_and_is_not_kept(tmp_path: Path) -> None:
    """T3, with less than 300 MiB: what counts is that nothing of it stays."""
    async with receiving(tmp_path, size=25 * 1024 * 1024) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
        before, piece, sent = resident(), b"A" * 65_536, 0
        try:
            while sent < 100 * 1024 * 1024:
                line.send(piece)
                await line.drain()
                sent += len(piece)
        except ConnectionError:
            pass
        grown = resident() - before
        last_words = await line.end()
        line.close()

    assert sent <= 40 * 1024 * 1024  # what lies in the system's own buffers is not ours
    assert grown < 64 * 1024 * 1024
    assert last_words in {b"", b"552 5.3.4 the mail is too large\r\n"}
    assert server.shelf.mails == []


async def test_a_mail_has_a_size(server: MailServer) -> None:
    """T4."""
    row = b"x" * 98 + b"\r\n"
    line = await server.line()
    replies = [
        await line.mail(row * 1_000),
        await line.mail(row * 999 + b"x" + row),
        await line.ask(f"{FROM} SIZE=100001"),
        await line.ask(f"{FROM} SIZE=100000"),
    ]
    line.close()

    assert [reply[:9] for reply in replies] == ["250 2.0.0", "552 5.3.4", "552 5.3.4", "250 2.1.0"]
    assert [len(body) for body in server.shelf.bodies] == [100_000]


async def test_a_flood_of_recipients_stops_at_the_limit(tmp_path: Path) -> None:
    """T5."""
    names = [f"n{number}" for number in range(150)]
    async with receiving(tmp_path, local=names) as server:
        line = await server.line()
        await line.codes(FROM)
        flood = "".join(f"RCPT TO:<{name}@oncebox.test>\r\n" for name in names) * 40
        line.send(flood.encode())
        codes = [(await line.reply())[:9] for _ in range(6_000)]
        reply = await line.ask("DATA")
        line.send(PLAIN + b".\r\n")
        assert (await line.reply()).startswith("250 ")
        line.close()

    assert codes[:100] == ["250 2.1.5"] * 100
    assert set(codes[100:]) == {"452 4.5.3"}
    assert reply.startswith("354 ")
    assert len(server.shelf.mails[0][0].recipients) == 100


async def test_one_address_has_its_share_and_others_are_served(tmp_path: Path) -> None:
    """T6, with fewer connections."""
    async with receiving(tmp_path, connections_per_address=20, connections=30) as server:
        flood = [await server.connect() for _ in range(60)]
        greetings = [(await line.reply())[:9] for line in flood]
        async with asyncio.timeout(1):
            other = await server.line("127.0.0.2")
            assert (await other.mail(PLAIN)).startswith("250 ")
        many = [await server.connect(f"127.0.0.{number}") for number in range(3, 20)]
        later = [(await line.reply())[:9] for line in many]
        for line in (*flood, *many, other):
            line.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)
        again = await server.line()
        again.close()
        refused = server.count("oncebox_smtp_refused_total", code="421")

    assert refused == server.count("oncebox_smtp_ended_total", why="too_many") == 48
    assert sorted(greetings) == ["220 mx.on"] * 20 + ["421 4.7.0"] * 40
    assert later == ["220 mx.on"] * 9 + ["421 4.7.0"] * 8


@pytest.mark.parametrize(("command", "most"), [("XYZZY", 21), ("RSET", 101), ("EHLO x", 101)])
async def test_clients_without_mail_are_let_go(server: MailServer, command: str, most: int) -> None:
    """T8."""
    line = await server.line()
    line.send(f"{command}\r\n".encode() * 10_000)
    text = (await line.end()).decode()
    replies = [reply for reply in text.splitlines() if reply[3:4] == " "]
    line.close()

    assert len(replies) <= most
    assert replies[-1].startswith("421 4.7.0 ")


@pytest.mark.parametrize("how", ["reset", "half_close", "close"])
@pytest.mark.parametrize("size", [1_000, 400_000])
async def test_half_a_mail_is_no_mail_and_leaves_nothing_behind(
    tmp_path: Path, how: str, size: int
) -> None:
    """T9."""
    async with receiving(tmp_path, spool_from=50_000) as server:
        warm = await server.line()
        warm.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)
        before = open_files()
        for _ in range(5):
            line = await server.line()
            await line.begin("a@oncebox.test")
            line.send((b"x" * 98 + b"\r\n") * (size // 100))
            await line.drain()
            getattr(line, how)()
            await until(lambda: server.count("oncebox_smtp_open") == 0)
            line.close()
        gc.collect()
        await until(lambda: open_files() <= before)
        left = [*tmp_path.iterdir()]  # noqa: ASYNC240 - a test may look

    assert left == []
    assert server.shelf.mails == []


async def test_who_pipelines_everything_and_hangs_up_still_hears_the_answers(
    server: MailServer,
) -> None:
    server.shelf.gate.clear()
    line = await server.connect()
    line.send(
        b"EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<a@oncebox.test>\r\nDATA\r\n.\r\nQUIT\r\n"
    )
    line.half_close()
    await asyncio.sleep(0.1)
    server.shelf.gate.set()
    text = (await line.end()).decode()
    line.close()

    assert [reply[:3] for reply in text.splitlines()[-4:]] == ["250", "354", "250", "221"]
    assert server.shelf.bodies == [b""]


async def test_who_drops_before_the_answer_has_left_a_mail(server: MailServer) -> None:
    """T10: and its repeat is the ledger's business."""
    server.shelf.gate.clear()
    line = await server.line()
    await line.begin("a@oncebox.test")
    line.send(PLAIN + b".\r\n")
    await asyncio.sleep(0.1)
    line.reset()
    await until(lambda: server.count("oncebox_smtp_open") == 0)
    server.shelf.gate.set()

    await until(lambda: server.shelf.bodies == [PLAIN])


@pytest.mark.parametrize(
    ("failure", "reply"),
    [
        (StoreUnavailable(f"{CANARY}: /var/lib/x is locked"), "451 4.3.0"),
        (RowRefused(CANARY), "451 4.3.0"),
        (RuntimeError(f"database is locked: {CANARY}"), "451 4.3.0"),
        (OSError(5, CANARY), "451 4.3.0"),
        (DiskFull(CANARY), "452 4.3.1"),
        (OSError(28, CANARY), "452 4.3.1"),
    ],
)
@pytest.mark.parametrize("size", [100, 90_000], ids=["small", "spooled"])
async def test_trouble_of_ours_is_never_held_against_the_mail(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    failure: Exception,
    reply: str,
    size: int,
) -> None:
    """T11."""
    mail = (b"x" * 98 + b"\r\n") * (size // 100)
    async with receiving(tmp_path, size=100_000, spool_from=10_000) as server:
        line = await server.line()
        server.shelf.failure = failure
        with caplog.at_level(logging.DEBUG):
            refused = await line.mail(mail)
        server.shelf.failure = None
        taken = await line.mail(mail)
        line.close()

    assert refused.startswith(f"{reply} ")
    assert CANARY not in refused + caplog.text
    assert taken.startswith("250 ")
    counts = re.findall(r"\noncebox_store_errors_total{.*} (.*)", server.telemetry.scrape())
    counted = any(map(float, counts))
    assert counted is isinstance(failure, StoreError)


async def test_a_directory_that_is_down_says_later(server: MailServer) -> None:
    server.directory.is_down = True
    line = await server.line()
    refused = await line.codes(FROM, "RCPT TO:<a@oncebox.test>", "DATA")
    server.directory.is_down = False
    accepted = await line.codes("RCPT TO:<a@oncebox.test>", "DATA")
    line.close()

    assert (refused, accepted) == ([250, 451, 554], [250, 354])


@pytest.mark.parametrize(
    "path",
    [
        b"../../etc/x@oncebox.test", b"a\x00b@oncebox.test", b'"a\rb"@oncebox.test',
        b"@r1,@r2:u@oncebox.test", b"u%evil@oncebox.test", b"a" * 400 + b"@oncebox.test",
        b"u@[127.0.0.1]",
    ],
)  # fmt: skip
async def test_what_is_no_plain_address_is_refused_and_never_quoted(
    server: MailServer, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """T13."""
    line = await server.line()
    with caplog.at_level(logging.DEBUG):
        await line.ask(FROM)
        reply = await line.ask(b"RCPT TO:<" + path + b">")
    line.close()

    assert reply[:3] in {"500", "501"}
    assert "evil" not in reply + caplog.text
    assert server.directory.asked == []


async def test_addresses_beyond_ascii_need_to_be_announced(server: MailServer) -> None:
    """T14."""
    server.directory.places["jürgen"] = server.directory.places["a"]
    line = await server.line()
    codes = await line.codes(
        FROM,
        "RCPT TO:<jürgen@oncebox.test>",
        "RSET",
        f"{FROM} SMTPUTF8",
        "RCPT TO:<jürgen@oncebox.test>",
        "RCPT TO:<ju\u0308rgen@oncebox.test>",
        "RCPT TO:<jürgen\u202e@oncebox.test>",
        "DATA",
    )
    line.send(PLAIN + b".\r\n")
    await line.reply()
    line.close()

    assert codes == [250, 553, 250, 250, 250, 250, 501, 354]
    ((envelope, _),) = server.shelf.mails
    assert [to.address for to in envelope.recipients] == ["jürgen@oncebox.test"]


async def test_unknown_extensions_change_nothing(server: MailServer) -> None:
    """T15."""
    line = await server.line()
    codes = await line.codes(
        f"{FROM} BODY=BINARYMIME", "BDAT 0 LAST", f"{FROM} XYZ=1", FROM, "BDAT 0 LAST",
        "RCPT TO:<a@oncebox.test>", "DATA",
    )  # fmt: skip
    line.close()

    assert codes == [555, 502, 555, 250, 502, 250, 354]


async def test_nobody_can_claim_to_be_another(server: MailServer) -> None:
    """T16."""
    liar = await server.connect()
    liar.send(b"PROXY TCP4 198.51.100.1 192.0.2.1 1234 25\r\n")
    await liar.reply()
    refused = await liar.reply()
    last_words = await liar.end()
    line = await server.line()
    await line.mail(PLAIN)
    for each in (liar, line):
        each.close()

    assert (refused[:3], last_words) == ("500", b"")
    assert [told.client for told, _ in server.shelf.mails] == ["127.0.0.1"]


@pytest.mark.parametrize(
    "name",
    [b"a\x1b[2Jb", b"a\rb", b"x" * 4_096, b"a\x9b31m", b"a b", b"\xe2\x80\xae"],
    ids=["ansi", "cr", "long", "c1", "space", "bidi"],
)
async def test_a_name_that_is_no_name_is_refused(
    server: MailServer, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """T17."""
    line = await server.connect()
    await line.reply()
    with caplog.at_level(logging.DEBUG):
        reply = await line.ask(b"EHLO " + name)
    line.close()

    assert reply[:3] in {"500", "501"}
    assert caplog.text == ""


async def test_nothing_a_client_says_enters_a_log_or_a_metric(
    server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    line = await server.connect()
    with caplog.at_level(logging.DEBUG):
        await line.reply()
        await line.codes(
            f"EHLO {CANARY}", f"MAIL FROM:<{CANARY}@example.com>",
            f"RCPT TO:<{CANARY}@oncebox.test>", f"RCPT TO:<a+{CANARY}@oncebox.test>", "DATA",
        )  # fmt: skip
        server.shelf.failure = StoreUnavailable(CANARY)
        line.send(f"Subject: {CANARY}\r\n\r\n.\r\n{CANARY}\r\n".encode())
        await line.reply()
        await line.reply()
    line.close()

    assert "smtp_temporary_failure" in caplog.text
    assert CANARY not in caplog.text + server.telemetry.scrape()


async def test_a_client_that_does_not_read_is_not_read_either(tmp_path: Path) -> None:
    async with receiving(tmp_path, **SHORT, junk=10_000_000, errors=10_000_000) as server:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", server.port))
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            before = resident()
            flood = asyncio.create_task(loop.sock_sendall(deaf, b"NOOP\r\n" * 20_000_000))
            await until(lambda: server.count("oncebox_smtp_ended_total", why="slow_command") == 1)
            grown = resident() - before
            flood.cancel()
            await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert grown < 200 * 1024 * 1024
