"""Rotation of the master key: everything stays readable, goes on after an interruption, and ends
with a database that the old key does not open."""

import asyncio
import base64
import os
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from oncebox.box import Oncebox
from oncebox.core import faults, ids
from oncebox.core.encryption import HEADER_BYTES, PREFIX, MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db import data_keys, startup
from oncebox.db.database import Database
from oncebox.errors import (
    DatabaseUnreachable,
    DataKeyUnknown,
    MasterKeyRotating,
    MasterKeyWrong,
    StateConflict,
)
from oncebox.ledger import master_key_rotation as rotation
from oncebox.ledger.admin import sources
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import ArtifactCipher, MailCipher, SendCipher, mail_aad, send_aad
from oncebox.ledger.deliveries import inspections, quarantine
from oncebox.ledger.inboxes import messages
from oncebox.ledger.sends import suppressions, transports
from oncebox.model.inboxes.received_mail import ArtifactKind
from tests.contract.inboxes.test_mail_encryption import overwrite
from tests.contract.inboxes.test_mail_processor import House
from tests.support.api import Api
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.http import until
from tests.support.letters import envelope, mail
from tests.support.sealed_values import (
    ACTION,
    COLUMNS,
    SECRET,
    SEND,
    SEND_KEY,
    SUPPRESSED,
    encrypted_values,
    store_every_kind,
)

SECRETS = [bytes([number] * 32) for number in range(8)]
OLD, NEW, NEWER = bytes(range(32)), SECRETS[1], SECRETS[2]
CODE = "482917"
#: sets the configuration of a transport
_CONFIG = "UPDATE oncebox_transports SET config = {} WHERE name = 'relay'"
MAIL = mail(subject="Your code", text=f"Your verification code is {CODE}")


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    """A box with a value of every kind."""
    house = House(place)
    await house.open()
    await house.add_inbox("inb_2")
    await house.box.components.mail_intake.store(envelope("inb_1"), MAIL)
    await house.box.components.mail_intake.store(envelope("inb_1", "inb_2"), mail(subject="Both"))
    house.work()
    await house.filed(2)
    await house.filed(1, "inb_2")
    await store_every_kind(house.box)
    yield house
    await house.box.close()


def entry(database: Database) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=database.clock(), who="ada", why="leak")


async def begin(database: Database, old: MasterKey, new: MasterKey) -> rotation.Rotation:
    return await database.write(rotation.begin, old, new, database.clock(), learn_within=0)


async def opened(database: Database, secret: bytes) -> MasterKey:
    """Return a key that may open the database."""
    key = MasterKey(secret)
    await startup.check_master_key(database, key)
    return key


async def rotate(database: Database, old: bytes, new: bytes) -> Counter[str]:
    """Rotate from one key to another; return what was counted."""
    counts: Counter[str] = Counter()

    def count(batch: rotation.Batch) -> None:
        counts.update(encrypted=batch.encrypted, unreadable=batch.unreadable)

    target = MasterKey(new)
    await begin(database, await opened(database, old), target)
    await rotation.encrypt_all(database, target, count, learn_within=0)
    await database.write(rotation.finish, target.id, entry(database))
    return counts


async def values(house: House, prefix: bytes = PREFIX) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = await house.database.read(
        encrypted_values, house.place.kind, prefix
    )
    return found


def reopened(house: House, secret: bytes) -> Oncebox:
    text = base64.b64encode(secret).decode()
    return Oncebox(settings=msgspec.structs.replace(house.box.settings, master_key=text))


