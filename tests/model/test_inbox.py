"""Inboxes: their states, until when mail is taken, what may be wished for, and what matches."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from oncebox.errors.mail import InboxInvalid
from oncebox.model.inboxes.inbox import (
    TRANSITIONS,
    InboxOptions,
    InboxPolicy,
    InboxState,
    accepts_until,
    check_options,
    check_policy,
    match_policy,
    policy_warnings,
)
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    PURPOSE_RULE,
    AuthResult,
    HeaderAddress,
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderStatus,
    SenderVerdict,
)

#: the first look at a name in another alphabet loads its tables
patient = settings(deadline=None)
DRAINING = 900
ENDED = {InboxState.CLOSED, InboxState.EXPIRED}


AUTHOR = ParsedSender(
    address="no-reply@github.com", domain="github.com", standing=SenderStatus.SINGLE
)
EMPTY = ParsedMail(status=ParseStatus.PARSED, sender=AUTHOR)


def author(address: str = "no-reply@github.com", standing: str = "single") -> ParsedSender:
    """Return whom From names."""
    domain = address.rpartition("@")[2]
    return ParsedSender(address=address, domain=domain, standing=SenderStatus(standing))


def mail(sender: ParsedSender = AUTHOR, *, subject: str = "", text: str = "") -> ParsedMail:
    """Return what was read."""
    return ParsedMail(status=ParseStatus.PARSED, sender=sender, subject=subject, text=text)


def verdict(spf: str, dmarc: str, domain: str) -> SenderVerdict:
    """Return what was found about the sender."""
    return SenderVerdict(spf=AuthResult(spf), dmarc=AuthResult(dmarc), domain=domain)


def judged(policy: InboxPolicy, parsed: ParsedMail = EMPTY, **rest: Any) -> str:
    """Return why a message does not match; nothing if it does."""
    found = rest.pop("verdict", SenderVerdict())
    recipient = rest.pop("recipient", "abc@oncebox.test")
    matched, reason = match_policy(check_policy(policy), parsed, found, recipient)
    assert matched is not bool(reason)
    return reason


# states


def test_every_state_is_reached_and_what_has_ended_stays_ended() -> None:
    reached = {InboxState.ACTIVE}
    for _ in InboxState:
        reached |= {after for before, after in TRANSITIONS if before in reached}

    assert reached == set(InboxState)
    assert not {before for before, _ in TRANSITIONS} & ENDED
    assert all(TRANSITIONS.values())


@patient
@given(
    st.sampled_from(InboxState),
    st.none() | st.integers(1, 10_000),
    st.none() | st.integers(1, 10_000),
)
def test_mail_is_taken_only_where_the_state_and_the_clock_allow(
    state: InboxState, active_until: int | None, due_at: int | None
) -> None:
    until = accepts_until(state, active_until, due_at, DRAINING)

    if state in ENDED:
        assert until == 0
    elif state is InboxState.DRAINING:
        assert until == (due_at or 0)
    elif active_until is None:
        assert until is None
    else:
        assert until == active_until + DRAINING


# wishes


@pytest.mark.parametrize(
    "wish",
    [
        InboxOptions(attempt_id=""),
        InboxOptions(attempt_id="x" * 201),
        InboxOptions(attempt_id="a\nb"),
        InboxOptions(label="x" * 101),
        InboxOptions(label="a\x00b"),
        InboxOptions(metadata={str(number): "" for number in range(17)}),
        InboxOptions(metadata={"": "x"}),
        InboxOptions(metadata={"x" * 65: "x"}),
        InboxOptions(metadata={"x": "y" * 501}),
        InboxOptions(metadata={"x": "a\u2028b"}),
    ],
)
def test_what_no_inbox_can_be_is_refused(wish: InboxOptions) -> None:
    with pytest.raises(InboxInvalid):
        check_options(wish)


def test_sixteen_entries_of_metadata_are_kept() -> None:
    wish = InboxOptions(attempt_id="x" * 200, metadata={str(number): "ü" for number in range(16)})

    assert check_options(wish) == wish


@pytest.mark.parametrize(
    "policy",
    [
        InboxPolicy(senders=("nobody",)),
        InboxPolicy(senders=("a b@example.com",)),
        InboxPolicy(senders=("*.com.",)),
        InboxPolicy(senders=("example.com",) * 51),
        InboxPolicy(link_hosts=("https://user@example.com",)),
        InboxPolicy(link_hosts=("localhost",)),
        InboxPolicy(link_hosts=("127.0.0.1",)),
        InboxPolicy(token=""),
        InboxPolicy(token="x" * 201),
        InboxPolicy(resends=-1),
        InboxPolicy(resends=101),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused(policy: InboxPolicy) -> None:
    with pytest.raises(InboxInvalid):
        check_policy(policy)


def test_the_same_rules_in_other_spellings_are_the_same_policy() -> None:
    one = check_policy(InboxPolicy(senders=("GitHub.com", "A@Bücher.example", "github.com")))
    two = check_policy(InboxPolicy(senders=("github.com", "a@xn--bcher-kva.example")))

    assert one == two
    assert check_policy(one) == one


# matches


def test_an_empty_policy_lets_everything_through() -> None:
    assert judged(InboxPolicy()) == ""
    assert judged(InboxPolicy(), mail(sender=author("", "ambiguous"))) == ""


@pytest.mark.parametrize(
    ("rule", "address", "fits"),
    [
        ("github.com", "no-reply@github.com", True),
        ("github.com", "No-Reply@GitHub.COM", True),
        ("github.com", "a@mail.github.com", True),
        ("github.com", "a@a.b.GitHub.com", True),
        ("mail.github.com", "a@github.com", False),
        ("github.com", "a@evilgithub.com", False),
        ("acme.co.uk", "a@mail.acme.co.uk", True),
        ("co.uk", "a@acme.co.uk", False),
        ("github.io", "a@acme.github.io", False),
        ("github.com", "github.com@evil.example", False),
        ("*.github.com", "a@mail.github.com", True),
        ("*.github.com", "a@github.com", False),
        ("*.github.com", "a@evilgithub.com", False),
        ("a@github.com", "a@github.com", True),
        ("a@github.com", "A@GITHUB.com", True),
        ("a@github.com", "b@github.com", False),
        ("a@github.com", "a+x@github.com", False),
        ("bücher.example", "a@xn--bcher-kva.example", True),
        ("github.com", "", False),
        ("github.com", "nonsense", False),
    ],
)
def test_a_sender_fits_a_rule_or_does_not(rule: str, address: str, fits: bool) -> None:
    policy = InboxPolicy(senders=("other.example", rule), authenticated=False)
    reason = judged(policy, mail(sender=author(address)))

    assert reason == ("" if fits else "sender_not_allowed")


@pytest.mark.parametrize("standing", ["ambiguous", "missing"])
def test_a_from_that_is_not_one_never_matches_a_rule(
    standing: Literal["ambiguous", "missing"],
) -> None:
    sender = author("no-reply@github.com", standing)
    policy = InboxPolicy(senders=("github.com", "no-reply@github.com"))
    passed = verdict("pass", "pass", "github.com")

    assert judged(policy, mail(sender=sender), verdict=passed) == f"sender_{standing}"


@pytest.mark.parametrize(
    ("verdict", "required", "optional"),
    [
        (verdict("pass", "pass", "github.com"), True, True),
        (verdict("none", "none", "github.com"), True, True),
        (verdict("fail", "none", "github.com"), True, True),
        (verdict("pass", "fail", "github.com"), False, False),
        (verdict("pass", "none", "evil.example"), False, True),
        (verdict("none", "none", ""), False, True),
        (verdict("temperror", "temperror", ""), False, True),
        (verdict("pass", "none", ""), False, True),
        (verdict("none", "fail", ""), False, False),
        (verdict("fail", "none", ""), False, False),
    ],
)
def test_a_forged_sender_never_matches_and_an_unknown_one_only_where_it_may(
    verdict: SenderVerdict, required: bool, optional: bool
) -> None:
    strict = InboxPolicy(senders=("github.com",), authenticated=True)
    usual = InboxPolicy(senders=("github.com",))
    lax = InboxPolicy(senders=("github.com",), authenticated=False)

    assert (judged(strict, verdict=verdict) == "") is required
    assert (judged(usual, verdict=verdict) == "") is required
    assert (judged(lax, verdict=verdict) == "") is optional


def test_a_service_that_checks_no_senders_is_believed_unless_the_policy_requires_proof() -> None:
    unchecked = SenderVerdict(details=("not_checked",))
    strict = InboxPolicy(senders=("github.com",), authenticated=True)

    assert judged(InboxPolicy(senders=("github.com",)), verdict=unchecked) == ""
    assert judged(strict, verdict=unchecked) == "sender_unauthenticated"


@pytest.mark.parametrize("sign", ["not_addressed", "signature_old"])
def test_a_sign_of_a_replay_is_the_reason_where_proof_is_required(sign: str) -> None:
    replayed = SenderVerdict(
        spf=AuthResult.FAIL, dmarc=AuthResult.PASS, details=("dkim_aligned", sign)
    )
    off = InboxPolicy(senders=("github.com",), authenticated=False)

    assert judged(InboxPolicy(senders=("github.com",)), verdict=replayed) == sign
    assert judged(InboxPolicy(authenticated=True), verdict=replayed) == sign
    assert judged(off, verdict=replayed) == ""
    assert judged(InboxPolicy(), verdict=replayed) == ""


def test_a_token_in_a_recipient_counts_only_if_no_signature_contradicts_it() -> None:
    policy = InboxPolicy(token="T-4821")
    signed = SenderVerdict(details=("dkim_aligned", "signed_to"))
    to = (HeaderAddress(name="", address="a+t-4821@b.test"),)

    assert judged(policy, replace(mail(), to=to), verdict=signed, recipient="a+t-4821@b.test") == ""
    assert judged(policy, mail(), verdict=signed, recipient="a+t-4821@b.test") == "token_missing"


def test_only_who_switches_authentication_off_is_warned() -> None:
    senders = ("github.com",)

    assert policy_warnings(InboxPolicy(senders=senders, authenticated=False)) == (
        "authentication_off",
    )
    assert policy_warnings(InboxPolicy(senders=senders)) == ()
    assert policy_warnings(InboxPolicy()) == ()


@pytest.mark.parametrize(
    ("parsed", "recipient"),
    [
        (mail(subject="Ticket T-4821 opened"), "a@b.test"),
        (mail(text="about t-4821."), "a@b.test"),
        (mail(), "a+t-4821@b.test"),
    ],
)
def test_a_token_is_found_in_recipient_subject_or_text(parsed: ParsedMail, recipient: str) -> None:
    policy = InboxPolicy(token="T-4821")

    assert judged(policy, parsed, recipient=recipient) == ""
    assert judged(policy, mail(subject="T-482"), recipient="a@b.test") == "token_missing"


def test_a_message_of_another_purpose_does_not_match_and_an_unclear_one_does() -> None:
    policy = InboxPolicy(purpose=Purpose.RESET)
    other = replace(mail(), purposes=(Purpose.LOGIN,), purpose_rule=PURPOSE_RULE)

    assert judged(policy, replace(other, purposes=(Purpose.RESET,))) == ""
    assert judged(policy, other) == "purpose_differs"
    assert judged(policy, mail()) == ""


def test_an_unclear_message_without_a_code_or_a_link_does_not_match() -> None:
    policy = InboxPolicy(purpose=Purpose.RESET)

    assert match_policy(policy, mail(), SenderVerdict(), "a@b.test", has_artifact=False) == (
        False,
        "purpose_unclear",
    )


def test_login_is_unclear_in_messages_stored_when_every_code_was_a_login() -> None:
    old = replace(mail(), purposes=(Purpose.LOGIN, Purpose.RESET))

    assert judged(InboxPolicy(purpose=Purpose.RESET), old) == ""
    assert judged(InboxPolicy(purpose=Purpose.LOGIN), old) == "purpose_differs"
    assert (
        judged(InboxPolicy(purpose=Purpose.SIGNUP), replace(old, purposes=(Purpose.LOGIN,))) == ""
    )


def test_authentication_can_be_asked_of_any_sender() -> None:
    policy = InboxPolicy(authenticated=True)

    assert judged(policy, verdict=verdict("none", "none", "github.com")) == ""
    assert judged(policy) == "sender_unauthenticated"
    assert judged(policy, mail(sender=author("", "missing"))) == "sender_missing"


@patient
@given(st.text(), st.text(), st.text(), st.text())
def test_matching_never_fails_whatever_a_message_says(
    address: str, subject: str, text: str, recipient: str
) -> None:
    policy = InboxPolicy(senders=("github.com",), token="x", purpose=Purpose.LOGIN)
    parsed = mail(sender=author(address), subject=subject, text=text)

    assert isinstance(judged(policy, parsed, recipient=recipient), str)
