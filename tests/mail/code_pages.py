"""Pages for the tests of codes: texts as they are, and as HTML mails show them."""

import html

from oncebox.mail.codes import code_finder
from oncebox.mail.html import visible
from oncebox.mail.html.layout import Page, plain_page
from oncebox.mail.limits import ParseLimits
from oncebox.model.inboxes.received_mail import RankedCandidates

_BOX = '<table><tr><td style="font-size:32px;font-weight:bold">{}</td></tr></table>'
_SHORT = 16


def plain(text: str) -> Page:
    """Return a page of plain text."""
    return plain_page(text)


def marked(markup: str) -> Page:
    """Return a page of HTML."""
    return visible.read_html(markup, ParseLimits(), set()).shown


def boxed(text: str) -> Page:
    """Return a page of HTML in which what stands alone is large and in a box."""
    parts = text.split("\n\n")
    return marked("".join(_box(part) if _is_boxed(part) else _paragraph(part) for part in parts))


def _is_boxed(part: str) -> bool:
    alone = " " not in part or (len(part) < _SHORT and any(each.isdigit() for each in part))
    return alone and "\n" not in part


def _box(part: str) -> str:
    return _BOX.format(html.escape(part))


def _paragraph(part: str) -> str:
    return f"<p>{html.escape(part).replace(chr(10), '<br>')}</p>"


def code(*pages: Page, subject: str = "") -> str | None:
    """Return the code that is found on pages."""
    best = code_finder.find_codes(subject, pages).best
    return None if best is None else best.value


def found(*pages: Page, subject: str = "") -> RankedCandidates:
    """Return all that is found on pages."""
    return code_finder.find_codes(subject, pages)
