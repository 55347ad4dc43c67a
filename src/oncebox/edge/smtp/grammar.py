"""Grammar: what the arguments of MAIL and RCPT say."""

import re
from typing import NamedTuple

from oncebox.edge.smtp import replies
from oncebox.model import envelope

_PARAMETERS = rb"((?: +[^ =<>]+(?:=[^ =<>]*)?)*) *"
# Many clients put a space after the colon, and no server minds.
_FROM = re.compile(rb"FROM: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_TO = re.compile(rb"TO: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_NUMBER = re.compile(rb"[0-9]{1,20}")
_BODIES = (b"7BIT", b"8BITMIME")


class Refused(Exception):
    """A command cannot be taken; ``reply`` says why."""

    def __init__(self, reply: bytes) -> None:
        """Take what is to be said."""
        super().__init__()
        self.reply = reply


class Sender(NamedTuple):
    """What MAIL says."""

    address: str
    #: bytes the mail will have; 0 if that is not told
    size: int
    utf8: bool


def sender(argument: bytes, *, extended: bool) -> Sender:
    """Read the argument of MAIL; parameters are for those who said EHLO.

    Raises: Refused.
    """
    found = _FROM.fullmatch(argument)
    if found is None:
        raise Refused(replies.PATH_WRONG)
    path, rest = found.groups()
    size, utf8 = _parameters(rest, extended=extended) if rest else (0, False)
    address = _text(path, utf8=utf8, wrong=replies.PATH_WRONG)
    if not envelope.is_sender(address):
        raise Refused(replies.PATH_WRONG)
    return Sender(address, size, utf8)


def recipient(argument: bytes, *, utf8: bool) -> tuple[str, str]:
    """Read the argument of RCPT; return local part and domain.

    Raises: Refused.
    """
    found = _TO.fullmatch(argument)
    if found is None:
        raise Refused(replies.RECIPIENT_WRONG)
    path, rest = found.groups()
    if rest:
        raise Refused(replies.PARAMETER_UNKNOWN)
    parts = envelope.recipient(_text(path, utf8=utf8, wrong=replies.RECIPIENT_WRONG))
    if parts is None:
        raise Refused(replies.RECIPIENT_WRONG)
    return parts


def _text(path: bytes, *, utf8: bool, wrong: bytes) -> str:
    if not path.isascii() and not utf8:
        raise Refused(replies.UTF8_NEEDED)
    try:
        return path.decode()
    except UnicodeDecodeError:
        raise Refused(wrong) from None


def _parameters(text: bytes, *, extended: bool) -> tuple[int, bool]:
    """Return the size and whether the mail is in UTF-8."""
    words = [word.partition(b"=") for word in text.upper().split()]
    said = {name: value if equals else None for name, equals, value in words}
    if not extended or not said.keys() <= {b"SIZE", b"BODY", b"SMTPUTF8"}:
        raise Refused(replies.PARAMETER_UNKNOWN)
    size = said.get(b"SIZE", b"0")
    if len(said) < len(words) or size is None or not _NUMBER.fullmatch(size):
        raise Refused(replies.ARGUMENT_WRONG)
    if said.get(b"BODY", _BODIES[0]) not in _BODIES:
        raise Refused(replies.PARAMETER_UNKNOWN)
    if said.get(b"SMTPUTF8") is not None:
        raise Refused(replies.ARGUMENT_WRONG)
    return int(size), b"SMTPUTF8" in said
