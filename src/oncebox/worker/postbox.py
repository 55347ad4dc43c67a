"""The postbox: where a program puts its mail, and hears what becomes of it."""

from typing import Any, Unpack

import msgspec

from oncebox.ledger.sends.outbox import Outbox
from oncebox.model.asking import SendOptions, meant
from oncebox.model.email import Email
from oncebox.model.intent import Origin
from oncebox.wire.sends import SendAnswer, answer_of


class Postbox:
    """Takes mail of one origin."""

    def __init__(self, outbox: Outbox, origin: Origin) -> None:
        """Ask for this origin."""
        self._outbox = outbox
        self._origin = origin

    def of_effect(self, effect: str | None) -> "Postbox":
        """Return the postbox of one effect of the same origin."""
        return Postbox(self._outbox, msgspec.structs.replace(self._origin, effect=effect))

    async def send(
        self, email: Email, *, wait: float = 0.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Store a mail once, and wait up to so many seconds for what becomes of it.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        told = await self._outbox.send(self._origin, meant(email, **options))
        later = await self._outbox.outcome(told.send, wait) if wait > 0 else None
        return answer_of(told, self._outbox.clock(), later=later)

    def enqueue(self, tx: Any, email: Email, **options: Unpack[SendOptions]) -> SendAnswer:
        """Store a mail once, in a transaction; it is sent if and when that is committed.

        Raises: InputRefused, NotFound.
        """
        told = self._outbox.enqueue(tx, self._origin, meant(email, **options))
        return answer_of(told, self._outbox.clock())

    def ring(self) -> None:
        """Wake who sends, after a transaction."""
        self._outbox.ring()
