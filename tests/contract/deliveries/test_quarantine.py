"""Quarantine: rejected requests are kept within caps, their secrets sealed, and admitted once."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.errors import MasterKeyWrong, NotFound
from oncebox.ledger.deliveries import quarantine
from oncebox.ledger.deliveries.quarantine import QuarantineWriter
from oncebox.model.deliveries.delivery import ArrivalKind
from oncebox.model.deliveries.duplicates import DuplicateClass
from oncebox.model.webhooks.quarantine import QuarantinedRequest, RejectedRequest
from oncebox.settings import QuarantineSettings
from tests.support.clerk import SOURCE, TENANT, Clerk
from tests.support.databases import Place
from tests.support.interleaved import interleave

KEY = MasterKey(bytes(32))
HEADERS = (
    ("Content-Type", "application/json"),
    ("X-Hub-Signature-256", "sha256=00"),
    ("Authorization", "Bearer letmein"),
    ("X-Gitlab-Token", "letmein"),
    ("Cookie", "session=letmein"),
)


def _rejected(source: str = SOURCE, body: bytes = b"{}", **more: Any) -> RejectedRequest:
    return RejectedRequest(
        id=ids.new("rej"),
        tenant=more.pop("tenant", TENANT),
        source=source,
        reason=more.pop("reason", "mismatch"),
        method="POST",
        url=more.pop("url", "/in/src_1?token=letmein"),
        headers=more.pop("headers", HEADERS),
        body=body,
        received_at=1_000,
    )


def _keep(clerk: Clerk, *rejected: RejectedRequest, **caps: int) -> list[QuarantinedRequest]:
    kept = [quarantine.redact(each, KEY) for each in rejected]
    counts = Counter((each.tenant, each.source, each.duplicate_class) for each in kept)
    clerk.run(quarantine.store, kept, counts, QuarantineSettings(**caps), clerk.now)
    return kept


def _ids(clerk: Clerk, tenant: str = TENANT, **more: Any) -> list[str]:
    return [each.id for each in clerk.run(quarantine.newest, tenant, **more)]


def test_a_rejected_request_is_kept_with_its_reason(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected(reason="future"))

    (listed,) = clerk.run(quarantine.newest, TENANT)
    assert (listed.id, listed.reason, listed.duplicate_class) == (
        kept.id,
        "future",
        DuplicateClass.STALE,
    )
    assert clerk.run(quarantine.get, TENANT, kept.id) == kept


def test_what_may_be_a_secret_is_not_stored_in_the_open(clerk: Clerk, place: Place) -> None:
    (kept,) = _keep(clerk, _rejected())

    assert kept.url == "/in/src_1"
    assert [value for _, value in kept.headers] == [
        "application/json",
        "sha256=00",
        *["[sealed]"] * 3,
    ]
    rows = clerk.session.run(lambda tx: tx.execute("SELECT * FROM oncebox_quarantine"))
    assert "letmein" not in repr([[bytes(x) if isinstance(x, memoryview) else x for x in rows[0]]])
    if place.kind == "sqlite":
        assert not any(b"letmein" in file.read_bytes() for file in _files(place.path))


def _files(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if file.is_file()]


def test_a_header_that_holds_the_secret_of_the_source_is_sealed_whatever_its_name() -> None:
    rejected = msgspec.structs.replace(_rejected(), headers=(("X-Hook", "letmein"), ("A", "b")))

    kept = quarantine.redact(rejected, KEY, frozenset({"x-hook"}))

    assert kept.headers == (("X-Hook", "[sealed]"), ("A", "b"))
    assert quarantine.restore(kept, KEY) == rejected


def test_a_request_is_opened_as_it_came(clerk: Clerk) -> None:
    rejected = _rejected(body=bytes(range(256)))
    _keep(clerk, rejected)

    assert quarantine.restore(clerk.run(quarantine.get, TENANT, rejected.id), KEY) == rejected


def test_another_master_key_does_not_open_it(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected())

    with pytest.raises(MasterKeyWrong):
        quarantine.restore(kept, MasterKey(bytes([1] * 32)))


def test_characters_no_database_takes_are_spelled_out(clerk: Clerk) -> None:
    odd = _rejected(reason="a\0b", url="/\0\ud800?q", headers=(("X", "\0\udfff"),))
    _keep(clerk, odd)

    kept = clerk.run(quarantine.get, TENANT, odd.id)
    assert (kept.reason, kept.url) == ("a\\x00b", "/\\x00\\ud800")


def test_a_request_never_tells_its_secrets_in_an_error() -> None:
    assert "letmein" not in repr(_rejected())


def test_the_oldest_of_a_source_go_when_there_are_too_many(clerk: Clerk) -> None:
    other = _keep(clerk, _rejected("bank"))
    kept = [_keep(clerk, _rejected(), source_count=3)[0] for _ in range(5)]

    assert _ids(clerk, source=SOURCE) == [each.id for each in reversed(kept[2:])]
    assert _ids(clerk, source="bank") == [other[0].id]


def test_the_oldest_of_a_source_go_when_they_are_too_large(clerk: Clerk) -> None:
    kept = [_keep(clerk, _rejected(body=b"x" * 1_000), source_bytes=3_000)[0] for _ in range(5)]

    assert _ids(clerk) == [kept[4].id, kept[3].id]


def test_the_oldest_of_all_go_when_all_are_too_many(clerk: Clerk) -> None:
    theirs = _keep(clerk, _rejected(tenant="other"))
    kept = [_keep(clerk, _rejected(f"source-{n}"), count=4)[0] for n in range(7)]

    assert _ids(clerk) == [each.id for each in reversed(kept[3:])]
    assert _ids(clerk, "other") == [theirs[0].id]


def test_the_oldest_of_all_go_when_all_are_too_large(clerk: Clerk) -> None:
    body = b"x" * 1_000
    kept = [_keep(clerk, _rejected(f"source-{n}", body), bytes=3_000)[0] for n in range(5)]

    assert _ids(clerk) == [kept[4].id, kept[3].id]


def test_one_that_is_too_large_by_itself_drives_nobody_out(clerk: Clerk) -> None:
    (small,) = _keep(clerk, _rejected())
    _keep(clerk, _rejected(body=b"x" * 10_000), source_bytes=5_000)

    assert _ids(clerk) == [small.id]


def test_every_rejection_is_counted_by_its_class_kept_or_not(clerk: Clerk) -> None:
    reasons = ["mismatch", "mismatch", "future", "missing"]
    _keep(clerk, *(_rejected(reason=reason) for reason in reasons), source_count=1)

    counted = {
        each.duplicate_class: each.count for each in clerk.run(quarantine.count_rejects, TENANT)
    }
    assert counted == {DuplicateClass.FORGED: 2, DuplicateClass.STALE: 1, DuplicateClass.UNCLEAR: 1}
    assert len(_ids(clerk)) == 1


def test_a_request_can_be_forgotten_and_that_is_written_down(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected())

    clerk.run(quarantine.discard, kept.id, clerk.deed())

    assert _ids(clerk) == []
    rows = clerk.session.run(lambda tx: tx.execute("SELECT action, target FROM oncebox_audit"))
    assert rows == [("forget", kept.id)]
    with pytest.raises(NotFound):
        clerk.run(quarantine.discard, kept.id, clerk.deed())


def test_foreign_requests_are_not_found(clerk: Clerk) -> None:
    (theirs,) = _keep(clerk, _rejected(tenant="other"))

    with pytest.raises(NotFound):
        clerk.run(quarantine.get, TENANT, theirs.id)
    with pytest.raises(NotFound):
        clerk.run(quarantine.discard, theirs.id, clerk.deed())


def test_a_request_is_admitted_once(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected())
    first, second = clerk.arrival("1"), clerk.arrival("2")

    (accepted,) = clerk.run(quarantine.admit, kept.id, [first], clerk.deed())

    assert accepted.arrival is ArrivalKind.NEW
    with pytest.raises(NotFound):
        clerk.run(quarantine.admit, kept.id, [second], clerk.deed())
    assert [each.id for each in clerk.claim()] == [first.id]
    assert _ids(clerk) == []


def test_of_two_who_admit_a_request_at_once_one_does(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected())
    one, two = clerk.arrival("1"), clerk.arrival("2")
    deed, other = clerk.deed(), clerk.deed()

    with pytest.raises(NotFound):
        interleave(
            clerk.place,
            lambda tx: quarantine.admit(tx, kept.id, [one], deed),
            lambda tx: quarantine.admit(tx, kept.id, [two], other),
        )

    assert [each.id for each in clerk.all()] == [one.id]


def test_what_was_delivered_meanwhile_is_a_duplicate_when_it_is_admitted(clerk: Clerk) -> None:
    (kept,) = _keep(clerk, _rejected())
    clerk.accept_one("1")

    (accepted,) = clerk.run(quarantine.admit, kept.id, [clerk.arrival("1")], clerk.deed())

    assert accepted.arrival is ArrivalKind.DUPLICATE


# the hand-over


def _handover(database: Database, telemetry: Telemetry, **caps: int) -> QuarantineWriter:
    return QuarantineWriter(database, telemetry, key=KEY, caps=QuarantineSettings(**caps))


def _put(handover: QuarantineWriter, count: int = 1, body: bytes = b"{}") -> None:
    for _ in range(count):
        handover.put(
            SOURCE, tenant=TENANT, reason="mismatch", headers=HEADERS, body=body, url="/in/x"
        )


async def test_a_rejected_request_does_not_wait_for_the_store(database: Database) -> None:
    """It is taken at once, and stored a little later."""
    handover = _handover(database, Telemetry())
    _put(handover, 3)
    assert await database.read(quarantine.newest, TENANT) == []

    for _ in range(100):
        if len(await database.read(quarantine.newest, TENANT)) == 3:
            break
        await asyncio.sleep(0.02)

    assert len(await database.read(quarantine.newest, TENANT)) == 3
    await handover.close()


async def test_what_waits_is_stored_at_the_end(database: Database) -> None:
    handover = _handover(database, Telemetry())
    _put(handover, 150)

    await handover.close()

    assert len(await database.read(quarantine.newest, TENANT, most=500)) == 150


@pytest.mark.parametrize("caps", [{"waiting": 5}, {"waiting_bytes": 5 * 800}])
async def test_what_finds_no_room_is_counted_but_not_kept(
    database: Database, caps: dict[str, int]
) -> None:
    telemetry = Telemetry()
    handover = _handover(database, telemetry, **caps)
    _put(handover, 500, b"x" * 400)

    await handover.close()

    kept = len(await database.read(quarantine.newest, TENANT, most=500))
    assert 3 <= kept <= 6
    (counted,) = await database.read(quarantine.count_rejects, TENANT)
    assert counted.count == 500
    assert f"oncebox_not_quarantined_total {500 - kept}.0" in telemetry.scrape()
    assert 'oncebox_rejected_total{class="forged"} 500.0' in telemetry.scrape()


async def test_a_closed_database_loses_the_requests_and_nothing_else(database: Database) -> None:
    telemetry = Telemetry()
    handover = _handover(database, telemetry)
    _put(handover)
    await database.close()

    await handover.close()

    assert "oncebox_not_quarantined_total 1.0" in telemetry.scrape()
