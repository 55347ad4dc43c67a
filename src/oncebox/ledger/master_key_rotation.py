"""Rotation of the master key: a new data key, all values encrypted again, the old key retired.

While a rotation runs, both master keys open the database. Its position is committed with every
batch of values, so that it goes on where it was interrupted. Fingerprints do not change.
See docs/decisions/0009-use-field-encryption-for-mail-codes-and-links.md.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.core.encryption import PREFIX, DataKey, MasterKey
from oncebox.db import data_keys
from oncebox.db.data_keys import WrappedKey
from oncebox.db.database import Database, Row, Transaction, Value
from oncebox.db.queries import load
from oncebox.errors import (
    MasterKeyError,
    MasterKeyRotating,
    MasterKeyWrong,
    StateConflict,
)
from oncebox.ledger import ciphers
from oncebox.ledger.admin import audit, idempotency, sources
from oncebox.ledger.attempts import actions
from oncebox.ledger.ciphers import send_aad
from oncebox.ledger.deliveries import quarantine
from oncebox.ledger.periodic_refresh import REFRESH_SECONDS, PeriodicRefresh

if TYPE_CHECKING:  # commands that only read do not load the metrics
    from oncebox.core.metrics import Telemetry

_sql = load(__package__, "master_key_rotation.sql")

#: milliseconds in which every process learns of a new data key before any encrypts with it, and
#: in which every process then encrypts with it
LEARN_WITHIN = 5_000
_KEY_BYTES = 32
#: starts mail of every version that is encrypted
_ANY_VERSION = PREFIX[:8]
#: values in memory at once: of those that may be whole mails, and of others
_FEW, _MANY = 8, 200
#: pages without a value to encrypt again that one transaction reads
_MOST_PAGES = 50
_REPEAT = "go on with: oncebox key rotate-master"


class Rotation(msgspec.Struct, frozen=True):
    """A rotation that has begun."""

    old_key_id: str
    new_key_id: str
    generation: int
    #: milliseconds since 1970; processes encrypt with the new generation from then on
    active_from: int
    #: the column whose values are encrypted again; empty: all are
    place: str
    #: the key of its last row, as JSON
    after: str


class Batch(msgspec.Struct, frozen=True):
    """What one transaction did."""

    encrypted: int
    #: damaged values, which stay as they are
    unreadable: int
    finished: bool


class _Place(NamedTuple):
    """A column of encrypted values; its two queries have its name, and ``replace_`` before it."""

    name: str
    #: the primary key, in the order of the page's first columns
    key: tuple[str, ...]
    purpose: str
    #: what a value is bound to, by the columns before it
    aad: Callable[..., bytes]
    most: int = _MANY


_PLACES = (
    _Place("payloads", ("id",), ciphers.MAIL, lambda id_, of: ciphers.mail_aad(of, id_), _FEW),
    _Place("documents", ("id",), ciphers.MAIL, lambda id_, of: ciphers.document_aad(of, id_), _FEW),
    _Place("artifacts", ("id",), ciphers.ARTIFACT, lambda id_, of: ciphers.artifact_aad(of, id_)),
    _Place(
        "quarantine", ("id",), quarantine.QUARANTINE,
        lambda id_, of: quarantine.redacted_aad(of, id_),
    ),
    _Place(
        "source_secrets", ("id",), sources.SOURCE_SECRET,
        lambda id_, of: sources.secret_aad(of, id_),
    ),
    _Place("answers", ("tenant", "route", "key"), idempotency.ANSWER, idempotency.answer_aad),
    _Place("results", ("tenant", "attempt_id", "name"), actions.RESULT, actions.result_aad),
    _Place(
        "transports", ("tenant", "name"), ciphers.SEND,
        lambda tenant, name: send_aad("config", tenant, name),
    ),
    _Place("mailboxes", ("tenant", "name"), ciphers.MAILBOX, ciphers.mailbox_aad),
    _Place("endpoints", ("tenant", "name"), ciphers.ENDPOINT, ciphers.endpoint_aad),
    _Place(
        "send_messages", ("send_id", "id"), ciphers.SEND,
        lambda _, id_, tenant: send_aad("message", tenant, id_), _FEW,
    ),
    _Place(
        "send_envelopes", ("send_id", "id"), ciphers.SEND,
        lambda _, id_, tenant: send_aad("envelope", tenant, id_),
    ),
    _Place(
        "suppressions", ("tenant", "mark"), ciphers.SEND,
        lambda tenant, mark: send_aad("suppression", tenant, bytes(mark).hex()),
    ),
)  # fmt: skip
_NAMES = tuple(each.name for each in _PLACES)
#: keys of bytes; all others are texts
_BYTES = frozenset({"mark"})


def current(tx: Transaction) -> Rotation | None:
    """Return the rotation that has begun, if any."""
    row = tx.one(_sql.rotation)
    return None if row is None else Rotation(*row)


def begin(
    tx: Transaction,
    old: MasterKey,
    new: MasterKey,
    now: int,
    *,
    learn_within: int = LEARN_WITHIN,
    random: Callable[[int], bytes] = os.urandom,
) -> Rotation:
    """Add a data key, and let the new master key open the database beside the old one.

    One that has begun is returned instead.

    Raises: MasterKeyRotating, if it has begun for another key; StateConflict.
    """
    if old.id == new.id:
        raise StateConflict(
            "this is the master key that is in use; make another with: openssl rand -base64 32"
        )
    stored = data_keys.read(tx, old.id)
    known = [old.unwrap(each.generation, each.wrapped) for each in stored] or [old.as_data_key()]
    generation, active_from = known[-1].generation + 1, now + learn_within
    if tx.run(
        _sql.begin,
        old_key_id=old.id,
        new_key_id=new.id,
        generation=generation,
        active_from=active_from,
        place=_NAMES[0],
    ):
        made = DataKey(generation, random(_KEY_BYTES))
        since = {each.generation: each.active_from for each in stored}
        rows = [
            (key.id, each.generation, key.wrap(each, random), since.get(each.generation, 0))
            for key in (old, new)
            for each in known
        ]
        rows += [(key.id, generation, key.wrap(made, random), active_from) for key in (old, new)]
        tx.run_many(_sql.add_key, rows)
    begun = current(tx)
    if begun is None or begun.new_key_id != new.id:
        raise MasterKeyRotating(
            "the master key is being rotated to another key; go on with that one: oncebox key "
            "rotate-master --new-key-file FILE"
        )
    return begun


def encrypt_batch(tx: Transaction, key: MasterKey) -> Batch:
    """Encrypt the next values again, with the key's current data key.

    A value that was changed meanwhile is left alone: whoever wrote it used the new data key.
    """
    rotation = current(tx)
    if rotation is None or not rotation.place:
        return Batch(0, 0, finished=True)
    place, after = _place(rotation.place), _decode_key(rotation.place, rotation.after)
    encrypted = unreadable = 0
    for _ in range(_MOST_PAGES):
        rows = _page(tx, place, after)
        found = [_encrypt_again(tx, key, place, row) for row in rows]
        encrypted, unreadable = encrypted + found.count(True), unreadable + found.count(False)
        if len(rows) < place.most:
            following = _NAMES[_NAMES.index(place.name) + 1 :]
            _advance(tx, rotation, following[0] if following else "", ())
            return Batch(encrypted, unreadable, finished=not following)
        after = rows[-1][: len(place.key)]
        if encrypted:
            break
    _advance(tx, rotation, place.name, after)
    return Batch(encrypted, unreadable, finished=False)


def finish(tx: Transaction, new_key_id: str, entry: audit.AuditEntry) -> Rotation:
    """Retire the old master key, which cannot open the database any more.

    Raises: MasterKeyRotating, if not all values are encrypted again.
    """
    rotation = current(tx)
    if rotation is None or not tx.run(_sql.finish, new_key_id=new_key_id):
        raise MasterKeyRotating(
            f"the rotation of the master key has not come to its end; {_REPEAT}"
        )
    tx.run(_sql.retire_key, master_key_id=rotation.old_key_id)
    tx.run(_sql.set_key_id, old_key_id=rotation.old_key_id, new_key_id=new_key_id)
    target = f"master-key:{new_key_id}"
    audit.record(tx, entry, "key rotate-master", target, f"from {rotation.old_key_id}")
    return rotation


async def encrypt_all(
    database: Database,
    key: MasterKey,
    report: Callable[[Batch], None] = lambda _: None,
    *,
    learn_within: int = LEARN_WITHIN,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Encrypt all values again, once every process encrypts new ones with the new data key.

    Raises: StoreError; the next call goes on from there.
    """
    rotation = await database.read(current)
    if rotation is None:
        return
    # Processes switch when the data key becomes active; then none writes with an older one.
    wait = rotation.active_from + learn_within - database.clock()
    if wait > 0:
        await sleep(wait / 1000)
    await database.read(_use, key, rotation.active_from)
    while True:
        batch = await database.write(encrypt_batch, key)
        faults.point("rotation.batch-committed")
        report(batch)
        if batch.finished:
            return


