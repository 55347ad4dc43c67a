"""Mail at rest: sealed for its own place, opened where it is read, and one that cannot be opened
stands in nobody's way."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.errors import OnceboxError
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.ciphers import LARGE, MailCipher
from oncebox.ledger.deliveries import deduplication, inspections, leases
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.mail_intake import MailIntake
from oncebox.model.inboxes.message import DOCUMENT_UNREADABLE
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.settings import LimitSettings
from oncebox.workers.mail.mail_processor import MailProcessor
from tests.contract.inboxes.test_mail_intake import envelope
from tests.contract.inboxes.test_mail_processor import House
from tests.support.clerk import SOURCE, TENANT, VAULT, Clerk
from tests.support.databases import Place
from tests.support.letters import FILE, Mailroom, mail, posted
from tests.support.letters import envelope as letter
from tests.support.mail import stored

CODE = "code-7QX2ZK93"
SECRET = mail(subject=f"Subject {CODE}", text=f"Your code is {CODE}")
MARK = b"\0sealed:2\0"


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    """A box that reads mail."""
    house = House(place)
    await house.open()
    yield house
    await house.box.close()


def columns(table: str, column: str) -> Any:
    """Return a verb that reads a column as it lies in the database."""

    def read(tx: Transaction) -> list[bytes]:
        rows = tx.execute(f"SELECT {column} FROM {table} ORDER BY id")  # noqa: S608 - our own words
        return [bytes(value) for (value,) in rows]

    return read


BODIES = columns("oncebox_payloads", "body")
DOCUMENTS = columns("oncebox_messages", "document")


async def overwrite(house: House, table: str, column: str, value: bytes, id_: str) -> None:
    """Put something else into a row."""
    mark = "?" if house.place.kind == "sqlite" else "%s"
    statement = f"UPDATE {table} SET {column} = {mark} WHERE id = {mark}"  # noqa: S608 - our own
    await house.database.write(lambda tx: tx.execute(statement, [value, id_]))


async def posted_to(house: House, *raws: bytes) -> None:
    """Take mails in by the post."""
    for raw in raws:
        await house.box.components.mail_intake.store(letter("inb_1"), raw)


# sealed


async def test_what_mail_says_is_not_in_the_database(house: House) -> None:
    await posted_to(house, SECRET)
    house.work()
    await house.filed(1)
    kept = await house.database.read(BODIES) + await house.database.read(DOCUMENTS)

    assert len(kept) == 2
    for value in kept:
        assert value.startswith(MARK)
        assert CODE.encode() not in value
    assert kept[0][10:22] != kept[1][10:22]  # never the same nonce


async def test_what_was_sealed_is_read_as_it_came(house: House) -> None:
    """By whom it is filed, by operators, and in its true size."""
    await posted_to(house, SECRET)
    house.work()
    (message,) = await house.filed(1)
    vault, read = house.box.components.mail_cipher, house.database.read
    whole = await read(messages.get, vault, TENANT, message.id)
    page = await read(messages.page, TENANT, "inb_1", documents=vault)
    facts = await read(inspections.read_facts, TENANT, message.delivery_id)

    assert whole.document.parsed.subject == f"Subject {CODE}"
    assert page.documents[message.id] == whole.document
    assert await read(messages.raw, vault, TENANT, message.id) == SECRET
    assert (await read(inspections.payload, vault, TENANT, message.delivery_id))[1] == SECRET
    assert message.size == facts.size == len(SECRET)
    assert message.warnings == ()


async def test_what_several_inboxes_of_a_tenant_share_is_sealed_once(database: Database) -> None:
    post = MailIntake(database, Telemetry(), LimitSettings(), VAULT)
    await post.store(envelope("a", "b", "other/c/c"), SECRET)
    kept = await database.read(BODIES)
    found = await database.read(stored)

    assert len(kept) == len(set(kept)) == 2
    assert {each.body for each in found} == {SECRET}
    assert len({each.payload_id for each in found}) == 2


async def test_the_same_bytes_are_known_again_though_they_are_sealed_anew(
    database: Database,
) -> None:
    post = MailIntake(database, Telemetry(), LimitSettings(), VAULT)
    for _ in range(3):
        await post.store(envelope("a"), SECRET)
    (found,) = await database.read(stored)

    assert found.sightings == 2


class Watched(MailCipher):
    """Notes which threads seal and open."""

    def __init__(self) -> None:
        super().__init__(MasterKey(bytes(range(32))))
        self.threads: list[threading.Thread] = []

    def encrypt(self, plain: bytes, place: bytes) -> bytes:
        self.threads.append(threading.current_thread())
        return super().encrypt(plain, place)

    def decrypt(self, stored: bytes, place: bytes) -> bytes:
        self.threads.append(threading.current_thread())
        return super().decrypt(stored, place)


async def test_a_large_mail_is_sealed_and_opened_beside_the_loop(house: House) -> None:
    vault = house.box.components.mail_intake._cipher = Watched()
    await posted_to(house, SECRET + b"x" * LARGE)
    house.work()
    for worker in house.box._workers:  # large mail has a worker of its own
        if isinstance(processor := getattr(worker, "_processor", None), MailProcessor):
            processor._mail_cipher = vault
    await house.filed(1)
    sealing, opening, document = vault.threads

    assert sealing is not threading.main_thread() is not opening
    assert document is threading.main_thread()


# opened in its own place only


@pytest.mark.parametrize(
    "place",
    [
        vaults.mail_aad(TENANT, "pay_2"),
        vaults.mail_aad("other", "pay_1"),
        vaults.document_aad(TENANT, "pay_1"),
        b"",
    ],
    ids=["row", "tenant", "column", "nowhere"],
)
def test_a_sealed_value_opens_in_no_other_place(place: bytes) -> None:
    sealed = VAULT.encrypt(SECRET, vaults.mail_aad(TENANT, "pay_1"))

    assert VAULT.decrypt(sealed, vaults.mail_aad(TENANT, "pay_1")) == SECRET
    with pytest.raises(MailDecryptionFailed) as caught:
        VAULT.decrypt(sealed, place)
    assert CODE not in str(caught.value)
    assert isinstance(caught.value, OnceboxError)


@pytest.mark.parametrize("cut", [len(MARK), len(MARK) + 5, -1])
def test_what_is_damaged_is_not_opened(cut: int) -> None:
    sealed = VAULT.encrypt(SECRET, b"here")
    with pytest.raises(MailDecryptionFailed):
        VAULT.decrypt(sealed[:cut], b"here")
    with pytest.raises(MailDecryptionFailed):
        MailCipher(MasterKey(bytes(32))).decrypt(sealed, b"here")


# what was there before


def test_what_was_stored_before_there_was_a_vault_is_still_read(clerk: Clerk) -> None:
    room = Mailroom(clerk)
    (delivery,) = room.claimed(SECRET)
    (filed,) = clerk.run(FILE, [room.filing(delivery)], clerk.now)
    whole = clerk.run(messages.get, VAULT, TENANT, filed.message_id)
    page = clerk.run(messages.page, TENANT, "inb_1", documents=VAULT)

    assert clerk.session.run(BODIES) == [SECRET]
    assert whole.document is not None
    assert whole.document.parsed.subject == f"Subject {CODE}"
    assert page.documents == {filed.message_id: whole.document}
    assert clerk.run(messages.raw, VAULT, TENANT, filed.message_id) == SECRET
    assert clerk.run(inspections.payload, VAULT, TENANT, delivery.id)[1] == SECRET


async def test_mail_that_was_stored_before_is_filed_sealed(house: House) -> None:
    await house.post(SECRET)
    house.work()
    await house.filed(1)
    (document,) = await house.database.read(DOCUMENTS)

    assert document.startswith(MARK)


def test_a_webhook_that_looks_sealed_is_left_alone(clerk: Clerk) -> None:
    """The mark means something in mail only, which no stranger can put there unsealed."""
    body = VAULT.encrypt(b"x", b"here")
    (accepted,) = clerk.accept(clerk.arrival(body=body))
    (delivery,) = clerk.claim(source=SOURCE)

    assert delivery.body == body
    assert clerk.run(inspections.payload, VAULT, TENANT, accepted.id)[1] == body


async def test_mail_that_looks_sealed_is_a_mail_like_any_other(house: House) -> None:
    odd = VAULT.encrypt(b"Subject: x\r\n\r\nx", vaults.mail_aad(TENANT, "dlv_1"))
    await posted_to(house, odd)
    house.work()
    (message,) = await house.filed(1)
    vault = house.box.components.mail_cipher

    assert await house.database.read(messages.raw, vault, TENANT, message.id) == odd


# what cannot be opened


async def test_mail_that_cannot_be_opened_is_dead_at_once_and_keeps_nobody_waiting(
    house: House,
) -> None:
    await posted_to(house, SECRET, mail(text="next", message_id="<2@x>"))
    first, _second = await house.database.read(stored)
    await overwrite(house, "oncebox_payloads", "body", MARK + bytes(50), first.payload_id)
    house.work()
    await house.filed(1)
    (id_,) = [each.id for each in await house.database.read(inspections.newest, TENANT)][1:]

    assert await house.settled(id_) == ["dead"]
    facts = await house.database.read(inspections.read_facts, TENANT, id_)
    assert facts.tries == 1
    assert "master key" in facts.last_error
    with pytest.raises(MailDecryptionFailed):
        await house.database.read(
            inspections.payload, house.box.components.mail_cipher, TENANT, id_
        )


@pytest.mark.parametrize("unlike", [None, b'{"parsed": {"status": "of a later version"}}', b"{"])
async def test_a_message_that_cannot_be_opened_warns_and_the_others_are_read(
    house: House, unlike: bytes | None
) -> None:
    """Also when documents were exchanged by somebody who can write to the database.

    Or when one says something that this version does not know.
    """
    await posted_to(house, *(mail(message_id=f"<{number}@x>") for number in range(3)))
    house.work()
    ids = [each.id for each in await house.filed(3)]
    documents = await house.database.read(DOCUMENTS)
    await overwrite(house, "oncebox_messages", "document", unlike or documents[1], ids[0])
    vault, read = house.box.components.mail_cipher, house.database.read
    page = await read(messages.page, TENANT, "inb_1", documents=vault)
    whole = await read(messages.get, vault, TENANT, ids[0])

    assert [each.warnings for each in page.messages] == [(DOCUMENT_UNREADABLE,), (), ()]
    assert sorted(page.documents) == ids[1:]
    assert (whole.document, whole.message.warnings) == (None, (DOCUMENT_UNREADABLE,))
    assert whole.message.document_size


@pytest.mark.parametrize("unlike", [MARK + bytes(50), b"{"])
async def test_a_copy_of_a_message_that_cannot_be_opened_is_still_a_copy(
    house: House, unlike: bytes
) -> None:
    await posted_to(house, SECRET)
    house.work()
    (message,) = await house.filed(1)
    await overwrite(house, "oncebox_messages", "document", unlike, message.id)
    await posted_to(house, b"X-Copy: 1\r\n" + SECRET)
    async with asyncio.timeout(30):
        while not (await house.messages())[0].duplicates:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert len(await house.messages()) == 1


def test_a_mail_to_several_inboxes_is_claimed_whole_for_each(clerk: Clerk) -> None:
    """Its size is that of the plain bytes, which are fewer than the sealed ones."""
    room = Mailroom(clerk)
    room.add_inbox("inb_2")
    plain = posted(SECRET, "inb_1", "inb_2", now=clerk.now)
    sealed = VAULT.encrypt(SECRET, vaults.mail_aad(TENANT, str(plain[0].payload_id)))
    new = [msgspec.structs.replace(each, body=sealed) for each in plain]
    clerk.run(deduplication.accept, new, clerk.now)
    claimed = clerk.claim(source=MAIL_SOURCE)
    again = clerk.run(leases.as_claimed, TENANT, [each.id for each in claimed])

    assert [each.body for each in (*claimed, *again.values())] == [sealed] * 4
    assert {each.payload_id for each in claimed} == {new[0].payload_id}
