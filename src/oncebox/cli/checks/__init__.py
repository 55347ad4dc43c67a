"""Checks of `oncebox doctor`: a check result and its status; one module per subject."""

from enum import StrEnum

import msgspec


class CheckStatus(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    """One thing the doctor looked at."""

    check: str
    status: CheckStatus
    message: str
    remedy: str = ""
