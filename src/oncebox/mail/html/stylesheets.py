"""Style sheets: parsing rules, and matching selectors in one pass from parent to child.

Trying one ancestor after another takes time that grows with a power of the depth, and the sender
chooses selectors and depth. Here every prefix of every selector is one bit, and an element has
the bits of the prefixes that match it. They follow from the bits of its parent alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from oncebox.mail.html import hiding, selectors, styles
from oncebox.mail.html.colours import TRANSPARENT, are_similar
from oncebox.mail.html.styles import Declarations, declarations

#: the first of the characters that stand for escaped punctuation in names
_ESCAPED = 0xE000
_COMPOUND = re.compile(r"([a-z][a-z0-9-]*|\*)?((?:[.#][\w\ue000-\ue07f-]+|\[[^\[\]]{1,200}\])*)")
_CLASS_OR_ID = re.compile(r"([.#])([\w\ue000-\ue07f-]+)")
_PUNCTUATION = {_ESCAPED + code: code for code in range(0x80)}
_ATTRIBUTE = re.compile(
    r"\[\s*([\w-]+)\s*(?:([~|^$*]?)=\s*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))\s*[is]?\s*)?\]"
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

    Pseudo-classes are left out before: see ``selectors``.
    """
    found = _COMPOUND.fullmatch(text)
    if found is None or not text:
        return None
    attributes = _ATTRIBUTE.findall(found[2])
    if len(attributes) != found[2].count("["):
        return None
    names = _CLASS_OR_ID.findall(_ATTRIBUTE.sub("", found[2]))
    if not text.isascii():
        names = [(kind, name.translate(_PUNCTUATION)) for kind, name in names]
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
_ESCAPED_MARK = re.compile(r"\\([!-/:-@\[-`{-~])")
#: an address that is not quoted ends at the bracket, whatever it contains
_PLAIN_URL = re.compile(r"url\(\s*+(?![\"'\s])[^)]*+(?:\)|\Z)", re.IGNORECASE)
_NOT_IN_URLS = re.compile("[\"'{}]")
#: the prefix of a name space
_NAME_SPACE = re.compile(r"(?:\*|(?<![\w-])[a-z][\w-]*)?\|(?![=|])")
_LONGEST_CSS = 256 * 1024
_MOST_RULES = 2_000
#: variables of all rules together
_MOST_VARIABLES = 500
#: rules that are tested for all elements together; real mail needs fewer
_MOST_RULE_TESTS = 50_000


class _StyleRule(msgspec.Struct):
    """A rule, ordered by specificity, then by position."""

    order: tuple[int, int]
    selector: CompoundSelector | None
    declared: Declarations
    #: it may match although its selector, or the rule around it, does not
    doubtful: bool
    #: it hides a text; computed only where the order of rules is not certain
    hides: bool = False


class MatchedRules(NamedTuple):
    """The declarations for an element, merged into one."""

    #: of the rules that match
    certain: Declarations | None = None
    #: and of those that may match too; None if there are none
    possible: Declarations | None = None


NO_RULES = MatchedRules()


