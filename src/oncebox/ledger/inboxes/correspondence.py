"""Correspondence: which message a mail answers, and whether that may be answered at all."""

from collections.abc import Callable
from typing import NamedTuple

from oncebox.errors import StateConflict
from oncebox.ledger.inboxes import reading
from oncebox.ledger.vault import Vault
from oncebox.model.filing import Document
from oncebox.model.message import Status
from oncebox.send_errors import AnswersAutomaton
from oncebox.store.database import Database

#: as ``Parsed.headers``
Headers = tuple[tuple[str, tuple[str, ...]], ...]
#: some fields were not read, and what they say is not known
_CUT = "header_limit"


class Etiquette(NamedTuple):
    """What is known of how mail is answered."""

    #: whether a program sent it, by its fields and by where its bounces go
    is_automatic: Callable[[Headers, str | None], bool]
    #: the fields of an answer, by the fields and the id of what it answers
    answering: Callable[[Headers, str], dict[str, str]]


class Correspondence:
    """Looks at messages that are to be answered."""

    def __init__(self, database: Database, vault: Vault, etiquette: Etiquette) -> None:
        """Serve any number of callers at the same time."""
        self._database = database
        self._vault = vault
        self._etiquette = etiquette

    async def answers(self, tenant: str, id_: str, *, owner: str | None = None) -> dict[str, str]:
        """Return the header fields of an answer to a message; ``owner`` is the agent that asks.

        Raises: NotFound; AnswersAutomaton; StateConflict, when nobody can tell any more.
        """
        found = await self._database.read(reading.get, self._vault, tenant, id_, owner=owner)
        if found.document is None:
            message = "what was read of this message is no longer kept; it cannot be answered"
            raise StateConflict(message)
        if self._is_automatic(found.document):
            message = (
                "this message was sent by a program, or to a list, and must not be answered by "
                "one; let a person answer it"
            )
            raise AnswersAutomaton(message)
        parsed = found.document.parsed
        return self._etiquette.answering(parsed.headers, parsed.message_id)

    def _is_automatic(self, document: Document) -> bool:
        """Say whether a program sent a message; if nobody can tell, it is taken for one."""
        parsed, carrier = document.parsed, document.carrier
        if parsed.status is Status.UNPARSED or _CUT in parsed.warnings or parsed.auto_submitted:
            return True
        # Only who came by SMTP has said where bounces go.
        sender = carrier.sender if carrier.client else None
        return self._etiquette.is_automatic(parsed.headers, sender)
