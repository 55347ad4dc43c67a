"""The pool of parsers: a mail that harms its reader harms nothing else."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import uvloop

from oncebox.core.metrics import Telemetry
from oncebox.errors.mail import ParserUnavailable
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus
from oncebox.settings import ParserSettings
from oncebox.workers.mail.fair_queue import MailFlow, ParsingDeferred
from oncebox.workers.mail.parser_pool import FrameSplitter, ParserPool, child_count
from oncebox.workers.mail.parser_process import LENGTH_BYTES, ParserReply
from tests.mail.mails import alternative, plain, read

QUICK = ParserSettings(children=1, cpu=0.3, wall=5.0)
#: time that only a limit of its own keeps small
SLOW = plain(b"<div>" * 390_000, content_type="text/html")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
UNGUARDED = ParseLimits(nesting=10**9, tags=10**9)


@pytest.fixture
async def parsers() -> AsyncIterator[ParserPool]:
    async with ParserPool(QUICK, Telemetry(), UNGUARDED) as running:
        yield running


async def test_a_mail_is_read_as_it_would_be_here(parsers: ParserPool) -> None:
    raw = alternative("Hello", "<p>Hello</p>")

    assert await parsers.parse(raw) == read(raw)


async def test_many_at_a_time_get_their_own_answers(parsers: ParserPool) -> None:
    mails = [plain(f"mail {number}") for number in range(300)]
    every = await asyncio.gather(*map(parsers.parse, mails))

    assert [parsed.text for parsed in every] == [f"mail {number}" for number in range(300)]
    assert len(parsers.pids) == 1


async def test_large_mails_pass_both_ways(parsers: ParserPool) -> None:
    raw = plain(b"word " * 400_000)
    every = await asyncio.gather(*(parsers.parse(raw) for _ in range(8)))

    assert {len(parsed.text) for parsed in every} == {400_000 * 5 - 1}


async def test_a_mail_that_takes_too_long_costs_its_structure_and_no_neighbour_anything(
    parsers: ParserPool,
) -> None:
    await parsers.parse(plain())
    before = parsers.pids
    mails = [plain(f"mail {number}") for number in range(20)]
    mails.insert(2, SLOW)
    every = await asyncio.gather(*map(parsers.parse, mails))

    assert every.pop(2) == ParsedMail(status=ParseStatus.LIMITED)
    assert [parsed.text for parsed in every] == [f"mail {number}" for number in range(20)]
    assert parsers.pids != before


async def test_a_quick_pool_defers_a_slow_mail_and_keeps_its_child() -> None:
    settings = ParserSettings(children=1)
    async with ParserPool(settings, Telemetry(), UNGUARDED, quick=0.1) as parsers:
        await parsers.parse(plain())
        before = parsers.pids
        slow = asyncio.ensure_future(parsers.parse(SLOW, MailFlow("a", "inb_1")))
        other = asyncio.ensure_future(parsers.parse(plain("code"), MailFlow("b", "inb_2")))
        with pytest.raises(ParsingDeferred, match="slow"):
            await slow
        parsed = await other

        assert parsed.text == "code"
        assert parsers.pids == before


async def test_after_a_slow_mail_those_of_its_inbox_and_address_are_deferred_at_once() -> None:
    settings = ParserSettings(children=1)
    flow = MailFlow("a", "inb_1", "192.0.2.1")
    async with ParserPool(settings, Telemetry(), UNGUARDED, quick=0.1) as parsers:
        with pytest.raises(ParsingDeferred, match="slow"):
            await parsers.parse(SLOW, flow)
        with pytest.raises(ParsingDeferred, match="crowded"):
            await parsers.parse(plain("more"), flow)
        others = [flow._replace(inbox="inb_2"), flow._replace(address="192.0.2.2")]

        assert [(await parsers.parse(plain("code"), each)).text for each in others] == ["code"] * 2


async def test_a_mail_whose_turn_does_not_come_is_deferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncebox.workers.mail.parser_pool._PATIENCE", 0.05)
    settings = ParserSettings(children=1)
    async with ParserPool(settings, Telemetry(), quick=0.2) as parsers:
        await parsers.parse(plain())
        os.kill(parsers.pids[0], signal.SIGSTOP)
        waiting = [asyncio.ensure_future(parsers.parse(plain(str(n)))) for n in range(7)]
        ended = await asyncio.gather(*waiting[5:], return_exceptions=True)
        os.kill(parsers.pids[0], signal.SIGCONT)
        begun = await asyncio.gather(*waiting[:5])

    assert [str(each) for each in ended] == ["crowded"] * 2
    assert [each.text for each in begun] == list("01234")


async def test_the_mail_of_whoever_used_the_parsers_least_is_not_deferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oncebox.workers.mail.parser_pool._PATIENCE", 0.05)
    busy, quiet = MailFlow("a", "inb_1"), MailFlow("a", "inb_2")
    async with ParserPool(ParserSettings(children=1), Telemetry(), quick=0.2) as parsers:
        await parsers.parse(plain(), busy)
        os.kill(parsers.pids[0], signal.SIGSTOP)
        flood = [asyncio.ensure_future(parsers.parse(plain(str(n)), busy)) for n in range(20)]
        code = asyncio.ensure_future(parsers.parse(plain("code"), quiet))
        await asyncio.gather(*flood[4:], return_exceptions=True)
        os.kill(parsers.pids[0], signal.SIGCONT)

        assert (await code).text == "code"


async def test_a_flood_of_one_sender_does_not_delay_the_mail_of_another(
    parsers: ParserPool,
) -> None:
    """It is parsed after those that the child has already, and before the rest."""
    await parsers.parse(plain(), MailFlow("a", "inb_1"))
    order: list[str] = []

    async def parse(text: str, flow: MailFlow) -> None:
        order.append((await parsers.parse(plain(text), flow)).text)

    flood = [parse(f"flood {number}", MailFlow("a", "inb_1")) for number in range(40)]
    await asyncio.gather(*flood, parse("code", MailFlow("b", "inb_2")))

    assert order.index("code") <= 4


async def test_a_child_that_is_stopped_is_given_up_after_the_wall_limit() -> None:
    telemetry = Telemetry()
    async with ParserPool(ParserSettings(children=1, wall=0.5), telemetry) as parsers:
        await parsers.parse(plain())
        os.kill(parsers.pids[0], signal.SIGSTOP)
        first, second = await asyncio.gather(parsers.parse(plain("a")), parsers.parse(plain("b")))

    assert (first.status, second.text) == (ParseStatus.LIMITED, "b")
    assert 'oncebox_parser_deaths_total{cause="wall"} 1.0' in telemetry.scrape()


async def test_a_child_that_somebody_kills_costs_nothing(parsers: ParserPool) -> None:
    """The mail it was reading is read once more, with nothing beside it."""
    for _ in range(5):
        await parsers.parse(plain())
        waiting = [asyncio.ensure_future(parsers.parse(plain(str(n)))) for n in range(40)]
        await asyncio.sleep(0)
        os.kill(parsers.pids[0], signal.SIGKILL)
        every = await asyncio.gather(*waiting)

        assert [parsed.text for parsed in every] == [str(n) for n in range(40)]


async def test_a_mail_that_needs_too_much_memory_is_limited() -> None:
    settings = ParserSettings(children=1, memory=96)
    async with ParserPool(settings, Telemetry()) as parsers:
        large = plain(b"QUFB" * 12_000_000, content_type="a/b", content_transfer_encoding="base64")
        first, second = await asyncio.gather(parsers.parse(large), parsers.parse(plain("b")))

    assert first.status is ParseStatus.LIMITED
    assert second.text == "b"


async def test_a_mail_that_crashes_its_reader_twice_is_unparsed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A reader of our own that dies of one word stands in for a fault nobody knows yet."""
    _plant(tmp_path, monkeypatch, "os.kill(os.getpid(), 11) if b'deadly' in raw else None")
    async with ParserPool(QUICK, Telemetry()) as parsers:
        mails = [plain("a"), plain("deadly"), plain("b"), plain("c")]
        every = await asyncio.gather(*map(parsers.parse, mails))

    assert every.pop(1) == ParsedMail(status=ParseStatus.UNPARSED)
    assert [parsed.text for parsed in every] == ["a", "b", "c"]


