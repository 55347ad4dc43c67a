"""Inboxes: states, options, message policy and statistics."""

from enum import StrEnum

import msgspec

from oncebox.errors.mail import AddressInvalid, InboxInvalid
from oncebox.model.inboxes.addresses import domain_key, organisational_domain, sender_key
from oncebox.model.inboxes.link_rules import normalize_entry, normalize_origin
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    PURPOSE_RULE,
    ParsedMail,
    ParsedSender,
    SenderVerdict,
)
from oncebox.model.inboxes.replay import REPLAY_SIGNS, confirmed_recipient
from oncebox.model.validation import is_single_line

_MOST_RULES = 50
_MOST_RESENDS = 100
_LONGEST_TOKEN = 200
_SUBDOMAINS = "*."
#: characters of a text that are searched for a token
_SEARCH_LIMIT = 256 * 1024


class InboxPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which messages match; an empty policy matches every message."""

    #: addresses, domains with their subdomains, or ``*.`` and a domain for its subdomains only;
    #: none: any sender
    senders: tuple[str, ...] = ()
    #: whether SPF or DKIM must prove the sender's domain; none: where ``senders`` are named
    authenticated: bool | None = None
    #: whether signed mail that is addressed to somebody else counts: forwarded, or a Bcc
    forwards: bool = False
    #: where links may lead: hosts, ``*.`` and a host, ``https://`` and a path, or ``*``
    link_hosts: tuple[str, ...] = ()
    #: exact origins for tests, such as ``http://localhost:3000``; only operators set them
    link_origins: tuple[str, ...] = ()
    #: must occur in the recipient, the subject or the visible text
    token: str | None = None
    purpose: Purpose = Purpose.ANY
    #: how often the message may be requested again
    resends: int = 1


#: warning: the policy compares senders by From only
AUTHENTICATION_OFF = "authentication_off"


def policy_warnings(policy: InboxPolicy) -> tuple[str, ...]:
    """Return the warnings about a policy."""
    return (AUTHENTICATION_OFF,) if policy.authenticated is False else ()


def check_policy(policy: InboxPolicy) -> InboxPolicy:
    """Return a policy with its names normalised.

    Raises: InboxInvalid.
    """
    if max(map(len, (policy.senders, policy.link_hosts, policy.link_origins))) > _MOST_RULES:
        raise InboxInvalid(f"write at most {_MOST_RULES} senders, link hosts and link origins each")
    if policy.token is not None and not is_single_line(policy.token, _LONGEST_TOKEN):
        raise InboxInvalid(
            f"a token is 1 to {_LONGEST_TOKEN} characters without control characters"
        )
    if not 0 <= policy.resends <= _MOST_RESENDS:
        raise InboxInvalid(f"resends is a number from 0 to {_MOST_RESENDS}")
    try:
        senders = tuple(dict.fromkeys(map(_normalize_sender_rule, policy.senders)))
    except AddressInvalid as error:
        raise InboxInvalid(
            "a sender is an address, a domain, or *. and a domain, such as *.example.com"
        ) from error
    return msgspec.structs.replace(
        policy,
        senders=senders,
        link_hosts=tuple(dict.fromkeys(map(normalize_entry, policy.link_hosts))),
        link_origins=tuple(dict.fromkeys(map(normalize_origin, policy.link_origins))),
    )


def match_policy(
    policy: InboxPolicy,
    parsed: ParsedMail,
    verdict: SenderVerdict,
    recipient: str,
    *,
    has_artifact: bool = True,
) -> tuple[bool, str]:
    """Return whether a message matches a policy; if not, with the code of the reason.

    ``has_artifact`` says whether a code or a link was found in it.
    """
    reason = (
        _sender_mismatch(policy, parsed.sender, verdict)
        or _token_mismatch(policy, parsed, confirmed_recipient(verdict, parsed, recipient))
        or _purpose_mismatch(policy, parsed, has_artifact=has_artifact)
    )
    return (not reason, reason)


def _sender_mismatch(policy: InboxPolicy, sender: ParsedSender, verdict: SenderVerdict) -> str:
    required = requires_authentication(policy, verdict)
    if not (policy.senders or required):
        return ""
    if sender.standing != "single":
        return f"sender_{sender.standing}"
    try:
        address = sender_key(sender.address)
    except AddressInvalid:
        return "sender_not_allowed"
    domain = address.rpartition("@")[2]
    if policy.senders and not any(
        _matches_sender_rule(rule, address, domain) for rule in policy.senders
    ):
        return "sender_not_allowed"
    return _auth_mismatch(domain, verdict, required=required)


def requires_authentication(policy: InboxPolicy, verdict: SenderVerdict) -> bool:
    """Return whether only a proven sender matches: by default wherever senders are named.

    Unless the policy says so itself, nothing is required if the service checks no senders.
    """
    if policy.authenticated is not None:
        return policy.authenticated
    return bool(policy.senders) and "not_checked" not in verdict.details


def _auth_mismatch(domain: str, verdict: SenderVerdict, *, required: bool) -> str:
    if verdict.dmarc != "fail" and verdict.domain.lower() == domain:
        return ""
    # A forgery never matches; an unproven sender only where the policy allows it.
    forged = "fail" in {verdict.dmarc, verdict.spf} and "dkim_aligned" not in verdict.details
    if not (forged or required):
        return ""
    signs = (sign for sign in REPLAY_SIGNS if sign in verdict.details)
    return next(signs, "sender_unauthenticated")


def _matches_sender_rule(rule: str, address: str, domain: str) -> bool:
    if "@" in rule:
        return rule == address
    if rule.startswith(_SUBDOMAINS):
        return domain.endswith(rule[1:])
    return rule == domain or (domain.endswith(f".{rule}") and _have_one_owner(rule, domain))


def _have_one_owner(rule: str, domain: str) -> bool:
    """Return whether a domain and its subdomain are one organisation's; not so below co.uk."""
    return organisational_domain(rule) == organisational_domain(domain)


