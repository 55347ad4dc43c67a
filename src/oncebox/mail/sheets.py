"""Style sheets: which rules of the ``style`` elements of a mail apply to an element."""

import re
from collections.abc import Iterator

import msgspec

from oncebox.mail.selectors import Attributes, Simple, Trail, Trails, classes_of, named_by, simple
from oncebox.mail.styles import Declarations, declarations

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
#: a letter or digit that is written by its number
_ESCAPE = re.compile(r"\\0{0,4}(2d|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])\s?")
#: conditions of ``@media`` that name a size
_SIZE = re.compile(r"\(\s*(min|max)-(?:device-)?(?:width|height)\s*:\s*([0-9.]{1,9})(?:px)?\s*\)")
#: as small as any screen, and larger than all of them
_SMALLEST, _LARGEST = 320.0, 3_000.0
_LONGEST = 256 * 1024
_MOST_RULES = 2_000
#: rules that are looked at for all elements together; who needs more has written them for us
_MOST_LOOKS = 50_000


class _Rule(msgspec.Struct):
    """A rule and how much it counts: by its selector, then by its place."""

    order: tuple[int, int]
    selector: Simple | None
    says: Declarations


class Sheet:
    """The rules of a mail, found by class, id or tag."""

    def __init__(self, css: str) -> None:
        """Read the rules."""
        self._by_name: dict[str, list[_Rule]] = {}
        #: rules with ancestors in their selectors, by number
        self._far: dict[int, _Rule] = {}
        self._trails = Trails()
        self._known: dict[tuple[object, ...], tuple[Declarations, ...]] = {}
        self._looks = 0
        order = 0
        for selectors, body in _rules(css[:_LONGEST]):
            says = declarations(body)
            if not (says[0] or says[1]):
                continue
            for selector in _apart(selectors):
                order += 1
                self._add(selector, order, says)
            if order > _MOST_RULES:
                break
        self._trails.seal()
        every = (rule.selector for rules in self._by_name.values() for rule in rules)
        self._named = named_by(each for each in every if each is not None)

    @property
    def empty(self) -> bool:
        """Whether no rule matters."""
        return not (self._by_name or self._far)

    @property
    def spent(self) -> bool:
        """Whether there was more to look at than was looked at."""
        return self._trails.spent or self._looks > _MOST_LOOKS

    def below(self, trail: Trail, tag: str, attributes: Attributes) -> Trail:
        """Return what selectors with ancestors must know of an element below another one."""
        return self._trails.below(trail, tag, attributes) if self._far else trail

    def rules(self, trail: Trail, tag: str, attributes: Attributes) -> tuple[Declarations, ...]:
        """Return what applies to an element: nothing, or all of it as one."""
        numbers = self._trails.numbers(trail)
        key = (numbers, tag, *(attributes.get(name, 0) for name in self._named))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._combined(numbers, tag, attributes)
        return known

    def _combined(
        self, numbers: tuple[int, ...], tag: str, attributes: Attributes
    ) -> tuple[Declarations, ...]:
        found = [self._far[number] for number in numbers]
        identity = attributes.get("id", "").lower()
        for name in {tag, "*", f"#{identity}", *(f".{each}" for each in classes_of(attributes))}:
            rules = self._by_name.get(name, ())
            self._looks += len(rules)
            if self._looks > _MOST_LOOKS:
                break
            found += [
                rule for rule in rules if rule.selector and rule.selector.fits(tag, attributes)
            ]
        if not found:
            return ()
        usual: dict[str, str] = {}
        important: dict[str, str] = {}
        for rule in sorted(found, key=lambda each: each.order):
            usual |= rule.says[0]
            important |= rule.says[1]
        return ((usual, important),)

    def _add(self, text: str, order: int, says: Declarations) -> None:
        selector = simple(text)
        if selector is None:
            weight = self._trails.add(text, order)
            if weight is not None:
                self._far[order] = _Rule((weight, order), None, says)
            return
        named = f"#{selector.id}" if selector.id else ""
        key = named or next((f".{each}" for each in selector.classes), selector.tag)
        rule = _Rule((selector.weight, order), selector, says)
        self._by_name.setdefault(key, []).append(rule)


def _apart(selectors: str) -> Iterator[str]:
    """Yield the selectors of a rule."""
    text = selectors.lower()
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)).lower(), text)
    return (each.strip() for each in text.split(","))


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations; rules for some screens only do not count."""
    text = _COMMENT.sub("", css)
    at = 0
    while (brace := text.find("{", at)) >= 0:
        # What ends with a semicolon before the selector is an @import or the like.
        prelude = text[at:brace].rpartition(";")[2].lstrip("} \t\r\n\f").rstrip()
        if prelude.startswith("@"):
            at = brace + 1 if _is_for_all(prelude.lower()) else _behind(text, brace)
            continue
        end = text.find("}", brace)
        end = len(text) if end < 0 else end
        yield prelude, text[brace + 1 : end]
        at = end + 1


def _is_for_all(prelude: str) -> bool:
    """Say whether the rules in a block are for all who read the mail on a screen."""
    if prelude.startswith(("@supports", "@layer")):
        return not prelude.startswith("@supports not")
    if not prelude.startswith("@media") or "print" in prelude or "not" in prelude:
        return False
    sizes = _SIZE.findall(prelude)
    fits = all(
        float(size) <= _SMALLEST if side == "min" else float(size) >= _LARGEST
        for side, size in sizes
        if size.count(".") <= 1 and size != "."
    )
    return len(sizes) == prelude.count("(") and fits


def _behind(text: str, brace: int) -> int:
    """Return where a block ends that may have others in it."""
    depth = 0
    for found in re.finditer(r"[{}]", text[brace:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return brace + found.end()
    return len(text)
