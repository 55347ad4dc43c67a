"""Steps: how much work something is, counted instead of timed."""

import re
import sys
from collections.abc import Callable
from typing import Any


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


def touched(work: Callable[[], object]) -> int:
    """Return how many bytes or characters the methods of texts are called on, one after another.

    Each of them goes through its text once. What an expression does cannot be counted, so the
    work must do without.
    """
    count = 0
    expressions = []

    def profile(_frame: object, event: str, called: Any) -> None:
        nonlocal count
        owner = getattr(called, "__self__", None) if event == "c_call" else None
        if isinstance(owner, (bytes, str)):
            count += len(owner)
        elif isinstance(owner, re.Pattern):
            expressions.append(owner.pattern)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    assert not expressions
    return count
