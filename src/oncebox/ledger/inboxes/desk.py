"""The desk for mail: the ledger as those use it who read mail and file it."""

import asyncio

from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.messages import MESSAGES
from oncebox.model.inbox import InboxPolicy
from oncebox.store.database import Database

#: an inbox and its tenant
_Asked = tuple[str, str]


class MailDesk:
    """Where mail waits, and what inboxes expect; many who ask at once share one look."""

    def __init__(self, database: Database) -> None:
        """Serve any number of readers at the same time."""
        self._database = database
        self.clock = database.clock
        self._asked: dict[_Asked, asyncio.Future[InboxPolicy | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def waiting(self) -> list[str]:
        """Return the tenants that have mail to be read."""
        return await self._database.read(messages.waiting, self.clock())

    async def policy(self, inbox_id: str, tenant: str) -> InboxPolicy | None:
        """Return what an inbox expects; nothing if there is no such inbox."""
        asked = (inbox_id, tenant)
        if asked not in self._asked:
            self._asked[asked] = asyncio.get_running_loop().create_future()
        answer = self._asked[asked]
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        return await asyncio.shield(answer)

    def ring(self) -> None:
        """Wake whoever waits for messages or events."""
        self._database.ring(MESSAGES)
        self._database.ring(EVENTS)

    async def _look(self) -> None:
        """Answer all who ask, in as few looks as there are turns."""
        try:
            while self._asked:
                batch, self._asked = self._asked, {}
                try:
                    found = await self._database.read(messages.policies, list(batch))
                except Exception as error:  # noqa: BLE001 - whatever it is, those who ask must hear
                    _fail(batch, error)
                    continue
                for (inbox_id, _tenant), answer in batch.items():
                    if not answer.done():
                        answer.set_result(found.get(inbox_id))
        finally:
            self._task = None  # no await since the last look: who comes now starts a new one


def _fail(batch: dict[_Asked, asyncio.Future[InboxPolicy | None]], error: Exception) -> None:
    for answer in batch.values():
        if not answer.done():
            answer.set_exception(error)
            answer.exception()  # seen, even if nobody is left who asked
