"""Which messages an inbox waits for, and why a message is not one of them."""

from collections.abc import Callable, Iterable

import msgspec

from oncebox.mail_errors import AddressInvalid, InboxInvalid
from oncebox.model.address import is_plain, sender_key
from oncebox.model.domain import domain_key
from oncebox.model.link_rule import check_entry, check_origin
from oncebox.model.message import Parsed, Sender
from oncebox.model.purpose import Purpose, purposes
from oncebox.model.verdict import Verdict

_MOST_RULES = 50
_MOST_RESENDS = 100
_LONGEST_TOKEN = 200
_BELOW = "*."
#: how much of a text is searched for a token or for words
_SEARCHED = 256 * 1024
_SENDERS = "a sender is an address, a domain, or *. and a domain, such as *.example.com"


class InboxPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message must be like to match; an empty policy lets every message through."""

    #: addresses, domains, or ``*.`` and a domain for all below it; anybody if there are none
    senders: tuple[str, ...] = ()
    #: whether the sender's domain must have vouched for the message by SPF or DKIM
    authenticated: bool = False
    #: where links may lead: hosts, ``*.`` and a host, ``https://`` and a path, or ``*``
    link_hosts: tuple[str, ...] = ()
    #: exact origins for tests, such as ``http://localhost:3000``; operators alone set them
    link_origins: tuple[str, ...] = ()
    #: must stand in the recipient, the subject or the visible text
    token: str | None = None
    #: what the message is about
    purpose: Purpose = Purpose.ANY
    #: how often the message may be asked for again
    resends: int = 1


def check_policy(policy: InboxPolicy) -> InboxPolicy:
    """Return a policy with its names as they are compared.

    Raises: InboxInvalid.
    """
    if max(map(len, (policy.senders, policy.link_hosts, policy.link_origins))) > _MOST_RULES:
        message = f"write at most {_MOST_RULES} senders, link hosts and link origins each"
        raise InboxInvalid(message)
    if policy.token is not None and not is_plain(policy.token, _LONGEST_TOKEN):
        message = f"a token is 1 to {_LONGEST_TOKEN} characters without control characters"
        raise InboxInvalid(message)
    if not 0 <= policy.resends <= _MOST_RESENDS:
        message = f"resends is a number from 0 to {_MOST_RESENDS}"
        raise InboxInvalid(message)
    return msgspec.structs.replace(
        policy,
        senders=_each(_rule, policy.senders, _SENDERS),
        link_hosts=tuple(dict.fromkeys(map(check_entry, policy.link_hosts))),
        link_origins=tuple(dict.fromkeys(map(check_origin, policy.link_origins))),
    )


def matches(
    policy: InboxPolicy, parsed: Parsed, verdict: Verdict, recipient: str
) -> tuple[bool, str]:
    """Say whether a message is one that is waited for; if not, the code of why not."""
    reason = (
        _sender_trouble(policy, parsed.sender, verdict)
        or _token_trouble(policy, parsed, recipient)
        or _purpose_trouble(policy, parsed)
    )
    return (not reason, reason)


def _sender_trouble(policy: InboxPolicy, sender: Sender, verdict: Verdict) -> str:
    if not (policy.senders or policy.authenticated):
        return ""
    if sender.standing != "single":
        return f"sender_{sender.standing}"
    try:
        address = sender_key(sender.address)
    except AddressInvalid:
        return "sender_not_allowed"
    domain = address.rpartition("@")[2]
    if policy.senders and not any(_fits(rule, address, domain) for rule in policy.senders):
        return "sender_not_allowed"
    return _proof_trouble(policy, domain, verdict)


def _proof_trouble(policy: InboxPolicy, domain: str, verdict: Verdict) -> str:
    if verdict.dmarc != "fail" and verdict.domain.lower() == domain:
        return ""
    # What is known to be forged never matches; what nobody vouched for only where it may.
    forged = "fail" in {verdict.dmarc, verdict.spf}
    return "sender_unauthenticated" if forged or policy.authenticated else ""


def _fits(rule: str, address: str, domain: str) -> bool:
    if rule.startswith(_BELOW):
        return domain.endswith(rule[1:])
    return rule == (address if "@" in rule else domain)


def _token_trouble(policy: InboxPolicy, parsed: Parsed, recipient: str) -> str:
    if policy.token is None:
        return ""
    token = policy.token.casefold()
    texts = (recipient, parsed.subject, parsed.text)
    found = any(token in text[:_SEARCHED].casefold() for text in texts)
    return "" if found else "token_missing"


def _purpose_trouble(policy: InboxPolicy, parsed: Parsed) -> str:
    if policy.purpose is Purpose.ANY:
        return ""
    found = purposes(f"{parsed.subject}\n{parsed.text[:_SEARCHED]}")
    if policy.purpose in found:
        return ""
    return "purpose_differs" if found else "purpose_unclear"


def _rule(text: str) -> str:
    if "@" in text:
        return sender_key(text)
    return _BELOW + domain_key(text[2:]) if text.startswith(_BELOW) else domain_key(text)


def _each(key: Callable[[str], str], texts: Iterable[str], remedy: str) -> tuple[str, ...]:
    """Return each rule once, as it is compared."""
    try:
        return tuple(dict.fromkeys(map(key, texts)))
    except AddressInvalid as error:
        raise InboxInvalid(remedy) from error
