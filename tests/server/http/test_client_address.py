"""Addresses are the peer's own, unless a trusted proxy says otherwise."""

import tracemalloc
from contextlib import suppress
from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncebox.errors import ConfigInvalid
from oncebox.model.client_address import limit_key
from oncebox.server.http.proxies import (
    ProxyHeader,
    ProxyHeaderError,
    TrustedProxies,
    read_proxy_header,
)
from oncebox.server.http.request_parsing import RequestHead


def sent_with(*fields: tuple[bytes, bytes]) -> RequestHead:
    return RequestHead(
        method="POST", path="/", raw_path=b"/", query=b"", version="1.1", fields=list(fields),
        by_name=dict(fields), length=0, keep_alive=True,
    )  # fmt: skip


def headers(**fields: bytes) -> RequestHead:
    return sent_with(*((name.replace("_", "-").encode(), value) for name, value in fields.items()))


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("10.0.0.1", b"203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", b"1.1.1.1, 203.0.113.7, 10.0.0.2", "203.0.113.7"),
        ("10.0.0.1", b"1.1.1.1, nonsense, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", b"", "10.0.0.1"),
        ("10.0.0.1", b"10.0.0.3", "10.0.0.3"),
        ("::ffff:10.0.0.1", b"2001:db8::1", "2001:db8::1"),
        ("192.0.2.1", b"203.0.113.7", "192.0.2.1"),
        ("10.0.0.1", b"203.0.113.7:4711", "203.0.113.7"),
        ("10.0.0.1", b"[2001:db8::1]:4711, 10.0.0.2:80", "2001:db8::1"),
        ("10.0.0.1", b"fe80::1%eth0", "10.0.0.1"),
    ],
)
def test_the_first_stranger_before_our_proxies_is_the_client(
    peer: str, forwarded: bytes, address: str
) -> None:
    proxies = TrustedProxies("10.0.0.0/8")

    assert proxies.client(peer, headers(x_forwarded_for=forwarded))[0] == address


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (b"for=203.0.113.7;proto=https;by=10.0.0.1", ("203.0.113.7", "https")),
        (b'for="[2001:db8::1]:4711";proto=https', ("2001:db8::1", "https")),
        (b'For="203.0.113.7:80", for=10.0.0.9;proto=https', ("203.0.113.7", "http")),
        (b"for=1.1.1.1, for=203.0.113.7, for=10.0.0.2", ("203.0.113.7", "http")),
        (b"for=unknown, for=10.0.0.2;proto=https", ("10.0.0.2", "https")),
        (b'for="_hidden, x", for=10.0.0.2', ("10.0.0.2", "http")),
        (b"", ("10.0.0.1", "http")),
        (b'for=1.1.1.1;x=", for="[2001:db8::1]"', ("10.0.0.1", "http")),
        (b'for=1.1.1.1;x=\\", for="[2001:db8::1]"', ("10.0.0.1", "http")),
        (b'for="1.1.1.1, for=203.0.113.7', ("10.0.0.1", "http")),
        (b"for=1.1.1.1 for=203.0.113.7", ("10.0.0.1", "http")),
    ],
)
def test_forwarded_is_read_where_it_is_configured(
    forwarded: bytes, client: tuple[str, str]
) -> None:
    proxies = TrustedProxies("10.0.0.0/8", use_forwarded=True)
    sent = headers(forwarded=forwarded, x_forwarded_for=b"9.9.9.9", x_forwarded_proto=b"https")

    assert proxies.client("10.0.0.1", sent) == client


def test_only_the_configured_header_is_believed() -> None:
    sent = headers(forwarded=b"for=9.9.9.9;proto=https", x_forwarded_for=b"203.0.113.7")

    assert TrustedProxies("10.0.0.0/8").client("10.0.0.1", sent) == ("203.0.113.7", "http")


@pytest.mark.parametrize("client", ["203.0.113.7", "2001:db8::1"])
@given(forged=st.text('for=1.2.3.4;,"\\\\ []:unknown', max_size=40).map(str.encode))
@example(forged=b'for=1.2.3.4;x="')
def test_client_cannot_forge_its_address_behind_a_proxy(forged: bytes, client: str) -> None:
    """The proxy adds the client's address, to the same line or on one of its own."""
    plain = client.encode()
    node = b'for="[%s]"' % plain if ":" in client else b"for=%s" % plain
    for name, mine, use in (
        (b"x-forwarded-for", plain, False),
        (b"forwarded", node, True),
    ):
        proxies = TrustedProxies("10.0.0.0/8", use_forwarded=use)
        same, own = (name, forged + b", " + mine), (name, mine)

        assert proxies.client("10.0.0.1", sent_with(same))[0] in {client, "10.0.0.1"}
        assert proxies.client("10.0.0.1", sent_with((name, forged), own))[0] == client


def test_hops_on_several_lines_are_one_list() -> None:
    name = b"x-forwarded-for"
    fields = [(name, b"1.1.1.1"), (name, b"203.0.113.7"), (b"x", b"y"), (name, b"10.0.0.2")]

    assert TrustedProxies("10.0.0.0/8").client("10.0.0.1", sent_with(*fields))[0] == "203.0.113.7"


