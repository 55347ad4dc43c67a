"""Parcels: a frozen mail with its envelope, and what takes one to the world."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from oncebox.model.email import Email
from oncebox.model.outcome import Outcome
from oncebox.transport.email.capability import Capability

#: commits that from here on the mail may be taken; False: it must not be handed over
Marker = Callable[[], Awaitable[bool]]

#: the code of a mail that its marker kept back
FENCE_LOST = "fence_lost"


class Parcel(msgspec.Struct, frozen=True, kw_only=True):
    """One mail for one audience: all of it is taken, or nothing."""

    send_id: str
    #: what the other side knows a repeat by, where it knows keys
    provider_key: str
    #: of the envelope; empty: nobody hears of bounces
    sender: str
    recipients: tuple[str, ...]
    #: the frozen bytes, with CR LF
    message: bytes
    message_id: str
    #: what the bytes were made of, for ways that take no bytes
    email: Email
    #: the last moment at which it may be handed over, on the steady clock; the answer has longer
    deadline: float

    def __repr__(self) -> str:
        """Leave out what is written, and to whom."""
        return f"Parcel(send_id={self.send_id!r})"


class Transport(Protocol):
    """A way out. It never raises for what the world does, and never tries twice."""

    @property
    def capability(self) -> Capability:
        """What this way promises."""
        ...

    async def send(self, parcel: Parcel, before_point_of_no_return: Marker) -> Outcome:
        """Hand over once; the marker is asked once, at the last moment that is still harmless.

        What the marker raises is passed on; then nothing was handed over.
        """
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...