def _use(tx: Transaction, key: MasterKey, now: int) -> None:
    data_keys.use(key, data_keys.read(tx, key.id), now)


def _place(name: str) -> _Place:
    return _PLACES[_NAMES.index(name)]


def _page(tx: Transaction, place: _Place, after: Row) -> list[Row]:
    start = after or tuple(b"" if each in _BYTES else "" for each in place.key)
    values: dict[str, Value] = {
        f"after_{name}": value for name, value in zip(place.key, start, strict=True)
    }
    if place.name == "payloads":  # the bodies of webhooks are not encrypted
        values["prefix"] = _ANY_VERSION
    return tx.all(_sql.all[place.name], **values, most=place.most)


def _encrypt_again(tx: Transaction, key: MasterKey, place: _Place, row: Row) -> bool | None:
    """Encrypt a value with the current data key; False if it cannot be read, None if it need not.

    What is not encrypted stays as it is: mail of the first version, and the body of a webhook
    that begins like a value, for which there is no mail and so no tenant.
    """
    *columns, stored = row
    before = b"" if stored is None else bytes(stored)
    is_mail = place.purpose == ciphers.MAIL
    is_plain = is_mail and not before.startswith(_ANY_VERSION)
    if not before or before.startswith(key.header) or is_plain or None in columns:
        return None
    sealed = ciphers.without_first_prefix(before) if is_mail else before
    try:
        aad = place.aad(*columns)
        plain = key.decrypt(sealed, bound_to=aad, purpose=place.purpose)
    except MasterKeyWrong:
        return False
    names = dict(zip(place.key, columns, strict=False))
    again = key.encrypt(plain, bound_to=aad, purpose=place.purpose)
    replace = _sql.all[f"replace_{place.name}"]
    return True if tx.run(replace, **names, before=before, sealed=again) else None