def _token_mismatch(policy: InboxPolicy, parsed: ParsedMail, recipient: str) -> str:
    if policy.token is None:
        return ""
    token = policy.token.casefold()
    texts = (recipient, parsed.subject, parsed.text)
    found = any(token in text[:_SEARCH_LIMIT].casefold() for text in texts)
    return "" if found else "token_missing"


def _purpose_mismatch(policy: InboxPolicy, parsed: ParsedMail, *, has_artifact: bool) -> str:
    """Return why the purpose does not match; an unclear one does, with a warning elsewhere."""
    named = named_purposes(parsed)
    if policy.purpose is Purpose.ANY or policy.purpose in named:
        return ""
    if named:
        return "purpose_differs"
    return "" if has_artifact else "purpose_unclear"


def named_purposes(parsed: ParsedMail) -> tuple[Purpose, ...]:
    """Return the purposes that a message names; empty if that is unclear.

    In messages stored before the present rule, ``login`` may stand for any mail with a code.
    """
    if parsed.purpose_rule >= PURPOSE_RULE:
        return parsed.purposes
    return tuple(each for each in parsed.purposes if each is not Purpose.LOGIN)


def _normalize_sender_rule(text: str) -> str:
    if "@" in text:
        return sender_key(text)
    return _SUBDOMAINS + domain_key(text[2:]) if text.startswith(_SUBDOMAINS) else domain_key(text)


_LONGEST_ATTEMPT_ID = 200
_LONGEST_LABEL = 100
_MOST_METADATA = 16
_LONGEST_NAME, _LONGEST_VALUE = 64, 500


class InboxState(StrEnum):
    """The state of an inbox."""

    #: mail is accepted
    ACTIVE = "active"
    #: mail that is already on its way is still accepted, for a while
    DRAINING = "draining"
    #: it was closed; mail is refused
    CLOSED = "closed"
    #: its lifetime is over; mail is refused
    EXPIRED = "expired"


