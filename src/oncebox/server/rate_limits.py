"""Token-bucket rate limits."""

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
            self.charge(name, now, 1)
        return wait

    def charge(self, name: str, now: float, tokens: float) -> None:
        """Take tokens, whether or not there are as many."""
        self._full_at[name] = max(self._full_at.get(name, now), now) + tokens * self._each
        if len(self._full_at) > self._most:
            self._forget(now)

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