class StyleSheet:
    """The rules of a mail, indexed by class, id or tag."""

    def __init__(self, css: str) -> None:
        self._by_name: dict[str, list[_StyleRule]] = {}
        #: rules with complex selectors, by number
        self._complex_rules: dict[int, _StyleRule] = {}
        self._complex = ComplexSelectors()
        self._known: dict[tuple[object, ...], MatchedRules] = {}
        self._tests = self._variables = 0
        self.has_variables = "--" in css
        #: animations that end with hidden text, and fonts that the mail brings along
        self.hiding_animations: set[str] = set()
        self.embedded_fonts: set[str] = set()
        #: animations that hide text for a time
        self.passing_animations: set[str] = set()
        #: variables that ``@property`` registers
        self.registered: set[str] = set()
        #: a painted pseudo-element may lie on the text
        self.covers = False
        #: the order of rules is not only by the selectors that are counted
        self._is_reordered = bool(_REORDERING.search(css))
        #: rules were left out because there are too many
        self._incomplete = len(css) > _LONGEST_CSS
        self._read(css[:_LONGEST_CSS])
        self._complex.freeze()
        every = (rule.selector for rules in self._by_name.values() for rule in rules)
        self._named = attribute_names(each for each in every if each is not None)

    def _read(self, css: str) -> None:
        """Add the rules of a style sheet, until there are too many."""
        order = 0
        for selector_list, body, doubtful in _style_rules(css):
            if selector_list.startswith("@"):
                self._add_at_rule(selector_list, body)
            elif order <= _MOST_RULES and self._variables <= _MOST_VARIABLES:
                order = self._add_rule(selector_list, declarations(body), order, doubtful=doubtful)
            else:
                self._incomplete = True
                break

    def _add_rule(
        self, selector_list: str, declared: Declarations, order: int, *, doubtful: bool
    ) -> int:
        """Add a rule, once for each of its selectors; return the number of the last."""
        if self.has_variables:
            self._count_variables(sum(map(_is_variable, (*declared[0], *declared[1]))))
        if not (declared[0] or declared[1]) or self._variables > _MOST_VARIABLES:
            return order
        if _BESIDE_TEXT.search(selector_list) and _covers(declared):
            self.covers = True
        for selector in selectors.plain_selectors(_unescaped(selector_list)):
            order += 1
            if order > _MOST_RULES:
                self._incomplete = True
                break
            self._add(selector.text, order, declared, doubtful=doubtful or selector.doubtful)
        return order

    def _count_variables(self, more: int) -> None:
        """Count variables: every element below has a copy of each."""
        self._variables += more
        self._incomplete = self._incomplete or self._variables > _MOST_VARIABLES

    @property
    def empty(self) -> bool:
        """Whether no rule is relevant."""
        return not (self._by_name or self._complex_rules or self._incomplete)

    @property
    def exhausted(self) -> bool:
        """Whether a limit was exceeded, so that a rule may be missing."""
        return self._incomplete or self._complex.exhausted or self._tests > _MOST_RULE_TESTS

    def below(self, state: MatchState, tag: str, attributes: Attributes) -> MatchState:
        """Return the match state of a child element."""
        return self._complex.below(state, tag, attributes) if self._complex_rules else state

    def rules(self, state: MatchState, tag: str, attributes: Attributes) -> MatchedRules:
        """Return the declarations for an element."""
        numbers = self._complex.matched_numbers(state)
        key = (numbers, tag, *(attributes.get(name, 0) for name in self._named))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._combined(numbers, tag, attributes)
        return known

    def _combined(self, numbers: tuple[int, ...], tag: str, attributes: Attributes) -> MatchedRules:
        self._tests += len(numbers)
        if self._tests > _MOST_RULE_TESTS:
            return NO_RULES
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
            return NO_RULES
        found.sort(key=lambda each: each.order)
        certain = [rule for rule in found if not rule.doubtful]
        if self._is_reordered:
            found.sort(key=lambda each: each.hides)
        return MatchedRules(
            _merged(certain) if certain else None,
            _merged(found) if len(certain) < len(found) or self._is_reordered else None,
        )

    def _add(self, text: str, order: int, declared: Declarations, *, doubtful: bool) -> None:
        if doubtful and not _may_hide(declared):
            return
        hides = self._is_reordered and _hides(declared)
        selector = parse_compound(text)
        if selector is None:
            weight = self._complex.add(text, order)
            if weight is not None:
                rule = _StyleRule((weight, order), None, declared, doubtful, hides)
                self._complex_rules[order] = rule
                return
            # It has too many steps, or there are too many; a wider one takes its place.
            selector, doubtful = parse_compound(_COMBINATOR.split(text)[-1] or ""), True
            if selector is None or not _may_hide(declared):
                return
            if not selector.specificity:  # it matches everything
                self._incomplete = True
                return
        named = f"#{selector.id}" if selector.id else ""
        key = named or next((f".{each}" for each in selector.classes), selector.tag)
        rule = _StyleRule((selector.specificity, order), selector, declared, doubtful, hides)
        self._by_name.setdefault(key, []).append(rule)

    def _add_at_rule(self, prelude: str, body: str) -> None:
        """Add an animation that ends with hidden text, or a font whose glyphs are in the mail."""
        kind, _, name = prelude.partition(" ")
        if kind == "@font-face":
            found = _FONT_NAME.search(body.lower())
            if found is not None and (_EMBEDDED.search(body) or "size-adjust" in body.lower()):
                self.embedded_fonts.add(found[1].strip(" \"'"))
            return
        if kind == "@property":
            self._count_variables(1)
            if self._variables <= _MOST_VARIABLES:
                self.registered.add(_first_name(name))
            return
        hiding_frames = [
            names for names, frame in _FRAME.findall(body.lower()) if _hides(declarations(frame))
        ]
        if any(map(_LAST_FRAME.search, hiding_frames)):
            self.hiding_animations.add(name.strip(" \"'"))
        elif hiding_frames:
            self.passing_animations.add(name.strip(" \"'"))


def _first_name(text: str) -> str:
    """Return the variable at the beginning of a text as ``declarations`` spells it."""
    spelled = declarations(f"{text.strip()}:0")
    return next(iter(spelled[0]), "")


