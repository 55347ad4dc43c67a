"""Waiting: which message is waited for, and why another one is not it."""

import msgspec

from oncebox.mail_errors import AddressInvalid, InboxInvalid
from oncebox.model.address import is_plain, sender_key
from oncebox.model.candidate import Kind
from oncebox.model.filing import Document, Message
from oncebox.model.inbox_policy import InboxPolicy, check_policy, matches
from oncebox.model.pattern import fits
from oncebox.model.purpose import Purpose

_LONGEST_PATTERN = 200
_LONGEST_KEY = 200
#: how much of a subject is compared
_LONGEST_SUBJECT = 2_000

#: every code of why a message is not what is waited for, and what it means; those that an
#: inbox's own policy has come besides
REASONS: dict[str, str] = {
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


class Awaited(msgspec.Struct, frozen=True, kw_only=True):
    """What is waited for; what is not said may be anything."""

    kind: Kind
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
    def rules(self) -> "Awaited":
        """What messages must be like, whoever waits: many who differ in the rest share it."""
        return msgspec.structs.replace(self, claim_key=None, after=0, host=None)

    @property
    def reads(self) -> bool:
        """Whether what was read of a message must be known to judge it."""
        rules = (self.sender, self.token, self.subject)
        return self.purpose is not Purpose.ANY or any(each is not None for each in rules)

    @property
    def is_choosy(self) -> bool:
        """Whether messages must be looked at one by one."""
        return self.reads or self.recipient is not None


def checked(awaited: Awaited) -> Awaited:
    """Return what is awaited with its names as they are compared.

    Raises: InboxInvalid.
    """
    policy = check_policy(awaited.policy)
    for text, longest in ((awaited.subject, _LONGEST_PATTERN), (awaited.claim_key, _LONGEST_KEY)):
        if text is not None and not is_plain(text, longest):
            message = (
                f"a subject and a claim_key are 1 to {longest} characters without control "
                "characters"
            )
            raise InboxInvalid(message)
    try:
        recipient = None if awaited.recipient is None else sender_key(awaited.recipient)
    except AddressInvalid as error:
        message = "a recipient is the whole address, such as box+tag@inbox.example.com"
        raise InboxInvalid(message) from error
    return msgspec.structs.replace(
        awaited,
        sender=policy.senders[0] if policy.senders else None,
        recipient=recipient,
        host=policy.link_hosts[0] if policy.link_hosts else None,
    )


def trouble(awaited: Awaited, message: Message, document: Document | None, created_at: int) -> str:
    """Return the code of why a message is not what is waited for; nothing if it is.

    ``document`` may be left away where ``awaited.reads`` does not ask for it.
    """
    if message.received_at < created_at:
        return "before_inbox"
    if message.sequence <= awaited.after:
        return "before_after"
    if awaited.recipient is not None and _recipient(message) != awaited.recipient:
        return "recipient_differs"
    if not message.matched:
        return (document and document.mismatch) or "policy"
    if not awaited.reads:
        return ""
    return "purged" if document is None else _text_trouble(awaited, message, document)


def _text_trouble(awaited: Awaited, message: Message, document: Document) -> str:
    _, reason = matches(awaited.policy, document.parsed, document.verdict, message.recipient)
    if reason:
        return reason
    subject = document.parsed.subject[:_LONGEST_SUBJECT]
    differs = awaited.subject is not None and not fits(awaited.subject, subject)
    return "subject_differs" if differs else ""


def _recipient(message: Message) -> str:
    try:
        return sender_key(message.recipient)
    except AddressInvalid:
        return message.recipient
