"""Positions in APIs that know only timestamps: a time, and the mails given since then.

A listing begins ``window`` milliseconds before the newest mail, so that mail which appears late, or
with the time of a clock that is behind, is still found; what was given is recognised by its id.
Times are those of the server: its own clock (the Date of its answers) bounds them, so that one mail
from the future hides nothing; ours bounds that clock. Pure functions.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence

import msgspec

#: mails that a position remembers; with more of them in the window, it begins later
MAX_SEEN = 1000
#: mails of the last pages that a listing remembers
_MAX_LAST_LISTED = 400
_KEY_BYTES = 12


class SeenMail(msgspec.Struct, frozen=True, array_like=True):
    """A mail that was given."""

    #: hash of its id
    key: str
    #: milliseconds since 1970
    at: int


class Overlap(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a list of mails was read."""

    #: milliseconds: mail from before is not listed again
    since: int = 0
    #: milliseconds: the newest mail, by the server's clock
    high: int = 0
    #: the mails since ``since`` that earlier listings gave
    seen: tuple[SeenMail, ...] = ()
    #: the mails that this listing gave, while it has further pages
    found: tuple[SeenMail, ...] = ()


def take(
    overlap: Overlap, listed: Iterable[tuple[str, int]], now: int, window: int
) -> tuple[list[str], Overlap]:
    """Return the ids that were not given before, and the position with them.

    ``listed`` are ids and times of one page; ``now`` is the server's clock.
    """
    known = {each.key for each in (*overlap.seen, *overlap.found)}
    fresh: list[str] = []
    found = list(overlap.found)
    high = overlap.high
    for id_, at in listed:
        high = max(high, min(at, now))
        key = _key(id_)
        if at >= overlap.since and key not in known:
            known.add(key)
            fresh.append(id_)
            found.append(SeenMail(key, at))
    return fresh, Overlap(overlap.since, high, overlap.seen, _remembered(found, high - window))


def finish(overlap: Overlap, window: int) -> Overlap:
    """Return the position after the last page of a listing."""
    since = max(overlap.since, overlap.high - window)
    every = [each for each in (*overlap.seen, *overlap.found) if each.at >= since]
    kept = _newest(every)
    dropped = set(every) - set(kept)
    if dropped:
        # What is not remembered must not be listed again.
        since = max(each.at for each in dropped) + 1
        kept = tuple(each for each in kept if each.at >= since)
    return Overlap(since, overlap.high, kept)


def _remembered(found: list[SeenMail], since: int) -> tuple[SeenMail, ...]:
    """Return the mails of a listing that matter: those in the window, and the last ones listed.

    Pages shift while mail arrives, so that the end of one is the beginning of the next.
    """
    if len(found) <= MAX_SEEN:
        return tuple(found)
    last = found[-_MAX_LAST_LISTED:]
    window = _newest([each for each in found[:-_MAX_LAST_LISTED] if each.at >= since])
    return (*window, *last)


def _newest(mails: Sequence[SeenMail]) -> tuple[SeenMail, ...]:
    if len(mails) <= MAX_SEEN:
        return tuple(mails)
    return tuple(sorted(mails, key=lambda each: (-each.at, each.key))[:MAX_SEEN])


def _key(id_: str) -> str:
    digest = hashlib.blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode()
