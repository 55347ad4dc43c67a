"""Our side of mail: raw bytes that become stored messages, and pages of them."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import time
from collections.abc import Sequence

import msgspec
import uvloop

from bench import load
from bench.mails import mail, pin
from bench.ours import new_box
from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.deliveries import deduplication
from oncebox.ledger.inboxes import messages
from oncebox.model.deliveries.delivery import Delivery, NewDelivery, encode_headers
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import NewMessage, new_message
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    MAIL_TYPE,
    Envelope,
    EnvelopeRecipient,
    ParsedMail,
    ParseStatus,
    SenderVerdict,
    encode_envelope,
)

INBOX = "inb_bench"
BATCH = 500
PAGE = 50
_ADD = """
INSERT INTO oncebox_inboxes (id, tenant, email, address, state, created_at, metadata, policy)
VALUES ({0}, {0}, {0}, {0}, 'active', 0, {0}, {0})
"""


async def file(options: argparse.Namespace) -> None:
    """Report how many raw mails become stored messages a second, on one core, children included."""
    pin()
    box = await _opened(options)
    for start in range(0, options.mails, BATCH):
        await box.components.database.write(_post, _mails(box, start, start + BATCH))
    began = time.perf_counter()
    box._start_workers()  # noqa: SLF001 - only the worker for mail is measured
    while (filed := await box.components.database.read(_count)) < options.mails:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    load.report(filed / (time.perf_counter() - began), f"{options.mails} mails, one core")
    await box.close()


async def list_(options: argparse.Namespace) -> None:
    """Report how many pages of 50 are read a second, from anywhere in an inbox."""
    box = await _opened(options)
    database, dice = box.components.database, random.Random(1)
    for start in range(0, options.messages, BATCH):
        size = min(BATCH, options.messages - start)
        await database.write(_store, box, size)
    pages, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < options.seconds:
        after = dice.randrange(options.messages - PAGE)
        page = await database.read(
            messages.page,
            box.settings.tenant,
            INBOX,
            after=after,
            most=PAGE,
            documents=box.components.mail_cipher,
        )
        assert len(page.documents) == PAGE
        pages += 1
    load.report(pages / spent, f"{options.messages} messages")
    await box.close()


async def _opened(options: argparse.Namespace) -> Oncebox:
    box = new_box(options)
    await box.open()
    mark = "?" if box.components.database.kind == "sqlite" else "%s"
    values = (INBOX, box.settings.tenant, "a@b", "a@b", b"{}", msgspec.json.encode(InboxPolicy()))
    await box.components.database.write(lambda tx: tx.execute(_ADD.format(mark), values))
    return box


def _count(tx: Transaction) -> int:
    ((count,),) = tx.execute("SELECT cursor FROM oncebox_inboxes")
    return int(count)


def _post(tx: Transaction, new: Sequence[NewDelivery]) -> None:
    deduplication.accept(tx, new, new[0].received_at)


def _mails(box: Oncebox, start: int, end: int) -> list[NewDelivery]:
    now, tenant = box.components.database.clock(), box.settings.tenant
    headers = encode_headers(tuple(encode_envelope(_envelope(tenant))))
    found = []
    for number in range(start, end):
        raw = mail(number)
        digest, id_ = hashlib.sha256(raw), ids.new("dlv")
        found.append(
            NewDelivery(
                id=id_, tenant=tenant, source=MAIL_SOURCE, key=f"{INBOX}:{digest.hexdigest()}",
                body=box.components.mail_cipher.encrypt(raw, vaults.mail_aad(tenant, id_)),
                length=len(raw),
                headers=headers, fingerprint=digest.digest(), type=MAIL_TYPE, road="smtp",
                received_at=now,
            )
        )  # fmt: skip
    return found


def _envelope(tenant: str) -> Envelope:
    to = EnvelopeRecipient(inbox_id=INBOX, tenant=tenant, address="a@b")
    return Envelope(client="127.0.0.1", helo="x", sender="a@b", recipients=(to,))


def _store(tx: Transaction, box: Oncebox, count: int) -> None:
    """Store messages with a kilobyte of text each."""
    new = [_small(box) for _ in range(count)]
    _post(tx, new)
    messages.file(tx, [_filing(box, each) for each in new], 0, cipher=box.components.mail_cipher)


def _small(box: Oncebox) -> NewDelivery:
    id_ = ids.new("dlv")
    return NewDelivery(
        id=id_, tenant=box.settings.tenant, source=MAIL_SOURCE, key=id_, body=b"", headers=b"[]",
        fingerprint=b"", type=MAIL_TYPE, road="smtp", received_at=0,
    )  # fmt: skip


def _filing(box: Oncebox, new: NewDelivery) -> NewMessage:
    said = _envelope(box.settings.tenant)
    delivery = Delivery(
        new.id, new.tenant, MAIL_SOURCE, new.key, "", MAIL_TYPE, None, False, None,  # noqa: FBT003
        1, 1, 0, 0, b"[]", b"",
    )  # fmt: skip
    parsed = ParsedMail(status=ParseStatus.PARSED, subject="Hello", text="x" * 1000)
    read = new_message(
        delivery, said.recipients[0], said, parsed=parsed, verdict=SenderVerdict(), mismatch="",
        ids=(ids.new("msg"), ids.new("evt")),
    )  # fmt: skip
    place = vaults.document_aad(new.tenant, read.message_id)
    return msgspec.structs.replace(
        read, encoded=box.components.mail_cipher.encrypt(read.encoded, place)
    )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("what", choices=("file", "list"))
    parser.add_argument("--mails", type=int, default=3_000)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    uvloop.run({"file": file, "list": list_}[options.what](options))


if __name__ == "__main__":
    main()
