"""Time: integer milliseconds since 1970, and a monotonic clock for durations."""

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system() -> int:
    """Milliseconds since 1970 by the host's wall clock."""
    return time.time_ns() // 1_000_000


#: seconds on a clock that never jumps; only differences mean anything
steady: Callable[[], float] = time.monotonic