def test_long_headers_are_not_remembered() -> None:
    proxies = TrustedProxies("10.0.0.0/8")
    tracemalloc.start()
    for number in range(3_000):
        hops = b"%d, " % number + b"x" * 7_000 + b", 203.0.113.7"
        assert proxies.client("10.0.0.1", headers(x_forwarded_for=hops))[0] == "203.0.113.7"
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 200_000


@given(st.binary(max_size=100), st.booleans())
def test_nothing_a_stranger_sends_changes_who_he_is(forwarded: bytes, use: bool) -> None:
    sent = headers(x_forwarded_for=forwarded, x_forwarded_proto=b"https", forwarded=forwarded)
    for proxies in ("", "10.0.0.0/8"):
        trusted = TrustedProxies(proxies, use_forwarded=use)

        assert trusted.client("192.0.2.1", sent) == ("192.0.2.1", "http")


@given(st.binary(max_size=100), st.booleans())
def test_whatever_a_proxy_sends_there_is_an_address(forwarded: bytes, use: bool) -> None:
    sent = headers(x_forwarded_for=forwarded, forwarded=forwarded)
    address, scheme = TrustedProxies("10.0.0.0/8", use_forwarded=use).client("10.0.0.1", sent)

    assert str(ip_address(address)) == address
    assert scheme in {"http", "https"}


V2 = b"\r\n\r\n\0\r\nQUIT\n"
PROXY_HEADERS = {
    "v1": (b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 443\r\n", "203.0.113.7"),
    "v1 ipv6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 4124 443\r\n", "2001:db8::1"),
    "v1 unknown": (b"PROXY UNKNOWN\r\n", ""),
    "v2": (V2 + b"\x21\x11\x00\x0c\xcb\x00\x71\x07\xc0\x00\x02\x01\x30\x39\x01\xbb", "203.0.113.7"),
    "v2 mapped": (
        V2 + b"\x21\x21\x00\x24" + b"\0" * 10 + b"\xff\xff\xcb\x00\x71\x07" + b"\0" * 20,
        "203.0.113.7",
    ),
    "v2 local": (V2 + b"\x20\x00\x00\x00", ""),
    "v2 with extensions": (
        V2 + b"\x21\x11\x00\x10\xcb\x00\x71\x07\xc0\x00\x02\x01\x30\x39\x01\xbb\x04\x00\x01\x00",
        "203.0.113.7",
    ),
    "v2 of another family": (V2 + b"\x21\x31\x00\x02ab", ""),
}


@pytest.mark.parametrize(("header", "address"), PROXY_HEADERS.values(), ids=PROXY_HEADERS)
def test_proxy_header_tells_the_client_once_it_is_complete(header: bytes, address: str) -> None:
    for size in range(1, len(header)):
        assert read_proxy_header(header[:size]) is None
    for rest in (b"", b"GET / HTTP/1.1\r\n"):
        assert read_proxy_header(header + rest) == ProxyHeader(len(header), address)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 not-an-ip 192.168.0.11 56324 443\r\n",
        b"PROXY TCP5 203.0.113.7 192.0.2.1 56324 443\r\n",
        b"PROXY TCP4 203.0.113.7\r\n",
        b"PROXY " + b"x" * 107,
        b"PROXY TCP4 2001:db8::1 2001:db8::2 4124 443\r\n",
        b"PROXY TCP6 203.0.113.7 192.0.2.1 56324 443\r\n",
        b"PROXY TCP4 203.0.113.7 nowhere 56324 443\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 65536 443\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 99999\r\n",
        b"PROXY TCP4 203.0.113.7  192.0.2.1 56324 443\r\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 443\n\r\n",
        b"PROXY TCP6 fe80::1%eth0 2001:db8::2 4124 443\r\n",
        b"PROXY UNKNOWNS\r\n",
        V2 + b"\x31\x11\x00\x00",
        V2 + b"\x21\x11\x00\x04abcd",
        V2 + b"\x21\x11\xff\xff",
    ],
)
def test_wrong_proxy_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read_proxy_header(data)


@given(st.binary(max_size=200))
def test_no_proxy_header_breaks_the_reader(data: bytes) -> None:
    for start in (b"", b"PROXY ", V2):
        with suppress(ProxyHeaderError):
            read_proxy_header(start + data)


def test_a_customers_network_counts_as_one() -> None:
    assert limit_key("2001:db8:1:2:3::4") == limit_key("2001:db8:1:2::") == "2001:db8:1:2::/64"
    assert limit_key("2001:db8:1:3::") != limit_key("2001:db8:1:2::")
    assert limit_key("::ffff:192.0.2.1") == limit_key("192.0.2.1") == "192.0.2.1"
    assert limit_key("") == ""


def test_a_proxy_that_is_no_address_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigInvalid, match=r"http\.proxies"):
        TrustedProxies("10.0.0.0/8, proxy.local")
