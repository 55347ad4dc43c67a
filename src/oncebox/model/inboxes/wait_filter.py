"""Wait filters: which message a long poll waits for, and why others do not match.

All places of a pattern at which a text may stand are kept as the bits of one number, so that
every character is looked at once, whatever the pattern.
"""

from collections import defaultdict

import msgspec

from oncebox.errors.mail import AddressInvalid, InboxInvalid
from oncebox.model.inboxes.addresses import sender_key
from oncebox.model.inboxes.inbox import InboxPolicy, check_policy, match_policy
from oncebox.model.inboxes.message import Message, MessageDocument
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.validation import is_single_line

_STAR, _QUESTION_MARK = "*", "?"


def matches_wildcard(pattern: str, text: str) -> bool:
    """Say whether a text is, from its first to its last character, what a pattern describes."""
    words = _collapse_stars(pattern)
    stays, moves = 0, defaultdict[str, int](int)
    for place, word in enumerate(words):
        if word == _STAR:
            stays |= 1 << place
        else:
            moves[word] |= 1 << place
    any_one = moves.pop(_QUESTION_MARK, 0)
    places = _skip_stars(1, stays)
    for character in text.lower():
        step = moves.get(character, 0) | any_one
        places = _skip_stars((places & stays) | (places & step) << 1, stays)
    return bool(places >> len(words) & 1)


def _skip_stars(places: int, stays: int) -> int:
    """Add what comes behind a ``*``, which may be nothing at all."""
    return places | (places & stays) << 1


def _collapse_stars(pattern: str) -> str:
    """Return a pattern in lower case, with one ``*`` where there are several in a row."""
    lowered = pattern.lower()
    return "".join(
        each
        for place, each in enumerate(lowered)
        if each != _STAR or not lowered.startswith(_STAR, place - 1) or not place
    )


_LONGEST_PATTERN = 200
_LONGEST_KEY = 200
#: how much of a subject is compared
_LONGEST_SUBJECT = 2_000

#: every code of why a message is not what is waited for, and what it means; those that an
#: inbox's own policy has come besides
MISMATCH_REASONS: dict[str, str] = {
    "before_inbox": "it was received before the inbox was made",
    "before_after": "its number is not after the one that was asked for",
    "recipient_differs": "it came to another address of the inbox",
    "subject_differs": "its subject does not fit the pattern",
    "no_code": "no code was found in it, or only one that another message has brought too",
    "no_link": "no link was found in it, or only one that another message has brought too",
    "superseded": "a newer message of the same sender took its place",
    "claimed": "what was found in it is somebody else's already",
    "purged": "what was read of it is no longer kept",
    "fits": "it fits: it is in conflict with another, or came in the moment of this answer",
}


class WaitFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What is waited for; what is not said may be anything."""

    kind: ArtifactKind
    #: an address, a domain, or ``*.`` and a domain
    sender: str | None = None
    purpose: Purpose = Purpose.ANY
    #: must stand in the recipient, the subject or the visible text
    token: str | None = None
    #: a pattern for the whole subject
    subject: str | None = None
    #: the address in RCPT TO, with whatever stands behind the plus sign
    recipient: str | None = None
    #: for whom it is claimed; none: for the attempt, else for the inbox
    claim_key: str | None = None
    #: only messages with a higher number
    after: int = 0
    #: of a link: the host that it must lead to
    host: str | None = None

    @property
    def policy(self) -> InboxPolicy:
        """What is wished of the sender and the text, in the words of an inbox's policy."""
        senders = () if self.sender is None else (self.sender,)
        hosts = () if self.host is None else (self.host,)
        return InboxPolicy(
            senders=senders, token=self.token, purpose=self.purpose, link_hosts=hosts
        )

    @property
    def message_rules(self) -> "WaitFilter":
        """What messages must be like, whoever waits: many who differ in the rest share it."""
        return msgspec.structs.replace(self, claim_key=None, after=0, host=None)

    @property
    def needs_document(self) -> bool:
        """Whether what was read of a message must be known to judge it."""
        rules = (self.sender, self.token, self.subject)
        return self.purpose is not Purpose.ANY or any(each is not None for each in rules)

    @property
    def is_selective(self) -> bool:
        """Whether messages must be looked at one by one."""
        return self.needs_document or self.recipient is not None


def check_filter(awaited: WaitFilter) -> WaitFilter:
    """Return what is awaited with its names as they are compared.

    Raises: InboxInvalid.
    """
    policy = check_policy(awaited.policy)
    for text, longest in ((awaited.subject, _LONGEST_PATTERN), (awaited.claim_key, _LONGEST_KEY)):
        if text is not None and not is_single_line(text, longest):
            raise InboxInvalid(
                f"a subject and a claim_key are 1 to {longest} characters without control "
                "characters"
            )
    try:
        recipient = None if awaited.recipient is None else sender_key(awaited.recipient)
    except AddressInvalid as error:
        raise InboxInvalid(
            "a recipient is the whole address, such as box+tag@inbox.example.com"
        ) from error
    return msgspec.structs.replace(
        awaited,
        sender=policy.senders[0] if policy.senders else None,
        recipient=recipient,
        host=policy.link_hosts[0] if policy.link_hosts else None,
    )


def mismatch_reason(
    awaited: WaitFilter, message: Message, document: MessageDocument | None, created_at: int
) -> str:
    """Return the code of why a message is not what is waited for; nothing if it is.

    ``document`` may be left away where ``awaited.reads`` does not ask for it.
    """
    if message.received_at < created_at:
        return "before_inbox"
    if message.sequence <= awaited.after:
        return "before_after"
    if awaited.recipient is not None and _recipient_key(message) != awaited.recipient:
        return "recipient_differs"
    if not message.matched:
        return (document and document.mismatch) or "policy"
    if not awaited.needs_document:
        return ""
    return "purged" if document is None else _text_mismatch(awaited, message, document)


def _text_mismatch(awaited: WaitFilter, message: Message, document: MessageDocument) -> str:
    _, reason = match_policy(awaited.policy, document.parsed, document.verdict, message.recipient)
    if reason:
        return reason
    subject = document.parsed.subject[:_LONGEST_SUBJECT]
    differs = awaited.subject is not None and not matches_wildcard(awaited.subject, subject)
    return "subject_differs" if differs else ""


def _recipient_key(message: Message) -> str:
    try:
        return sender_key(message.recipient)
    except AddressInvalid:
        return message.recipient
