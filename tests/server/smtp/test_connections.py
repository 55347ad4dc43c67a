"""No client keeps the server waiting, no mail fills its memory, and stopping loses none."""

import asyncio
import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox.server.smtp.mail_spool import MailSpool, MemoryBudget
from tests.support.http import until
from tests.support.mail import PLAIN, SHORT, Line, MailServer, receiving

ROW = b"x" * 998 + b"\r\n"


def ended(server: MailServer, why: str) -> float:
    return server.count("oncebox_smtp_ended_total", why=why)


async def drip(line: Line, data: bytes, *, at_once: int = 1, pause: float = 0.05) -> None:
    """Send a little at a time."""
    for place in range(0, len(data), at_once):
        line.send(data[place : place + at_once])
        await asyncio.sleep(pause)


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# patience


async def test_a_silent_client_is_let_go(tmp_path: Path) -> None:
    """T7."""
    async with receiving(tmp_path, **SHORT) as server:
        line = await server.connect()
        await line.reply()
        last_words = await line.end()
        line.close()

        assert last_words.startswith(b"421 4.4.2 ")
        assert ended(server, "slow_command") == 1


async def test_a_dripping_command_is_cut_off_however_steadily_it_drips(tmp_path: Path) -> None:
    """T7."""
    async with receiving(tmp_path, **SHORT) as server:
        line = await server.line()
        dripping = asyncio.create_task(drip(line, b"NOOP " + b"x" * 300))
        last_words = await line.end()
        dripping.cancel()
        line.close()

    assert last_words.startswith(b"421 4.4.2 ")


async def test_a_dripping_mail_is_cut_off(tmp_path: Path) -> None:
    """T7."""
    async with receiving(tmp_path, **SHORT) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
        dripping = asyncio.create_task(drip(line, ROW))
        last_words = await line.end()
        dripping.cancel()
        line.close()

        assert last_words.startswith(b"421 4.4.2 ")
        assert ended(server, "slow_data") == 1
        assert server.shelf.mails == []


async def test_a_mail_that_keeps_the_pace_may_take_its_time(tmp_path: Path) -> None:
    async with receiving(tmp_path, **SHORT) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
        await drip(line, ROW * 2 + b".\r\n", at_once=80)
        reply = await line.reply()
        line.close()

    assert reply.startswith("250 ")


async def test_a_client_that_does_nothing_for_ever_is_let_go_in_the_end(tmp_path: Path) -> None:
    """T7."""
    async with receiving(tmp_path, **{**SHORT, "session_within": 1.0}) as server:
        line = await server.line()
        reply = ""
        while not reply.startswith("421"):
            line.send(b"NOOP\r\n")
            reply = await line.reply()
            await asyncio.sleep(0.1)
        line.close()

        assert reply.startswith("421 4.4.2 ")
        assert ended(server, "session_over") == 1


async def test_our_own_work_is_not_held_against_the_client(tmp_path: Path) -> None:
    async with receiving(tmp_path, **{**SHORT, "session_within": 1.0}) as server:
        server.shelf.gate.clear()
        line = await server.line()
        await line.begin("a@oncebox.test")
        line.send(PLAIN + b".\r\n")
        await asyncio.sleep(1.5)
        server.shelf.gate.set()
        reply = await line.reply()
        line.close()

    assert reply.startswith("250 ")


# order


async def test_commands_sent_at_once_are_answered_in_order_whatever_must_be_looked_up(
    tmp_path: Path,
) -> None:
    async with receiving(tmp_path) as server:
        server.directory.unknown_at_first = {"a", "nobody"}
        line = await server.line()
        line.send(
            b"MAIL FROM:<x@y.example>\r\nRCPT TO:<a@oncebox.test>\r\n"
            b"RCPT TO:<nobody@oncebox.test>\r\nRCPT TO:<b@oncebox.test>\r\nDATA\r\n"
            + PLAIN
            + b".\r\nNOOP\r\nQUIT\r\n"
        )
        codes = [int((await line.reply())[:3]) for _ in range(8)]
        assert await line.end() == b""
        line.close()

    assert codes == [250, 250, 550, 250, 354, 250, 250, 221]
    assert server.directory.asked == ["a", "nobody"]
    assert [to.address for to in server.shelf.mails[0][0].recipients] == [
        "a@oncebox.test",
        "b@oncebox.test",
    ]


