"""Mail for tests: raw mails, inboxes, and deliveries as the SMTP edge stores them."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import deduplication
from oncebox.ledger.inboxes import messages
from oncebox.mail.limits import ParseLimits
from oncebox.mail.parser import parse
from oncebox.model.deliveries.delivery import Delivery, NewDelivery, encode_headers
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import NewMessage, new_message
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    MAIL_TYPE,
    Envelope,
    EnvelopeRecipient,
    ParsedMail,
    SenderVerdict,
    encode_envelope,
)
from tests.support.clerk import START, TENANT, VAULT, Clerk

#: files mail into inboxes
FILE = partial(messages.file, cipher=VAULT)

_INSERT = """
INSERT INTO oncebox_inboxes (id, tenant, email, address, attempt_id, label, owner, state,
    created_at, metadata, policy) VALUES ({})
"""


def mail(
    subject: str = "Hello",
    text: str = "Hi there",
    *,
    message_id: str | None = "<1@example.com>",
    sender: str = "ann@example.com",
    more: Sequence[str] = (),
) -> bytes:
    """Return the bytes of a plain mail."""
    lines = [f"From: Ann <{sender}>", "To: box@oncebox.test", f"Subject: {subject}", *more]
    if message_id is not None:
        lines.append(f"Message-ID: {message_id}")
    return "\r\n".join([*lines, "", text, ""]).encode()


def add_inbox(
    tx: Transaction,
    inbox_id: str = "inb_1",
    *,
    tenant: str = TENANT,
    owner: str | None = None,
    policy: InboxPolicy | None = None,
    attempt: str | None = "",
    postgres: bool = False,
) -> None:
    """Add an inbox as the API would; its attempt has its name unless another is given."""
    email = f"{inbox_id}@oncebox.test"
    values = (
        inbox_id, tenant, email, email, f"att_{inbox_id}" if attempt == "" else attempt,
        inbox_id if attempt else "", owner, "active", START,
        b"{}", msgspec.json.encode(policy or InboxPolicy()),
    )  # fmt: skip
    marks = ", ".join(["%s" if postgres else "?"] * len(values))
    tx.execute(_INSERT.format(marks), values)


def envelope(*inboxes: str, tenant: str = TENANT) -> Envelope:
    """Return the envelope of a mail to these inboxes."""
    recipients = tuple(
        EnvelopeRecipient(inbox_id=each, tenant=tenant, address=f"{each}+tag@oncebox.test")
        for each in inboxes
    )
    return Envelope(
        client="192.0.2.1", helo="mx.example.com", sender="ann@example.com", recipients=recipients
    )


def posted(raw: bytes, *inboxes: str, now: int = START, tenant: str = TENANT) -> list[NewDelivery]:
    """Return the deliveries of a mail to these inboxes, as the SMTP edge stores them."""
    said = encode_envelope(envelope(*inboxes, tenant=tenant))
    payload = ids.new("pay")
    return [
        NewDelivery(
            id=ids.new("dlv"),
            tenant=tenant,
            source=MAIL_SOURCE,
            key=f"{each}:{hashlib.sha256(raw).hexdigest()}",
            body=raw,
            headers=encode_headers(tuple(said)),
            fingerprint=hashlib.sha256(raw).digest(),
            type=MAIL_TYPE,
            road="smtp",
            received_at=now,
            payload_id=payload,
            length=len(raw),
        )
        for each in inboxes
    ]


_UNKNOWN = SenderVerdict()


class Mailroom:
    """A clerk's hands for mail: post, claim, read, file."""

    def __init__(self, clerk: Clerk) -> None:
        """Work with this clerk, in inbox ``inb_1`` and others that are added."""
        self.clerk = clerk
        self.add_inbox("inb_1")

    def add_inbox(self, inbox_id: str, **rest: Any) -> None:
        """Add an inbox."""
        postgres = self.clerk.place.kind == "postgres"
        self.clerk.run(add_inbox, inbox_id, postgres=postgres, **rest)

    def post(self, raw: bytes, *inboxes: str) -> list[str]:
        """Store a mail; return the ids of its deliveries."""
        new = posted(raw, *(inboxes or ("inb_1",)), now=self.clerk.now)
        return [each.id for each in self.clerk.run(deduplication.accept, new, self.clerk.now)]

    def claimed(self, raw: bytes, *inboxes: str) -> list[Delivery]:
        """Store a mail and claim it."""
        self.post(raw, *inboxes)
        return self.clerk.claim(source=MAIL_SOURCE)

    def filing(
        self,
        delivery: Delivery,
        change: Callable[[ParsedMail], ParsedMail] = lambda it: it,
        verdict: SenderVerdict = _UNKNOWN,
    ) -> NewMessage:
        """Read a mail as it would be filed."""
        inbox_id = delivery.key.partition(":")[0]
        said = envelope(inbox_id)
        parsed = change(parse(delivery.body, ParseLimits()))
        return new_message(
            delivery,
            said.recipients[0],
            said,
            parsed=parsed,
            verdict=verdict,
            mismatch="",
            ids=(ids.new("msg"), ids.new("evt")),
        )
