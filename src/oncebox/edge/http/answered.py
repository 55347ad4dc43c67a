"""Answers with a status and headers of their own, where the route's are not enough."""

from typing import Any, NamedTuple

from oncebox.model.delivery import Headers


class Answered(NamedTuple):
    """What a handler tells, and how."""

    value: Any
    status: int
    headers: Headers = ()
