"""Wait filters: which message a long poll waits for, and why others do not match."""

import re
from collections import defaultdict
from collections.abc import Mapping

import msgspec

from oncebox.errors.mail import AddressInvalid, InboxInvalid
from oncebox.model.inboxes.addresses import (
    is_reserved_domain,
    organisational_domain,
    sender_key,
)
from oncebox.model.inboxes.inbox import Inbox, InboxPolicy, check_policy, match_policy
from oncebox.model.inboxes.message import Message, MessageDocument
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    NOT_ADDRESSED,
    SIGNATURE_OLD,
    ArtifactKind,
    SenderVerdict,
)
from oncebox.model.inboxes.replay import confirmed_recipient
from oncebox.model.validation import is_single_line

_STARS = re.compile(r"\*+")


def matches_wildcard(pattern: str, text: str) -> bool:
    """Return whether a whole text matches a pattern with ``*`` and ``?``, regardless of case.

    The positions in the pattern that the text may have reached are the bits of one number, so
    that the time is linear for every pattern.
    """
    pattern = _STARS.sub("*", pattern.lower())
    stays, moves = 0, defaultdict[str, int](int)
    for place, character in enumerate(pattern):
        if character == "*":
            stays |= 1 << place
        else:
            moves[character] |= 1 << place
    any_one = moves.pop("?", 0)
    places = _skip_stars(1, stays)
    for character in text.lower():
        step = moves.get(character, 0) | any_one
        places = _skip_stars((places & stays) | (places & step) << 1, stays)
    return bool(places >> len(pattern) & 1)


def _skip_stars(places: int, stays: int) -> int:
    """Add the position behind a ``*``, which may match nothing."""
    return places | (places & stays) << 1


_LONGEST_TEXT = 200
#: characters of a subject that are compared
_LONGEST_SUBJECT = 2_000

#: why a sender does not match the rules of an inbox or of a filter
SENDER_REASONS = frozenset({
    "sender_not_allowed", "sender_unauthenticated", "sender_ambiguous", "sender_missing",
    NOT_ADDRESSED, SIGNATURE_OLD,
})  # fmt: skip
#: every code of why a message does not match a filter, besides those of an inbox's policy
MISMATCH_REASONS: dict[str, str] = {
    "before_inbox": "it was received before the inbox was made",
    "before_after": "its number is not after the requested one",
    "recipient_differs": "it was sent to another address of the inbox, or its signed To names one",
    "subject_differs": "its subject does not match the pattern",
    "attachments_differ": "it has no attachment, or one where none was expected",
    "no_code": "no code was found in it, or only one that another message contained too",
    "no_link": "no link was found in it, or only one that another message contained too",
    "superseded": "a newer message of the same sender replaced it",
    "claimed": "another claim has it, or its code or link",
    "purged": "its content is no longer kept",
    "fits": "it matches: it conflicts with another, or arrived during this response",
}


class WaitFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a wait accepts; a field that is not set accepts anything."""

    kind: ArtifactKind
    #: addresses, domains with their subdomains, or ``*.`` and a domain; none: any sender
    senders: tuple[str, ...] = ()
    purpose: Purpose = Purpose.ANY
    #: must occur in the recipient, the subject or the visible text
    token: str | None = None
    #: a pattern for the whole subject
    subject: str | None = None
    #: the address in RCPT TO, including a plus tag
    recipient: str | None = None
    #: by default the attempt, else the inbox
    claim_key: str | None = None
    #: only messages with a higher number
    after: int = 0
    #: of a link: its host
    host: str | None = None
    #: whether it has attachments, inline ones not counted
    has_attachment: bool | None = None

    @property
    def policy(self) -> InboxPolicy:
        """The rules for sender and text as an inbox policy."""
        hosts = () if self.host is None else (self.host,)
        return InboxPolicy(
            senders=self.senders, token=self.token, purpose=self.purpose, link_hosts=hosts
        )

    @property
    def names_domains(self) -> bool:
        """Whether the senders are domains, each of which is one sender."""
        return bool(self.senders) and not any("@" in rule for rule in self.senders)

    @property
    def sender_organisations(self) -> tuple[str, ...]:
        """The organisational domains of the senders, sorted."""
        domains = {rule.rpartition("@")[2].removeprefix("*.") for rule in self.senders}
        return tuple(sorted({organisational_domain(each) for each in domains}))

    @property
    def needs_document(self) -> bool:
        """Whether a rule needs the content of the message, or the wait is for the message."""
        rules = (self.token, self.subject, self.recipient, self.has_attachment)
        return (
            self.kind is ArtifactKind.MESSAGE
            or bool(self.senders)
            or self.purpose is not Purpose.ANY
            or any(each is not None for each in rules)
        )


#: criteria whose text is not shown, and fields that are none
_UNSHOWN, _NO_CRITERIA = frozenset({"token"}), frozenset({"claim_key", "after"})


def wait_criteria(filters: Mapping[str, object]) -> str:
    """Return what a wait accepts, as one line for errors and logs."""
    given = {
        name: value
        for name, value in filters.items()
        if (value or value is False) and value != Purpose.ANY and name not in _NO_CRITERIA
    }
    return ", ".join(
        f"{name} {'given' if name in _UNSHOWN else value}" for name, value in given.items()
    )


def check_filter(awaited: WaitFilter) -> WaitFilter:
    """Return a filter with its names normalised.

    Raises: InboxInvalid.
    """
    policy = check_policy(awaited.policy)
    for text in (awaited.subject, awaited.claim_key):
        if text is not None and not is_single_line(text, _LONGEST_TEXT):
            raise InboxInvalid(
                f"a subject and a claim_key are 1 to {_LONGEST_TEXT} characters without control "
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
        senders=policy.senders,
        recipient=recipient,
        host=policy.link_hosts[0] if policy.link_hosts else None,
    )


def mismatch_reason(
    awaited: WaitFilter, message: Message, document: MessageDocument | None, inbox: Inbox
) -> str:
    """Return the code of why a message does not match; nothing if it does.

    ``document`` is needed only if ``awaited.needs_document``.
    """
    if message.received_at < inbox.created_at:
        return "before_inbox"
    if message.sequence <= awaited.after:
        return "before_after"
    if awaited.recipient is not None and _recipient_key(message) != awaited.recipient:
        return "recipient_differs"
    if not message.matched:
        return (document and document.mismatch) or "policy"
    if not awaited.needs_document:
        return ""
    return "purged" if document is None else _text_mismatch(awaited, message, document, inbox)


def _text_mismatch(
    awaited: WaitFilter, message: Message, document: MessageDocument, inbox: Inbox
) -> str:
    parsed, verdict = document.parsed, document.verdict
    if awaited.recipient and not confirmed_recipient(verdict, parsed, message.recipient):
        return "recipient_differs"
    policy = _with_authentication(awaited.policy, inbox, verdict)
    _, reason = match_policy(policy, parsed, verdict, message.recipient)
    if reason:
        return reason
    subject = parsed.subject[:_LONGEST_SUBJECT]
    differs = awaited.subject is not None and not matches_wildcard(awaited.subject, subject)
    if differs:
        return "subject_differs"
    attached = any(not each.inline for each in parsed.attachments)
    return "attachments_differ" if awaited.has_attachment not in {None, attached} else ""


def _with_authentication(policy: InboxPolicy, inbox: Inbox, verdict: SenderVerdict) -> InboxPolicy:
    """Return the rules of a filter with what they require of senders.

    As everywhere, rules about senders require proof, unless the inbox has switched that off. In a
    domain that the internet does not know, mail of this machine or its private network cannot be
    proven, so there a filter compares From; a rule of the inbox does not.
    """
    is_local = is_reserved_domain(inbox.domain) and "nothing_to_judge" in verdict.details
    off = inbox.policy.authenticated is False or is_local
    return msgspec.structs.replace(policy, authenticated=False) if off else policy


def _recipient_key(message: Message) -> str:
    try:
        return sender_key(message.recipient)
    except AddressInvalid:
        return message.recipient
