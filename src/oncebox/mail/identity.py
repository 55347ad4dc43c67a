"""Identity: what makes two mails the same message.

The same Message-ID, From, subject and visible text; without a Message-ID the Date joins;
without both it is the delivery that decides. So copies on several roads are one message, and
nobody keeps a genuine mail out by guessing its Message-ID.
"""

import hashlib
from collections.abc import Iterable

from oncebox.model.message import Parsed, SenderStanding

#: a new number for every change of the rule, so that old and new identities never meet
_RULE = b"oncebox message 1"
#: of ASCII, as ``str.split`` knows it
_WHITE_SPACE = b" \t\n\v\f\r\x1c\x1d\x1e\x1f"


def identity(parsed: Parsed, froms: Iterable[str]) -> bytes:
    """Return what makes it the same message; empty if it has neither Message-ID nor Date.

    ``froms`` are the From fields, which count as they are where there is no single address.
    """
    if parsed.message_id:
        sign = ("message-id", parsed.message_id)
    elif parsed.date is not None:
        sign = ("date", str(parsed.date))
    else:
        return b""
    single = parsed.sender.standing is SenderStanding.SINGLE
    sender = parsed.sender.address if single else "\n".join(map(bare, froms))
    return digest((*sign, sender, bare(parsed.subject), bare(parsed.text)))


def outline(parsed: Parsed, texts: Iterable[str]) -> bytes:
    """Return a hash over what is not part of the identity: names, recipients, other texts."""
    people = [
        f"{kind} {each.address} {each.name}"
        for kind, several in (
            ("to", parsed.to),
            ("cc", parsed.cc),
            ("reply-to", parsed.reply_to),
        )
        for each in several
    ]
    attached = [f"{each.name} {each.media_type} {each.sha256}" for each in parsed.attachments]
    return digest([
        parsed.message_id, str(parsed.date), parsed.sender.name,
        *people, "attached", *attached, "texts", *map(bare, texts),
    ])  # fmt: skip


def mark(message_id: str) -> bytes | None:
    """Return the SHA-256 of a Message-ID."""
    return hashlib.sha256(message_id.encode("utf-8")).digest() if message_id else None


def bare(text: str) -> str:
    """Return text without white space: relays fold and wrap as they like."""
    if text.isascii():
        return text.encode("ascii").translate(None, _WHITE_SPACE).decode("ascii")
    return "".join(text.split())


def digest(pieces: Iterable[str]) -> bytes:
    """Hash pieces so that no two lists of them look the same."""
    hashed = hashlib.sha256(_RULE)
    for piece in pieces:
        data = piece.encode("utf-8")
        hashed.update(len(data).to_bytes(8))
        hashed.update(data)
    return hashed.digest()
