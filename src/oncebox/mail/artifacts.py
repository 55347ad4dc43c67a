"""Artifacts: the code and the link that a mail is about, found by rules and never by a model."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from oncebox.mail import codes, links
from oncebox.mail.codes import Codes
from oncebox.mail.layout import Page
from oncebox.mail.links import Links
from oncebox.model.candidate import Found

T = TypeVar("T")


def find(subject: str, pages: Sequence[Page], sender_domain: str) -> Found:
    """Return what a mail is about, and what else came into question; it never raises."""
    code = _tried(lambda: codes.find(subject, pages), Codes())
    link = _tried(lambda: links.find(subject, pages, sender_domain), Links())
    return Found(
        code=code.best,
        link=link.best,
        codes=code.ranked,
        links=link.ranked,
        codes_tied=code.tied,
        links_tied=link.tied,
    )


def _tried(look: Callable[[], T], nothing: T) -> T:
    try:
        return look()
    except MemoryError:
        raise  # the limit of a process, which its parent must hear of
    except Exception:  # noqa: BLE001 - a mail that breaks a finder is still a message
        return nothing
