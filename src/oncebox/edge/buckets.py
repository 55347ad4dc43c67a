"""Buckets: how often one address may do something, without remembering every address."""

_MOST = 10_000
#: sums of fractions are never quite exact
_NEARLY = 1e-9


class Buckets:
    """For each name, so many per second, and at first so many at once."""

    def __init__(self, rate: float, *, burst: float, most: int = _MOST) -> None:
        """Remember at most so many names."""
        self._each = 1 / rate
        self._allowance = max(burst, 1) * self._each
        self._most = most
        #: when the bucket of a name will be full again
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._full_at)

    def take(self, name: str, now: float) -> float:
        """Take one out; return 0, or the seconds until there is one again."""
        wait = self.wait(name, now)
        if not wait:
            self._full_at[name] = max(self._full_at.get(name, now), now) + self._each
            if len(self._full_at) > self._most:
                self._forget(now)
        return wait

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until one can be taken out, without taking it."""
        full_at = max(self._full_at.get(name, now), now) + self._each
        wait = full_at - now - self._allowance
        return wait if wait > _NEARLY else 0.0

    def _forget(self, now: float) -> None:
        """Forget names whose buckets are full again, and if that is not enough, the oldest."""
        left = {name: full_at for name, full_at in self._full_at.items() if full_at > now}
        surplus = len(left) - self._most // 2
        for name in list(left)[: max(0, surplus)]:
            del left[name]
        self._full_at = left