_FONT_NAME = re.compile(r"font-family\s*:\s*([^;}]{1,100})")
_EMBEDDED = re.compile(r"url\(\s*[\"']?data:", re.IGNORECASE)
_FRAME = re.compile(r"([^{}]{1,200})\{([^{}]*)\}")
_LAST_FRAME = re.compile(r"\bto\b|100%")
#: layers, and pseudo-classes that count by their arguments
_REORDERING = re.compile(r"@layer|:(?:is|not|where|has)\(", re.IGNORECASE)
_BESIDE_TEXT = re.compile(r"::?(?:before|after)", re.IGNORECASE)
#: a font size in pixels that hardly anybody can read
_SMALL = 4.0
#: properties besides those of ``hiding`` that may hide a text
_COLOURING = frozenset({
    "color", "background", "background-color", "background-image", "-webkit-text-fill-color",
    "font", "mso-hide", "animation", "animation-name", "font-family",
})  # fmt: skip


def _is_variable(name: str) -> bool:
    return name.startswith("--")


def _may_hide(declared: Declarations) -> bool:
    names = declared[0].keys() | declared[1].keys()
    return any(
        name in hiding.HIDING_PROPERTIES or name in _COLOURING or _is_variable(name)
        for name in names
    )


def _hides(declared: Declarations) -> bool:
    style = styles.style_of(declared[0] | declared[1])
    faint = hiding.fade_visibility(min(style.opacity, abs(style.scale)))
    tiny = style.size is not None and style.size < (0.2 if style.relative else _SMALL)
    pale = style.text_colour == TRANSPARENT or (
        isinstance(style.text_colour, tuple) and are_similar(style.text_colour, _WHITE)
    )
    return hiding.HIDDEN in {style.visibility, faint} or style.visible is False or tiny or pale


_WHITE = (255, 255, 255)


def _covers(declared: Declarations) -> bool:
    style = styles.style_of(declared[0] | declared[1])
    return style.lifted and style.background not in {False, TRANSPARENT}


def _merged(rules: Iterable[_StyleRule]) -> Declarations:
    usual: dict[str, str] = {}
    important: dict[str, str] = {}
    for rule in rules:
        usual |= rule.declared[0]
        important |= rule.declared[1]
    return usual, important


def _unescaped(selector_list: str) -> str:
    text = selector_list.lower()
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)).lower(), text)
        text = _ESCAPED_MARK.sub(lambda found: chr(_ESCAPED + ord(found[1])), text)
    return _NAME_SPACE.sub("", text) if "|" in text else text


_STRUCTURE = re.compile(r"[{}]|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?", re.DOTALL)
#: depth of nested rules
_DEEPEST = 6
_COLLECTED = re.compile(r"@(?:-webkit-)?keyframes\s|@font-face|@property\s")
#: a comment separates the name of an at-rule from what follows
_AT_COMMENT = re.compile(r"(@[\w-]+)/\*")

#: selectors (or the beginning of an at-rule), declarations, and whether they may not apply
_WrittenRule = tuple[str, str, bool]


def _style_rules(css: str) -> Iterator[_WrittenRule]:
    """Yield the rules that apply, or may apply, to all screens."""
    text = _COMMENT.sub("", _AT_COMMENT.sub(r"\1 /*", css))
    text = _PLAIN_URL.sub(lambda found: _NOT_IN_URLS.sub("", found[0]), text)
    return _rules_in(text, "", doubtful=False, depth=0)


def _rules_in(text: str, around: str, *, doubtful: bool, depth: int) -> Iterator[_WrittenRule]:
    """Yield the rules of a block; ``around`` is the selector of the rule that it belongs to."""
    at = 0
    while (brace := _block_start(text, at)) >= 0:
        # A statement that ends with a semicolon before the selector is an @import or the like.
        prelude = text[at:brace].rpartition(";")[2].lstrip("} \t\r\n\f").rstrip()
        end = text.find("}", brace)
        body = text[brace + 1 : end] if end >= 0 else text[brace + 1 :]
        if prelude.startswith("@") or "{" in body or _is_in_string(body):
            end = _block_end(text, brace)
            body = text[brace + 1 : end] if end >= 0 else text[brace + 1 :]
        at = len(text) if end < 0 else end + 1
        if prelude.startswith("@"):
            yield from _rules_of_at_rule(_at_rule_name(prelude), body, around, doubtful, depth)
            continue
        selector = _nested_selector(around, prelude) if around else prelude
        if "{" not in body or _is_in_string(body.partition("{")[0]):
            yield selector, body, doubtful
            continue
        yield selector, _without_blocks(body), doubtful
        if depth < _DEEPEST:
            yield from _rules_in(body, selector, doubtful=doubtful, depth=depth + 1)


def _rules_of_at_rule(
    prelude: str,
    body: str,
    around: str,
    doubtful: bool,  # noqa: FBT001 - passed on
    depth: int,
) -> Iterator[_WrittenRule]:
    """Yield the rules of an at-rule that applies, or may apply, to all screens."""
    if _COLLECTED.match(prelude):
        yield prelude, body, doubtful
    elif (applies := _application(prelude)) and depth < _DEEPEST:
        inner = doubtful or applies == "maybe"
        if around:
            yield around, _without_blocks(body), inner
        yield from _rules_in(body, around, doubtful=inner, depth=depth + 1)


