"""SPF: the examples of its RFC, and records that mean no good."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.auth.spf import MOST_QUESTIONS, DnsQuestion, SpfResult, check_spf
from oncebox.model.inboxes.received_mail import VERDICT_DETAILS, AuthResult
from tests.support.steps import steps

Zone = Mapping[DnsQuestion, Sequence[Any] | None]

#: RFC 7208, appendix A
_ZONE: dict[DnsQuestion, Sequence[Any] | None] = {
    ("mx", "example.com"): [(10, "mail-a.example.com"), (20, "mail-b.example.com")],
    ("a", "example.com"): ["192.0.2.10", "192.0.2.11"],
    ("a", "amy.example.com"): ["192.0.2.65"],
    ("a", "bob.example.com"): ["192.0.2.66"],
    ("a", "mail-a.example.com"): ["192.0.2.129"],
    ("a", "mail-b.example.com"): ["192.0.2.130"],
    ("mx", "example.org"): [(10, "mail-c.example.org")],
    ("a", "mail-c.example.org"): ["192.0.2.140"],
    ("ptr", "10.2.0.192.in-addr.arpa"): ["example.com"],
    ("ptr", "65.2.0.192.in-addr.arpa"): ["amy.example.com"],
    ("ptr", "140.2.0.192.in-addr.arpa"): ["mail-c.example.org"],
    ("ptr", "4.0.0.10.in-addr.arpa"): ["bob.example.com"],
}


class _Asked:
    """A judgement, with everything that was asked on the way."""

    def __init__(
        self,
        record: bytes | None,
        client: str = "192.0.2.3",
        zone: Zone = _ZONE,
        sender: str = "strong-bad@example.com",
        helo: str = "mx.example.org",
        anything: Callable[[DnsQuestion], Sequence[Any]] = lambda _: (),
        *,
        counted: bool = False,
    ) -> None:
        own = () if record is None else [record]
        zone = {("txt", sender.rpartition("@")[2] or helo): own} | dict(zone)
        self.questions: dict[DnsQuestion, Sequence[Any] | None] = {}
        #: the steps of one judgement, at most
        self.most = 0
        while True:
            judged = check_spf(client, helo, sender, self.questions)
            if counted:
                again = partial(check_spf, client, helo, sender, self.questions)
                self.most = max(self.most, steps(again))
            if isinstance(judged, SpfResult):
                break
            assert judged.questions[0] not in self.questions
            for question in judged.questions:
                self.questions[question] = (
                    zone[question] if question in zone else anything(question)
                )
        self.found = judged
        assert set(judged.flags) <= VERDICT_DETAILS.keys()
        assert len(self.questions) <= MOST_QUESTIONS

    @property
    def word(self) -> str:
        return str(self.found.result)


@pytest.mark.parametrize(
    ("record", "client", "word"),
    [
        (b"v=spf1 +all", "192.0.2.3", "pass"),
        (b"v=spf1 a -all", "192.0.2.10", "pass"),
        (b"v=spf1 a -all", "192.0.2.12", "fail"),
        (b"v=spf1 a:example.org -all", "192.0.2.10", "fail"),
        (b"v=spf1 mx -all", "192.0.2.129", "pass"),
        (b"v=spf1 mx -all", "192.0.2.140", "fail"),
        (b"v=spf1 mx:example.org -all", "192.0.2.140", "pass"),
        (b"v=spf1 mx mx:example.org -all", "192.0.2.140", "pass"),
        (b"v=spf1 mx/30 mx:example.org/30 -all", "192.0.2.131", "pass"),
        (b"v=spf1 mx/30 mx:example.org/30 -all", "192.0.2.143", "pass"),
        (b"v=spf1 mx/30 mx:example.org/30 -all", "192.0.2.132", "fail"),
        (b"v=spf1 ptr -all", "192.0.2.65", "pass"),
        (b"v=spf1 ptr -all", "192.0.2.140", "fail"),
        (b"v=spf1 ptr -all", "10.0.0.4", "fail"),
        (b"v=spf1 ip4:192.0.2.128/28 -all", "192.0.2.65", "fail"),
        (b"v=spf1 ip4:192.0.2.128/28 -all", "192.0.2.129", "pass"),
        (b"v=spf1 ip4:192.0.2.128/28 ~all", "192.0.2.1", "softfail"),
        (b"v=spf1 ip4:192.0.2.128/28 ?all", "192.0.2.1", "neutral"),
        (b"v=spf1", "192.0.2.1", "neutral"),
        (b"v=spf1 ip6:2001:db8::/32 -all", "2001:db8::1", "pass"),
        (b"v=spf1 ip6:2001:db8::/32 -all", "2001:db9::1", "fail"),
        (b"v=spf1 ip4:192.0.2.0/24 -all", "::ffff:192.0.2.7", "pass"),
        (b"V=SPF1 IP4:192.0.2.0/24 -ALL", "192.0.2.7", "pass"),
        (b"v=spf10 +all", "192.0.2.7", "none"),
        (b"unrelated", "192.0.2.7", "none"),
        (None, "192.0.2.7", "none"),
    ],
)
def test_the_examples_of_rfc_7208_end_as_it_says(
    record: bytes | None, client: str, word: str
) -> None:
    assert _Asked(record, client).word == word


@pytest.mark.parametrize(
    ("macro", "name"),
    [
        ("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com"),
        ("%{lr-}.lp._spf.%{d2}", "bad.strong.lp._spf.example.com"),
        ("%{lr-}.lp.%{ir}.%{v}._spf.%{d2}", "bad.strong.lp.3.2.0.192.in-addr._spf.example.com"),
        ("%{ir}.%{v}.%{l1r-}.lp._spf.%{d2}", "3.2.0.192.in-addr.strong.lp._spf.example.com"),
        ("%{d2}.trusted-domains.example.net", "example.com.trusted-domains.example.net"),
    ],
)
def test_macros_expand_as_rfc_7208_says(macro: str, name: str) -> None:
    asked = _Asked(f"v=spf1 exists:{macro} -all".encode(), sender="strong-bad@email.example.com")

    assert ("a", name) in asked.questions


def test_an_empty_sender_is_judged_by_the_name_the_client_gave() -> None:
    asked = _Asked(b"v=spf1 ip4:192.0.2.3 -all", sender="", helo="mx.example.org")

    assert (asked.word, asked.found.domain) == ("pass", "mx.example.org")


@pytest.mark.parametrize(
    "sender",
    ["x@localhost", "x@[192.0.2.3]", "x@a..b", "nobody", "x@", "x@a b", "x@" + "a." * 200 + "b"],
)
def test_a_sender_without_a_domain_is_not_asked_about(sender: str) -> None:
    assert check_spf("192.0.2.3", "mx.example.org", sender, {}) == SpfResult(result=AuthResult.NONE)


def test_a_quoted_sender_cannot_name_two_domains() -> None:
    found = _Asked(b"v=spf1 -all", sender='"a@evil.example"@example.com').found

    assert found.domain == "example.com"


def test_an_included_domain_counts_only_when_it_passes() -> None:
    zone = {
        ("txt", "in.example.net"): [b"v=spf1 ip4:192.0.2.0/24 -all"],
        ("txt", "out.example.net"): [b"v=spf1 ip4:198.51.100.0/24 -all"],
    }

    assert _Asked(b"v=spf1 include:in.example.net ~all", zone=zone).word == "pass"
    assert _Asked(b"v=spf1 include:out.example.net ~all", zone=zone).word == "softfail"
    assert _Asked(b"v=spf1 include:none.example.net ~all", zone=zone).word == "permerror"
    assert _Asked(b"v=spf1 redirect=in.example.net", zone=zone).word == "pass"


def test_all_mail_servers_are_asked_for_at_once() -> None:
    answers: dict[DnsQuestion, Sequence[Any] | None] = {
        ("txt", "example.com"): [b"v=spf1 mx -all"],
        ("mx", "example.com"): [(n, f"mx{n}.example.com") for n in range(10)],
    }

    wants = check_spf("192.0.2.3", "h", "a@example.com", answers)

    assert not isinstance(wants, SpfResult)
    assert len(wants.questions) == 10


def test_mail_servers_without_an_address_of_the_kind_are_no_void_lookups() -> None:
    zone: Zone = {
        ("mx", "example.com"): [(n, f"mx{n}.example.com") for n in range(9)],
        ("aaaa", "mx8.example.com"): ["2001:db8::8"],
    }

    assert _Asked(b"v=spf1 mx -all", "2001:db8::8", zone).word == "pass"


@pytest.mark.parametrize(
    "record",
    [
        b"v=spf1 +all",
        b"v=spf1 ip4:0.0.0.0/0 -all",
        b"v=spf1 ip4:0.0.0.0/1 ip4:128.0.0.0/1 -all",
        b"v=spf1 include:open.example.net -all",
    ],
)
def test_a_pass_that_everybody_gets_is_flagged(record: bytes) -> None:
    zone = {("txt", "open.example.net"): [b"v=spf1 +all"]}

    found = _Asked(record, "198.51.100.7", zone).found

    assert (found.result, found.flags) == (AuthResult.PASS, ("spf_anybody",))


def test_an_ordinary_pass_is_not_flagged() -> None:
    for record in (b"v=spf1 ip4:198.51.100.0/24 -all", b"v=spf1 exists:%{ir}.x.example -all"):
        asked = _Asked(
            record,
            "198.51.100.7",
            anything=lambda question: ["127.0.0.2"] if "7.100" in question[1] else (),
        )
        assert (asked.word, asked.found.flags) == ("pass", ())


def test_no_answer_is_temporary() -> None:
    assert _Asked(None, zone={("txt", "example.com"): None}).word == "temperror"
    zone = {("a", "h.example.com"): None}
    assert _Asked(b"v=spf1 a:h.example.com -all", zone=zone).word == "temperror"


# ---------------------------------------------------------------- bad records


@pytest.mark.parametrize(
    "record",
    [
        b"v=spf1 moo -all",
        b"v=spf1 ip4:1.2.3.4/99 -all",
        b"v=spf1 ip4:999.2.3.4 -all",
        b"v=spf1 redirect=a.example redirect=b.example",
        b"v=spf1 exists:%{q}.example -all",
        b"v=spf1 exists:%(d).example -all",
        b"v=spf1 include:example.com -all",
        "v=spf1 é -all".encode(),
        b"v=spf1 \xff\xfe -all",
        b"v=spf1 a:%{d -all",
    ],
)
def test_a_record_that_cannot_be_understood_is_a_permanent_error(record: bytes) -> None:
    found = _Asked(record).found

    assert (found.result, found.flags) == (AuthResult.PERMERROR, ("spf_invalid",))


def test_two_records_are_a_permanent_error() -> None:
    zone = {("txt", "example.com"): [b"v=spf1 +all", b"v=spf1 -all"]}

    assert _Asked(None, zone=zone).word == "permerror"


def _loop(question: DnsQuestion) -> Sequence[Any]:
    """Every name includes the next, for ever."""
    kind, name = question
    return [f"v=spf1 include:x{name} -all".encode()] if kind == "txt" else ()


def _wide(question: DnsQuestion) -> Sequence[Any]:
    """Every name has ten servers, and is one."""
    kind, name = question
    if kind == "mx":
        return [(n, f"{n}.{name}") for n in range(10)]
    return ["198.51.100.1"]


def _filler(terms: int) -> bytes:
    """Return terms that nobody minds, of half a KiB each."""
    return b"".join(b" x%d=" % number + b"a" * 500 for number in range(terms))


def _long_chain(question: DnsQuestion) -> list[Any]:
    """Return a record that is large enough, and four more behind it."""
    number = int(question[1][1])
    more = b" include:n%d.example" % (number + 1) if number < 4 else b""
    return [b"v=spf1" + _filler(7) + more]


@pytest.mark.parametrize(
    ("record", "anything"),
    [
        (b"v=spf1 include:a.example -all", _loop),
        (b"v=spf1 " + b" ".join(b"a:h%d.example.com" % n for n in range(11)), _wide),
        (b"v=spf1 " + b" ".join(b"mx:h%d.example.com" % n for n in range(9)), _wide),
        (b"v=spf1 a:n1.example a:n2.example a:n3.example -all", lambda _: ()),
        (b"v=spf1 mx -all", lambda q: [(n, f"h{n}.example") for n in range(11)]),
        pytest.param(b"v=spf1" + b" ip4:1.2.3.4" * 201, _wide, id="many terms"),
        pytest.param(b"v=spf1" + _filler(9), _wide, id="a huge record"),
        pytest.param(b"v=spf1 include:n0.example -all", _long_chain, id="huge records together"),
        pytest.param(b"v=spf1 a:" + b"%{d}" * 1_000 + b".example", _wide, id="a huge macro"),
    ],
)
def test_a_record_that_asks_for_too_much_is_a_permanent_error(
    record: bytes, anything: Callable[[DnsQuestion], Sequence[Any]]
) -> None:
    asked = _Asked(record, anything=anything, zone={}, counted=True)

    assert (asked.word, asked.found.flags) == ("permerror", ("spf_limits",))
    assert asked.most < 20_000


def test_loops_end() -> None:
    zone = {
        ("txt", "a.example"): [b"v=spf1 include:b.example -all"],
        ("txt", "b.example"): [b"v=spf1 include:a.example -all"],
        ("txt", "c.example"): [b"v=spf1 redirect=d.example"],
        ("txt", "d.example"): [b"v=spf1 redirect=c.example"],
    }

    assert _Asked(b"v=spf1 include:a.example -all", zone=zone).word == "permerror"
    assert _Asked(b"v=spf1 redirect=c.example", zone=zone).word == "permerror"


@pytest.mark.parametrize(
    "record",
    [
        b" exists:" + b"%{l1r-}%{d9999r./}." * 20 + b"x.example",
        b" exists:" + b"%{d}." * 90 + b"x.example",
        b" x=" + b"." * 240 + b"%{d}" * 60,
        b" ip4:1.2.3.4" * 19,
    ],
    ids=["macros", "long names", "dots", "addresses"],
)
def test_the_worst_records_within_the_limits_are_judged_in_few_steps(record: bytes) -> None:
    asked = _Asked(
        b"v=spf1" + record * 8 + b" -all",
        sender="a-b-c-" * 1_000 + "@example.com",
        anything=lambda question: [b"v=spf1" + record * 8] if question[0] == "txt" else (),
        counted=True,
    )

    assert asked.most < 100_000


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60), st.binary(max_size=200))
def test_nothing_raises(client: str, helo: str, sender: str, record: bytes) -> None:
    answers: dict[DnsQuestion, Sequence[Any] | None] = {}
    for who in (client, "192.0.2.3", "list"):
        check_spf(who, helo, sender, answers)
        check_spf(who, helo, "a@example.com", {("txt", "example.com"): [b"v=spf1 " + record]})


def test_importing_pyspf_warns_nobody() -> None:
    subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", "import oncebox.mail.auth.spf"], check=True
    )
