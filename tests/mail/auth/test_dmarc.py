"""DMARC: alignment, policies, and the same answers as somebody else's program."""

import dmarc as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.auth.dmarc import (
    DmarcPolicy,
    dmarc_record_names,
    is_aligned,
    read_dmarc,
)
from oncebox.model.inboxes.addresses import organisational_domain
from oncebox.model.inboxes.received_mail import VERDICT_DETAILS


@pytest.mark.parametrize(
    ("domain", "owner"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("a.b.github.io", "b.github.io"),
        ("mail.oncebox.test", "oncebox.test"),
        ("localhost", "localhost"),
        ("a.xn--85x722f.xn--fiqs8s", "xn--85x722f.xn--fiqs8s"),
        ("www.city.kawasaki.jp", "city.kawasaki.jp"),
        ("a.b.c.kawasaki.jp", "b.c.kawasaki.jp"),
    ],
)
def test_an_organisation_is_what_somebody_registered(domain: str, owner: str) -> None:
    assert organisational_domain(domain) == owner


@pytest.mark.parametrize(
    ("author", "other", "relaxed", "strict"),
    [
        ("example.com", "example.com", True, True),
        ("example.com", "mail.example.com", True, False),
        ("mail.example.com", "example.com", True, False),
        ("a.example.com", "b.example.com", True, False),
        ("example.com", "example.org", False, False),
        ("example.com", "notexample.com", False, False),
        ("example.com", "example.com.evil.net", False, False),
        ("a.co.uk", "b.co.uk", False, False),
        ("co.uk", "a.co.uk", False, False),
        ("a.github.io", "b.github.io", False, False),
        ("", "", False, False),
        ("example.com", "", False, False),
    ],
)
def test_relatives_are_aligned_unless_it_is_strict(
    author: str, other: str, relaxed: bool, strict: bool
) -> None:
    assert is_aligned(author, other, strict=False) is relaxed
    assert is_aligned(author, other, strict=True) is strict


def test_the_author_is_asked_first_and_then_the_owner() -> None:
    assert dmarc_record_names("a.b.example.com") == ("_dmarc.a.b.example.com", "_dmarc.example.com")
    assert dmarc_record_names("example.com") == ("_dmarc.example.com",)


def _policy(*records: bytes, author: str = "example.com") -> DmarcPolicy | None:
    return read_dmarc(author, {"_dmarc.example.com": records}).policy


@pytest.mark.parametrize(
    ("record", "policy"),
    [
        (b"v=DMARC1; p=none", DmarcPolicy(disposition="none")),
        (b"v=DMARC1;p=reject;", DmarcPolicy(disposition="reject")),
        (
            b"v=DMARC1 ; P = Quarantine ; aspf=s",
            DmarcPolicy(disposition="quarantine", strict_spf=True),
        ),
        (
            b"v=DMARC1; p=reject; adkim=S; pct=0",
            DmarcPolicy(disposition="reject", strict_dkim=True),
        ),
        (b"v=DMARC1; p=reject; adkim=x; odd; =; a=b=c", DmarcPolicy(disposition="reject")),
        (b"v=DMARC1; p=reject; sp=none", DmarcPolicy(disposition="reject")),
        (b"v=DMARC1; p=nonsense; rua=mailto:a@example.com", DmarcPolicy(disposition="none")),
        (b"v=DMARC1; rua=mailto:a@example.com", DmarcPolicy(disposition="none")),
    ],
)
def test_a_record_is_read(record: bytes, policy: DmarcPolicy) -> None:
    assert _policy(record) == policy


def test_a_sub_domain_has_its_own_record_or_the_wish_for_sub_domains() -> None:
    above = b"v=DMARC1; p=reject; sp=quarantine; adkim=s"
    texts = {"_dmarc.example.com": [above]}

    assert _policy(above) == DmarcPolicy(disposition="reject", strict_dkim=True)
    assert read_dmarc("a.example.com", texts).policy == DmarcPolicy(
        disposition="quarantine", strict_dkim=True
    )
    own = texts | {"_dmarc.a.example.com": [b"v=DMARC1; p=none"]}
    assert read_dmarc("a.example.com", own).policy == DmarcPolicy(disposition="none")
    plain = {"_dmarc.example.com": [b"v=DMARC1; p=reject"]}
    assert read_dmarc("a.example.com", plain).policy == DmarcPolicy(disposition="reject")


def test_several_records_are_none() -> None:
    found = read_dmarc("example.com", {"_dmarc.example.com": [b"v=DMARC1; p=reject"] * 2})

    assert (found.policy, found.flags) == (None, ("dmarc_several",))


def test_other_texts_do_not_matter() -> None:
    assert _policy(b"v=spf1 -all", b"\xff", b"", b"v=DMARC1; p=reject") == DmarcPolicy(
        disposition="reject"
    )
    assert _policy(b"v=dmarc1; p=reject") is None
    assert _policy(b"v=DMARC10; p=reject") is None
    assert _policy(b" v=DMARC1; p=reject") is None
    assert read_dmarc("example.com", {}).flags == ()


@pytest.mark.parametrize(
    "record",
    [
        b"v=DMARC1",
        b"v=DMARC1; sp=reject",
        b"v=DMARC1; p=nonsense",
        b"v=DMARC1; p=reject; sp=nonsense",
        b"v=DMARC1; p=\xff",
        pytest.param(b"v=DMARC1; p=none;" + b" x=y;" * 2_000, id="huge"),
    ],
)
def test_a_record_without_a_policy_is_flagged(record: bytes) -> None:
    found = read_dmarc("example.com", {"_dmarc.example.com": [record]})

    assert (found.policy, found.flags) == (None, ("dmarc_invalid",))


@given(st.binary(max_size=200))
def test_no_record_raises(record: bytes) -> None:
    for text in (record, b"v=DMARC1;" + record):
        assert set(read_dmarc("a.example.com", {"_dmarc.example.com": [text]}).flags) <= set(
            VERDICT_DETAILS
        )


_DOMAINS = st.sampled_from(
    ["example.com", "a.example.com", "b.example.com", "example.org", "a.example.co.uk",
     "b.example.co.uk", "a.co.uk", "x.a.github.io", "y.a.github.io", "b.github.io"]
)  # fmt: skip


@given(
    _DOMAINS,
    _DOMAINS,
    st.sampled_from(["none", "quarantine", "reject"]),
    st.sampled_from(["", "; adkim=r; aspf=r", "; adkim=s; aspf=s", "; sp=none", "; sp=reject"]),
)
def test_the_dmarc_package_says_the_same(author: str, other: str, wish: str, more: str) -> None:
    record = f"v=DMARC1; p={wish}{more}"
    owner = organisational_domain(author)
    theirs = oracle.Policy("DMARC1", author, owner if owner != author else None)
    theirs.parse_record(record)
    judged = oracle.DMARC(publicsuffix=_Suffixes()).get_result(
        theirs, spf=oracle.SPF(other, oracle.SPFResult.PASS)
    )

    policy = read_dmarc(author, {f"_dmarc.{owner}": [record.encode()]}).policy

    assert policy is not None
    ours = is_aligned(author, other, strict=policy.strict_spf)
    assert ours == (judged.result is oracle.DMARCResult.PASS)
    if not ours:
        assert policy.disposition == judged.disposition.value


class _Suffixes:
    """What the package asks a list of suffixes for."""

    def get_public_suffix(self, domain: str) -> str:
        return organisational_domain(domain)