def _at_rule_name(prelude: str) -> str:
    """Return the beginning of an at-rule in lower case, except the name of a variable."""
    unescaped = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), prelude)
    return unescaped if unescaped.lower().startswith("@property") else unescaped.lower()


def _is_in_string(text: str) -> bool:
    """Say whether a text ends inside a string."""
    return text.count('"') % 2 > 0 or text.count("'") % 2 > 0


def _block_start(text: str, at: int) -> int:
    """Return the offset of the next block; braces in strings do not count."""
    brace = text.find("{", at)
    if brace < 0 or not _is_in_string(text[at:brace]):
        return brace
    for found in _STRUCTURE.finditer(text, at):
        if found[0] == "{":
            return found.start()
    return -1


def _block_end(text: str, brace: int) -> int:
    """Return the offset of the end of a block with nested blocks; -1 if it has none."""
    depth = 0
    for found in _STRUCTURE.finditer(text, brace):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            depth -= 1
            if depth == 0:
                return found.start()
    return -1


def _without_blocks(body: str) -> str:
    """Return the declarations of a block without its nested rules."""
    kept, depth, start = [], 0, 0
    for found in _STRUCTURE.finditer(body):
        if found[0] == "{":
            if depth == 0:
                kept.append(body[start : found.start()].rpartition(";")[0])
            depth += 1
        elif found[0] == "}":
            depth -= 1
            start = found.end()
    return ";".join([*kept, body[start:]])


def _nested_selector(around: str, selector: str) -> str:
    """Return the selector of a rule inside another rule."""
    outer = around if "," not in around else f":is({around})"
    return ",".join(
        each.replace("&", outer) if "&" in each else f"{outer} {each}"
        for each in selectors.split_list(selector)
    )


#: ``@media`` conditions on a size
_MEDIA_SIZE = re.compile(
    r"\(\s*(min|max)-(?:device-)?(?:width|height)\s*:\s*([0-9.]{1,9})(px|em|rem)?\s*\)"
)
_MEDIA_RANGE = re.compile(r"\(\s*(?:width|height)\s*([<>])=?\s*([0-9.]{1,9})(px|em|rem)?\s*\)")
#: conditions that hold only for some readers, and are common
_OTHER_READERS = re.compile(
    r"prefers-color-scheme\s*:\s*dark|prefers-reduced-[a-z]+\s*(?::\s*reduce|\))|-ms-high-contrast"
)
#: pixels: smaller than any screen, and larger than any
_SMALLEST, _LARGEST = 320.0, 3_000.0
#: pixels between the windows of telephones and others
_MIDDLE = 900.0
_PIXELS = {"em": 16.0, "rem": 16.0}


def _application(prelude: str) -> str:
    """Say whether the rules of an at-rule apply: "yes", "maybe" or "" for no."""
    name = prelude.partition(" ")[0].partition("(")[0]
    if name == "@layer":
        return "yes"
    if name == "@supports":
        return "maybe" if "not" in prelude else "yes"
    if name in {"@container", "@scope", "@document", "@-moz-document", "@starting-style"}:
        return "maybe"
    if name != "@media":
        return ""
    answers = {_query_application(query) for query in prelude[6:].split(",")}
    return "yes" if "yes" in answers else "maybe" if "maybe" in answers else ""


def _query_application(query: str) -> str:
    words = re.sub(r"\([^()]*\)", " ", query).split()
    negated = words[:1] == ["not"]
    kind = next((word for word in words if word not in {"not", "only", "and", "or"}), "all")
    if negated and "(" in query:
        return "maybe"
    if (kind in {"all", "screen"}) == negated:
        return ""
    sizes = [(side == "min", size, unit) for side, size, unit in _MEDIA_SIZE.findall(query)] + [
        (side == ">", size, unit) for side, size, unit in _MEDIA_RANGE.findall(query)
    ]
    if _OTHER_READERS.search(query):
        return ""
    if " or " in query:
        return "maybe"
    if not all(_holds(each, _MIDDLE, _MIDDLE) for each in sizes):
        return ""
    everywhere = all(_holds(each, _SMALLEST, _LARGEST) for each in sizes)
    return "yes" if everywhere and len(sizes) == query.count("(") else "maybe"


def _holds(condition: tuple[bool, str, str], smallest: float, largest: float) -> bool:
    """Say whether a condition on a size holds on all screens from and to these sizes."""
    least, size, unit = condition
    if size.count(".") > 1 or size == ".":
        return True
    pixels = float(size) * _PIXELS.get(unit, 1.0)
    return pixels <= smallest if least else pixels >= largest