async def test_a_verb_that_raises_answers_nothing_and_the_child_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _plant(tmp_path, monkeypatch, "1 / 0")
    async with ParserPool(QUICK, Telemetry()) as parsers:
        assert (await parsers.parse(plain())).status is ParseStatus.UNPARSED
        before = parsers.pids
        assert not await parsers.check(plain())
        assert parsers.pids == before


def _plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str) -> None:
    """Let the children do something else first."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "from oncebox.mail import parser as parsing\n"
        "real = parsing.parse\n"
        "def broken(raw, limits):\n"
        f"    {deed}\n"
        "    return real(raw, limits)\n"
        "parsing.parse = broken\n"
    )
    paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    monkeypatch.setenv("PYTHONPATH", paths)


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_child_inherits_nothing_and_knows_no_secrets(
    loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", "secret")
    leaked = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaked, True)

    async def look() -> tuple[str, set[str], str]:
        async with ParserPool(QUICK, Telemetry()) as parsers:
            await parsers.parse(plain())
            home = Path(f"/proc/{parsers.pids[0]}")
            files = {each.name for each in (home / "fd").iterdir()}
            return (home / "environ").read_text(), files, (home / "limits").read_text()

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            environ, files, limits = runner.run(look())
    finally:
        os.close(leaked)

    names = {entry.partition("=")[0] for entry in environ.split("\0") if entry}
    assert names <= {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "PYTHONUTF8",
                     "PYTHONDONTWRITEBYTECODE"}  # fmt: skip
    assert files == {"0", "1", "2"}
    rows = {line[:25].strip(): line[25:].split()[:2] for line in limits.splitlines()}
    assert rows["Max address space"] == [str(256 * 1024 * 1024)] * 2
    assert rows["Max core file size"] == rows["Max file size"] == ["0", "0"]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_stopping_leaves_no_process_behind(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def run() -> list[int]:
        async with ParserPool(ParserSettings(children=3), Telemetry()) as parsers:
            await parsers.parse(plain())
            return parsers.pids

    with asyncio.Runner(loop_factory=loop) as runner:
        pids = runner.run(run())

    assert pids
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


async def test_who_still_waits_when_we_stop_is_told() -> None:
    async with ParserPool(QUICK, Telemetry(), UNGUARDED) as parsers:
        await parsers.parse(plain())
        os.kill(parsers.pids[0], signal.SIGSTOP)
        waiting = [asyncio.ensure_future(parsers.parse(plain())) for _ in range(10)]
        await asyncio.sleep(0.05)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(outcome) for outcome in outcomes} == {ParserUnavailable}
    with pytest.raises(ParserUnavailable):
        await parsers.parse(plain())


async def test_a_child_ends_when_its_parent_is_gone() -> None:
    async with ParserPool(QUICK, Telemetry()) as parsers:
        await parsers.parse(plain())
        (child,) = parsers._children
        child._pipe.close()
        async with asyncio.timeout(10):
            await child._ended


async def test_who_no_longer_waits_is_passed_over(parsers: ParserPool) -> None:
    waiting = [asyncio.ensure_future(parsers.parse(plain(str(n)))) for n in range(20)]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    every = await asyncio.gather(*waiting[1::2])

    assert [parsed.text for parsed in every] == [str(n) for n in range(1, 20, 2)]
    for task in waiting[::2]:
        with suppress(asyncio.CancelledError):
            await task


async def test_a_pool_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncebox.workers.mail.parser_pool.sys.executable", "/nonexistent/python")
    monkeypatch.setattr("oncebox.workers.process.supervisor.Backoff.delay_after", lambda *_: 0.01)
    async with ParserPool(QUICK, Telemetry()) as parsers:
        with pytest.raises(ParserUnavailable):
            await parsers.parse(plain())


def test_there_is_a_child_for_each_processor_but_one() -> None:
    processors = len(os.sched_getaffinity(0))

    assert child_count(ParserSettings(children=5)) == 5
    assert child_count(ParserSettings()) == max(1, min(8, processors - 1))


def test_frames_are_cut_wherever_they_are_torn() -> None:
    frames = [msgspec.msgpack.encode(ParserReply(number, b"x" * number)) for number in range(50)]
    stream = b"".join(len(frame).to_bytes(LENGTH_BYTES) + frame for frame in frames)
    for size in (1, 3, 7, len(stream)):
        splitter = FrameSplitter()
        found = [
            msgspec.msgpack.decode(frame, type=ParserReply)
            for at in range(0, len(stream), size)
            for frame in splitter.feed(stream[at : at + size])
        ]
        assert found == [ParserReply(number, b"x" * number) for number in range(50)]
    with pytest.raises(ValueError, match="exceeds the limit"):
        FrameSplitter().feed(b"\xff" * LENGTH_BYTES)


def test_the_slow_mail_is_cheap_within_the_usual_limits() -> None:
    assert parse(SLOW).status is ParseStatus.LIMITED
