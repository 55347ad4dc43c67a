"""Style sheets: parsing rules, and matching selectors in one pass from parent to child.

Trying one ancestor after another takes time that grows with a power of the depth, and the sender
chooses selectors and depth. Here every prefix of every selector is one bit, and an element has
the bits of the prefixes that match it. They follow from the bits of its parent alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from oncebox.mail.html.styles import Declarations, declarations

_COMPOUND = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+|\[[^\[\]]{1,200}\])*)")
_CLASS_OR_ID = re.compile(r"([.#])([\w-]+)")
_ATTRIBUTE = re.compile(
    r"\[\s*([\w-]+)\s*(?:([~|^$*]?)=\s*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))\s*i?\s*)?\]"
)
_COMBINATOR = re.compile(r"\s*(>)\s*|\s+")
#: limits of complex selectors: number, and compound selectors in one
_MOST_COMPLEX, _MOST_STEPS = 100, 12
#: compound selectors that are tested in all
_MOST_STEP_TESTS = 50_000

Attributes = Mapping[str, str]
#: the bits of an element's ancestors, and its own
MatchState = tuple[int, int]
NO_MATCH_STATE: MatchState = (0, 0)


class CompoundSelector(msgspec.Struct, frozen=True):
    """A compound selector: conditions on one element, all of which must hold."""

    tag: str
    id: str
    classes: frozenset[str]
    #: name, operator (empty: the attribute exists) and value
    attributes: tuple[tuple[str, str, str], ...]

    @property
    def specificity(self) -> int:
        """Specificity: ids before classes and attributes before tags."""
        several = len(self.classes) + len(self.attributes)
        return (10_000 if self.id else 0) + 100 * several + (self.tag != "*")

    def fits(self, tag: str, attributes: Attributes) -> bool:
        """Say whether an element matches."""
        return (
            self.tag in {tag, "*"}
            and (not self.id or self.id == attributes.get("id", "").lower())
            and (not self.classes or self.classes.issubset(classes_of(attributes)))
            and all(_attribute_matches(attributes, *each) for each in self.attributes)
        )


def classes_of(attributes: Attributes) -> list[str]:
    """Return the classes of an element."""
    return attributes.get("class", "").lower().split()


def parse_compound(text: str) -> CompoundSelector | None:
    """Return a compound selector; None if it is complex or not supported.

    Pseudo-classes are not supported: most of them depend on user actions.
    """
    found = _COMPOUND.fullmatch(text)
    if found is None or not text:
        return None
    attributes = _ATTRIBUTE.findall(found[2])
    if len(attributes) != found[2].count("["):
        return None
    names = _CLASS_OR_ID.findall(_ATTRIBUTE.sub("", found[2]))
    return CompoundSelector(
        tag=found[1] or "*",
        id=next((name for kind, name in names if kind == "#"), ""),
        classes=frozenset(name for kind, name in names if kind == "."),
        attributes=tuple(
            (name, f"{operator}=" if any(values) or operator else "", "".join(values))
            for name, operator, *values in attributes
        ),
    )


def attribute_names(selectors: Iterable[CompoundSelector]) -> frozenset[str]:
    """Return the names of the attributes that the selectors test."""
    return frozenset({"class", "id"}).union(
        name for each in selectors for name, _, _ in each.attributes
    )


class ComplexSelectors:
    """Complex selectors (with combinators), matched from parent to child."""

    def __init__(self) -> None:
        self._steps: list[CompoundSelector] = []
        #: bits of first steps, of steps after a descendant combinator, of steps after ``>``
        self._first = self._below = self._child = 0
        #: the rule number by the bit of a selector's last step
        self._last: dict[int, int] = {}
        self._named: frozenset[str] = frozenset()
        self._wanted = 0
        self._known: dict[tuple[object, ...], int] = {}
        self._tests = 0

    @property
    def exhausted(self) -> bool:
        """Whether the limit of tests was exceeded."""
        return self._tests > _MOST_STEP_TESTS

    def add(self, text: str, number: int) -> int | None:
        """Add a selector; return its specificity, or None if it is not supported."""
        pieces = _COMBINATOR.split(text, _MOST_STEPS)
        steps = [parse_compound(piece or "") for piece in pieces[::2]]
        if not 1 < len(steps) <= _MOST_STEPS or None in steps or len(self._last) >= _MOST_COMPLEX:
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
        return sum(step.specificity for step in known)

    def freeze(self) -> None:
        """Finish adding; must be called before matching."""
        self._named = attribute_names(self._steps)
        self._wanted = sum(1 << bit for bit in self._last)

    def below(self, state: MatchState, tag: str, attributes: Attributes) -> MatchState:
        """Return the match state of a child element."""
        above, own = state[0] | state[1], state[1]
        reachable = self._first | (above << 1 & self._below) | (own << 1 & self._child)
        return above, self._fits(tag, attributes) & reachable

    def matched_numbers(self, state: MatchState) -> tuple[int, ...]:
        """Return the numbers of the rules that match an element."""
        own = state[1]
        if not own & self._wanted:
            return ()
        return tuple([number for bit, number in self._last.items() if own >> bit & 1])

    def _fits(self, tag: str, attributes: Attributes) -> int:
        """Return the bits of the steps that an element matches without its ancestors."""
        key = (tag, *(attributes.get(name, 0) for name in self._named))
        if key not in self._known:
            self._tests += len(self._steps)
            if self.exhausted:
                return 0
            self._known[key] = sum(
                1 << bit for bit, step in enumerate(self._steps) if step.fits(tag, attributes)
            )
        return self._known[key]


def _attribute_matches(attributes: Attributes, name: str, operator: str, wanted: str) -> bool:
    """Say whether an attribute exists and satisfies the condition."""
    if name not in attributes:
        return False
    value = attributes[name].lower()
    if operator in {"", "="}:
        return not operator or value == wanted
    if operator == "~=":
        return wanted in value.split()
    if operator == "|=":
        return value == wanted or value.startswith(f"{wanted}-")
    tests = {"^=": value.startswith, "$=": value.endswith, "*=": value.__contains__}
    return bool(wanted) and bool(tests[operator](wanted))


_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
#: the escape of a letter, digit or hyphen by its code point
_ESCAPE = re.compile(r"\\0{0,4}(2d|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])\s?")
#: ``@media`` conditions on a size
_MEDIA_SIZE = re.compile(
    r"\(\s*(min|max)-(?:device-)?(?:width|height)\s*:\s*([0-9.]{1,9})(?:px)?\s*\)"
)
#: pixels: smaller than any screen, and larger than any
_SMALLEST, _LARGEST = 320.0, 3_000.0
_LONGEST_CSS = 256 * 1024
_MOST_RULES = 2_000
#: rules that are tested for all elements together; real mail needs fewer
_MOST_RULE_TESTS = 50_000


class _StyleRule(msgspec.Struct):
    """A rule, ordered by specificity, then by position."""

    order: tuple[int, int]
    selector: CompoundSelector | None
    declared: Declarations


class StyleSheet:
    """The rules of a mail, indexed by class, id or tag."""

    def __init__(self, css: str) -> None:
        self._by_name: dict[str, list[_StyleRule]] = {}
        #: rules with complex selectors, by number
        self._complex_rules: dict[int, _StyleRule] = {}
        self._complex = ComplexSelectors()
        self._known: dict[tuple[object, ...], tuple[Declarations, ...]] = {}
        self._tests = 0
        order = 0
        for selectors, body in _style_rules(css[:_LONGEST_CSS]):
            declared = declarations(body)
            if not (declared[0] or declared[1]):
                continue
            for selector in _selector_list(selectors):
                order += 1
                self._add(selector, order, declared)
            if order > _MOST_RULES:
                break
        self._complex.freeze()
        every = (rule.selector for rules in self._by_name.values() for rule in rules)
        self._named = attribute_names(each for each in every if each is not None)

    @property
    def empty(self) -> bool:
        """Whether no rule is relevant."""
        return not (self._by_name or self._complex_rules)

    @property
    def exhausted(self) -> bool:
        """Whether the limit of tests was exceeded."""
        return self._complex.exhausted or self._tests > _MOST_RULE_TESTS

    def below(self, state: MatchState, tag: str, attributes: Attributes) -> MatchState:
        """Return the match state of a child element."""
        return self._complex.below(state, tag, attributes) if self._complex_rules else state

    def rules(
        self, state: MatchState, tag: str, attributes: Attributes
    ) -> tuple[Declarations, ...]:
        """Return the declarations for an element, merged into one, or none."""
        numbers = self._complex.matched_numbers(state)
        key = (numbers, tag, *(attributes.get(name, 0) for name in self._named))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._combined(numbers, tag, attributes)
        return known

    def _combined(
        self, numbers: tuple[int, ...], tag: str, attributes: Attributes
    ) -> tuple[Declarations, ...]:
        found = [self._complex_rules[number] for number in numbers]
        identity = attributes.get("id", "").lower()
        for name in {tag, "*", f"#{identity}", *(f".{each}" for each in classes_of(attributes))}:
            rules = self._by_name.get(name, ())
            self._tests += len(rules)
            if self._tests > _MOST_RULE_TESTS:
                break
            found += [
                rule for rule in rules if rule.selector and rule.selector.fits(tag, attributes)
            ]
        if not found:
            return ()
        usual: dict[str, str] = {}
        important: dict[str, str] = {}
        for rule in sorted(found, key=lambda each: each.order):
            usual |= rule.declared[0]
            important |= rule.declared[1]
        return ((usual, important),)

    def _add(self, text: str, order: int, declared: Declarations) -> None:
        selector = parse_compound(text)
        if selector is None:
            weight = self._complex.add(text, order)
            if weight is not None:
                self._complex_rules[order] = _StyleRule((weight, order), None, declared)
            return
        named = f"#{selector.id}" if selector.id else ""
        key = named or next((f".{each}" for each in selector.classes), selector.tag)
        rule = _StyleRule((selector.specificity, order), selector, declared)
        self._by_name.setdefault(key, []).append(rule)


def _selector_list(selectors: str) -> Iterator[str]:
    text = selectors.lower()
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)).lower(), text)
    return (each.strip() for each in text.split(","))


def _style_rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of rules that apply to all screens."""
    text = _COMMENT.sub("", css)
    at = 0
    while (brace := text.find("{", at)) >= 0:
        # A statement that ends with a semicolon before the selector is an @import or the like.
        prelude = text[at:brace].rpartition(";")[2].lstrip("} \t\r\n\f").rstrip()
        if prelude.startswith("@"):
            at = brace + 1 if _applies_to_all_screens(prelude.lower()) else _block_end(text, brace)
            continue
        end = text.find("}", brace)
        end = len(text) if end < 0 else end
        yield prelude, text[brace + 1 : end]
        at = end + 1


def _applies_to_all_screens(prelude: str) -> bool:
    """Say whether the rules of an at-rule apply to all screens."""
    if prelude.startswith(("@supports", "@layer")):
        return not prelude.startswith("@supports not")
    if not prelude.startswith("@media") or "print" in prelude or "not" in prelude:
        return False
    sizes = _MEDIA_SIZE.findall(prelude)
    fits = all(
        float(size) <= _SMALLEST if side == "min" else float(size) >= _LARGEST
        for side, size in sizes
        if size.count(".") <= 1 and size != "."
    )
    return len(sizes) == prelude.count("(") and fits


def _block_end(text: str, brace: int) -> int:
    """Return the end of a block with nested blocks."""
    depth = 0
    for found in re.finditer(r"[{}]", text[brace:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return brace + found.end()
    return len(text)
