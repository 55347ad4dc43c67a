"""The author: whom a mail is from, if every reader would say the same.

A From that two readers may read differently is ambiguous, and satisfies no rule about senders.
"""

import re
import unicodedata
from email.utils import getaddresses

from oncebox.mail import addresses, words
from oncebox.model.message import Address, Sender, SenderStanding

#: something a person or a program may take for an address
_LOOKS_LIKE_ONE = re.compile(r"[^\s\"<>(),:;@]+\s*@\s*[^\s\"<>(),:;@.]+\.[^\s\"<>(),:;@]+")
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
#: a longer field is nobody's name and address
_LONGEST = 2_000
_MISSING = Sender()
_AMBIGUOUS = Sender(standing=SenderStanding.AMBIGUOUS)


def read(fields: list[bytes], warnings: set[str], *, doubtful: bool) -> Sender:
    """Return the sender by the From fields; ``doubtful`` if the header itself may be misread."""
    if not fields and not doubtful:
        return _MISSING
    sender = _AMBIGUOUS
    if len(fields) == 1 and not doubtful and len(fields[0]) <= _LONGEST:
        sender = _single(words.unfold(fields[0], warnings), warnings)
    if sender.standing is SenderStanding.AMBIGUOUS:
        warnings.add("from_ambiguous")
    return sender


def _single(text: str, warnings: set[str]) -> Sender:
    mailboxes = addresses.read(text, warnings)
    decoded = words.decode_words(text, warnings) if "=?" in text else text
    if not mailboxes.found and "@" not in unicodedata.normalize("NFKC", decoded):
        return _MISSING  # a name, or nothing, but no address by anybody's reading
    if len(mailboxes.found) != 1 or mailboxes.doubtful or mailboxes.incomplete:
        return _AMBIGUOUS
    mailbox = mailboxes.found[0]
    if _CONTROL.search(decoded) or not _others_agree(text, decoded, mailbox):
        return _AMBIGUOUS
    return Sender(
        address=mailbox.address,
        name=mailbox.name,
        domain=mailbox.address.rpartition("@")[2],
        standing=SenderStanding.SINGLE,
    )


def _others_agree(text: str, decoded: str, mailbox: Address) -> bool:
    """Say whether nothing else in the field looks like an address, and a second parser agrees."""
    shown = unicodedata.normalize("NFKC", f"{decoded} {mailbox.name}")
    for found in _LOOKS_LIKE_ONE.findall(shown):
        seen = addresses.normal("".join(found.split()).strip(".'"))
        if seen is None or seen.lower() != mailbox.address.lower():
            return False
    others = [address for _, address in getaddresses([text])]
    return len(others) == 1 and addresses.normal(others[0]) == mailbox.address
