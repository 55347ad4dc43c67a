"""The log: takes every mail and sends none, until a real way out is configured."""

from oncebox.model.outcome import Accepted, Outcome
from oncebox.transport.email.capability import ALL, Capability
from oncebox.transport.email.parcel import Marker, Parcel


class Log:
    """Keeps nothing itself: the ledger has the mail already."""

    capability: Capability = ALL["log"]

    async def send(self, parcel: Parcel, before_point_of_no_return: Marker) -> Outcome:
        """Say that it was taken; ``capability.delivers`` says that it goes nowhere.

        There is no point of no return, so nothing is marked: the settlement asks what the marker
        would have asked (docs/decisions/0078).
        """
        del parcel, before_point_of_no_return
        return Accepted()

    async def probe(self, deadline: float) -> None:
        """Find nothing in the way: it goes nowhere."""
        del deadline

    async def close(self) -> None:
        """Nothing is open."""
