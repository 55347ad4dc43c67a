"""The source book: what edges and workers see, never older than seconds, never a wait."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.errors import ConfigInvalid, DatabaseUnreachable
from oncebox.ledger.admin import source_cache, sources
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.model.webhooks.source import SourceEntry, SourceOrigin, SourceState
from tests.support.clerk import DAY, TENANT, Clerk
from tests.support.databases import Place
from tests.support.office import KEY, SCHEMES, STRIPE, Office

CANARY = "whsec_CANARY"
Tables = dict[str, dict[str, Any]]


class Shelf:
    """A book over a database, its file, its environment, and an office that changes it."""

    def __init__(self, office: Office, database: Database) -> None:
        self.office = office
        self.database = database
        self.environ: dict[str, str] = {}
        self.telemetry = Telemetry()
        self.book = self.opened()

    def opened(
        self, tables: Tables | None = None, tenant: str = TENANT, key: MasterKey = KEY
    ) -> SourceCache:
        """Open another book, with what stands in the file."""
        return SourceCache(
            self.database,
            key,
            self.telemetry,
            written=source_cache.read_configured(tables or {}, tenant, key),
            schemes=SCHEMES,
            environ=self.environ,
            every=0.01,
        )

    async def entry(self, name: str = "stripe", tenant: str = TENANT) -> SourceEntry:
        await self.book.refresh()
        found = self.book.find(tenant, name)
        assert found is not None
        return found


@pytest.fixture
async def shelf(place: Place, clerk: Clerk) -> AsyncIterator[Shelf]:
    database = place.open(now=lambda: clerk.now)
    shelf = Shelf(Office(clerk), database)
    yield shelf
    await shelf.book.close()
    await database.close()


def _values(entry: SourceEntry) -> list[str]:
    return [secret.value for secret in entry.source.secrets]


async def _until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - a task of the book is waited for
            await asyncio.sleep(0.01)


async def test_a_source_is_found_by_name_and_by_address_with_its_secrets(shelf: Shelf) -> None:
    added = shelf.office.add("stripe", {**STRIPE, "budget": 1.5}, CANARY)

    entry = await shelf.entry()

    assert shelf.book.by_public_id(added.public_id) is entry
    assert (entry.state, entry.origin, entry.troubles) == (
        SourceState.READY,
        SourceOrigin.DATABASE,
        (),
    )
    assert (entry.source.budget, entry.source.public_id) == (1_500, added.public_id)
    assert _values(entry) == [CANARY]
    assert CANARY not in repr(entry)


async def test_an_empty_book_finds_nothing(shelf: Shelf) -> None:
    await shelf.book.refresh()

    assert shelf.book.by_public_id("stripe") is shelf.book.find(TENANT, "stripe") is None
    assert shelf.book.all() == []


async def test_another_tenants_source_is_not_there(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, "mine")
    shelf.office.add("github", None, "theirs", tenant="default")
    await shelf.book.refresh()

    assert shelf.book.find(TENANT, "github") is None
    assert [each.source.name for each in shelf.book.all(TENANT)] == ["stripe"]
    assert [each.source.name for each in shelf.book.all()] == ["stripe", "github"]


async def test_a_change_by_another_process_is_seen_without_asking(shelf: Shelf) -> None:
    await shelf.book.refresh()
    shelf.book.start()

    added = shelf.office.add("stripe", None, CANARY)
    await _until(lambda: shelf.book.by_public_id(added.public_id))
    shelf.office.clerk.run(shelf.office.keeper.pause, "stripe", shelf.office.deed())
    await _until(lambda: shelf.book.all()[0].state is SourceState.PAUSED)
    shelf.office.clerk.run(shelf.office.keeper.remove, "stripe", shelf.office.deed())
    await _until(lambda: shelf.book.by_public_id(added.public_id) is None)


async def test_nothing_is_read_anew_while_nothing_changes(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.office.add("stripe", None, CANARY)
    entry = await shelf.entry()
    monkeypatch.setattr(sources, "read_all", None)

    for _ in range(3):
        assert await shelf.entry() is entry


async def test_a_store_that_is_down_leaves_what_is_known(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.office.add("stripe", None, CANARY)
    entry = await shelf.entry()

    async def down(*_args: object) -> None:
        raise DatabaseUnreachable("down")

    with monkeypatch.context() as patch:
        patch.setattr(shelf.database, "read", down)
        with pytest.raises(DatabaseUnreachable):
            await shelf.book.refresh()
        shelf.book.start()
        await _until(lambda: 'code="database_unreachable"' in shelf.telemetry.scrape())
        assert shelf.book.find(TENANT, "stripe") is entry
    shelf.office.change(rate=1)
    await _until(lambda: shelf.book.all()[0].source.rate == 1)


async def test_a_retired_secret_is_gone_from_the_book(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, "old")
    id_ = shelf.office.kept().secrets[0].id
    shelf.office.add_secret("new")
    assert _values(await shelf.entry()) == ["new", "old"]

    shelf.office.retire(id_)

    entry = await shelf.entry()
    assert _values(entry) == ["new"]
    assert (entry.state, entry.troubles) == (SourceState.READY, ())
    assert [each.id for each in shelf.book.secrets(TENANT, "stripe")][1] == id_


async def test_a_secret_retired_for_later_goes_when_its_time_comes(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, "old")
    shelf.office.retire(shelf.office.kept().secrets[0].id, at=shelf.office.clerk.now + DAY)
    assert _values(await shelf.entry()) == ["old"]

    shelf.office.clerk.now += DAY

    entry = await shelf.entry()
    assert (_values(entry), entry.state) == ([], SourceState.UNREADY)


# what does not work


async def test_a_source_without_a_secret_does_not_start(shelf: Shelf) -> None:
    shelf.office.add()

    entry = await shelf.entry()

    assert entry.state is SourceState.UNREADY
    assert "oncebox source secret add stripe" in entry.note
    assert entry.troubles[0].code == "secret_unavailable"
    assert 'oncebox_sources{state="unready"} 1.0' in shelf.telemetry.scrape()


@pytest.mark.parametrize(
    ("scheme", "allow"), [("none", True), ("aws-sns", False)], ids=["none", "aws-sns"]
)
async def test_a_scheme_that_needs_no_secret_starts_without(
    shelf: Shelf, scheme: str, allow: bool
) -> None:
    shelf.office.add("open", {"scheme": scheme, "allow_unsigned": allow})

    assert (await shelf.entry("open")).state is SourceState.READY


async def test_a_variable_that_is_missing_makes_it_unready_and_is_named(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, "env:HOOK_SECRET")
    entry = await shelf.entry()
    assert (entry.state, entry.troubles[0].code) == (SourceState.UNREADY, "secret_unavailable")
    assert "HOOK_SECRET" in entry.note

    shelf.environ["HOOK_SECRET"] = CANARY
    shelf.book = shelf.opened()

    entry = await shelf.entry()
    assert (entry.state, _values(entry)) == (SourceState.READY, [CANARY])


async def test_a_file_is_read_again_when_it_is_replaced(shelf: Shelf, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    shelf.office.add("stripe", None, f"file:{file}")
    entry = await shelf.entry()
    assert entry.state is SourceState.UNREADY
    assert str(file) in entry.note

    for value in ("first", "second"):
        file.write_text(f"{value}\n")
        entry = await shelf.entry()
        assert (entry.state, _values(entry)) == (SourceState.READY, [value])


async def test_one_secret_that_opens_is_enough_and_the_other_is_told(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    """So that a secret can be added before every host has it."""
    shelf.office.add("stripe", None, CANARY)
    shelf.office.add_secret("env:NEXT_SECRET")

    with caplog.at_level(logging.INFO, "oncebox"):
        for _ in range(3):
            entry = await shelf.entry()

    assert (entry.state, _values(entry)) == (SourceState.READY, [CANARY])
    assert "NEXT_SECRET" in entry.note
    told = [each for each in caplog.records if "source_unusable" in str(each.msg)]
    assert len(told) == 1
    assert "CANARY" not in caplog.text


async def test_a_secret_sealed_by_another_master_key_is_told_by_its_code(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, CANARY)
    shelf.book = shelf.opened(key=MasterKey(bytes(32)))

    entry = await shelf.entry()

    assert (entry.state, entry.troubles[0].code) == (SourceState.UNREADY, "master_key_wrong")
    assert CANARY not in repr(entry)


async def test_a_secret_moved_to_another_row_does_not_open(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, CANARY)
    shelf.office.add("theirs", None, "their secret", tenant="default")
    shelf.office.clerk.session.run(
        lambda tx: tx.execute(
            "UPDATE oncebox_source_secrets SET sealed = (SELECT sealed FROM "
            "oncebox_source_secrets WHERE source = 'theirs') WHERE source = 'stripe'"
        )
    )

    assert (await shelf.entry()).troubles[0].code == "master_key_wrong"


async def test_a_scheme_that_is_gone_makes_it_unready(shelf: Shelf) -> None:
    shelf.office.add("stripe", None, CANARY)
    _rewrite(shelf, '{"scheme": "no-such"}')

    entry = await shelf.entry()

    assert entry.state is SourceState.UNREADY
    assert "no-such" in entry.note


async def test_one_row_that_cannot_be_read_stops_no_other(shelf: Shelf) -> None:
    """As when a newer version wrote it; nothing of it runs by mistaken rules."""
    shelf.office.add("stripe", None, CANARY)
    shelf.office.add("other", None, CANARY)
    _rewrite(shelf, '{"scheme": "stripe", "from_the_future": 1}')

    entry = await shelf.entry()

    assert (entry.state, entry.source.paused) == (SourceState.UNREADY, True)
    assert "from_the_future" in entry.note
    assert (await shelf.entry("other")).state is SourceState.READY


def _rewrite(shelf: Shelf, settings: str) -> None:
    def rewrite(tx: Any) -> None:
        sources.lock_changes(tx)
        tx.execute(f"UPDATE oncebox_sources SET settings = '{settings}' WHERE name = 'stripe'")  # noqa: S608

    shelf.office.clerk.session.run(rewrite)


# the file


async def test_the_file_wins_over_the_database(shelf: Shelf) -> None:
    shelf.office.add("stripe", {**STRIPE, "rate": 1}, "of the database")
    table = {**STRIPE, "rate": 2, "secrets": [CANARY, "env:OTHER"], "public_id": "hooks"}
    shelf.environ["OTHER"] = "other"
    shelf.book = shelf.opened({"stripe": table})

    entry = await shelf.entry()

    assert (entry.origin, entry.source.rate) == (SourceOrigin.FILE, 2)
    assert _values(entry) == [CANARY, "other"]
    assert shelf.book.by_public_id("hooks") is entry
    assert shelf.book.by_public_id(shelf.office.kept().public_id) is None
    assert [each.id for each in shelf.book.secrets(TENANT, "stripe")] == [
        "sec_file_1",
        "sec_file_2",
    ]


async def test_an_address_of_the_file_is_never_led_astray(shelf: Shelf) -> None:
    shelf.office.add("theirs", None, "x", tenant=TENANT, public_id="hooks")
    shelf.book = shelf.opened({"hooks": {**STRIPE, "secrets": CANARY}}, tenant="default")

    entry = await shelf.entry("hooks", "default")
    theirs = await shelf.entry("theirs")

    assert shelf.book.by_public_id("hooks") is entry
    assert theirs.state is SourceState.UNREADY
    assert "settings file" in theirs.note


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({}, "scheme"),
        ({**STRIPE, "rat": 1}, "rat"),
        ({**STRIPE, "rate": "x"}, "rate"),
        ({**STRIPE, "secrets": 5}, "secrets"),
        ({**STRIPE, "secrets": [5]}, "secrets"),
        ({**STRIPE, "secrets": [CANARY, "env:"]}, r"secrets\[1\]"),
        ({**STRIPE, "public_id": 5}, "public_id"),
        ({**STRIPE, "public_id": "a/b"}, "public_id"),
        ({"scheme": "none"}, "allow_unsigned"),
    ],
)
def test_a_mistake_in_the_file_names_source_and_field(table: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigInvalid, match=named) as caught:
        source_cache.read_configured({"stripe": table}, "default", KEY)

    assert "'stripe'" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_two_sources_of_the_file_may_not_share_an_address() -> None:
    tables = {"one": {**STRIPE, "public_id": "x"}, "two": {**STRIPE, "public_id": "x"}}

    with pytest.raises(ConfigInvalid, match="'one' has it too"):
        source_cache.read_configured(tables, "default", KEY)


def test_a_guessable_address_for_another_tenant_must_be_meant() -> None:
    with pytest.raises(ConfigInvalid, match="cannot be guessed"):
        source_cache.read_configured({"stripe": STRIPE}, TENANT, KEY)

    assert source_cache.read_configured({"stripe": STRIPE}, "default", KEY)[0].public_id == "stripe"
