"""Steps: how much work something is, counted instead of timed."""

import sys
from collections.abc import Callable


def steps(work: Callable[[], object]) -> int:
    """Return how many lines of Python are run; what patterns do is bounded by their repeats."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # the frame is not looked at
    try:
        work()
    finally:
        sys.settrace(before)
    return count
