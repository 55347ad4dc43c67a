"""Rules that hold where a source says nothing."""

from oncebox.config import RetrySettings
from oncebox.model.retry import RetryRules


def by_default(settings: RetrySettings) -> RetryRules:
    """Return how often and how long a failing delivery is tried."""
    return RetryRules(
        tries=settings.tries,
        budget=int(settings.budget * 1000),
        first_wait=int(settings.first_wait * 1000),
        longest_wait=int(settings.longest_wait * 1000),
    )
