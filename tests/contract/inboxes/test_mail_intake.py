"""The post: a mail is on disk for all its recipients or for none, and the same bytes count once."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oncebox.core import faults
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.queries import Query
from oncebox.errors import DiskFull, StoreUnavailable
from oncebox.ledger.inboxes.mail_intake import MailIntake
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind
from oncebox.model.inboxes.received_mail import MAIL_SOURCE, Envelope, EnvelopeRecipient
from oncebox.settings import LimitSettings
from tests.support.clerk import VAULT
from tests.support.mail import PLAIN, Stored, stored

OTHER = b"Subject: two\r\n\r\nbody\r\n"


@pytest.fixture
async def post(database: Database) -> MailIntake:
    return MailIntake(database, Telemetry(), LimitSettings(), VAULT)


def envelope(*recipients: str, sender: str = "ann@example.com") -> Envelope:
    """Return an envelope for inboxes, each named as tenant/inbox/address or just as inbox."""
    return Envelope(
        client="192.0.2.1",
        helo="mail.example.com",
        sender=sender,
        recipients=tuple(map(_recipient, recipients)),
    )


def _recipient(text: str) -> EnvelopeRecipient:
    tenant, inbox, local = text.split("/") if "/" in text else ("acme", text, text)
    return EnvelopeRecipient(
        inbox_id=f"inb_{inbox}", tenant=tenant, address=f"{local}@oncebox.test"
    )


async def _all(database: Database) -> list[Stored]:
    return await database.read(stored)


async def test_a_mail_becomes_a_delivery_with_its_bytes_and_its_envelope(
    post: MailIntake, database: Database
) -> None:
    told = envelope("a")
    await post.store(told, PLAIN)
    (found,) = await _all(database)

    assert (found.tenant, found.type, found.road, found.state) == (
        "acme", "mail.received", "smtp", "received",
    )  # fmt: skip
    assert found.key == f"inb_a:{VAULT.fingerprint(PLAIN).hex()}"
    assert found.body == PLAIN
    assert found.envelope == told


async def test_a_mail_cannot_be_guessed_from_what_is_kept_to_know_it_again(
    post: MailIntake, database: Database
) -> None:
    """Who reads the database and knows all but the code would try a million mails."""
    await post.store(envelope("a"), PLAIN)

    def rows(tx: Transaction) -> str:
        return repr(tx.execute("SELECT * FROM oncebox_deliveries"))

    kept = await database.read(rows)
    hashed = hashlib.sha256(PLAIN)
    assert VAULT.fingerprint(PLAIN).hex() in kept
    assert hashed.hexdigest() not in kept
    assert repr(hashed.digest())[2:-1] not in kept


async def test_every_inbox_has_its_delivery_and_those_of_a_tenant_share_the_bytes(
    post: MailIntake, database: Database
) -> None:
    await post.store(envelope("a", "b", "other/c/c"), PLAIN)
    found = {each.key.partition(":")[0]: each for each in await _all(database)}

    assert sorted(found) == ["inb_a", "inb_b", "inb_c"]
    assert found["inb_a"].payload_id == found["inb_b"].payload_id != found["inb_c"].payload_id
    assert {each.body for each in found.values()} == {PLAIN}


async def test_no_tenant_sees_the_recipients_of_another(
    post: MailIntake, database: Database
) -> None:
    await post.store(envelope("a", "b", "other/c/c"), PLAIN)
    seen = {
        each.key.partition(":")[0]: [to.address for to in each.envelope.recipients]
        for each in await _all(database)
    }

    assert seen["inb_a"] == seen["inb_b"] == ["a@oncebox.test", "b@oncebox.test"]
    assert seen["inb_c"] == ["c@oncebox.test"]


async def test_two_addresses_of_one_inbox_are_one_delivery(
    post: MailIntake, database: Database
) -> None:
    await post.store(envelope("acme/a/a+one", "acme/a/a+two"), PLAIN)
    (found,) = await _all(database)

    assert [to.address for to in found.envelope.recipients] == [
        "a+one@oncebox.test",
        "a+two@oncebox.test",
    ]


async def test_the_same_bytes_to_the_same_inbox_are_a_sighting(
    post: MailIntake, database: Database
) -> None:
    for _ in range(3):
        await post.store(envelope("a"), PLAIN)
    await post.store(envelope("a"), OTHER)
    found = await _all(database)

    assert [(each.body, each.sightings) for each in found] == [(PLAIN, 2), (OTHER, 0)]


async def test_a_repeat_with_one_more_recipient_brings_only_that_one(
    post: MailIntake, database: Database
) -> None:
    await post.store(envelope("a"), PLAIN)
    await post.store(envelope("a", "b"), PLAIN)
    found = {each.key.partition(":")[0]: each.sightings for each in await _all(database)}

    assert found == {"inb_a": 1, "inb_b": 0}


async def test_many_at_once_share_commits_and_all_are_stored(database: Database) -> None:
    telemetry = Telemetry()
    post = MailIntake(database, telemetry, LimitSettings(), VAULT)
    mails = [PLAIN + b"%d\r\n" % number for number in range(60)]
    await asyncio.gather(*(post.store(envelope("a", "b"), mail) for mail in mails))
    await asyncio.gather(*(post.store(envelope("c"), mail) for mail in mails))
    found = await _all(database)

    assert len(found) == 180
    for inbox in ("inb_a", "inb_b", "inb_c"):
        assert {each.body for each in found if each.key.startswith(inbox)} == set(mails)
    assert telemetry.smtp_accepted._value.get() == 120
    assert telemetry.accepted.labels(MAIL_SOURCE)._value.get() == 180


class _Watched:
    """A database that counts its bulk inserts and holds them until they may begin."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.may_begin = asyncio.Event()
        self.inserts = self.under_way = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def insert(self, query: Query, rows: Callable[[], Sequence[Row] | None]) -> int | None:
        self.inserts += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.may_begin.wait()
            return await self._database.insert(query, rows)
        finally:
            self.under_way -= 1


