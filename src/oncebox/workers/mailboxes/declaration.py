"""Declaration of the mailboxes of the settings: stored before they are claimed."""

from collections.abc import Collection

from oncebox.core import ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError, StateConflict, StoreError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes.mailbox_service import MailboxService
from oncebox.ledger.transactions import Ledger
from oncebox.model.mailboxes.mailbox_fields import DeclaredMailboxes, MailboxDraft


class MailboxDeclarer:
    """Stores the mailboxes of the settings, and says which ones this process may read."""

    def __init__(
        self,
        ledger: Ledger,
        service: MailboxService,
        declared: DeclaredMailboxes,
        telemetry: Telemetry,
        *,
        tenant: str,
    ) -> None:
        """Log those whose secrets cannot be fetched."""
        self._ledger = ledger
        self._service = service
        self._telemetry = telemetry
        self._tenant = tenant
        self._pending = list(declared.drafts)
        self._stored: set[tuple[str, str]] = set()
        for name, code in declared.troubles.items():
            self._log_trouble(name, code)

    async def __call__(self) -> Collection[tuple[str, str]]:
        """Store what is not stored yet; return tenant and name of what is.

        Raises: StoreError; the next call continues.
        """
        for draft in list(self._pending):
            if await self._declare(draft):
                self._pending.remove(draft)
        return self._stored

    async def _declare(self, draft: MailboxDraft) -> bool:
        """Store one mailbox; False if another process has just changed it."""
        from oncebox.mailboxes.mailbox_config import (  # noqa: PLC0415 - few services read mailboxes
            with_stored_token,
        )

        entry = AuditEntry(
            id=ids.new("aud"), tenant=self._tenant, at=self._ledger.clock(), who="settings", why=""
        )
        try:
            await self._ledger.write(self._service.declare, draft, entry, with_stored_token)
        except StateConflict:
            return False
        except StoreError:
            raise
        except OnceboxError as error:
            self._log_trouble(draft.name, error.code)
        else:
            self._stored.add((self._tenant, draft.name))
        return True

    def _log_trouble(self, name: str, code: str) -> None:
        self._telemetry.log.warning("mailbox_unusable", mailbox=name, code=code)
