"""Addresses: who is at the other end, also behind proxies that are trusted to say so."""

from collections.abc import MutableMapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from oncebox.errors import ConfigInvalid

Network = IPv4Network | IPv6Network

#: one customer of a provider has a whole network of this size in IPv6
_CUSTOMER = 64


class Addresses:
    """Tells the client's address from that of a proxy."""

    def __init__(self, proxies: str) -> None:
        """Trust these proxies: addresses or networks, with commas between.

        Raises: ConfigInvalid.
        """
        self._proxies = [_parsed(each.strip()) for each in proxies.split(",") if each.strip()]

    def look_behind(self, scope: MutableMapping[str, Any]) -> None:
        """Put the client into the scope that a trusted proxy tells of."""
        client = scope.get("client")
        peer: str = client[0] if client else ""
        if not self._is_trusted(peer):
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if headers.get(b"x-forwarded-proto") in {b"http", b"https"}:
            scope["scheme"] = headers[b"x-forwarded-proto"].decode()
        scope["client"] = (self._first_stranger(headers.get(b"x-forwarded-for", b""), peer), 0)

    def _first_stranger(self, forwarded: bytes, peer: str) -> str:
        """Walk back from us until somebody is no proxy of ours; before that all may be made up."""
        last = peer
        for hop in reversed(forwarded.decode("latin-1").split(",")):
            try:
                last = str(_address(hop.strip()))
            except ValueError:
                return last
            if not self._is_trusted(last):
                return last
        return last

    def _is_trusted(self, address: str) -> bool:
        try:
            found = _address(address)
        except ValueError:  # a socket file, or a host name
            return False
        return any(found in network for network in self._proxies)


@lru_cache(4096)
def network(address: str) -> str:
    """Return what limits count as one: an IPv4 address, or a customer's IPv6 network."""
    try:
        found = _address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(ip_network((int(found), _CUSTOMER), strict=False))


def _address(text: str) -> IPv4Address | IPv6Address:
    """Read an address; one of IPv4 in the clothes of IPv6 is one of IPv4."""
    found = ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _parsed(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        message = f"http.proxies has {text!r}, which is no address or network such as 10.0.0.0/8"
        raise ConfigInvalid(message) from error
