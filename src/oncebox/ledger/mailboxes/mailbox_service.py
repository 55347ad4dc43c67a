"""MailboxService: add, change and remove mailboxes, with their configuration encrypted."""

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import StateConflict
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import MailboxCipher
from oncebox.ledger.mailboxes import mailboxes
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, NewMailbox
from oncebox.model.mailboxes.mailbox_fields import MailboxDraft


class MailboxService:
    """Changes of mailboxes by operators; notify ``MAILBOXES`` after each."""

    def __init__(self, cipher: MailboxCipher, *, new_id: ids.NewId = ids.new) -> None:
        self._cipher = cipher
        self._new_id = new_id

    def add(self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry) -> Mailbox:
        """Store a new mailbox; it is read at once.

        Raises: NotFound, StateConflict.
        """
        tenants.require(tx, entry.tenant)
        return mailboxes.add(tx, self._new_id("mbx"), self._encrypted(tx, draft, entry), entry)

    def change(self, tx: Transaction, draft: MailboxDraft, entry: AuditEntry) -> Mailbox:
        """Replace the whole configuration of a mailbox; its cursor stays.

        Raises: NotFound, StateConflict.
        """
        known = mailboxes.get(tx, entry.tenant, draft.name)
        refuse_program(known)
        new = self._encrypted(tx, draft, entry)
        return mailboxes.change(tx, new, entry, seen=known.changed_at)

    def remove(self, tx: Transaction, name: str, entry: AuditEntry) -> None:
        """Forget a mailbox; its messages stay.

        Raises: NotFound.
        """
        mailboxes.remove(tx, name, entry)

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


def refuse_program(mailbox: Mailbox) -> None:
    """Refuse what needs a configuration: that of a program's mailbox is in the program.

    Raises: StateConflict.
    """
    if mailbox.kind is MailboxKind.PROGRAM:
        raise StateConflict(
            "a program reads this mailbox, so it is configured there; add one of another name"
        )