async def test_a_client_far_ahead_of_us_must_wait(tmp_path: Path) -> None:
    """While one mail is stored, no more than a little of the next is read."""
    async with receiving(tmp_path) as server:
        server.shelf.gate.clear()
        line = await server.line()
        await line.begin("a@oncebox.test")
        line.send(
            PLAIN + b".\r\n" + b"MAIL FROM:<x@y.example>\r\nRCPT TO:<a@oncebox.test>\r\nDATA\r\n"
        )
        flood = asyncio.create_task(_flood(line, ROW * 20_000 + b".\r\n"))
        await asyncio.sleep(0.5)
        held = not flood.done()
        server.shelf.gate.set()
        codes = [int((await line.reply())[:3]) for _ in range(5)]
        await flood
        line.close()

    assert held
    assert codes == [250, 250, 250, 354, 250]
    assert [len(body) for body in server.shelf.bodies] == [len(PLAIN), 20_000_000]


async def _flood(line: Line, data: bytes) -> None:
    for place in range(0, len(data), 65_536):
        line.send(data[place : place + 65_536])
        await line.drain()


# large mails


@pytest.mark.parametrize("rows", [51, 300, 3_000])
async def test_a_large_mail_passes_through_a_file_without_a_name(tmp_path: Path, rows: int) -> None:
    async with receiving(tmp_path / "spool", spool_from=50_000) as server:
        line = await server.line()
        mail = b"".join(b"%07d" % number + ROW[7:] for number in range(rows))
        await line.begin("a@oncebox.test")
        await _flood(line, mail)
        names = [*tmp_path.rglob("*")]  # noqa: ASYNC240 - a test may look
        line.send(b".\r\n")
        reply = await line.reply()
        again = await line.mail(PLAIN)
        line.close()

    assert (reply[:3], again[:3]) == ("250", "250")
    assert server.shelf.bodies == [mail, PLAIN]
    assert names in ([tmp_path / "spool"], [])


async def test_what_is_in_the_file_of_a_large_mail_cannot_be_read(tmp_path: Path) -> None:
    """The file has no name, but a disk keeps what was on it."""
    async with receiving(tmp_path / "spool", spool_from=50_000) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
        await _flood(line, ROW * 300)
        await until(lambda: sum(map(len, _nameless(tmp_path))) >= 100_000)
        files = _nameless(tmp_path)
        line.send(b".\r\n")
        reply = await line.reply()
        line.close()

    assert reply[:3] == "250"
    assert server.shelf.bodies == [ROW * 300]
    assert not any(ROW[:16] in each for each in files)


