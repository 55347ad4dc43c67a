"""Selectors: which elements those are about that name ancestors, known while a page is read.

A search that tries one ancestor after another takes time that grows with a power of the depth,
and whoever writes a mail chooses both. Here every beginning of every selector is one bit, and an
element has the bits of those that end with it: what its parent has is all that must be known.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

_SIMPLE = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+|\[[^\[\]]{1,200}\])*)")
_NAME = re.compile(r"([.#])([\w-]+)")
_ATTRIBUTE = re.compile(
    r"\[\s*([\w-]+)\s*(?:([~|^$*]?)=\s*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))\s*i?\s*)?\]"
)
_COMBINED = re.compile(r"\s*(>)\s*|\s+")
#: selectors with ancestors, and steps in one of them; no writer needs more
_MOST, _LONGEST = 100, 12
#: steps that are compared with elements, all together
_MOST_LOOKS = 50_000

Attributes = Mapping[str, str]
#: the bits of an element's ancestors, and its own
Trail = tuple[int, int]
NO_TRAIL: Trail = (0, 0)


class Simple(msgspec.Struct, frozen=True):
    """What is asked of one element; all that is named must fit."""

    tag: str
    id: str
    classes: frozenset[str]
    #: name, way of comparing (empty is being there) and value
    attributes: tuple[tuple[str, str, str], ...]

    @property
    def weight(self) -> int:
        """How much it counts against others: ids before classes before tags."""
        several = len(self.classes) + len(self.attributes)
        return (10_000 if self.id else 0) + 100 * several + (self.tag != "*")

    def fits(self, tag: str, attributes: Attributes) -> bool:
        """Say whether an element is one of those."""
        return (
            self.tag in {tag, "*"}
            and (not self.id or self.id == attributes.get("id", "").lower())
            and (not self.classes or self.classes.issubset(classes_of(attributes)))
            and all(_compares(attributes, *each) for each in self.attributes)
        )


def classes_of(attributes: Attributes) -> list[str]:
    """Return the classes of an element."""
    return attributes.get("class", "").lower().split()


def simple(text: str) -> Simple | None:
    """Return a selector of one element; None if it is another one, or asks for what is not known.

    Pseudo-classes are not: most of them depend on what people do.
    """
    found = _SIMPLE.fullmatch(text)
    if found is None or not text:
        return None
    attributes = _ATTRIBUTE.findall(found[2])
    if len(attributes) != found[2].count("["):
        return None
    names = _NAME.findall(_ATTRIBUTE.sub("", found[2]))
    return Simple(
        tag=found[1] or "*",
        id=next((name for kind, name in names if kind == "#"), ""),
        classes=frozenset(name for kind, name in names if kind == "."),
        attributes=tuple(
            (name, f"{way}=" if any(values) or way else "", "".join(values))
            for name, way, *values in attributes
        ),
    )


def named_by(selectors: Iterable[Simple]) -> frozenset[str]:
    """Return the attributes that elements are told apart by."""
    return frozenset({"class", "id"}).union(
        name for each in selectors for name, _, _ in each.attributes
    )


class Trails:
    """Selectors with ancestors, added one by one and then followed from element to element."""

    def __init__(self) -> None:
        """Begin with none."""
        self._steps: list[Simple] = []
        #: bits of first steps, of those below any ancestor, of those below a parent
        self._first = self._below = self._child = 0
        #: what a selector's last bit stands for
        self._last: dict[int, int] = {}
        self._named: frozenset[str] = frozenset()
        self._wanted = 0
        self._known: dict[tuple[object, ...], int] = {}
        self._looks = 0

    @property
    def spent(self) -> bool:
        """Whether there was more to look at than was looked at."""
        return self._looks > _MOST_LOOKS

    def add(self, text: str, number: int) -> int | None:
        """Take a selector; return its weight, or None if it is not one of these."""
        pieces = _COMBINED.split(text, _LONGEST)
        steps = [simple(piece or "") for piece in pieces[::2]]
        if not 1 < len(steps) <= _LONGEST or None in steps or len(self._last) >= _MOST:
            return None
        at = len(self._steps)
        self._first |= 1 << at
        for place, combined in enumerate(pieces[1::2], at + 1):
            if combined:
                self._child |= 1 << place
            else:
                self._below |= 1 << place
        known = [step for step in steps if step is not None]
        self._steps += known
        self._last[len(self._steps) - 1] = number
        return sum(step.weight for step in known)

    def seal(self) -> None:
        """End adding: nothing is asked before."""
        self._named = named_by(self._steps)
        self._wanted = sum(1 << bit for bit in self._last)

    def below(self, trail: Trail, tag: str, attributes: Attributes) -> Trail:
        """Return the trail of an element below another one."""
        above, own = trail[0] | trail[1], trail[1]
        ways = self._first | (above << 1 & self._below) | (own << 1 & self._child)
        return above, self._fits(tag, attributes) & ways

    def numbers(self, trail: Trail) -> tuple[int, ...]:
        """Return the numbers of the selectors that are about an element."""
        own = trail[1]
        if not own & self._wanted:
            return ()
        return tuple([number for bit, number in self._last.items() if own >> bit & 1])

    def _fits(self, tag: str, attributes: Attributes) -> int:
        """Return the bits of the steps that an element alone would be."""
        key = (tag, *(attributes.get(name, 0) for name in self._named))
        if key not in self._known:
            self._looks += len(self._steps)
            if self.spent:
                return 0
            self._known[key] = sum(
                1 << bit for bit, step in enumerate(self._steps) if step.fits(tag, attributes)
            )
        return self._known[key]


def _compares(attributes: Attributes, name: str, way: str, wanted: str) -> bool:
    """Say whether an attribute is there, and is as it should be."""
    if name not in attributes:
        return False
    value = attributes[name].lower()
    if way in {"", "="}:
        return not way or value == wanted
    if way == "~=":
        return wanted in value.split()
    if way == "|=":
        return value == wanted or value.startswith(f"{wanted}-")
    ways = {"^=": value.startswith, "$=": value.endswith, "*=": value.__contains__}
    return bool(wanted) and bool(ways[way](wanted))
