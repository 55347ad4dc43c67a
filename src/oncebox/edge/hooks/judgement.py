"""The judgement: is this request what its source sends, and what is in it. Pure and bounded."""

import msgspec

from oncebox.edge.hooks.door import Door
from oncebox.errors import SignatureInvalid
from oncebox.signature.field import field
from oncebox.signature.reading import Event, read
from oncebox.signature.request import Request
from oncebox.signature.scheme import Keys
from oncebox.signature.verification import Freshness, Verdict, verify


class Judged(msgspec.Struct, frozen=True):
    """A request that is let in, and its events."""

    verdict: Verdict
    #: the id of the secret that fits, if it was one of the source's
    secret_id: str | None
    events: tuple[Event, ...]
    #: whether the events are elements of one request
    batch: bool


def judge(door: Door, request: Request, *, address: str | None, now: int, keys: Keys) -> Judged:
    """Return what is in a genuine request; ``address`` is None where it is no longer known.

    Raises: SignatureInvalid, with a reason; KeyWanted.
    """
    if address is not None and not door.lets_in(address):
        raise SignatureInvalid("address_not_allowed")
    verdict = verify(door.scheme, request, door.secrets, now=now, options=door.options, keys=keys)
    if door.source.expect:
        _expect(door, request)
    reading = read(door.scheme, request, door.options)
    late = verdict.freshness is Freshness.LATE
    if late and door.late != "run" and not all(map(_is_anchored, reading.events)):
        # Without a signed id, only a body that was never seen tells it from a replay.
        raise SignatureInvalid("stale")
    secret_id = door.secret_ids[verdict.secret] if verdict.secret >= 0 else None
    return Judged(verdict, secret_id, reading.events, reading.batch)


def _is_anchored(event: Event) -> bool:
    return event.id is not None and event.id_signed


def _expect(door: Door, request: Request) -> None:
    """Refuse a genuine request from somewhere else, such as another account or repository."""
    for path, wanted in door.source.expect.items():
        found: object
        if path.startswith("$"):
            found = field(request.body, path)
        else:
            found = request.table.get(path.lower())
        if found is None or str(found) != wanted:
            raise SignatureInvalid("unexpected_sender")
