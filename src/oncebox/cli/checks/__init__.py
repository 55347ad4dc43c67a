"""Checks of `oncebox doctor`: a check result and its status; one module per subject."""

from enum import StrEnum

import msgspec


class CheckStatus(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    """The result of one check."""

    check: str
    status: CheckStatus
    message: str
    remedy: str = ""


def ok(check: str, message: str) -> Check:
    """Return a check that passed."""
    return Check(check, CheckStatus.OK, message)


def warn(check: str, message: str, remedy: str) -> Check:
    """Return a check that found something to look at."""
    return Check(check, CheckStatus.WARN, message, remedy)


def fail(check: str, message: str, remedy: str) -> Check:
    """Return a check that failed."""
    return Check(check, CheckStatus.FAIL, message, remedy)
