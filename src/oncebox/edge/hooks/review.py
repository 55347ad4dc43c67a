"""The review: a rejected request is judged again, as of the time it came in."""

from collections.abc import Sequence

from oncebox.edge.hooks import arrivals
from oncebox.edge.hooks.door import Doors
from oncebox.edge.hooks.judgement import judge
from oncebox.errors import ConfigInvalid, SignatureInvalid
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.office.sourcebook import SourceBook
from oncebox.model.delivery import NewDelivery
from oncebox.model.quarantine import Rejected
from oncebox.model.source import Entry
from oncebox.signature.request import Request
from oncebox.signature.scheme import Keys

_ELSEWHERE = "address_not_allowed"


class Review:
    """Judges rejected requests by what their sources say now, such as after a secret was mended."""

    def __init__(self, book: SourceBook, intake: Intake, keys: Keys) -> None:
        """Judge for all sources in the book."""
        self._book = book
        self._intake = intake
        self._keys = keys
        self._doors = Doors()

    async def __call__(self, rejected: Rejected) -> Sequence[NewDelivery]:
        """Return what a request holds.

        Raises: SignatureInvalid, KeyWanted, if it is still not believed; ConfigInvalid.
        """
        await self._book.refresh()
        door = self._doors.of(self._entry(rejected))
        if door.networks and rejected.reason == _ELSEWHERE:
            raise SignatureInvalid(_ELSEWHERE)  # from where it came is not known any more
        request = Request(
            method=rejected.method, url=rejected.url, headers=rejected.headers, body=rejected.body
        )
        judged = judge(door, request, address=None, now=rejected.received_at, keys=self._keys)
        return arrivals.drafts(self._intake, door, request, judged)

    def _entry(self, rejected: Rejected) -> Entry:
        entry = self._book.find(rejected.tenant, rejected.source)
        if entry is None or not entry.ready:
            message = f"there is no source {rejected.source!r} that could check it; mend it first"
            raise ConfigInvalid(message)
        return entry
