"""Addresses are the peer's own, unless a trusted proxy says otherwise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.errors import ConfigInvalid
from oncebox.server.rate_limits import TrustedProxies, limit_key


def scope(peer: str, **headers: bytes) -> dict[str, Any]:
    pairs = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {"client": (peer, 1), "scheme": "http", "headers": pairs}


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
    ],
)
def test_the_first_stranger_before_our_proxies_is_the_client(
    peer: str, forwarded: bytes, address: str
) -> None:
    asked = scope(peer, x_forwarded_for=forwarded)
    TrustedProxies("10.0.0.0/8").apply_forwarded(asked)

    assert asked["client"][0] == address


@given(st.binary(max_size=100))
def test_nothing_a_stranger_sends_changes_who_he_is(forwarded: bytes) -> None:
    headers = {"x_forwarded_for": forwarded, "x_forwarded_proto": b"https", "forwarded": forwarded}
    for proxies in ("", "10.0.0.0/8"):
        asked = scope("192.0.2.1", **headers)
        TrustedProxies(proxies).apply_forwarded(asked)

        assert (asked["client"], asked["scheme"]) == (("192.0.2.1", 1), "http")


@given(st.binary(max_size=100))
def test_whatever_a_proxy_sends_there_is_an_address(forwarded: bytes) -> None:
    asked = scope("10.0.0.1", x_forwarded_for=forwarded)
    TrustedProxies("10.0.0.0/8").apply_forwarded(asked)

    assert asked["client"][0]


def test_a_customers_network_counts_as_one() -> None:
    assert limit_key("2001:db8:1:2:3::4") == limit_key("2001:db8:1:2::") == "2001:db8:1:2::/64"
    assert limit_key("2001:db8:1:3::") != limit_key("2001:db8:1:2::")
    assert limit_key("::ffff:192.0.2.1") == limit_key("192.0.2.1") == "192.0.2.1"
    assert limit_key("") == ""


def test_a_proxy_that_is_no_address_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigInvalid, match=r"http\.proxies"):
        TrustedProxies("10.0.0.0/8, proxy.local")
