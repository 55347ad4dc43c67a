"""Refresh tokens that the endpoint replaces: stored, so that whoever reads next uses the newest."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from oncebox.core import ids
from oncebox.errors import LeaseLost, StateConflict
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.mailboxes.mailbox_config import decode_config, draft_mailbox, probe_mailbox
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxLease
from oncebox.model.mailboxes.mailbox_fields import (
    DeclaredMailboxes,
    MailboxDraft,
    MailboxFields,
)
from oncebox.testing.gmail import FakeGmail
from oncebox.testing.mailbox_server import MailboxServer
from oncebox.workers.mailboxes.declaration import MailboxDeclarer
from oncebox.workers.mailboxes.mailbox_worker import MailboxWorker
from oncebox.workers.mailboxes.routing import open_mailbox
from tests.contract.mailboxes.test_mailbox_worker import House, house, letters
from tests.support.clerk import TENANT
from tests.support.token_endpoint import TokenEndpoint, rotating_tokens

__all__ = ["house"]  # a fixture


class Account:
    """A mailbox behind tokens that are good once."""

    def __init__(
        self, house: House, gmail: MailboxServer[FakeGmail], endpoint: TokenEndpoint
    ) -> None:
        self.house = house
        self.gmail = gmail
        self.endpoint = endpoint

    def draft(self, written: str = "refresh-1", **fields: Any) -> MailboxDraft:
        """Return the mailbox as its owner writes it."""
        given = {
            "kind": "gmail", "url": self.gmail.url, "since": "all", "poll_every": 0.05,
            "token_url": self.endpoint.url, "client_id": "app", "refresh_token": written,
            "inbox": self.house.inbox.id, **fields,
        }  # fmt: skip
        return draft_mailbox("support", MailboxFields(**given))

    async def add(self) -> Mailbox:
        """Add it by command."""
        service = self.house.box.components.mailbox_service
        await self.write(tenants.create, TENANT, self.entry())
        added: Mailbox = await self.write(service.add, self.draft(), self.entry())
        return added

    async def declare(self, draft: MailboxDraft) -> None:
        """Store it as a process does that has it in its settings, and read it there."""
        await self.declarer(draft)()
        self.worker("w", draft)

    def worker(self, name: str = "w1", declared: MailboxDraft | None = None) -> MailboxWorker:
        """Start a worker that reads it, as a process does."""
        components = self.house.box.components
        worker = self.house.make_worker(name)
        worker._open_reader = partial(open_mailbox, components.ledger, components.mailbox_cipher)
        if declared is not None:
            worker._declare = self.declarer(declared)
        return self.house.start(worker)

    def declarer(self, draft: MailboxDraft) -> MailboxDeclarer:
        """Return what stores a mailbox of the settings."""
        components = self.house.box.components
        written = DeclaredMailboxes(names=frozenset({draft.name}), drafts=(draft,))
        return MailboxDeclarer(
            components.ledger, components.mailbox_service, written, components.telemetry,
            tenant=TENANT,
        )  # fmt: skip

    async def write(self, function: Any, *arguments: Any) -> Any:
        return await self.house.box.components.database.write(function, *arguments)

    def entry(self) -> AuditEntry:
        now = self.house.box.components.database.clock()
        return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="ann", why="")

    async def token(self) -> str:
        """Return the refresh token that is stored."""
        service = self.house.box.components.mailbox_service
        source = decode_config(service.decrypt(await self.house.stored())).token_url
        return "" if source is None else source.refresh_token

    async def reads_again(self, number: int) -> None:
        """Deliver a mail, and wait until it is read."""
        self.gmail.api.deliver(*letters(1, first=number))
        found = await self.house.becomes(
            lambda found: found.figures.messages == number or found.paused is not None
        )
        assert found.paused is None, found.paused

    async def stop(self) -> None:
        """Stop the worker that was started last."""
        worker, task = self.house.workers.pop()
        worker.stop()
        await task


@pytest.fixture
async def account(house: House) -> AsyncIterator[Account]:
    """A mailbox that nobody reads yet."""
    with rotating_tokens() as endpoint:
        async with MailboxServer(FakeGmail()) as gmail:
            yield Account(house, gmail, endpoint)
            while house.workers:
                await Account(house, gmail, endpoint).stop()


async def test_a_reader_that_is_opened_again_uses_the_newest_refresh_token(
    account: Account,
) -> None:
    await account.add()
    account.worker()
    await account.reads_again(1)
    account.gmail.script("500")  # the reader is closed and opened again
    await account.reads_again(2)

    assert account.endpoint.refused == []
    assert account.endpoint.accepted == ["refresh-1", "refresh-2"]
    assert await account.token() == "refresh-3"


async def test_another_process_uses_the_newest_refresh_token(account: Account) -> None:
    await account.add()
    account.worker("w1")
    await account.reads_again(1)
    await account.stop()
    account.worker("w2")
    await account.reads_again(2)

    assert account.endpoint.refused == []


async def test_a_worker_that_lost_its_lease_stores_no_token(account: Account) -> None:
    added = await account.add()
    stale = MailboxLease(id=added.id, tenant=TENANT, fence=added.fence - 1)
    now = account.entry().at
    with pytest.raises(LeaseLost):
        await account.write(mailboxes.store_config, stale, b"other", now)

    assert await account.token() == "refresh-1"


async def test_a_change_that_began_before_does_not_bring_an_old_token_back(
    account: Account,
) -> None:
    added = await account.add()
    lease = MailboxLease(id=added.id, tenant=TENANT, fence=added.fence)
    await account.write(mailboxes.store_config, lease, b"new token", added.changed_at)
    cipher = account.house.box.components.mailbox_cipher
    old = account.draft().to_mailbox(cipher.encrypt(TENANT, "support", account.draft().config))
    with pytest.raises(StateConflict):
        await account.write(partial(mailboxes.change, seen=added.changed_at), old, account.entry())


async def test_a_token_that_a_test_replaced_is_stored_and_used_by_whoever_reads(
    account: Account,
) -> None:
    await account.add()
    account.worker()
    await account.reads_again(1)
    components = account.house.box.components
    found = await account.house.stored()

    async def keep(config: bytes) -> None:
        await account.write(
            components.mailbox_service.keep_token, found, config, account.entry().at
        )

    await probe_mailbox(components.mailbox_service.decrypt(found), keep)
    await account.house.becomes(lambda now: now.fence > found.fence + 1)
    await account.reads_again(2)

    assert account.endpoint.refused == []
    assert account.endpoint.accepted == ["refresh-1", "refresh-2", "refresh-3"]


async def test_a_test_of_a_mailbox_that_is_paused_does_not_resume_it(account: Account) -> None:
    await account.add()
    await account.house.pause()
    found = await account.house.stored()
    service = account.house.box.components.mailbox_service
    await account.write(service.keep_token, found, account.draft("refresh-9").config, 1)
    after = await account.house.stored()

    assert (after.paused, after.due_at) == ("operator", None)
    assert await account.token() == "refresh-9"
    with pytest.raises(StateConflict):
        await account.write(service.keep_token, found, account.draft().config, 1)


# of the settings


async def test_the_settings_do_not_bring_the_token_back_that_the_newest_was_issued_from(
    account: Account,
) -> None:
    await account.declare(account.draft())
    await account.reads_again(1)
    await account.stop()
    before = await account.house.stored()
    await account.declarer(account.draft())()
    same = await account.house.stored()
    await account.declare(account.draft(poll_every=0.1))  # changed otherwise
    await account.reads_again(2)

    assert (same.fence, same.changed_at) == (before.fence, before.changed_at)
    assert (await account.house.stored()).poll_every == 100
    assert account.endpoint.refused == []


async def test_a_token_that_is_new_in_the_settings_is_used(account: Account) -> None:
    await account.declare(account.draft())
    await account.reads_again(1)
    await account.stop()
    account.endpoint.number = 50  # the account was connected again
    await account.declare(account.draft("refresh-50"))
    await account.reads_again(2)
    await account.stop()
    await account.declare(account.draft("refresh-50"))
    await account.reads_again(3)

    assert account.endpoint.refused == []
    assert account.endpoint.accepted == ["refresh-1", "refresh-50", "refresh-51"]


async def test_a_stored_configuration_that_cannot_be_read_is_written_anew(
    account: Account,
) -> None:
    await account.declarer(account.draft())()
    known = await account.house.stored()
    lease = MailboxLease(id=known.id, tenant=TENANT, fence=known.fence)
    await account.write(mailboxes.store_config, lease, b"damaged", known.changed_at)
    await account.declarer(account.draft(poll_every=1))()

    assert await account.token() == "refresh-1"
