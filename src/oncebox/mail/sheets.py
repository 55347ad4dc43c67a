"""Style sheets: which rules of the ``style`` elements of a mail apply to an element."""

import re
from collections.abc import Iterator

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from oncebox.mail.styles import Declarations, declarations

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|<!--|-->", re.DOTALL)
_SIMPLE = re.compile(r"([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+)*)")
#: what our HTML parser can look up without surprises; pseudo-classes depend on what people do
_LOOKED_UP = re.compile(r"[\w\s.#>*-]+")
_NAME = re.compile(r"([.#])([\w-]+)")
_LONGEST = 256 * 1024
_MOST_RULES = 2_000
#: selectors that cost a search through the whole mail
_MOST_SEARCHES = 40


class _Rule(msgspec.Struct):
    """A rule whose selector is about one element alone."""

    order: int
    tag: str
    id: str
    classes: frozenset[str]
    says: Declarations


class Sheet:
    """The rules of a mail, found by class, id or tag."""

    def __init__(self, css: str, tree: LexborHTMLParser) -> None:
        """Read the rules; those with ancestors in their selector are looked up in the tree."""
        self._by_name: dict[str, list[_Rule]] = {}
        self._by_node: dict[int, list[tuple[int, Declarations]]] = {}
        self._searches = 0
        order = 0
        for selectors, body in _rules(css[:_LONGEST]):
            says = declarations(body)
            if not (says[0] or says[1]):
                continue
            for selector in selectors.lower().split(","):
                order += 1
                self._add(selector.strip(), order, says, tree)
            if order > _MOST_RULES:
                break
        #: whether a rule may apply to an element without a name of its own
        self.everywhere = bool(self._by_node) or "*" in self._by_name

    @property
    def empty(self) -> bool:
        """Whether no rule matters."""
        return not (self._by_name or self._by_node)

    @property
    def tags(self) -> frozenset[str]:
        """The tags that rules are about; other elements need a class or an id."""
        return frozenset(name for name in self._by_name if name[0] not in ".#")

    def rules(
        self, tag: str, node: LexborNode, attributes: dict[str, str | None]
    ) -> list[Declarations]:
        """Return what applies to an element, in order."""
        named = "class" in attributes or "id" in attributes
        if not (named or self.everywhere or tag in self._by_name):
            return []
        found = list(self._by_node.get(node.mem_id, ())) if self._by_node else []
        classes = (attributes.get("class") or "").lower().split()
        identity = (attributes.get("id") or "").lower()
        for name in {tag, "*", f"#{identity}", *(f".{each}" for each in classes)}:
            for rule in self._by_name.get(name, ()):
                fits = rule.tag in {tag, "*"} and rule.id in {"", identity}
                if fits and rule.classes.issubset(classes):
                    found.append((rule.order, rule.says))
        found.sort(key=lambda each: each[0])
        return [says for _, says in found]

    def _add(self, selector: str, order: int, says: Declarations, tree: LexborHTMLParser) -> None:
        simple = _SIMPLE.fullmatch(selector)
        if simple is not None and selector:
            names = _NAME.findall(simple[2])
            classes = frozenset(name for kind, name in names if kind == ".")
            identity = next((name for kind, name in names if kind == "#"), "")
            rule = _Rule(order, simple[1] or "*", identity, classes, says)
            key = f"#{identity}" if identity else next((f".{each}" for each in classes), rule.tag)
            self._by_name.setdefault(key, []).append(rule)
        elif _LOOKED_UP.fullmatch(selector) and self._searches < _MOST_SEARCHES:
            self._searches += 1
            for node in _search(tree, selector):
                self._by_node.setdefault(node, []).append((order, says))


def _search(tree: LexborHTMLParser, selector: str) -> list[int]:
    try:
        return [node.mem_id for node in tree.css(selector)]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the error of a wrong selector has no name in its types
        return []


def _rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations; rules for some screens only do not count."""
    text = _COMMENT.sub("", css)
    at = 0
    while (brace := text.find("{", at)) >= 0:
        prelude = text[at:brace].strip().lstrip("}").strip()
        if prelude.startswith("@media") and "(" not in prelude and "print" not in prelude:
            at = brace + 1
            continue
        if prelude.startswith("@"):
            at = _behind(text, brace)
            continue
        end = text.find("}", brace)
        end = len(text) if end < 0 else end
        # What ends with a semicolon before the selector is an @import or the like.
        yield prelude.rpartition(";")[2], text[brace + 1 : end]
        at = end + 1


def _behind(text: str, brace: int) -> int:
    """Return where a block ends that may have others in it."""
    depth = 0
    for found in re.finditer(r"[{}]", text[brace:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return brace + found.end()
    return len(text)