async def read_everything(box: Oncebox) -> dict[str, Any]:
    """Read a value of every kind as those do who use it."""
    components, database = box.components, box.components.database
    cipher, api = components.mail_cipher, Api(box, box.asgi())
    page = await database.read(messages.page, TENANT, "inb_1", most=10, documents=cipher)
    raws = [await database.read(messages.raw, cipher, TENANT, each.id) for each in page.messages]
    deliveries = [each.delivery_id for each in page.messages]
    payloads = [await database.read(inspections.payload, cipher, TENANT, id_) for id_ in deliveries]
    (suppressed,) = await database.read(suppressions.page, TENANT, after=b"", most=10)
    relay = await database.read(transports.get, TENANT, "relay")
    source = await database.read(sources.by_name, TENANT, "shop")
    (rejected,) = await database.read(quarantine.newest, TENANT, most=10)
    whole = await database.read(quarantine.get, TENANT, rejected.id)
    action = await api.call("POST", ACTION, {})
    return {
        "documents": [msgspec.json.encode(each) for each in page.documents.values()],
        "raws": raws,
        "payloads": [body for _, body in payloads],
        "suppressed": components.send_cipher.decrypt_address(
            TENANT, suppressed.fingerprint, suppressed.address
        ),
        "config": components.send_cipher.decrypt_field(
            "config", TENANT, "relay", relay.config or b""
        ),
        "secret": sources.decrypt_secret(
            source.secrets[0], tenant=TENANT, master_key=components.master_key, environ={}
        ).value,
        "headers": quarantine.restore(whole, components.master_key).headers,
        "action": action.json()["result"],
    }


# everything is rotated and stays readable


async def test_every_encrypted_value_is_encrypted_again_and_stays_readable(house: House) -> None:
    assert (await values(house)).keys() == COLUMNS
    before = await read_everything(house.box)
    count = sum(map(len, (await values(house)).values()))

    counts = await rotate(house.database, OLD, NEW)

    found = await values(house)
    generations = {each[len(PREFIX) : HEADER_BYTES] for all_ in found.values() for each in all_}
    assert counts == {"encrypted": count, "unreadable": 0}
    assert generations == {(1).to_bytes(4, "big")}
    assert sum(map(len, found.values())) == count
    box = reopened(house, NEW)
    await box.open()
    try:
        assert await read_everything(box) == before
        assert before["suppressed"] == SUPPRESSED
        assert before["secret"] == SECRET
        assert MAIL in before["raws"]
        assert before["raws"] == before["payloads"]
    finally:
        await box.close()


async def test_values_of_the_first_format_are_read_and_encrypted_again(house: House) -> None:
    def as_before(plain: bytes, aad: bytes, prefix: bytes = b"") -> bytes:
        nonce = os.urandom(12)
        return prefix + nonce + AESGCM(OLD).encrypt(nonce, plain, aad)

    (body,) = (await values(house))["oncebox_payloads.body"][:1]
    mark = "?" if house.place.kind == "sqlite" else "%s"
    rows = await house.database.read(lambda tx: tx.execute("SELECT id, body FROM oncebox_payloads"))
    id_ = next(str(id_) for id_, stored in rows if bytes(stored) == body)
    sealed = as_before(MAIL, mail_aad(TENANT, id_), b"\0sealed:1\0")
    config = as_before(b"config", send_aad("config", TENANT, "relay"))
    await overwrite(house, "oncebox_payloads", "body", sealed, id_)
    await house.database.write(lambda tx: tx.execute(_CONFIG.format(mark), (config,)))
    before = await read_everything(house.box)

    await rotate(house.database, OLD, NEW)

    assert (await values(house)).keys() == COLUMNS
    assert not await values(house, b"\0sealed:1\0")
    box = reopened(house, NEW)
    await box.open()
    try:
        assert await read_everything(box) == before
    finally:
        await box.close()


async def test_what_was_damaged_before_stays_as_it_is_and_is_counted(house: House) -> None:
    mark = "?" if house.place.kind == "sqlite" else "%s"
    await house.database.write(lambda tx: tx.execute(_CONFIG.format(mark), (b"x" * 40,)))

    counts = await rotate(house.database, OLD, NEW)

    row = await house.database.read(transports.get, TENANT, "relay")
    assert (counts["unreadable"], row.config) == (1, b"x" * 40)


async def test_fingerprints_are_the_same_for_ever(house: House) -> None:
    secrets = (OLD, *SECRETS[1:4])
    for old, new in pairwise(secrets):
        await rotate(house.database, old, new)
    last, first = await opened(house.database, secrets[-1]), MasterKey(OLD)

    assert MailCipher(last).fingerprint(MAIL) == MailCipher(first).fingerprint(MAIL)
    for key in (last, first):
        marks = ArtifactCipher(key).value_fingerprint(TENANT, "inb_1", ArtifactKind.CODE, CODE)
        assert marks == ArtifactCipher(first).value_fingerprint(
            TENANT, "inb_1", ArtifactKind.CODE, CODE
        )
    assert SendCipher(last).address_fingerprint(TENANT, "a@b.example") == SendCipher(
        first
    ).address_fingerprint(TENANT, "a@b.example")


