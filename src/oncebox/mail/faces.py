"""Faces: how a piece of text looks when it looks like more than plain text."""

import msgspec

from oncebox.mail import colours
from oncebox.mail.colours import Colour
from oncebox.mail.styles import Style

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
#: elements that make a face by themselves
TAGS = HEADINGS | {"b", "strong", "th", "big", "code", "kbd", "samp", "a"}
#: words in the names of classes by which writers call a button
_NAMES = ("btn", "button", "cta")
#: pixels from which on a text is larger than its neighbours
_LARGE = 18
_USUAL = 16
#: a ground whose channels are all lighter is paper, not paint
_PAPER = 225


class Link(msgspec.Struct):
    """An element that can be clicked, while it is being read."""

    href: str
    #: it has a ground, a border or a name of its own, as buttons have
    button: bool = False
    #: what is said for the pictures in it
    alts: list[str] = []


class Face(msgspec.Struct):
    """How a piece of text looks."""

    strong: bool = False
    #: in pixels; 0 unless it is large
    size: int = 0
    spaced: bool = False
    heading: bool = False
    #: it stands on a ground that is painted
    painted: bool = False
    link: Link | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing but its ground sets it apart."""
        return not (self.strong or self.size or self.spaced or self.heading)


PLAIN = Face()


def changed(face: Face | None, tag: str, style: Style, ground: Colour | None) -> Face | None:
    """Return the face of text inside an element; None: it is plain."""
    was = face or PLAIN
    heading = was.heading or tag in HEADINGS
    bold = was.strong or tag in {"b", "strong", "th"} or tag in HEADINGS
    new = Face(
        strong=bold if style.strong is None else style.strong,
        size=_size(was.size, style),
        spaced=was.spaced if style.spaced is None else style.spaced,
        heading=heading,
        painted=is_painted(ground),
        link=was.link,
    )
    return None if new.plain and new.link is None else new


def _size(was: int, style: Style) -> int:
    if not style.size:
        return was
    size = style.size * (was or _USUAL) if style.relative else style.size
    return round(min(size, 999)) if size >= _LARGE else 0


def linked(
    face: Face | None, attributes: dict[str, str], style: Style, ground: Colour | None
) -> Face | None:
    """Return the face of text inside a link, of which there is one for every link."""
    was = face or PLAIN
    href = attributes.get("href")
    if not href:
        return face
    named = f"{attributes.get('class', '')} {attributes.get('role', '')}".lower()
    own = style.ground is not False and style.ground != colours.TRANSPARENT
    painted = own and (is_painted(ground) or ground is None)
    button = painted or style.boxed or any(name in named for name in _NAMES)
    return Face(
        strong=was.strong, size=was.size, spaced=was.spaced, heading=was.heading,
        painted=is_painted(ground), link=Link(href, button, []),
    )  # fmt: skip


def is_painted(ground: Colour | None) -> bool:
    """Say whether a ground is of a colour that paper does not have."""
    return ground is not None and min(ground) < _PAPER
