"""The choice among artifacts: which one is meant, or that nobody can know.

It depends on which artifacts there are, never on the order in which they were filed or looked at.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from oncebox.model.artifact import BY_ARRIVAL, Artifact, ArtifactState

#: why nobody can know which one is meant
Why = Literal["tied", "same_time", "senders_differ", "purposes_differ"]
#: why one was not chosen
UNMATCHED, LESS_PROVEN, SUPERSEDED, SPENT = "unmatched", "less_proven", "superseded", "spent"
#: every reason for which an artifact is left out, and what it means
REASONS: dict[str, str] = {
    UNMATCHED: "the inbox's policy does not let its message through",
    LESS_PROVEN: "its sender is not proven, and another one's is",
    SUPERSEDED: "a newer one of the same sender and purpose has taken its place",
    SPENT: "it was claimed, and a newer one of the same sender is there",
}
#: every kind of conflict, and what it means
CONFLICTS: dict[Why, str] = {
    "tied": "one message has several that are as good as each other",
    "same_time": "two messages of one sender are of the same time",
    "senders_differ": "different senders have sent one each",
    "purposes_differ": "one sender has sent several for different purposes",
}

#: when a message was sent, as far as that is known: its signed date or nothing, and its arrival
_When = tuple[int, int]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifact is meant; none, with a conflict, where nobody can know."""

    artifact: Artifact | None = None
    #: those that are meant equally, sorted; none if there is no conflict
    conflict: tuple[str, ...] = ()
    why: Why | None = None
    #: why the others are left out, by id
    reasons: Mapping[str, str] = {}


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How an artifact stands among the others of its inbox, whoever has claimed which."""

    #: the one that took its place
    superseded_by: str | None = None
    #: it took the place of others, told from when they arrived
    by_arrival: bool = False


def choose(candidates: Iterable[Artifact], claim_mark: bytes | None = None) -> Choice:
    """Choose among artifacts of one kind; what ``claim_mark`` has claimed is preferred.

    An artifact whose sender is proven leaves no place to those whose senders are not. A newer
    message of the same sender and purpose takes the place of an older. What was claimed steps
    aside for something newer of the same sender. What is left must be one, or it is a conflict;
    but whoever has claimed one of them gets that again.
    """
    every = list(candidates)
    reasons: dict[str, str] = {each.id: UNMATCHED for each in every if not each.matched}
    matched = [each for each in every if each.matched]
    proven = [each for each in matched if each.proven]
    if proven:
        reasons |= {each.id: LESS_PROVEN for each in matched if not each.proven}
    current, replaced = _current(proven or matched)
    reasons |= dict.fromkeys(replaced, SUPERSEDED)
    left, spent = _unspent(current)
    reasons |= dict.fromkeys(spent, SPENT)
    return _judged(left, reasons, claim_mark)


def standings(artifacts: Iterable[Artifact]) -> dict[str, Standing]:
    """Return how artifacts of one inbox and kind stand; only those that match compete."""
    found: dict[str, Standing] = {}
    every = list(artifacts)
    for group in _grouped(each for each in every if each.matched):
        newest, older = _newest(group)
        by, by_arrival = min(each.id for each in newest), _by_arrival(newest, older)
        found |= {each.id: Standing(superseded_by=by) for each in older}
        found |= {each.id: Standing(by_arrival=by_arrival) for each in newest}
    return {each.id: found.get(each.id, Standing()) for each in every}


def warned(warnings: Sequence[str], standing: Standing) -> tuple[str, ...]:
    """Return the warnings of an artifact, given how it stands now."""
    own = tuple(each for each in warnings if each != BY_ARRIVAL)
    return (*own, BY_ARRIVAL) if standing.by_arrival else own


def unclaimed_state(standing: Standing) -> ArtifactState:
    """Return the state of an artifact that nobody has claimed."""
    return ArtifactState.SUPERSEDED if standing.superseded_by else ArtifactState.AVAILABLE


def _sender(artifact: Artifact) -> Hashable:
    """Return what tells senders apart; a message without a clear one is alone."""
    return artifact.sender or ("message", artifact.message_id)


def _grouped(artifacts: Iterable[Artifact]) -> list[list[Artifact]]:
    """Put those together that may take each other's place: one sender, one purpose.

    What is proven and what is not are apart: whoever writes a sender's name into a mail must
    neither take the place of the sender's own nor change how those are ordered.
    """
    groups: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in artifacts:
        groups[_sender(each), each.purposes, each.proven].append(each)
    return list(groups.values())


def _is_signed(group: Iterable[Artifact]) -> bool:
    """Say whether signed dates tell how these are ordered.

    One date that is not signed leaves only the order of arrival for all: dates and arrivals
    that are mixed can go in circles.
    """
    return all(each.signed_at is not None for each in group)


def _when(artifact: Artifact, *, signed: bool) -> _When:
    return (artifact.signed_at or 0 if signed else 0, artifact.received_at)


def _newest(group: Sequence[Artifact]) -> tuple[list[Artifact], list[Artifact]]:
    """Return those of the newest message, and the others."""
    signed = _is_signed(group)
    latest = max(_when(each, signed=signed) for each in group)
    newest: list[Artifact] = []
    older: list[Artifact] = []
    for each in group:
        (newest if _when(each, signed=signed) == latest else older).append(each)
    return newest, older


def _by_arrival(newest: Sequence[Artifact], older: Sequence[Artifact]) -> bool:
    """Say whether only the arrival tells that these are newer than those."""
    if not _is_signed((*newest, *older)):
        return bool(older)
    return any(each.signed_at == newest[0].signed_at for each in older)


def _current(artifacts: Iterable[Artifact]) -> tuple[list[Artifact], list[str]]:
    """Return those that nothing newer has taken the place of, and the ids of the others."""
    current, replaced = [], []
    for group in _grouped(artifacts):
        newest, older = _newest(group)
        current += newest
        replaced += [each.id for each in older]
    return current, replaced


def _unspent(current: Sequence[Artifact]) -> tuple[list[Artifact], list[str]]:
    """Let what was claimed step aside for something newer of the same sender."""
    senders: defaultdict[Hashable, list[Artifact]] = defaultdict(list)
    for each in current:
        senders[_sender(each)].append(each)
    spent: set[str] = set()
    for group in senders.values():
        signed = _is_signed(group)
        free = [_when(each, signed=signed) for each in group if not each.claimed]
        claimed = (each for each in group if each.claimed)
        spent |= {each.id for each in claimed if free and _when(each, signed=signed) < max(free)}
    return [each for each in current if each.id not in spent], sorted(spent)


def _judged(
    left: Sequence[Artifact], reasons: Mapping[str, str], claim_mark: bytes | None
) -> Choice:
    own = [each for each in left if claim_mark is not None and each.belongs_to(claim_mark)]
    meant = own if len(own) == 1 else left
    if len(meant) > 1:
        ids = tuple(sorted(each.id for each in meant))
        return Choice(conflict=ids, why=_why(meant), reasons=reasons)
    return Choice(artifact=meant[0] if meant else None, reasons=reasons)


def _why(meant: Sequence[Artifact]) -> Why:
    if len({_sender(each) for each in meant}) > 1:
        return "senders_differ"
    if len({each.purposes for each in meant}) > 1:
        return "purposes_differ"
    return "tied" if len({each.message_id for each in meant}) == 1 else "same_time"
