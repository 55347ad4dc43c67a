"""The invariants: each check reads a history and returns what it found broken."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tests.torture.history import Effect, Event, Kind

#: States in which nothing more will happen by itself, and everybody can see why.
SETTLED = frozenset({"done", "dead", "held"})


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise."""

    #: The promise: lost, doubled, split, stale, stuck, foreign, missing or corrupt.
    rule: str
    #: The key or id it happened to.
    subject: str
    #: What was seen instead.
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}{f' ({self.detail})' if self.detail else ''}"


def lost(events: Iterable[Event], present: Collection[str]) -> list[Violation]:
    """Find keys whose caller was told ok and which are not in the store."""
    told = dict.fromkeys(event.key for event in events if event.kind is Kind.OK)
    known = frozenset(present)
    return [Violation("lost", key) for key in told if key not in known]


def split(events: Iterable[Event]) -> list[Violation]:
    """Find keys whose callers were given different ids for the same thing."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.kind is Kind.OK and event.id is not None:
            ids[event.key].add(event.id)
    return [
        Violation("split", key, ", ".join(sorted(found)))
        for key, found in ids.items()
        if len(found) > 1
    ]


def doubled(effects: Iterable[Effect]) -> list[Violation]:
    """Find keys for which the world was called more than once."""
    counts = Counter(effect.key for effect in effects)
    return [
        Violation("doubled", key, f"{count} effects") for key, count in counts.items() if count > 1
    ]


def repeated(keys: Iterable[str]) -> list[Violation]:
    """Find keys that the store holds in more than one row."""
    counts = Counter(keys)
    return [
        Violation("doubled", key, f"{count} rows") for key, count in counts.items() if count > 1
    ]


def stale(effects: Iterable[Effect]) -> list[Violation]:
    """Find calls made under a fence after the world had already seen a higher one."""
    highest: dict[str, int] = {}
    found = []
    for effect in effects:
        if effect.fence is None:
            continue
        seen = highest.get(effect.delivery, effect.fence)
        if effect.fence < seen:
            detail = f"fence {effect.fence} after {seen}, pid {effect.pid}"
            found.append(Violation("stale", effect.delivery, detail))
        highest[effect.delivery] = max(seen, effect.fence)
    return found


def stuck(states: Mapping[str, str], settled: Collection[str] = SETTLED) -> list[Violation]:
    """Find deliveries that are in no end state after the quiet phase."""
    return [
        Violation("stuck", delivery, state)
        for delivery, state in states.items()
        if state not in settled
    ]


def foreign(effects: Iterable[Effect], deliveries: Collection[str]) -> list[Violation]:
    """Find effects made for deliveries that the store does not know."""
    known = frozenset(deliveries)
    unknown = dict.fromkeys(effect.delivery for effect in effects)
    return [Violation("foreign", delivery) for delivery in unknown if delivery not in known]


def missing(effects: Iterable[Effect], done: Iterable[str]) -> list[Violation]:
    """Find deliveries reported done whose effect the world never felt."""
    felt = {effect.delivery for effect in effects}
    return [Violation("missing", delivery) for delivery in done if delivery not in felt]


def unanswered(events: Iterable[Event]) -> list[str]:
    """List keys that were asked for and whose caller never heard ok or fail: a retry is due."""
    waiting: dict[str, None] = {}
    heard: set[str] = set()
    for event in events:
        waiting.setdefault(event.key)
        if event.kind in {Kind.OK, Kind.FAIL}:
            heard.add(event.key)
    return [key for key in waiting if key not in heard]
