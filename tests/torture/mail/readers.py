"""Thousands of events, recorded by many at once, against readers that are cut off again and again.

Every reader must see every event, once and in the order of its numbers. The naive reader, which
goes by the ids that events are made with, reads the same database beside them and must be
caught: what is begun first is often committed last.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice

import psycopg

from oncebox.client.errors import NoAnswer
from oncebox.client.sync import Client
from oncebox.core import credentials
from oncebox.schemas.events import Event
from tests.support.ports import free_port
from tests.torture.checks import Violation
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.sites import open_site
from tests.torture.mail.books import numbered
from tests.torture.mail.cutter import Cutter
from tests.torture.processes import Child, Children, until
from tests.torture.scenario import Outcome, Plan, caught

_RECORDERS = 2
#: Readers of each kind.
_EACH = 2
#: Bytes after which a connection is cut at the latest: some hundred events.
_LONGEST = 100_000
_PATIENCE = 180.0
_NAIVE_EVERY = 0.002
_SETTINGS = {
    "ONCEBOX_MASTER_KEY": MASTER_KEY,
    "ONCEBOX_EVENTS__LEASE": "0.5",
    "ONCEBOX_HTTP__WRONG_KEYS": "0",
}


@dataclass
class Reader:
    """One who reads the stream in its own way, and what it has seen."""

    name: str
    seen: list[str] = field(default_factory=list)
    cursor: str | None = None
    trouble: str = ""

    def see(self, event: Event) -> None:
        """Deal with an event, and remember the place."""
        self.seen.append(event.id)
        self.cursor = event.cursor


Way = Callable[[Client, Reader, random.Random], None]


def by_page(client: Client, reader: Reader, chance: random.Random) -> None:
    """Read a page; now and then forget it, as one who died before it was dealt with."""
    page = client.events.page(cursor=reader.cursor, limit=chance.randint(1, 100))
    if chance.random() < 0.1:
        return
    for event in page.data:
        reader.see(event)
    if not page.data:
        reader.cursor = page.next_cursor
        time.sleep(0.01)


def by_stream(client: Client, reader: Reader, chance: random.Random) -> None:
    """Follow for a while, then leave in the middle of it."""
    following = client.events.follow(cursor=reader.cursor, within=chance.uniform(0.2, 2))
    for event in islice(following, chance.randint(1, 400)):
        reader.see(event)


def by_both(client: Client, reader: Reader, chance: random.Random) -> None:
    """Read by pages and by streams, as it comes."""
    chance.choice((by_page, by_stream))(client, reader, chance)


_WAYS: dict[str, Way] = {"cursor": by_page, "stream": by_stream, "mixed": by_both}


def readers(plan: Plan) -> Outcome:
    """Let everybody read what everybody records; each event is one trial."""
    outcome = Outcome()
    with ExitStack() as stack:
        site = stack.enter_context(open_site(plan.database, plan.folder))
        children = stack.enter_context(Children(plan.folder))
        url = site.fresh()
        port, key = _serve(plan, url, children)
        cutter = stack.enter_context(Cutter(port, plan.chance("cutter"), longest=_LONGEST))
        crowd = [Reader(f"{way}-{number}") for way in _WAYS for number in range(_EACH)]
        over = threading.Event()
        address = f"http://127.0.0.1:{cutter.port}"
        reading = [
            threading.Thread(target=_read, args=(each, address, key, plan, over)) for each in crowd
        ]
        for each in reading:
            each.start()
        recorders = _record(plan, url, children)
        _await(recorders)
        outcome.violations += _await_numbers(url, plan.trials)
        wanted = numbered(url)
        _await_readers(crowd, len(wanted))
        over.set()
        for each in reading:
            each.join(30)
        outcome.violations += judge(wanted, crowd, plan.trials)
        outcome.trials = len(wanted)
        outcome.note = f"{len(crowd)} readers, {cutter.cuts} connections cut"
    outcome.require(trials=plan.trials)
    return outcome


def naive(plan: Plan) -> Outcome:
    """Go by the ids instead of the numbers: the same recorders, one reader that is never cut."""
    outcome = Outcome()
    with ExitStack() as stack:
        site = stack.enter_context(open_site(plan.database, plan.folder))
        children = stack.enter_context(Children(plan.folder))
        url = site.fresh()
        reader, over = Reader("naive"), threading.Event()
        reading = threading.Thread(target=_read_by_id, args=(reader, url, over))
        reading.start()
        _await(_record(plan, url, children))
        time.sleep(0.2)
        over.set()
        reading.join(30)
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT id FROM oncebox_events ORDER BY id").fetchall()
        wanted = [id_ for (id_,) in rows]
        outcome.violations += judge(wanted, [reader], plan.trials)
        outcome.trials = len(wanted)
        outcome.note = f"saw {len(reader.seen)} of {len(wanted)}"
    return caught(outcome, ["skipped"])


def judge(wanted: Sequence[str], crowd: Sequence[Reader], recorded: int) -> list[Violation]:
    """Return what any reader missed, saw twice or saw out of order."""
    found = []
    if len(wanted) != recorded:
        found.append(Violation("lost", "events", f"{len(wanted)} of {recorded}"))
    for each in crowd:
        if each.trouble:
            found.append(Violation("crashed", each.name, each.trouble))
        missed = set(wanted) - set(each.seen)
        if missed:
            found.append(Violation("skipped", each.name, f"{len(missed)} events"))
        if len(each.seen) != len(set(each.seen)):
            found.append(Violation("doubled", each.name))
        known = [id_ for id_ in wanted if id_ not in missed]
        if list(dict.fromkeys(each.seen)) != known:
            found.append(Violation("disordered", each.name))
    return found


def _serve(plan: Plan, url: str, children: Children) -> tuple[int, str]:
    """Start a service; return its port and its first key."""
    port, folder = free_port(), plan.folder / "data"
    service = children.python(
        "oncebox",
        "serve",
        environment={
            **_SETTINGS,
            "ONCEBOX_DATABASE_URL": url,
            "ONCEBOX_DATA_DIR": str(folder),
            "ONCEBOX_HTTP__PORT": str(port),
            "ONCEBOX_SMTP__PORT": "0",
        },
    )
    service.wait_for("service_started", timeout=60)
    found = credentials.read(folder)
    assert found is not None
    return port, found.key


def _record(plan: Plan, url: str, children: Children) -> list[Child]:
    shares = [
        plan.trials // _RECORDERS + (number < plan.trials % _RECORDERS)
        for number in range(_RECORDERS)
    ]
    return [
        children.python("tests.torture.mail.recorder", url, str(share), f"{plan.seed}/{number}")
        for number, share in enumerate(shares)
    ]


def _await(recorders: Sequence[Child]) -> None:
    for each in recorders:
        if each.wait(timeout=_PATIENCE):
            raise AssertionError(each.text())


def _await_numbers(url: str, count: int) -> list[Violation]:
    for _ in until(30):
        if len(numbered(url)) == count:
            return []
    return [Violation("stuck", "sequencer", f"{len(numbered(url))} of {count} have numbers")]


def _await_readers(crowd: Sequence[Reader], count: int) -> None:
    """Wait until all have seen as many as there are, or none gets any further."""
    give_up, before = time.monotonic() + 30, -1
    while time.monotonic() < give_up and any(len(each.seen) < count for each in crowd):
        total = sum(len(each.seen) for each in crowd)
        if total != before:
            give_up, before = time.monotonic() + 30, total
        time.sleep(0.05)


def _read(reader: Reader, url: str, key: str, plan: Plan, over: threading.Event) -> None:
    way, chance = _WAYS[reader.name.partition("-")[0]], plan.chance(reader.name)
    try:
        while not over.is_set():
            with Client(url, key, timeout=30) as client:  # a new one each time: it has died
                for _ in range(chance.randint(1, 5)):
                    with suppress(NoAnswer):  # cut too often; it will come back
                        way(client, reader, chance)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is part of the report
        reader.trouble = f"{type(error).__name__}: {error}"


def _read_by_id(reader: Reader, url: str, over: threading.Event) -> None:
    last = ""
    with psycopg.connect(url, autocommit=True) as connection:
        while not over.is_set():
            rows = connection.execute(
                "SELECT id FROM oncebox_events WHERE id > %s ORDER BY id LIMIT 200", (last,)
            ).fetchall()
            reader.seen += [id_ for (id_,) in rows]
            last = reader.seen[-1] if reader.seen else last
            time.sleep(_NAIVE_EVERY)
