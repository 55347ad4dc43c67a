"""Fail open: mail past a ledger that is away, once for each key, and on record afterwards."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from oncebox.core import ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.db.group_commit import retry_until_available
from oncebox.errors import (
    CommitOverdue,
    CommitUnknown,
    DatabaseBusy,
    DatabaseOverdue,
    DiskFull,
    StateConflict,
    StoreError,
    StoreUnavailable,
)
from oncebox.errors.sends import SendBudgetSpent, SendCoolingDown, SendKeyConflict
from oncebox.ledger import maintenance
from oncebox.ledger.admin import audit
from oncebox.ledger.sends import fail_open, sends, transports
from oncebox.ledger.sends.fail_open import SpooledSend
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import AnswerStatus, OnUnknown, Send, SendLimits, SendState
from oncebox.model.sends.transports import BreakerRules, NewTransport, SendOutcome
from oncebox.settings import SendSettings
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports import transport_config
from oncebox.workers.sends.fail_open import FailOpenSpool, FailOpenWorker
from oncebox.workers.sends.transport_pool import TransportPool
from tests.contract.sends.test_outbox import SCRIBE
from tests.support.clerk import DAY, TENANT, Clerk
from tests.support.databases import Place
from tests.support.mailer import BOUNCED, BOX, REFUSED, RELAY, SILENCE, TAKEN, WAIT, Mailer
from tests.support.office import KEY
from tests.support.outage import Outage
from tests.support.posthouse import PostHouse, smtp, until
from tests.torture.proxy import FaultProxy

#: where the database makes no difference
one_database = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
MAIL = Email(sender="shop@example.com", to="ann@example.org", subject="Paid", text="Thank you.")
ORDER = Intent(email=MAIL, event_type="order.confirmation", entity_id="order_1")
ME = SendOrigin(tenant=TENANT, key="key_1", is_agent=True)
S = SendState


class Station:
    """A process that may send past its ledger, and the next one after its end."""

    def __init__(self, database: Database, path: Path, server: ScriptedSmtp) -> None:
        self.outage = Outage(database)
        self.database = cast("Database", self.outage)
        self.path = path
        self.server = server
        self.telemetry = Telemetry()
        self.rules = BreakerRules()
        self.settings: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        """Begin as a new process does."""
        ledger = Ledger(self.database)
        settings = SendSettings(**self.settings)
        self.outbox = Outbox(ledger, BOX, lambda: SCRIBE, settings, self.telemetry)
        self.spool = FailOpenSpool(self.path, KEY)
        self.beside = FailOpenWorker(
            self.spool,
            ledger,
            BOX,
            TransportPool(BOX),
            self.telemetry,
            timeout=60.0,
            rules=self.rules,
        )
        self.outbox.fail_open_sender = self.beside

    async def restart(self) -> None:
        """End, whatever is under way, and begin anew; the ways are known as they were."""
        rows = self.beside._known_transports
        await self.beside.close()
        self.begin()
        self.beside._known_transports = rows

    async def add_way(self, name: str = RELAY, kind: str = "smtp", group: str = "") -> None:
        """Configure a way to the server."""
        sealed = BOX.encrypt_field(
            "config", TENANT, name, transport_config.encode_config(smtp(self.server))
        )
        config = sealed if kind == "smtp" else None
        new = NewTransport(name=name, kind=kind, config=config, failover_group=group)
        await self.database.write(transports.add, new, self.deed())

    def deed(self) -> audit.AuditEntry:
        now = self.database.clock()
        return audit.AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="eve", why="because")

    async def send(self, number: int = 1, **more: Any) -> Any:
        """Mean to send a mail."""
        wanted = replace(ORDER, entity_id=f"order_{number}", **more)
        return await self.outbox.send(ME, wanted)

    async def is_refused(self, number: int = 1, **more: Any) -> bool:
        """Say whether there is no mail because the ledger is away."""
        before = len(self.server.accepted)
        with pytest.raises(StoreUnavailable):
            await self.send(number, **more)
        return len(self.server.accepted) == before

    async def merge(self) -> int:
        """Let the ledger come back, and hear."""
        self.outage.come_back()
        return await self.beside.merge_when_available()

    async def all(self) -> list[Send]:
        """Return what the ledger has."""
        return await self.database.read(sends.newest, sends.SendFilter(TENANT))


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSmtp]:
    async with ScriptedSmtp() as server:
        yield server


@pytest.fixture
async def station(
    clerk: Clerk, database: Database, tmp_path: Path, server: ScriptedSmtp
) -> AsyncIterator[Station]:
    del clerk  # it makes the tenant
    station = Station(database, tmp_path / "data" / "fail-open.spool", server)
    await station.add_way()
    await station.beside.merge_when_available()
    yield station
    await station.beside.close()


# closed by default


@one_database
async def test_by_default_there_is_no_mail_without_the_ledger(station: Station) -> None:
    ledger = Ledger(station.database)
    station.outbox = Outbox(ledger, BOX, lambda: SCRIBE, SendSettings(), station.telemetry)
    station.outage.go()

    assert await station.is_refused()
    station.outage.come_back()
    assert await station.all() == []


@one_database
@pytest.mark.parametrize("chosen", [True, False])
async def test_a_box_fails_open_only_where_that_was_chosen(
    place: Place, tmp_path: Path, chosen: object
) -> None:
    house = PostHouse(place, fail_open=bool(chosen))
    house.box.settings = replace(house.box.settings, data_dir=str(tmp_path))
    async with house.box:
        await house.send()

        assert (house.rooms.outbox.fail_open_sender is not None) is chosen


# open by choice


async def test_a_mail_goes_past_the_ledger_and_is_on_record_afterwards(station: Station) -> None:
    station.outage.go()
    told = await station.send()
    assert (told.status, told.created, told.send.state) == (AnswerStatus.SENT, True, S.SENT)
    assert station.server.count(told.send.message_id) == 1
    assert "oncebox_send_fail_open_total 1.0" in station.telemetry.scrape()

    assert await station.merge() == 1
    (send,) = await station.all()
    assert (send.id, send.state, send.message_id) == (told.send.id, S.SENT, told.send.message_id)
    assert station.path.read_bytes() == b""
    again = await station.send()
    assert (again.status, len(station.server.accepted)) == (AnswerStatus.DUPLICATE, 1)


@pytest.mark.parametrize("slow", [DatabaseBusy, DatabaseOverdue])
async def test_after_one_long_wait_mail_goes_past_the_ledger_at_once_until_it_is_seen_to_work(
    station: Station, slow: type[StoreUnavailable]
) -> None:
    asked = station.outage.writes
    station.outage.go(slow)
    await station.send(1)
    first = station.outage.writes - asked
    for number in range(2, 5):
        assert (await station.send(number)).status is AnswerStatus.SENT
    assert station.outage.writes - asked == first  # nobody waited again

    with pytest.raises(slow):
        await station.beside.check_ledger_again()
    station.outage.come_back()
    await station.beside.check_ledger_again()
    assert await station.merge() == 4

    told = await station.send(5)
    assert told.status is not AnswerStatus.SENT  # the ledger has it, and a worker sends it
    assert len(station.server.accepted) == 4


async def test_a_commit_without_an_answer_is_left_to_the_ledger_and_the_next_mail_does_not_wait(
    station: Station,
) -> None:
    station.outage.go(CommitOverdue)
    assert await station.is_refused(1)
    assert await station.is_refused(1)

    assert (await station.send(2)).status is AnswerStatus.SENT


@one_database
async def test_a_refusal_without_a_wait_does_not_keep_others_from_the_ledger(
    station: Station,
) -> None:
    station.outage.go()
    await station.send(1)
    station.outage.come_back()

    assert (await station.send(2)).status is AnswerStatus.IN_FLIGHT


@one_database
async def test_the_outside_is_told_of_it(station: Station, clerk: Clerk) -> None:
    station.outage.go()
    told = await station.send()
    await station.merge()

    mailer = Mailer(clerk, transport="other")
    assert sorted(mailer.events()) == ["send.fail_open", "send.sent"]
    (tried,) = mailer.tries(told.send.id)
    assert (tried.worker, tried.transport, tried.outcome) == ("fail_open", RELAY, "accepted")


@one_database
async def test_a_key_goes_once_however_many_ask(station: Station) -> None:
    station.outage.go()
    told = await asyncio.gather(*(station.send(n % 3) for n in range(12)))
    told += [await station.send(n) for n in range(3)]

    assert len(station.server.accepted) == 3
    assert sum(each.created for each in told) == 3
    assert {each.status for each in told} == {AnswerStatus.SENT, AnswerStatus.DUPLICATE}
    with pytest.raises(SendKeyConflict):
        await station.send(1, email=replace(MAIL, cc="bob@example.org"))
    assert await station.merge() == 3


@one_database
async def test_what_the_ledger_has_is_left_to_it(station: Station) -> None:
    await station.send(1)
    station.outage.loses = True
    with pytest.raises(CommitUnknown):
        await station.send(2)
    station.outage.go()

    assert await station.is_refused(1)
    assert await station.is_refused(2)
    assert (await station.send(3)).status is AnswerStatus.SENT


@one_database
@pytest.mark.parametrize("error", [StoreUnavailable, CommitUnknown])
async def test_a_queue_that_is_full_and_a_lost_reply_are_no_outage(
    station: Station, error: type[StoreUnavailable]
) -> None:
    station.outage.go(error)

    assert await station.is_refused()


@one_database
async def test_a_full_disk_is_an_outage(station: Station) -> None:
    station.outage.go(DiskFull)

    assert (await station.send()).status is AnswerStatus.SENT


@one_database
async def test_what_was_certainly_not_taken_is_no_mail_and_may_be_asked_for_again(
    station: Station,
) -> None:
    station.outage.go()
    station.server.script("451@rcpt")
    assert await station.is_refused()
    assert (await station.send()).status is AnswerStatus.SENT

    assert await station.merge() == 1
    assert len(station.server.accepted) == 1


@one_database
async def test_what_was_rejected_has_failed_and_is_not_tried_by_the_ledger(
    station: Station, clerk: Clerk
) -> None:
    station.outage.go()
    station.server.script("554@dot")
    told = await station.send()
    assert (told.status, told.send.code) == (AnswerStatus.FAILED, "message_refused")
    await station.merge()

    assert [each.state for each in await station.all()] == [S.FAILED]
    assert Mailer(clerk, transport="other").claim(transport=RELAY) == []


async def test_a_lost_answer_is_unknown_and_sends_no_second_mail(
    station: Station, clerk: Clerk
) -> None:
    station.outage.go()
    station.server.script("accept_then_drop")
    told = await station.send()
    again = await station.send()
    assert (told.status, again.status) == (AnswerStatus.UNKNOWN, AnswerStatus.UNKNOWN)
    await station.merge()

    assert [each.state for each in await station.all()] == [S.UNKNOWN]
    assert (await station.send()).status is AnswerStatus.UNKNOWN
    assert Mailer(clerk, transport="other").claim(transport=RELAY) == []
    assert len(station.server.accepted) == 1


@one_database
async def test_a_key_is_sent_once_while_the_ledger_is_back_and_not_updated(
    station: Station,
) -> None:
    station.outage.go()
    told = await station.send()
    station.outage.come_back()
    again = await station.send()

    assert (again.status, again.send.id) == (AnswerStatus.DUPLICATE, told.send.id)
    assert await station.all() == []
    await station.restart()
    once_more = await station.send()
    assert (once_more.status, once_more.send.id) == (AnswerStatus.DUPLICATE, told.send.id)
    assert await station.merge() == 1
    assert [each.state for each in await station.all()] == [S.SENT]


@one_database
async def test_no_batch_and_no_transaction_has_what_the_ledger_is_not_told_yet(
    station: Station,
) -> None:
    station.outage.go()
    await station.send()
    station.outage.come_back()
    other = replace(ORDER, entity_id="order_2")
    with pytest.raises(StoreUnavailable):
        await station.outbox.send_batch(ME, None, [ORDER, other])
    with pytest.raises(StoreUnavailable):
        await station.database.write(station.outbox.enqueue, ME, ORDER)
    assert await station.all() == []

    assert await station.merge() == 1
    told = await station.outbox.send_batch(ME, None, [ORDER, other])
    assert [each.status for each in told.answers] == [
        AnswerStatus.DUPLICATE,
        AnswerStatus.IN_FLIGHT,
    ]
    again = await station.database.write(station.outbox.enqueue, ME, ORDER)
    assert again.status is AnswerStatus.DUPLICATE


@one_database
async def test_who_asks_the_ledger_that_is_back_waits_for_a_mail_half_way_out(
    station: Station,
) -> None:
    station.outage.go()
    asking = await _left_at(station, "accept_then_sleep=0.05")
    station.outage.come_back()
    again = await station.send()

    assert (again.status, again.send.id) == (AnswerStatus.DUPLICATE, (await asking).send.id)
    assert await station.all() == []


@one_database
async def test_what_was_certainly_not_taken_is_the_ledgers_when_it_is_back(
    station: Station,
) -> None:
    station.outage.go()
    station.server.script("451@rcpt")
    assert await station.is_refused()
    station.outage.come_back()

    assert (await station.send()).status is AnswerStatus.IN_FLIGHT


# crashes


async def _left_at(station: Station, fault: str) -> asyncio.Task[Any]:
    """Begin a mail whose server keeps silent."""
    station.server.script(fault)
    asking = asyncio.create_task(station.send())
    await until(lambda: station.server.script_is_over)
    return asking


async def test_a_crash_after_the_marker_leaves_the_outcome_unknown(station: Station) -> None:
    station.outage.go()
    asking = await _left_at(station, "accept_then_silence")
    await station.restart()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert (await station.send()).status is AnswerStatus.UNKNOWN
    assert len(station.server.accepted) == 1
    assert await station.merge() == 1
    assert [each.state for each in await station.all()] == [S.UNKNOWN]


@one_database
async def test_a_crash_before_the_marker_costs_nothing(station: Station) -> None:
    station.outage.go()
    asking = await _left_at(station, "silence@data")
    await station.restart()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert (await station.send()).status is AnswerStatus.SENT
    assert len(station.server.accepted) == 1


@one_database
async def test_a_crash_after_the_end_forgets_nothing(station: Station) -> None:
    station.outage.go()
    told = await station.send()
    await station.restart()
    again = await station.send()

    assert (again.status, again.send.id) == (AnswerStatus.DUPLICATE, told.send.id)
    await station.restart()
    assert await station.merge() == 1
    assert [each.state for each in await station.all()] == [S.SENT]


@one_database
async def test_who_goes_away_does_not_take_the_mail_along(station: Station) -> None:
    station.outage.go()
    asking = await _left_at(station, "accept_then_sleep=0.05")
    asking.cancel()

    assert (await station.send()).status is AnswerStatus.DUPLICATE
    assert len(station.server.accepted) == 1


@one_database
async def test_every_step_is_on_disk_before_the_next(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[str, int, int]] = []
    real, synced = FailOpenSpool.append, os.fsync
    syncs = [0]

    def counted(handle: int) -> None:
        synced(handle)
        syncs[0] += 1

    def append(spool: FailOpenSpool, step: Any) -> None:
        before = syncs[0]
        real(spool, step)
        name = type(step).__name__
        steps.append((name, syncs[0] - before, len(station.server.accepted)))

    monkeypatch.setattr(os, "fsync", counted)
    monkeypatch.setattr(FailOpenSpool, "append", append)
    station.outage.go()
    await station.send()

    assert steps == [("SpoolBegun", 1, 0), ("SpoolMarked", 1, 0), ("SpoolEnded", 1, 1)]


@one_database
@pytest.mark.parametrize("failing", [1, 2])
async def test_nothing_is_transmitted_that_cannot_be_spooled(
    station: Station, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    station.outage.go()
    await station.beside._acquire_spool()
    real, left = os.fsync, [failing]

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "full")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert await station.is_refused()
    monkeypatch.setattr(os, "fsync", real)
    assert (await station.send()).status is AnswerStatus.SENT
    await station.restart()
    assert (await station.send()).status is AnswerStatus.DUPLICATE
    assert len(station.server.accepted) == 1


@one_database
async def test_only_one_process_has_the_spool(station: Station) -> None:
    station.outage.go()
    first, rows = station.beside, station.beside._known_transports
    await station.send(1)
    station.begin()
    station.beside._known_transports = rows
    try:
        assert await station.is_refused(1)
        assert await station.is_refused(2)
        assert await station.merge() == 0
    finally:
        await first.close()
    station.outage.go()
    assert (await station.send(1)).status is AnswerStatus.DUPLICATE


@one_database
async def test_a_line_that_was_cut_short_never_counted(station: Station) -> None:
    station.outage.go()
    await station.send(1)
    whole = station.path.read_bytes()
    await station.beside.close()
    lines = whole.splitlines(keepends=True)
    station.path.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    await station.restart()

    assert (await station.send(1)).status is AnswerStatus.UNKNOWN
    await station.send(2)
    assert await station.merge() == 2
    assert sorted(each.state for each in await station.all()) == [S.SENT, S.UNKNOWN]


@one_database
async def test_a_spool_that_cannot_be_read_is_left_alone(station: Station) -> None:
    station.outage.go()
    await station.send(1)
    await station.beside.close()
    damaged = b"B" + station.path.read_bytes()[1:]
    station.path.write_bytes(damaged)
    await station.restart()

    assert await station.is_refused(2)
    assert await station.merge() == 0
    assert station.path.read_bytes() == damaged


@one_database
async def test_the_spool_is_sealed_and_its_owners(station: Station) -> None:
    station.outage.go()
    await station.send()
    said = station.path.read_bytes()

    for word in (b"ann@example.org", b"Thank you", b"order_1", b"order.confirmation"):
        assert word not in said
    assert station.path.stat().st_mode & 0o777 == 0o600


# what may not go


@one_database
async def test_what_cannot_go_at_once_by_a_known_way_does_not_go(station: Station) -> None:
    await station.add_way("paused")
    await station.database.write(transports.pause, "paused", station.deed())
    await station.add_way("log", kind="log")
    await station.beside.merge_when_available()
    station.outage.go()

    assert await station.is_refused(1, transport="nowhere")
    assert await station.is_refused(2, transport="paused")
    assert await station.is_refused(3, transport="log")
    assert await station.is_refused(4, send_at=station.database.clock() + 60_000)
    assert (await station.send(5, transport=RELAY)).status is AnswerStatus.SENT


@one_database
async def test_a_transport_or_group_that_was_named_is_kept_without_the_ledger(
    station: Station,
) -> None:
    for name, group in (("first", ""), ("second", "news"), ("third", "news")):
        await station.add_way(name, group=group)
    await station.beside.merge_when_available()
    station.outage.go()

    named = await station.send(1, transport="third")
    of_group = await station.send(2, failover_group="news")
    assert await station.is_refused(3, failover_group="none")
    station.outage.come_back()
    await station.beside.merge_when_available()
    pinned = [
        (await station.database.read(sends.get, TENANT, each.send.id)).pinned
        for each in (named, of_group)
    ]

    assert (named.send.transport, of_group.send.transport) == ("third", "second")
    assert pinned == [True, False]


@one_database
async def test_a_process_that_never_saw_the_ledger_sends_nothing(station: Station) -> None:
    station.outage.go()
    await station.beside.close()
    station.begin()

    assert await station.is_refused()
    with pytest.raises(StoreError):
        await station.beside.merge_when_available()


@one_database
async def test_limits_hold_without_the_ledger(station: Station) -> None:
    station.settings = {"per_key": 3, "per_recipient": 2}
    await station.restart()
    station.outage.go()
    for number in range(2):
        await station.send(number)
    with pytest.raises(SendBudgetSpent):
        await station.send(2)
    bob = replace(MAIL, to="bob@example.org")
    await station.send(3, email=bob)
    with pytest.raises(SendBudgetSpent):
        await station.send(4, email=replace(MAIL, to="eve@example.org"))

    assert (await station.send(0)).status is AnswerStatus.DUPLICATE
    assert len(station.server.accepted) == 3


@one_database
async def test_a_cool_down_holds_without_the_ledger(station: Station) -> None:
    station.settings = {"cool_down": 600.0}
    await station.restart()
    station.outage.go()
    first = await station.send(1)
    with pytest.raises(SendCoolingDown) as caught:
        await station.send(2)

    assert caught.value.send_id == first.send.id
    assert (await station.send(3, event_type="order.shipped")).status is AnswerStatus.SENT


@one_database
async def test_a_way_that_fails_again_and_again_rests(station: Station) -> None:
    station.rules = BreakerRules(failures=2, first_rest=3_600_000)
    await station.restart()
    station.outage.go()
    station.server.always("drop@connect")
    for number in range(5):
        assert await station.is_refused(number)

    assert station.server.connections == 2


# the ledger is told


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


def _merge(mailer: Mailer, outcome: SendOutcome, key: str = "key", **more: Any) -> Send:
    new = more.pop("new", None) or mailer.new(key, **more)
    told = SpooledSend(new=new, at=mailer.clerk.now, outcome=outcome)
    (send,) = mailer.clerk.run(fail_open.merge, [told], mailer.clerk.now)
    return send


@pytest.mark.parametrize(
    ("outcome", "state"), [(TAKEN, S.SENT), (SILENCE, S.UNKNOWN), (BOUNCED, S.FAILED)]
)
def test_telling_the_ledger_twice_changes_nothing(
    mailer: Mailer, outcome: SendOutcome, state: SendState
) -> None:
    new = mailer.new()
    first = _merge(mailer, outcome, new=new)
    mailer.clerk.now += 1
    second = _merge(mailer, outcome, new=new)

    assert (first.id, first.state) == (new.id, state)
    assert second == first
    assert mailer.claim() == []
    assert len(mailer.tries(new.id)) == 1


@pytest.mark.parametrize(("outcome", "state"), [(TAKEN, S.SENT), (SILENCE, S.UNKNOWN)])
def test_what_the_ledger_meant_to_send_is_not_sent_again(
    mailer: Mailer, outcome: SendOutcome, state: SendState
) -> None:
    waiting, held = mailer.intend("waiting"), mailer.intend("held")
    (claimed,) = (each.send for each in mailer.claim() if each.send.id == held.send.id)
    mailer.lose()
    (claimed,) = (each.send for each in mailer.claim() if each.send.id == held.send.id)
    for told in (waiting, held):
        key = "waiting" if told is waiting else "held"
        assert _merge(mailer, outcome, key).id == told.send.id

    assert {mailer.state(each.send.id) for each in (waiting, held)} == {state}
    assert not mailer.begin(claimed)
    mailer.lose()
    assert mailer.claim() == []


def test_a_rejection_past_the_ledger_says_nothing_of_its_own_tries(mailer: Mailer) -> None:
    id_ = mailer.intend().send.id
    _merge(mailer, BOUNCED)

    assert mailer.state(id_) is S.PENDING


@pytest.mark.parametrize("sent", [True, False])
def test_what_a_person_has_said_since_stays(mailer: Mailer, sent: object) -> None:
    new = mailer.new()
    send = _merge(mailer, SILENCE, new=new)
    mailer.resolve(send.id, sent=bool(sent))
    _merge(mailer, SILENCE, new=new)

    assert mailer.state(send.id) is (S.SENT if sent else S.FAILED)


def test_what_was_thought_not_sent_is_in_doubt_after_all(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, BOUNCED)
    mailer.clerk.now += 1
    _merge(mailer, SILENCE)

    assert mailer.state(send.id) is S.UNKNOWN
    assert not mailer.intend().rearmed


@pytest.mark.parametrize("outcome", [REFUSED, BOUNCED, TAKEN])
def test_a_mail_past_the_ledger_leaves_doubt_beside_one_that_is_on_the_wire(
    mailer: Mailer, outcome: SendOutcome
) -> None:
    send = mailer.start()
    _merge(mailer, SILENCE)
    assert mailer.say(send, outcome)

    assert mailer.state(send.id) is (S.SENT if outcome is TAKEN else S.UNKNOWN)
    mailer.clerk.now += WAIT
    assert mailer.claim() == []


def test_doubt_past_the_ledger_is_replayed_while_the_provider_remembers_the_key(
    mailer: Mailer,
) -> None:
    now = mailer.clerk.now
    new = mailer.new(transport=RELAY)
    spooled = SpooledSend(new=new, at=now, outcome=SILENCE, replay_until=now + WAIT)

    (send,) = mailer.clerk.run(fail_open.merge, [spooled], now)

    assert (send.state, send.repeat_mode, send.due_at) == (S.UNKNOWN, OnUnknown.REPLAY, now)
    assert mailer.claim_one().epoch == 0


@pytest.mark.parametrize(
    ("choice", "is_known"),
    [(OnUnknown.HOLD, False), (OnUnknown.RESEND, False), (OnUnknown.REPLAY, True)],
)
def test_doubt_past_the_ledger_is_held_where_no_replay_was_chosen_or_the_ledger_had_the_key(
    mailer: Mailer, choice: OnUnknown, is_known: bool
) -> None:
    now = mailer.clerk.now
    if is_known:
        mailer.intend()
    new = mailer.new(transport=RELAY, on_unknown=choice)
    spooled = SpooledSend(new=new, at=now, outcome=SILENCE, replay_until=now + WAIT)

    (send,) = mailer.clerk.run(fail_open.merge, [spooled], now)

    assert (send.state, send.repeat_mode, send.due_at) == (S.UNKNOWN, None, None)


def test_a_key_used_past_the_ledger_and_by_it_is_not_replayed(mailer: Mailer) -> None:
    send = mailer.start(replay_for=WAIT)
    _merge(mailer, SILENCE)

    assert mailer.say(send, SILENCE, wait=0)

    found = mailer.get(send.id)
    assert (found.state, found.repeat_mode) == (S.UNKNOWN, None)


def test_what_is_in_doubt_and_no_longer_kept_stops_no_other_mail(mailer: Mailer) -> None:
    send = mailer.start()
    mailer.say(send, BOUNCED)
    mailer.clerk.now += 8 * DAY
    mailer.clerk.run(maintenance.empty_sends, mailer.clerk.now)
    assert _merge(mailer, SILENCE).state is S.UNKNOWN
    other = mailer.intend("other")

    with pytest.raises(StateConflict):
        mailer.resend(send.id)
    assert [each.send.id for each in mailer.claim()] == [other.send.id]


def test_a_way_that_is_gone_and_spent_guards_keep_nothing_from_the_record(mailer: Mailer) -> None:
    limits = SendLimits(per_key=1)
    mailer.intend("before", owner="key_1", guards=limits)
    send = _merge(mailer, TAKEN, transport="gone", owner="key_1", guards=limits)

    assert send.state is S.SENT


# a whole box


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
async def test_a_box_sends_while_its_server_is_away(
    place: Place, server: ScriptedSmtp, tmp_path: Path
) -> None:
    with FaultProxy(place.url) as proxy:
        behind = Place("postgres", proxy.url())
        house = PostHouse(behind, fail_open=True)
        house.box.settings = replace(house.box.settings, data_dir=str(tmp_path))
        async with house.box:
            await house.add(server)
            first = await house.send("order_1", wait=30)
            beside = house.rooms.outbox.fail_open_sender
            await until(lambda: bool(beside._known_transports))
            proxy.cut_any_reply()
            proxy.cut_all()
            second = await house.send("order_2", wait=30)
            again = await house.send("order_2")
            with pytest.raises(StoreUnavailable):
                await house.send("order_1")
            assert (second.status, again.status) == (AnswerStatus.SENT, AnswerStatus.DUPLICATE)
            proxy.heal()
            await retry_until_available(beside.merge_when_available)
            stands = await house.until(second.id, S.SENT)

    assert first.status is AnswerStatus.SENT
    assert stands.message_id == second.message_id
    assert len(server.accepted) == 2
