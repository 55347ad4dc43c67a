"""What the doctor finds: a status, what was seen, and what helps."""

from enum import StrEnum

import msgspec


class Status(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    """One thing the doctor looked at."""

    check: str
    status: Status
    message: str
    remedy: str = ""