async def test_duplicates_are_recognised_during_and_after_a_rotation(house: House) -> None:
    target = MasterKey(NEW)
    await begin(house.database, house.box.components.master_key, target)
    box = reopened(house, NEW)
    for step in ("during", "after"):
        await house.box.components.mail_intake.store(envelope("inb_1"), MAIL)
        await box.open()
        await box.components.mail_intake.store(envelope("inb_1"), MAIL)
        again = await Api(box, box.asgi()).call("POST", "/v1/sends", SEND, headers=SEND_KEY)
        assert (again.json()["created"], again.json()["drift"]) == (False, False), step
        await box.close()
        await rotation.encrypt_all(house.database, target, learn_within=0)
    sightings = await house.database.read(
        lambda tx: tx.execute("SELECT COUNT(*) FROM oncebox_deliveries WHERE source = '@mail'")
    )
    assert sightings == [(3,)]
    assert len(await house.messages()) == 2


# interruptions


async def test_an_interrupted_rotation_goes_on_where_it_was(house: House) -> None:
    count = sum(map(len, (await values(house)).values()))
    target, counted = MasterKey(NEW), 0

    def add(batch: rotation.Batch) -> None:
        nonlocal counted
        counted += batch.encrypted

    begun = await begin(house.database, house.box.components.master_key, target)
    tries = 0
    while True:
        tries += 1
        faults.arm("rotation.batch-committed:2:raise")
        try:
            await rotation.encrypt_all(house.database, target, add, learn_within=0)
            break
        except faults.InjectedFault:
            assert (await house.database.read(rotation.current)) != begun
        finally:
            faults.disarm()

    left = await house.database.read(rotation.current)
    assert tries > 2
    assert left is not None
    assert left.place == ""
    assert counted < count  # what was committed before an interruption is not done again
    generations = [each[:HEADER_BYTES] for all_ in (await values(house)).values() for each in all_]
    assert generations == [target.header] * count


async def test_until_the_end_both_keys_open_the_database_and_then_only_the_new_one(
    house: House,
) -> None:
    database, target = house.database, MasterKey(NEW)
    await begin(database, house.box.components.master_key, target)
    await opened(database, OLD)
    await opened(database, NEW)
    with pytest.raises(MasterKeyRotating, match="oncebox key rotate-master"):
        await database.write(rotation.finish, target.id, entry(database))
    await rotation.encrypt_all(database, target, learn_within=0)
    await opened(database, OLD)
    await database.write(rotation.finish, target.id, entry(database))

    await opened(database, NEW)
    assert await startup.master_key_id(database) == target.id
    with pytest.raises(MasterKeyWrong, match=target.id):
        await opened(database, OLD)


async def test_of_two_rotations_one_begins_and_the_same_key_goes_on(house: House) -> None:
    database, old = house.database, await opened(house.database, OLD)
    first = await begin(database, old, MasterKey(NEW))

    assert await begin(database, old, MasterKey(NEW)) == first
    with pytest.raises(MasterKeyRotating, match="--new-key-file"):
        await begin(database, old, MasterKey(SECRETS[2]))
    with pytest.raises(MasterKeyWrong):
        await opened(database, SECRETS[2])
    with pytest.raises(StateConflict, match="openssl rand"):
        await begin(database, old, old)


async def test_what_somebody_writes_meanwhile_is_not_replaced(house: House) -> None:
    database, target = house.database, MasterKey(NEW)
    await begin(database, house.box.components.master_key, target)
    await database.read(rotation._use, target, database.clock())
    place = rotation._place("transports")
    (stale,) = [row for row in await database.read(rotation._page, place, ()) if row[1] == "relay"]
    fresh = target.encrypt(
        b"newer", bound_to=send_aad("config", TENANT, "relay"), purpose=place.purpose
    )
    mark = "?" if house.place.kind == "sqlite" else "%s"
    await database.write(lambda tx: tx.execute(_CONFIG.format(mark), (fresh,)))

    await database.write(rotation._encrypt_again, target, place, stale)

    row = await database.read(transports.get, TENANT, "relay")
    assert row.config == fresh


