"""The parser's process: warm before its first mail, and no larger after many."""

import asyncio
from pathlib import Path

from oncebox.core.metrics import Telemetry
from oncebox.mail.languages import purposes, tables
from oncebox.mail.parser import parse
from oncebox.settings import ParserSettings
from oncebox.workers.mail.parser_pool import ParserPool
from oncebox.workers.mail.parser_process import SAMPLE
from tests.mail.mails import alternative

ONE = ParserSettings(children=1)
_KIB_PER_PAGE = 4


def _resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _KIB_PER_PAGE


async def test_a_parser_without_a_collector_does_not_grow_with_the_mails_it_parses() -> None:
    # Every tag differs, and the styles that are cached for them refer to each other.
    name = "c" * 200
    cells = "".join(f'<td id="{name}{number}">{number}</td>' for number in range(1_000))
    mails = [alternative(f"code {n}", f"<table><tr>{cells}") for n in range(10)]
    async with ParserPool(ONE, Telemetry()) as parsers:
        await asyncio.gather(*map(parsers.parse, mails))
        before = _resident_kib(parsers.pids[0])
        for _ in range(5):
            await asyncio.gather(*map(parsers.parse, mails))
        after = _resident_kib(parsers.pids[0])

    assert after - before < 4 * 1024


def test_the_sample_of_a_warm_up_reaches_codes_links_and_purposes() -> None:
    purposes._stem_index.cache_clear()
    tables.load_languages.cache_clear()
    found = parse(SAMPLE)

    assert found.found.code is not None
    assert found.found.code.value == "482915"
    assert found.found.link is not None
    assert found.purposes
    assert tables.load_languages.cache_info().currsize == 1
