"""HTML as browsers understand it, written out again so that it can be read from left to right.

A tree builder mends what is broken and puts everything into its place. What it writes out has
every tag in it, in one spelling, and nothing in texts and values that could be taken for a tag.
So a reader needs no tree: it splits the text, and knows at once the tags that it has met before.
"""

import re

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

#: what is no text, and could not be told from tags; what a template has is never shown
_CODE = ("script", "style", "template")
_HAS_CODE = re.compile("<(?:[sS][cCtT]|[tT][eE])")
_HAS_FOREIGN = re.compile("<(?:[sS][vV]|[mM][aA])")
#: elements that in drawings and formulas are not what their names say
_MISNAMED = ", ".join(
    f"{foreign} {name}"
    for foreign in ("svg", "math")
    for name in (
        "area", "base", "basefont", "bgsound", "col", "frame", "iframe", "input", "keygen", "link",
        "noembed", "noframes", "param", "plaintext", "source", "track", "wbr", "xmp",
    )
)  # fmt: skip
#: elements without an end
VOID = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input",
    "keygen", "link", "meta", "param", "source", "track", "wbr",
})  # fmt: skip
#: elements whose text is written as it is
RAW = frozenset({"iframe", "noembed", "noframes", "plaintext", "xmp"})
_NAME = r"[^\s\"'<>/=]+"
_ODD = re.compile(rf"(?!{_NAME}\Z)", re.DOTALL)
_TAG = re.compile(rf"({_NAME})((?: {_NAME}=\"[^\"]*\")*)")
_ATTRIBUTE = re.compile(rf" ({_NAME})=\"([^\"]*)\"")

Attributes = dict[str, str]


class Wellformed(msgspec.Struct, frozen=True):
    """HTML that was written out, and the style sheets that were in it."""

    html: str
    css: str


def read(html: str, *, straight: bool = False) -> Wellformed:
    """Return HTML as it is understood; ``straight`` leaves out names that could be misread."""
    tree = LexborHTMLParser(html)
    css = ""
    if _HAS_CODE.search(html):
        css = "\n".join([node.text() for node in tree.css("style")])
        tree.strip_tags(list(_CODE))
    if _HAS_FOREIGN.search(html):
        for node in tree.css(_MISNAMED):
            node.decompose()
    if tree.root is None:
        return Wellformed("", css)
    if straight:
        _straighten(tree.root)
    return Wellformed(tree.root.html or "", css)


def _straighten(root: LexborNode) -> None:
    for node in list(root.traverse(include_text=False)):
        for name in filter(_ODD.match, list(node.attributes)):
            del node.attrs[name]
        if _ODD.match(node.tag or ""):
            node.unwrap(delete_empty=True)


def tag(text: str) -> tuple[str, Attributes] | None:
    """Return the name and the attributes of a tag; None if its names could be misread."""
    found = _TAG.fullmatch(text)
    if found is None:
        return None
    attributes = {name: text_of(value) for name, value in _ATTRIBUTE.findall(found[2])}
    return found[1].lower(), attributes


def text_of(written: str) -> str:
    """Return a text or a value as it was before it was written out."""
    if "&" not in written:
        return written
    written = written.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u00a0")
    return written.replace("&quot;", '"').replace("&amp;", "&")
