"""Link policy: what may be handed out, by grammar and allowlist; everything else is refused."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.errors.mail import InboxInvalid
from oncebox.mail.links.link_policy import link_verdict
from oncebox.model.inboxes import link_rules
from oncebox.model.inboxes.link_rules import LinkVerdict

HOST = "example.com"
#: what the policy says, written anew: no link that is handed out may look otherwise
GRAMMAR = re.compile(
    r"https://(?=[a-z0-9.-]{1,253}(?:[:/]|\Z))(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"[a-z0-9-]{1,63}(?::[1-9][0-9]{0,4})?/[!-\[\]-~]*"
)


def refused(url: str, *allow: str) -> str:
    found = link_verdict(url, allow or (HOST,))
    assert (found.allowed, found.canonical, found.parameters, found.token) == (False, "", (), "")
    return found.reason


def allowed(url: str, *allow: str) -> LinkVerdict:
    found = link_verdict(url, allow or (HOST,))
    assert found.allowed, found.reason
    return found


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "empty"),
        (" https://example.com/", "not_printable"),
        ("https://example.com/\u200b", "not_printable"),
        ("https://example.com/\ud800", "not_printable"),
        ("https://example.com\\@evil.example.net/", "backslash"),
        ("https://example.com/" + "a" * 8173, "too_long"),
        ("http://example.com/", "scheme"),
        ("https:/example.com/", "scheme"),
        ("https:example.com", "scheme"),
        ("//example.com/", "scheme"),
        ("javascript:alert(1)//https://example.com/", "scheme"),
        ("https://", "no_host"),
        ("https://:443/", "no_host"),
        ("https:///example.com", "no_host"),
        ("https://a@example.com/", "userinfo"),
        ("https://@example.com/", "userinfo"),
        ("https://example.com%2e/", "host_escaped"),
        ("https://[::1]/", "ip_literal"),
        ("https://[example.com]/", "ip_literal"),
        ("https://1.2.3.4/", "ip_literal"),
        ("https://0x7f.1/", "ip_literal"),
        ("https://example.0x/", "ip_literal"),
        ("https://2130706433/", "ip_literal"),
        ("https://example.com./", "trailing_dot"),
        ("https://localhost/", "single_label"),
        ("https://exa_mple.com/", "host_invalid"),
        ("https://-a.example.com/", "host_invalid"),
        ("https://a..example.com/", "host_invalid"),
        ("https://" + "a" * 64 + ".example.com/", "host_invalid"),
        ("https://xn--a.example.com/", "host_not_decodable"),
        ("https://xn--.example.com/", "host_invalid"),
        ("https://xn--example-.com/", "host_invalid"),
        ("https://xn--bcher-kvA0.example.com/", "host_not_decodable"),
        ("https://example.com:/", "port_invalid"),
        ("https://example.com:0443/", "port_invalid"),
        ("https://example.com:65536/", "port_invalid"),
        ("https://example.com:443:443/", "port_invalid"),
        ("https://example.com:8443/", "port_not_allowed"),
        ("https://printer.local/", "internal_name"),
        ("https://example.com.evil.example.net/", "host_not_allowed"),
        ("https://www.example.com/", "host_not_allowed"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(url: str, reason: str) -> None:
    assert refused(url) == reason


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("HTTPS://EXAMPLE.com/a", "example.com"),
        ("https://example.com", "EXAMPLE.COM"),
        ("https://a.b.example.com/", "*.example.com"),
        ("https://xn--bcher-kva.example.com/", "*.example.com"),
        ("https://xn--bcher-kva.example/", "bücher.example"),
        ("https://example.com:8443/x", "example.com:8443"),
        ("https://example.com/verify", "https://example.com/verify"),
        ("https://example.com/verify?x=../", "https://example.com/verify"),
        ("https://example.com/verify/a", "https://example.com/verify/"),
        ("https://example.com/verify/%E2%9C%93%3D100%25", "https://example.com/verify/"),
        ("https://example.com/verify/John%20Smith", "https://example.com/verify/"),
        ("https://example.com/verify/a..b", "https://example.com/verify/"),
        ("https://example.com/verify/%C3%A9t%C3%A9", "https://example.com/verify/"),
        ("https://example.com/verify/x%E2%80%A6", "https://example.com/verify/"),
        ("https://example.com/verify/a.%20b", "https://example.com/verify/"),
        ("https://example.com/verify/%E2%9C%93", "https://example.com/verify/"),
        ("http://example.com/x", "http://example.com"),
        ("http://example.com:8080/x", "http://example.com:8080"),
        ("https://anything.org/x", "*"),
    ],
)
def test_what_an_entry_names_is_allowed(url: str, entry: str) -> None:
    assert allowed(url, entry).host == urlsplit(url).hostname


@pytest.mark.parametrize(
    ("url", "entry"),
    [
        ("https://example.com/", "*.example.com"),
        ("https://notexample.com/", "*.example.com"),
        ("https://example.com/", "example.com:8443"),
        ("https://example.com/", "http://example.com"),
        ("http://example.com/", "https://example.com"),
        ("https://example.com/verifyx", "https://example.com/verify"),
        ("https://example.com/verify", "https://example.com/verify/"),
        ("https://example.com/Verify/a", "https://example.com/verify/"),
        ("https://example.com/verify/../a", "https://example.com/verify/"),
        ("https://example.com/verify/./a", "https://example.com/verify/"),
        ("https://example.com/verify/%2E%2e/a", "https://example.com/verify/"),
        ("https://example.com/verify/%252e%252e/a", "https://example.com/verify/"),
        ("https://example.com/verify/a%2fb", "https://example.com/verify/"),
        ("https://example.com/verify/a%5Cb", "https://example.com/verify/"),
        ("https://example.com/verify/a;b", "https://example.com/verify/"),
        ("https://example.com/verify/a%25%32%66b", "https://example.com/verify/"),
        ("https://example.com/verify/%25252fb", "https://example.com/verify/"),
        ("https://example.com/verify/a%c0%afb", "https://example.com/verify/"),
        ("https://example.com/verify/%C0%AE%c0%ae/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%3b/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%00/a", "https://example.com/verify/"),
        ("https://example.com/verify/%00/a", "https://example.com/verify/"),
        ("https://example.com/verify/a%00", "https://example.com/verify/"),
        ("https://example.com/verify/%2e%2e%00/a", "https://example.com/verify/"),
        ("https://example.com/verify/%u002e%u002e/a", "https://example.com/verify/"),
        ("https://example.com/verify/%U002E./a", "https://example.com/verify/"),
        ("https://example.com/verify/%25u002e%25u002e/a", "https://example.com/verify/"),
        ("https://example.com/verify/%EF%BC%8E%EF%BC%8E/a", "https://example.com/verify/"),
        ("https://example.com/verify/%EF%BC%8E./a", "https://example.com/verify/"),
        ("https://example.com/verify/a%EF%BC%8Fb", "https://example.com/verify/"),
        ("https://example.com/verify/a%EF%BC%BCb", "https://example.com/verify/"),
        ("https://example.com/verify/..%20/a", "https://example.com/verify/"),
        ("https://example.com/verify/%20../a", "https://example.com/verify/"),
        ("https://example.com/verify/..%09/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%0b/a", "https://example.com/verify/"),
        ("https://example.com/verify/.%20/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%C2%A0/a", "https://example.com/verify/"),
        ("https://example.com/verify/...%20/a", "https://example.com/verify/"),
        ("https://example.com/verify/%E2%80%A5/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%7f/a", "https://example.com/verify/"),
        ("https://example.com/verify/..%85/a", "https://example.com/verify/"),
        ("http://anything.org/", "*"),
        ("https://anything.org:8443/", "*"),
        ("https://xn--bcher-kva.org/", "*"),
        ("https://anything.example/", "*"),
        ("https://anything.invented/", "*"),
        ("https://localhost.localdomain/", "localhost.localdomain"),
        ("https://db.internal/", "db.internal"),
        ("https://a.example.com/", "a.example.com/path"),
        ("https://1.2.3.4/", "1.2.3.4"),
        ("https://example.com/", ""),
        ("https://example.com/", "**"),
        ("https://example.com/", "*.com.*"),
    ],
)
def test_what_an_entry_does_not_name_is_refused(url: str, entry: str) -> None:
    refused(url, entry)


def test_without_an_entry_nothing_is_allowed() -> None:
    assert link_verdict("https://example.com/", ()).reason == "host_not_allowed"


def test_what_was_judged_is_handed_out_with_its_parts() -> None:
    url = "HTTPS://Example.COM:443/V/a%2fB?Token=aB3dE6gH9&next=%2Fhome&empty=#x"
    found = allowed(url)

    assert found.canonical == "https://example.com/V/a%2fB?Token=aB3dE6gH9&next=%2Fhome&empty=#x"
    assert found.token == "aB3dE6gH9"
    assert found.parameters == (("Token", "aB3dE6gH9"), ("next", "/home"), ("empty", ""))


def test_a_local_origin_is_allowed_to_the_letter_and_no_further() -> None:
    def locally(url: str) -> bool:
        return link_verdict(url, (), local=("http://localhost:3000",)).allowed

    assert locally("http://localhost:3000/verify?token=abc")
    assert locally("http://localhost:3000")
    assert not locally("http://localhost:30001/")
    assert not locally("http://localhost:3000.evil.example.net/")
    assert not locally("http://localhost:3000@evil.example.net/")
    assert not locally("http://localhost:3001/")
    assert not locally("https://localhost:3000/")
    assert not locally("http://localhost:3000\\@evil.example.net/")


PUBLIC = "93.184.216.34"


@pytest.mark.parametrize(
    "addresses",
    [
        None, [], ["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::1"], ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"], ["64:ff9b:1::1"], ["2002:7f00:1::"], ["2002:5db8:d822::"],
        ["2001:0:5ef5:79fd::1"], ["fe80::1"], ["fe80::1%eth0"], ["fd00:ec2::254"], ["ff02::1"],
        ["::"], ["::7f00:1"], ["100.64.0.1"], ["169.254.169.254"], ["168.63.129.16"], ["0.0.0.1"],
        ["192.0.0.170"], ["198.18.0.1"], ["224.0.0.1"], ["255.255.255.255"], ["192.0.2.1"],
        ["2001:db8::1"], ["example.net"], ["127.1"], [""], ["2130706433"],
    ],
)  # fmt: skip
def test_a_name_with_an_address_that_is_not_public_is_refused(addresses: list[str] | None) -> None:
    found = link_verdict("https://example.com/", [HOST], resolve=lambda _: addresses)

    assert not found.allowed
    assert found.reason == ("address_not_public" if addresses else "not_resolved")


@pytest.mark.parametrize(
    "addresses",
    [[PUBLIC], ["2606:4700::1111", "1.1.1.1"], ["64:ff9b::5db8:d822"], [f"::ffff:{PUBLIC}"]],
)
def test_a_name_with_public_addresses_alone_is_allowed(addresses: list[str]) -> None:
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return addresses

    assert link_verdict("https://EXAMPLE.com/", [HOST], resolve=resolve).allowed
    assert asked == [HOST]


def test_nobody_is_asked_about_a_name_that_is_refused() -> None:
    asked: list[str] = []
    link_verdict("https://evil.example.net/", [HOST], resolve=asked.append)

    assert asked == []


_PIECES = st.sampled_from([
    "https://", "HTTPS:", "//", "/", "\\", "@", ":", ".", "example.com", "evil.example.net", "%2e",
    "%2f", "xn--", "bcher-kva", "[", "]", "::1", "127.0.0.1", "0x7f", "localhost", ".local", "443",
    "8443", "?", "#", "a", "-", "_", " ", "\t", "\u3002", "\uff0e", "\u212a", "\x00", "..", ";",
    "www.", "*", "user",
])  # fmt: skip
_URLS = st.lists(_PIECES, max_size=10).map("".join) | st.builds(
    "https://{}/{}".format, st.lists(_PIECES, max_size=5).map("".join), st.text(max_size=9)
)


@given(_URLS)
def test_whatever_is_allowed_is_in_the_grammar_and_of_a_listed_host(url: str) -> None:
    found = link_verdict(url, [HOST, "*.example.org"])

    if found.allowed:
        assert GRAMMAR.fullmatch(found.canonical)
        assert found.host == HOST or found.host.endswith(".example.org")
        assert urlsplit(found.canonical).hostname == found.host
        assert url.lower().startswith(f"https://{found.host}")
    else:
        assert found.reason
        assert found.canonical == ""


@given(_URLS)
def test_what_is_handed_out_is_judged_the_same_again(url: str) -> None:
    first = link_verdict(url, ["*", HOST])

    if first.allowed:
        again = link_verdict(first.canonical, ["*", HOST])
        assert (again.allowed, again.canonical) == (True, first.canonical)


@given(st.text(max_size=40))
def test_an_entry_is_taken_or_refused_and_taken_the_same_again(text: str) -> None:
    try:
        entry = link_rules.normalize_entry(text)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be the one error
        assert getattr(error, "code", None) == "inbox_invalid"  # noqa: PT017
    else:
        assert link_rules.normalize_entry(entry) == entry


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Example.COM", "example.com"),
        ("https://example.com", "example.com"),
        ("https://example.com/", "example.com"),
        ("https://example.com:443/a/", "https://example.com/a/"),
        ("*.Example.com", "*.example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("http://example.com:80", "http://example.com"),
        ("example.com:8443", "example.com:8443"),
        ("*", "*"),
    ],
)
def test_an_entry_is_kept_in_one_spelling(text: str, kept: str) -> None:
    assert link_rules.normalize_entry(text) == kept


@pytest.mark.parametrize(
    "text", ["localhost", "http://", "http://a b", "ftp://localhost:1", "http://localhost:3000/x"]
)
def test_a_local_origin_is_a_scheme_a_host_and_a_port(text: str) -> None:
    with pytest.raises(InboxInvalid):
        link_rules.normalize_origin(text)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://localhost:3000/verify?token=1", "localhost"),
        ("http://LOCALHOST/", "localhost"),
        ("https://app.localhost", "app.localhost"),
        ("http://127.0.0.1:8123#token", "127.0.0.1"),
        ("http://127.1.2.3/", "127.1.2.3"),
        ("http://[::1]:9/x", "[::1]"),
    ],
)
def test_test_mode_lets_out_links_to_this_machine_and_nothing_else_does(
    url: str, host: str
) -> None:
    here = link_verdict(url, [], here=True)

    assert (here.allowed, here.reason, here.canonical, here.host) == (True, "local", url, host)
    assert not link_verdict(url, ["*"]).allowed


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:3000@evil.example/",
        "http://localhost.evil.example/",
        "http://evil-localhost/",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "http://[::1].evil.example/",
        "http://[::1]@evil.example/",
        "http://localhost\\@evil.example/",
        "http://localhost%2eevil.example/",
        "http://128.0.0.1/",
        "http://0.0.0.0/",
        "http://[::ffff:10.0.0.1]/",
        "http://10.0.0.1/",
        "ftp://localhost/",
        "javascript://localhost/%0aalert(1)",
        "//localhost/",
        "https://evil.example/?http://localhost/",
    ],
)
def test_what_only_looks_like_this_machine_stays_in(url: str) -> None:
    assert not link_verdict(url, [], here=True).allowed
