"""Mailboxes of the settings, ``[mailboxes.NAME]``, with their secrets fetched."""

from collections.abc import Mapping
from typing import Any

from oncebox.errors import SecretUnavailable
from oncebox.ledger.admin import sources
from oncebox.mailboxes.mailbox_config import draft_mailbox
from oncebox.model.mailboxes.mailbox_fields import (
    SECRET_FIELDS,
    DeclaredMailboxes,
    LocalMailboxFields,
    MailboxDraft,
    fields_from_table,
)

#: fields that may be references
_REFERENCES = (*SECRET_FIELDS, "ca")


def read_declared(
    tables: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]
) -> DeclaredMailboxes:
    """Return the mailboxes of tables, checked; a secret that is missing stops only its mailbox.

    Raises: ConfigInvalid.
    """
    drafts, troubles = [], {}
    for name, table in sorted(tables.items()):
        try:
            drafts.append(_declared(name, table, environ))
        except SecretUnavailable as error:
            troubles[name] = error.code
    return DeclaredMailboxes(names=frozenset(tables), drafts=tuple(drafts), troubles=troubles)


def _declared(name: str, table: Mapping[str, Any], environ: Mapping[str, str]) -> MailboxDraft:
    fetched = {
        field: sources.resolve_reference(text, environ)
        for field in _REFERENCES
        if isinstance(text := table.get(field), str) and sources.is_reference(text)
    }
    return draft_mailbox(name, fields_from_table(name, {**table, **fetched}, LocalMailboxFields))
