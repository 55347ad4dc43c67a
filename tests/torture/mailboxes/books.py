"""What the database has about mailboxes, read by the driver alone; what an operator changes."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from oncebox.core import encryption, ids
from oncebox.db.database import Transaction
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import MailboxCipher, MailCipher
from oncebox.ledger.mailboxes import mailboxes
from oncebox.mailboxes.mailbox_config import MailboxConfig, encode_config
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, NewMailbox
from tests.torture.ledger.books import ask_once
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.mail.books import session_of
from tests.torture.mailboxes.mails import MAILBOXES

TENANT = "default"
_POLL_EVERY = 200
_KEY = encryption.master_key_from_text(MASTER_KEY)
_FINGERPRINTS = MailCipher(_KEY)
_INBOXES = "SELECT email, id FROM oncebox_inboxes"
_MAILBOXES = """
SELECT name, cursor, cursor_version, paused, failures, messages, duplicates, replays, resyncs,
    lease_conflicts
FROM oncebox_mailboxes
"""
_KEYS = "SELECT key FROM oncebox_deliveries WHERE source = '@mail'"


@dataclass(frozen=True, slots=True)
class Row:
    """One mailbox."""

    name: str
    cursor: str | None
    cursor_version: int
    paused: str | None
    failures: int
    messages: int
    duplicates: int
    replays: int
    resyncs: int
    lease_conflicts: int


def read_rows(url: str) -> list[Row]:
    """Return all mailboxes."""
    return [Row(*row) for row in ask_once(url, _MAILBOXES)]


def read_keys(url: str) -> set[str]:
    """Return the keys of all deliveries of mail."""
    return {str(row[0]) for row in ask_once(url, _KEYS)}


def inbox_ids(url: str) -> dict[str, str]:
    """Return the ids of inboxes by their addresses."""
    return {str(email): str(id_) for email, id_ in ask_once(url, _INBOXES)}


def delivery_key(inbox_id: str, raw: bytes) -> str:
    """Return the key of the delivery that these bytes become in an inbox."""
    return f"{inbox_id}:{_FINGERPRINTS.fingerprint(raw).hex()}"


def add_mailboxes(
    url: str, configs: Mapping[str, MailboxConfig], inboxes: Sequence[str]
) -> dict[str, str]:
    """Add the mailboxes; return the ids of inboxes by their addresses."""
    ids_of = inbox_ids(url)
    cipher = MailboxCipher(_KEY)
    for name, config in configs.items():
        bound = MAILBOXES[name]
        new = NewMailbox(
            name=name,
            kind=MailboxKind(config.kind),
            account=config.account,
            config=cipher.encrypt(TENANT, name, encode_config(config)),
            inbox_id=None if bound is None else ids_of[inboxes[bound]],
            poll_every=_POLL_EVERY,
        )
        _change(url, partial(_add, new))
    return ids_of


def _add(new: NewMailbox, tx: Transaction, entry: AuditEntry) -> Mailbox:
    return mailboxes.add(tx, ids.new("mbx"), new, entry)


def resync(url: str, name: str) -> None:
    """Let a mailbox be read from its beginning."""
    _change(url, lambda tx, entry: mailboxes.resync(tx, name, entry))


def _change(url: str, change: Callable[[Transaction, AuditEntry], Mailbox]) -> None:
    now = time.time_ns() // 1_000_000
    entry = AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="torture", why="a test")
    with session_of(url, writable=True) as session:
        session.run(lambda tx: change(tx, entry))
