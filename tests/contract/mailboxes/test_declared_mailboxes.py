"""Mailboxes of the settings: stored when a worker begins, read only where they are written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncebox.box import Oncebox
from oncebox.components import Components
from oncebox.core import ids
from oncebox.errors import ConfigInvalid, StateConflict
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.mailboxes.mailbox_config import decode_config, draft_mailbox
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, MailboxOrigin, NewMailbox
from oncebox.model.mailboxes.mailbox_fields import MailboxDraft, MailboxFields
from oncebox.workers.mailboxes.declaration import MailboxDeclarer
from tests.support.clerk import LEASE, TENANT
from tests.support.databases import Place
from tests.support.program import settings

CANARY = "CANARYPASSWORD"
TABLE = {"url": "imaps://ann@127.0.0.1:1", "password": CANARY}


class Declared:
    """A process with mailboxes in its settings."""

    def __init__(self, components: Components) -> None:
        self.components = components
        self.declare = MailboxDeclarer(
            components.ledger,
            components.mailbox_service,
            components.declared_mailboxes,
            components.telemetry,
            tenant=TENANT,
        )

    async def write(self, function: Any, *arguments: Any) -> Any:
        return await self.components.database.write(function, *arguments)

    async def claim(self, worker: str = "w1", later: int = 0) -> list[Mailbox]:
        """Claim what is due, as a worker does."""
        declared = await self.declare()
        now = self.components.database.clock() + later
        found: list[Mailbox] = await self.write(mailboxes.claim, worker, LEASE, 10, now, declared)
        return found

    async def stored(self, name: str = "support") -> Mailbox:
        return await self.components.database.read(mailboxes.get, TENANT, name)

    async def audit(self) -> list[tuple[str, str]]:
        rows = await self.components.database.read(
            lambda tx: tx.execute("SELECT action, who FROM oncebox_audit ORDER BY id")
        )
        return [(action, who) for action, who in rows if action.startswith("mailbox")]

    def entry(self) -> AuditEntry:
        now = self.components.database.clock()
        return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="ann", why="")


@asynccontextmanager
async def process(place: Place, **tables: dict[str, Any]) -> AsyncIterator[Declared]:
    box = Oncebox(settings=msgspec.structs.replace(settings(place), mailboxes=tables))
    await box.open()
    try:
        yield Declared(box.components)
    finally:
        await box.close()


def draft(name: str = "support") -> MailboxDraft:
    return draft_mailbox(name, MailboxFields(url="imaps://bob@127.0.0.1:1", password="pw"))


async def test_a_mailbox_of_the_settings_is_stored_once_and_read(place: Place) -> None:
    async with process(place, support={**TABLE, "poll_every": "90", "since": "7"}) as one:
        (claimed,) = await one.claim()
        again = await one.claim("w2")
    async with process(place, support={**TABLE, "poll_every": 90, "since": 7}) as two:
        await two.declare()
        after, logged = await two.stored(), await two.audit()

    assert (claimed.name, claimed.origin) == ("support", MailboxOrigin.FILE)
    assert (claimed.poll_every, CANARY.encode() in claimed.config) == (90_000, False)
    assert again == []
    assert (after.fence, after.worker) == (claimed.fence, "w1"), "its reader keeps its lease"
    assert logged == [("mailbox add", "settings")]


async def test_a_change_of_the_settings_keeps_the_cursor_and_takes_the_lease(place: Place) -> None:
    async with process(place, support=TABLE) as one:
        (before,) = await one.claim()
    async with process(place, support={**TABLE, "password": "another"}) as two:
        await two.declare()
        after = await two.stored()
        config = decode_config(two.components.mailbox_service.decrypt(after))

    assert (after.id, after.cursor_version) == (before.id, before.cursor_version)
    assert after.fence > before.fence
    assert config.reader.password == "another"  # type: ignore[union-attr]


async def test_a_mailbox_that_is_taken_out_of_the_settings_is_read_no_more(place: Place) -> None:
    async with process(place, support=TABLE, work=TABLE) as one:
        assert len(await one.claim()) == 2
    async with process(place, work=TABLE) as two:
        left = await two.claim("w2", later=2 * LEASE)
        await two.write(two.components.mailbox_service.remove, "support", two.entry())
        with pytest.raises(StateConflict):
            await two.write(two.components.mailbox_service.remove, "work", two.entry())
    async with process(place) as three:
        none = await three.claim("w3", later=4 * LEASE)

    assert [each.name for each in left] == ["work"]
    assert none == []


async def test_the_settings_win_over_a_mailbox_made_by_command(place: Place) -> None:
    async with process(place) as one:
        await one.write(tenants.create, TENANT, one.entry())
        made = await one.write(one.components.mailbox_service.add, draft(), one.entry())
    async with process(place, support=TABLE) as two:
        await two.declare()
        now = await two.stored()

    assert (made.origin, now.origin) == (MailboxOrigin.DATABASE, MailboxOrigin.FILE)
    assert (made.id, made.account) == (now.id, "bob at 127.0.0.1")
    assert now.account == "ann at 127.0.0.1"


async def test_what_is_in_the_settings_is_changed_only_there_but_paused_and_resumed(
    place: Place,
) -> None:
    async with process(place, support=TABLE) as one:
        await one.declare()
        service = one.components.mailbox_service
        for verb in (service.add, service.change):
            with pytest.raises(StateConflict, match="settings file"):
                await one.write(verb, draft(), one.entry())
        paused = await one.write(mailboxes.pause, "support", one.entry())
        still = await one.claim()
        resumed = await one.write(mailboxes.resume, "support", one.entry())

    assert (paused.paused, still, resumed.paused) == ("operator", [], None)


async def test_a_mailbox_whose_secret_is_missing_stops_no_other(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "password"
    file.write_text(CANARY)
    tables = {
        "a": {**TABLE, "password": f"file:{tmp_path / 'missing'}"},
        "b": {**TABLE, "password": f"file:{file}"},
    }
    async with process(place, **tables) as one:
        claimed = await one.claim()
        config = decode_config(one.components.mailbox_service.decrypt(claimed[0]))

    assert [each.name for each in claimed] == ["b"]
    assert config.reader.password == CANARY  # type: ignore[union-attr]
    assert "mailbox_unusable" in caplog.text
    assert CANARY not in caplog.text


async def test_settings_that_no_server_could_have_refuse_to_start(place: Place) -> None:
    with pytest.raises(ConfigInvalid, match="URL"):
        async with process(place, support={**TABLE, "url": "http://127.0.0.1"}):
            pass


async def test_a_mailbox_of_a_program_is_not_taken_over(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    program = NewMailbox(name="support", kind=MailboxKind.PROGRAM, account="", config=b"")
    async with process(place) as one:
        await one.write(mailboxes.add, "mbx_1", program, one.entry())
    async with process(place, support=TABLE) as two:
        await two.declare()
        found = await two.stored()

    assert (found.kind, found.origin) == (MailboxKind.PROGRAM, MailboxOrigin.DATABASE)
    assert "mailbox_unusable" in caplog.text