def _nameless(folder: Path) -> list[bytes]:
    """Return what is in files of this process that were made in a folder and have no name."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since
            if each.readlink().is_relative_to(folder):
                found.append(each.read_bytes())
    return found


@pytest.mark.parametrize("dot_at_once", [True, False])
async def test_a_full_disk_is_told_and_forgotten(tmp_path: Path, dot_at_once: bool) -> None:
    async with receiving(tmp_path, spool_from=50_000) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
        with largest_file(100_000):
            await _flood(line, ROW * 400 + (b".\r\n" if dot_at_once else b""))
            if not dot_at_once:
                await asyncio.sleep(0.2)
                line.send(b".\r\n")
            refused = await line.reply()
        taken = await line.mail(ROW * 400)
        line.close()

    assert (refused[:9], taken[:3]) == ("452 4.3.1", "250")
    assert server.shelf.bodies == [ROW * 400]


async def test_a_folder_that_cannot_be_used_is_trouble_that_passes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    async with receiving(tmp_path / "file", spool_from=50_000) as server:
        line = await server.line()
        refused = await line.mail(ROW * 400)
        taken = await line.mail(PLAIN)
        line.close()

    assert (refused[:9], taken[:3]) == ("451 4.3.0", "250")


async def test_large_mails_are_committed_as_the_memory_allows(tmp_path: Path) -> None:
    async with receiving(tmp_path, spool_from=10_000, committing=1_000_000) as server:
        lines = [await server.line() for _ in range(6)]
        server.shelf.gate.clear()
        for line in lines:
            await line.begin("a@oncebox.test")
            line.send(ROW * 400 + b".\r\n")
        allowance = server.server._spool.memory
        await until(lambda: allowance.used == 800_000)
        await asyncio.sleep(0.2)
        at_once = allowance.used
        server.shelf.gate.set()
        replies = [(await line.reply())[:3] for line in lines]
        for line in lines:
            line.close()

    assert (at_once, replies) == (800_000, ["250"] * 6)
    assert allowance.used == 0


async def test_an_allowance_is_lent_in_line_and_given_back_by_who_gives_up() -> None:
    allowance, order = MemoryBudget(10), []

    async def take(name: str, size: int, hold: asyncio.Event) -> None:
        async with allowance.reserve(size):
            order.append(name)
            await hold.wait()

    first, later = asyncio.Event(), asyncio.Event()
    later.set()
    tasks = [asyncio.create_task(take("first", 8, first))]
    await asyncio.sleep(0)
    for name, size in (("giant", 99), ("impatient", 3), ("small", 1)):
        tasks.append(asyncio.create_task(take(name, size, later)))
        await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.sleep(0)
    first.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert order == ["first", "giant", "small"]
    assert allowance.used == 0


async def test_a_file_that_was_let_go_is_not_made_again(tmp_path: Path) -> None:
    spool = MailSpool(tmp_path, in_memory=100)
    file = spool.file()
    await file.add([b"a", b"bc"])
    before = await file.read()
    file.close()
    await file.add([b"late"])
    after = await file.read()
    spool.close()

    assert (before, after) == (b"abc", b"")


# stopping


async def test_stopping_lets_a_mail_finish_and_tells_those_who_only_wait(tmp_path: Path) -> None:
    async with receiving(tmp_path, stop_within=5.0) as server:
        waiting, begun, storing = [await server.line() for _ in range(3)]
        await begun.begin("a@oncebox.test")
        server.shelf.gate.clear()
        await storing.begin("b@oncebox.test")
        storing.send(PLAIN + b".\r\n")
        loop = asyncio.get_running_loop()
        loop.call_later(0.3, server.shelf.gate.set)
        loop.call_later(0.4, begun.send, PLAIN + b".\r\n")
    told = await waiting.end()
    answers = [await begun.end(), await storing.end()]
    for line in (waiting, begun, storing):
        line.close()

    assert told.startswith(b"421 4.3.2 ")
    for answer in answers:
        assert answer.startswith(b"250 2.0.0 stored\r\n421 4.3.2 ")
    assert sorted(server.shelf.bodies) == [PLAIN, PLAIN]


async def test_stopping_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with receiving(tmp_path, stop_within=0.2) as server:
        line = await server.line()
        await line.begin("a@oncebox.test")
    last_words = await line.end()
    line.close()

    assert last_words == b""


async def test_what_happens_is_counted(tmp_path: Path) -> None:
    async with receiving(tmp_path) as server:
        line = await server.line()
        await line.mail(PLAIN)
        await line.codes("XYZZY", "MAIL FROM:<a@b.example>", "RCPT TO:<nobody@oncebox.test>")

        assert server.count("oncebox_smtp_sessions_total") == 1
        assert server.count("oncebox_smtp_open") == 1
        assert server.count("oncebox_smtp_refused_total", code="500") == 1
        assert server.count("oncebox_smtp_refused_total", code="550") == 1
        line.close()
