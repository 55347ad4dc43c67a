"""Probes: whether mail would be taken this way, found out without sending any."""

from typing import Protocol, runtime_checkable

from oncebox.errors import ConfigInvalid
from oncebox.model.outcome import NotSent
from oncebox.transport.email.parcel import Transport


@runtime_checkable
class Probed(Protocol):
    """A way that can be tried without a mail."""

    async def probe(self, deadline: float) -> NotSent | None:
        """Connect and log in as for a mail; return what is in the way, None if nothing is."""
        ...


async def probe(way: Transport, deadline: float) -> NotSent | None:
    """Try a way until a moment of the steady clock; return what is in the way, if anything.

    Raises: ConfigInvalid, if it can be tried only by a mail.
    """
    if not isinstance(way, Probed):
        message = "this kind of transport can be tried only by a mail; give an address with --to"
        raise ConfigInvalid(message)
    return await way.probe(deadline)
