"""MailboxService: add, change, remove and declare mailboxes; their configuration is encrypted."""

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid, MasterKeyWrong, StateConflict
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import MailboxCipher
from oncebox.ledger.mailboxes import mailboxes
from oncebox.model.mailboxes.mailbox import (
    Mailbox,
    MailboxKind,
    MailboxOrigin,
    NewMailbox,
)
from oncebox.model.mailboxes.mailbox_fields import MailboxDraft

#: what a mailbox of the settings is compared by, beside its configuration
_COMPARED = tuple(each for each in NewMailbox.__struct_fields__ if each != "config")

#: returns a configuration as it is written, with what the stored one has learnt since
CarryOver = Callable[[bytes, bytes], bytes]


class MailboxService:
    """Changes of mailboxes by operators and settings; notify ``MAILBOXES`` after each."""

    def __init__(
        self,
        cipher: MailboxCipher,
        *,
        written: Collection[tuple[str, str]] = (),
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Refuse changes of ``written``: tenant and name of the mailboxes in the settings."""
        self._cipher = cipher
        self.written = written
        self._new_id = new_id

    def add(self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry) -> Mailbox:
        """Store a new mailbox; it is read at once.

        Raises: NotFound, StateConflict.
        """
        self._refuse_written(entry.tenant, draft.name)
        tenants.require(tx, entry.tenant)
        return mailboxes.add(tx, self._new_id("mbx"), self._encrypted(tx, draft, entry), entry)

    def change(self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry) -> Mailbox:
        """Replace the whole configuration of a mailbox; for the same account its cursor stays.

        Raises: NotFound, StateConflict.
        """
        self._refuse_written(entry.tenant, draft.name)
        known = mailboxes.get(tx, entry.tenant, draft.name)
        refuse_program(known)
        new, moved = self._encrypted(tx, draft, entry), self._is_moved(known, draft)
        return mailboxes.change(tx, new, entry, seen=known.changed_at, moved=moved)

    def remove(self, tx: Transaction, name: str, entry: AuditEntry) -> None:
        """Forget a mailbox; its messages stay.

        Raises: NotFound, StateConflict.
        """
        self._refuse_written(entry.tenant, name)
        mailboxes.remove(tx, name, entry)

    def declare(
        self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry, carry_over: CarryOver
    ) -> None:
        """Store a mailbox of the settings, which wins over one of the database; its cursor stays.

        One that is stored like that already is left alone, so that its reader keeps its lease.

        Raises: ConfigInvalid; StateConflict, if it was changed meanwhile.
        """
        known = mailboxes.find(tx, entry.tenant, draft.name)
        config = self._carried_over(known, draft.config, carry_over)
        encrypted = self._cipher.encrypt(entry.tenant, draft.name, config)
        new = draft.to_mailbox(encrypted, MailboxOrigin.FILE)
        if known is None:
            mailboxes.add(tx, self._new_id("mbx"), new, entry)
        elif known.kind is MailboxKind.PROGRAM:
            raise ConfigInvalid(f"a program reads the mailbox {draft.name}; choose another name")
        elif not self._is_stored(known, new, config):
            moved = self._is_moved(known, draft)
            mailboxes.change(tx, new, entry, seen=known.changed_at, moved=moved)

    def _is_moved(self, known: Mailbox, draft: MailboxDraft) -> bool:
        """Say whether a configuration names another account, whose mail has other ids."""
        try:
            before = self._cipher.decrypt(known.tenant, known.name, known.config)
        except MasterKeyWrong:
            return False
        return _account_fields(before) != _account_fields(draft.config)

    def _carried_over(self, known: Mailbox | None, config: bytes, carry_over: CarryOver) -> bytes:
        if known is None or known.kind is MailboxKind.PROGRAM:
            return config
        try:
            return carry_over(config, self.decrypt(known))
        except MasterKeyWrong:  # it is written anew, if it is another
            return config

    def keep_token(self, tx: Transaction, known: Mailbox, config: bytes, now: int) -> None:
        """Store a configuration in which a probe has replaced the refresh token.

        Raises: StateConflict, if it was changed meanwhile.
        """
        encrypted = self._cipher.encrypt(known.tenant, known.name, config)
        mailboxes.replace_config(tx, known, encrypted, now)

    def _is_stored(self, known: Mailbox, new: NewMailbox, config: bytes) -> bool:
        same = (getattr(known, each) == getattr(new, each) for each in _COMPARED)
        return all(same) and self.decrypt(known) == config

    def _refuse_written(self, tenant: str, name: str) -> None:
        if (tenant, name) in self.written:
            raise StateConflict(
                f"mailbox {name} is written in the settings file (oncebox.toml), which wins and is "
                "never changed from here; change it there"
            )

    def decrypt(self, mailbox: Mailbox) -> bytes:
        """Return the configuration of a mailbox.

        Raises: MasterKeyWrong, StateConflict.
        """
        refuse_program(mailbox)
        return self._cipher.decrypt(mailbox.tenant, mailbox.name, mailbox.config)

    def _encrypted(self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry) -> NewMailbox:
        if draft.fields.inbox is not None:
            mailboxes.require_inbox(tx, entry.tenant, draft.fields.inbox)
        return draft.to_mailbox(self._cipher.encrypt(entry.tenant, draft.name, draft.config))


#: fields of a configuration that say whose mail is read; IMAP has a cursor for each folder
_ACCOUNT_FIELDS = (
    "type", "host", "username", "url", "user", "label", "folder", "account_id", "api", "inbox",
)  # fmt: skip


def _account_fields(config: bytes) -> list[object]:
    reader = msgspec.json.decode(config, type=dict[str, Any]).get("reader", {})
    return [reader.get(name) for name in _ACCOUNT_FIELDS]


def refuse_program(mailbox: Mailbox) -> None:
    """Refuse what needs a configuration: that of a program's mailbox is in the program.

    Raises: StateConflict.
    """
    if mailbox.kind is MailboxKind.PROGRAM:
        raise StateConflict(
            "a program reads this mailbox, so it is configured there; add one of another name"
        )
