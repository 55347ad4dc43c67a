"""Client addresses behind trusted proxies, and token-bucket rate limits per address."""

from collections.abc import MutableMapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from oncebox.errors import ConfigInvalid

Network = IPv4Network | IPv6Network

#: prefix length of the network that one IPv6 customer gets
_IPV6_PREFIX = 64


class TrustedProxies:
    """Finds the client's address behind trusted proxies."""

    def __init__(self, proxies: str) -> None:
        """Trust these proxies: addresses or networks, separated by commas.

        Raises: ConfigInvalid.
        """
        self._proxies = [
            _parse_network(each.strip()) for each in proxies.split(",") if each.strip()
        ]

    def apply_forwarded(self, scope: MutableMapping[str, Any]) -> None:
        """Set the client of the scope to the one that a trusted proxy reports."""
        client = scope.get("client")
        peer: str = client[0] if client else ""
        if not self._is_trusted(peer):
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if headers.get(b"x-forwarded-proto") in {b"http", b"https"}:
            scope["scheme"] = headers[b"x-forwarded-proto"].decode()
        scope["client"] = (self._client_address(headers.get(b"x-forwarded-for", b""), peer), 0)

    def _client_address(self, forwarded: bytes, peer: str) -> str:
        """Return the last hop that is not a trusted proxy; hops before it may be forged."""
        last = peer
        for hop in reversed(forwarded.decode("latin-1").split(",")):
            try:
                last = str(_parse_address(hop.strip()))
            except ValueError:
                return last
            if not self._is_trusted(last):
                return last
        return last

    def _is_trusted(self, address: str) -> bool:
        try:
            found = _parse_address(address)
        except ValueError:  # a socket file, or a host name
            return False
        return any(found in network for network in self._proxies)


@lru_cache(4096)
def limit_key(address: str) -> str:
    """Return the unit of rate limits: an IPv4 address, or a customer's IPv6 network."""
    try:
        found = _parse_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    return str(ip_network((int(found), _IPV6_PREFIX), strict=False))


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    """Parse an address; an IPv4-mapped IPv6 address is an IPv4 address."""
    found = ip_address(text)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _parse_network(text: str) -> Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigInvalid(
            f"http.proxies has {text!r}, which is no address or network such as 10.0.0.0/8"
        ) from error


_MAX_NAMES = 10_000
#: tolerance for rounding errors
_EPSILON = 1e-9


class TokenBuckets:
    """A token bucket per name: ``rate`` per second, with bursts."""

    def __init__(self, rate: float, *, burst: float, most: int = _MAX_NAMES) -> None:
        """Remember at most so many names."""
        self._each = 1 / rate
        self._allowance = max(burst, 1) * self._each
        self._most = most
        #: when the bucket of a name will be full again
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        """Return how many names are remembered."""
        return len(self._full_at)

    def take(self, name: str, now: float) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        wait = self.wait(name, now)
        if not wait:
            self._full_at[name] = max(self._full_at.get(name, now), now) + self._each
            if len(self._full_at) > self._most:
                self._forget(now)
        return wait

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until a token can be taken, without taking it."""
        full_at = max(self._full_at.get(name, now), now) + self._each
        wait = full_at - now - self._allowance
        return wait if wait > _EPSILON else 0.0

    def _forget(self, now: float) -> None:
        """Forget names with full buckets, and if that is not enough, the oldest."""
        left = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        surplus = len(left) - self._most // 2
        for name in list(left)[: max(0, surplus)]:
            del left[name]
        self._full_at = left