# processes that run meanwhile


async def test_a_running_process_learns_of_a_data_key_before_anybody_encrypts_with_it(
    house: House,
) -> None:
    database, running = house.database, house.box.components.master_key
    refresher = rotation.DataKeyRefresher(database, running, Telemetry())
    now, before = database.clock(), running.header
    begun = await database.write(rotation.begin, running, MasterKey(NEW), now, learn_within=60_000)
    await refresher.refresh()

    assert running.header == before
    assert begun.active_from == now + 60_000
    newest = MasterKey(NEW)
    await database.read(rotation._use, newest, begun.active_from)
    value = newest.encrypt(b"x", bound_to=b"y")
    assert running.decrypt(value, bound_to=b"y") == b"x"
    with pytest.raises(DataKeyUnknown) as refused:
        MasterKey(OLD).decrypt(value, bound_to=b"y")
    assert refused.value.retry_safe


async def test_a_process_whose_database_failed_once_still_learns_of_a_data_key(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, running = house.database, house.box.components.master_key
    await house.box.components.data_key_refresher.close()
    refresher = rotation.DataKeyRefresher(database, running, Telemetry(), every=0.01)
    read, failed = database.read, asyncio.Event()

    async def fail_once(function: Any, *arguments: Any) -> Any:
        if function is not data_keys.read:  # others read too
            return await read(function, *arguments)
        monkeypatch.setattr(database, "read", read)
        failed.set()
        raise DatabaseUnreachable("down")

    monkeypatch.setattr(database, "read", fail_once)
    refresher.start()
    await asyncio.wait_for(failed.wait(), 10)
    begun = await begin(database, await opened(database, OLD), MasterKey(NEW))
    await until(lambda: running.generation == begun.generation)
    await refresher.close()


async def test_a_process_that_stood_still_encrypts_with_the_new_data_key_afterwards(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, running = house.database, house.box.components.master_key
    refresher = rotation.DataKeyRefresher(database, running, Telemetry())
    now = database.clock()
    begun = await database.write(rotation.begin, running, MasterKey(NEW), now, learn_within=60_000)
    await refresher.refresh()
    monkeypatch.setattr(database, "clock", lambda: begun.active_from + 3_600_000)
    await refresher.refresh()

    assert running.generation == begun.generation


async def test_a_running_process_encrypts_with_the_new_data_key_and_survives_the_old_key(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    database, running = house.database, house.box.components.master_key
    refresher = rotation.DataKeyRefresher(database, running, Telemetry())
    target = MasterKey(NEW)
    await begin(database, running, target)
    await refresher.refresh()
    await rotation.encrypt_all(database, target, learn_within=0)
    await database.write(rotation.finish, target.id, entry(database))
    for _ in range(2):
        await refresher.refresh()

    assert running.header == target.header
    assert await read_everything(house.box)
    assert caplog.text.count("master_key_retired") == 1
    assert "ONCEBOX_MASTER_KEY_FILE" in caplog.text


async def test_a_running_process_survives_two_rotations_if_the_new_key_is_configured(
    house: House,
) -> None:
    database, running = house.database, house.box.components.master_key
    configured = [OLD]
    refresher = rotation.DataKeyRefresher(
        database, running, Telemetry(), load_key=lambda: MasterKey(configured[-1])
    )
    for secret in (NEW, NEWER):
        target = MasterKey(secret)
        await begin(database, await opened(database, configured[-1]), target)
        await refresher.refresh()
        await rotation.encrypt_all(database, target, learn_within=0)
        await database.write(rotation.finish, target.id, entry(database))
        await refresher.refresh()  # before the new key is configured
        configured.append(secret)
        await refresher.refresh()

    assert running.header == target.header
    assert await read_everything(house.box)


async def test_values_are_encrypted_again_only_when_no_process_uses_an_older_data_key(
    house: House,
) -> None:
    database, waited = house.database, []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        assert (await values(house, house.box.components.master_key.header)).keys() == COLUMNS

    target = MasterKey(NEW)
    running = await opened(database, OLD)
    await database.write(rotation.begin, running, target, database.clock(), learn_within=5_000)
    await rotation.encrypt_all(database, target, learn_within=5_000, sleep=sleep)

    assert len(waited) == 1
    assert 9 < waited[0] <= 10