async def test_where_a_round_trip_is_expensive_mails_are_committed_one_batch_at_a_time(
    database: Database,
) -> None:
    watched = _Watched(database)
    post = MailIntake(watched, Telemetry(), LimitSettings(), VAULT)
    mails = [PLAIN + b"%d\r\n" % number for number in range(30)]
    storing = []
    for mail in mails:
        storing.append(asyncio.create_task(post.store(envelope("a"), mail)))
        await asyncio.sleep(0)  # they come one after the other, while others are committed
    watched.may_begin.set()
    await asyncio.gather(*storing)

    assert {each.body for each in await _all(database)} == set(mails)
    assert watched.most <= (1 if database.round_trips else 2)
    assert watched.inserts <= 3


async def test_a_storm_of_one_mail_is_one_delivery(post: MailIntake, database: Database) -> None:
    await asyncio.gather(*(post.store(envelope("a", "b"), PLAIN) for _ in range(50)))
    found = await _all(database)

    assert [each.sightings for each in found] == [49, 49]


async def test_a_small_mail_can_be_begun_without_a_task(
    post: MailIntake, database: Database
) -> None:
    stored: asyncio.Future[list[Accepted]] = asyncio.get_running_loop().create_future()
    post.begin(envelope("a"), PLAIN, stored)
    (accepted,) = await stored

    assert accepted.arrival is ArrivalKind.NEW
    assert [each.body for each in await _all(database)] == [PLAIN]


async def test_a_large_mail_is_stored_whole(post: MailIntake, database: Database) -> None:
    large = b"Subject: large\r\n\r\n" + b"x" * 998 + b"\r\n" * 1_000_000
    await post.store(envelope("a", "b"), large)

    assert [each.body for each in await _all(database)] == [large, large]


async def test_what_is_rung_wakes_who_waits_for_work(post: MailIntake, database: Database) -> None:
    waiting = asyncio.create_task(database.wait("due", 30))
    await asyncio.sleep(0.05)
    await post.store(envelope("a"), PLAIN)

    await asyncio.wait_for(waiting, 10)


async def test_nothing_is_stored_when_the_commit_fails(
    post: MailIntake, database: Database
) -> None:
    faults.arm("smtp.rows-written:1:raise")
    try:
        with pytest.raises(StoreUnavailable) as caught:
            await post.store(envelope("a", "b"), PLAIN)
    finally:
        faults.disarm()

    assert type(caught.value) is StoreUnavailable
    assert await _all(database) == []
    await post.store(envelope("a", "b"), PLAIN)
    assert [each.sightings for each in await _all(database)] == [0, 0]


async def test_no_room_is_told_apart(database: Database) -> None:
    class Full:
        """A database on a full disk."""

        kind, writers, round_trips, deadline = "sqlite", 1, False, None

        def clock(self) -> int:
            return 1

        async def insert(self, *_: object, **__: object) -> int:
            raise DiskFull

    post = MailIntake(Full(), Telemetry(), LimitSettings(), VAULT)  # type: ignore[arg-type]

    with pytest.raises(DiskFull):
        await post.store(envelope("a"), PLAIN)


async def test_a_closed_database_is_trouble_that_passes(
    post: MailIntake, database: Database
) -> None:
    await database.close()

    with pytest.raises(StoreUnavailable):
        await post.store(envelope("a"), PLAIN)
