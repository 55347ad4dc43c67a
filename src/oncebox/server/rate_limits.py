"""Token-bucket rate limits; IP addresses, and what limits count as one address."""

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