#: every transition, with its cause; tests and docs use this table
TRANSITIONS: dict[tuple[InboxState, InboxState], str] = {
    (InboxState.ACTIVE, InboxState.DRAINING): "closed, rotated, or `active_until` is reached",
    (InboxState.ACTIVE, InboxState.CLOSED): "closed or rotated without draining",
    (InboxState.DRAINING, InboxState.CLOSED): "drained after it was closed; or closed at once",
    (InboxState.DRAINING, InboxState.EXPIRED): "drained after `active_until`",
}


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """One address, its attempt, policy and statistics; times in milliseconds since 1970."""

    id: str
    tenant: str
    email: str
    #: an attempt has one inbox of each label
    attempt_id: str | None
    label: str
    #: the key that created it; none: an operator at the terminal
    owner: str | None
    state: InboxState
    created_at: int
    #: none: unlimited
    active_until: int | None
    #: when draining ends
    due_at: int | None
    ended_at: int | None = None
    #: included in its events
    metadata: dict[str, str]
    policy: InboxPolicy
    #: the number of its last message
    cursor: int = 0
    #: copies of messages that it had already
    duplicates: int = 0
    #: messages that its policy matched
    matched: int = 0
    first_message_at: int | None = None
    last_message_at: int | None = None
    #: when it ended without a matching message
    missed_at: int | None = None
    rotated_from: str | None = None
    rotated_to: str | None = None

    @property
    def domain(self) -> str:
        """The domain of its address."""
        return self.email.rpartition("@")[2]


class InboxOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an inbox."""

    attempt_id: str | None = None
    label: str = ""
    #: one of the tenant's; none: the default
    domain: str | None = None
    #: the part before the ``@``; none: a random one
    local: str | None = None
    #: milliseconds; 0 is unlimited, none the default
    lifetime: int | None = None
    metadata: dict[str, str] = {}
    policy: InboxPolicy = InboxPolicy()


def check_options(options: InboxOptions) -> InboxOptions:
    """Return options with a normalised policy.

    Raises: InboxInvalid.
    """
    attempt_id, label, metadata = options.attempt_id, options.label, options.metadata
    if attempt_id is not None and not is_single_line(attempt_id, _LONGEST_ATTEMPT_ID):
        raise InboxInvalid(
            f"an attempt_id is 1 to {_LONGEST_ATTEMPT_ID} characters, without control characters"
        )
    if label and not is_single_line(label, _LONGEST_LABEL):
        raise InboxInvalid(
            f"a label is at most {_LONGEST_LABEL} characters, without control characters"
        )
    if len(metadata) > _MOST_METADATA or not all(
        is_single_line(name, _LONGEST_NAME) and (not value or is_single_line(value, _LONGEST_VALUE))
        for name, value in metadata.items()
    ):
        raise InboxInvalid(
            f"metadata is at most {_MOST_METADATA} entries, with names of up to {_LONGEST_NAME} "
            f"and values of up to {_LONGEST_VALUE} characters, without control characters"
        )
    return msgspec.structs.replace(options, policy=check_policy(options.policy))


def accepts_until(
    state: InboxState, active_until: int | None, due_at: int | None, draining: int
) -> int | None:
    """Return until when mail is accepted, even if no sweep has updated the state; None: always."""
    if state is InboxState.ACTIVE:
        return None if active_until is None else active_until + draining
    return due_at or 0 if state is InboxState.DRAINING else 0


class InboxCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for an inbox, or for all inboxes of an attempt."""

    #: requests that may wait for a code, a link or a message
    polls: int = 0
    #: waits that ended without a code or link
    timeouts: int = 0
    #: codes and links that arrived again in further messages
    artifact_duplicates: int = 0
    #: readers of messages that returned to an earlier cursor
    cursor_replays: int = 0
    #: waits and claims that met the lease of another worker
    lease_conflicts: int = 0


class AttemptInboxStats(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of all inboxes of an attempt or a batch; times in milliseconds."""

    #: the attempt, or the prefix of the batch
    attempt_id: str
    #: the number of inboxes in each state
    states: dict[InboxState, int] = {}
    messages: int = 0
    duplicates: int = 0
    matched: int = 0
    #: of the first inbox
    created_at: int
    first_message_at: int | None = None
    last_message_at: int | None = None
    #: inboxes that ended without a matching message
    missed: int = 0
    #: inboxes with a message
    reached: int = 0
    #: from their creation to their first message: all in all, and at most
    waited: int = 0
    longest_wait: int | None = None
    counts: InboxCounts = InboxCounts()

    @property
    def average_wait(self) -> int | None:
        """Milliseconds from the creation of an inbox to its first message, on average."""
        return self.waited // self.reached if self.reached else None


def time_to_first_message(of: Inbox | AttemptInboxStats) -> int | None:
    """Return the milliseconds until the first message, if there is one."""
    return None if of.first_message_at is None else max(0, of.first_message_at - of.created_at)