def _advance(tx: Transaction, rotation: Rotation, place: str, after: Row) -> None:
    encoded = [each if isinstance(each, str) else bytes(each).hex() for each in after]
    tx.run(
        _sql.advance,
        generation=rotation.generation,
        place=place,
        after=msgspec.json.encode(encoded).decode(),
    )


def _decode_key(place: str, after: str) -> Row:
    parts: list[str] = msgspec.json.decode(after, type=list[str])
    names = _place(place).key
    return tuple(
        bytes.fromhex(part) if name in _BYTES else part
        for name, part in zip(names, parts, strict=False)
    )


class DataKeyRefresher(PeriodicRefresh):
    """Reads new data keys while a process runs, so that it decrypts and encrypts with them."""

    def __init__(
        self,
        database: Database,
        key: MasterKey,
        telemetry: "Telemetry",
        *,
        load_key: Callable[[], MasterKey] | None = None,
        every: float = REFRESH_SECONDS,
    ) -> None:
        """Give data keys to ``key``; ``load_key`` returns the one that is configured now."""
        super().__init__("data_keys", telemetry, every=every)
        self._database = database
        self._key = key
        #: the master key that the data keys are wrapped for
        self._wrapper = key
        self._is_retired = False
        self._load_key = load_key
        self._known: Sequence[WrappedKey] = ()

    async def refresh(self) -> None:
        """Read the data keys; after a rotation, with the new master key, where it is configured.

        A key that was retired decrypts with what it knows already.
        """
        stored = await self._database.read(data_keys.read, self._wrapper.id)
        self._is_retired = not stored and (self._is_retired or bool(self._known))
        if self._is_retired:
            stored = await self._read_by_new_key()
        now = self._database.clock()
        if stored and (
            stored != self._known or data_keys.newest_active(stored, now) != self._key.generation
        ):
            data_keys.use(self._key, stored, now, wrapper=self._wrapper)
        elif self._known and not stored:
            self._telemetry.log.warning(
                "master_key_retired",
                master_key=self._key.id,
                remedy="set ONCEBOX_MASTER_KEY or ONCEBOX_MASTER_KEY_FILE to the new key "
                "before the next start",
            )
        self._known = stored

    async def _read_by_new_key(self) -> list[WrappedKey]:
        """Return the data keys of the master key that is configured now, and keep that one."""
        try:
            key = self._wrapper if self._load_key is None else self._load_key()
        except MasterKeyError:
            return []
        stored = await self._database.read(data_keys.read, key.id)
        if stored:
            self._wrapper, self._is_retired = key, False
        return stored
