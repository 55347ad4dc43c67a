"""Addresses of clients, and what limits count as one address."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

#: prefix length of the network that one IPv6 customer gets
_IPV6_PREFIX = 64


def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Read an address; an IPv4 address mapped to IPv6 is an IPv4 address.

    Raises: ValueError.
    """
    found = ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


@lru_cache(4096)
def limit_key(address: str) -> str:
    """Return the unit of rate limits: an IPv4 address, or a customer's IPv6 network."""
    try:
        found = parse_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(ip_network((int(found), _IPV6_PREFIX), strict=False))


@lru_cache(4096)
def sender_limit_key(address: str) -> str:
    """Return the same for senders of mail; empty for this machine: a relay, or a test."""
    try:
        is_local = parse_address(address).is_loopback
    except ValueError:
        is_local = False
    return "" if is_local else limit_key(address)
