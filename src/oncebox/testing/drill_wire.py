"""The JSON of test mode: where mail is taken, and which faults an inbox is to meet."""

from typing import Annotated

import msgspec

from oncebox.testing.chaos import Happened
from oncebox.testing.chaos_rules import MailRule


class TestMode(msgspec.Struct, frozen=True, kw_only=True):
    """A service in test mode."""

    __test__ = False  # pytest takes it for a test by its name

    #: where mail is taken, such as ``127.0.0.1:2525``; none: SMTP is switched off
    smtp: str | None
    #: the inbox that gets what no inbox has, and its address
    catch_all: str
    catch_all_email: str


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which faults the mail of one inbox is to meet."""

    seed: int = 0
    rules: Annotated[list[MailRule], msgspec.Meta(max_length=100)] = []


class FaultReport(msgspec.Struct, frozen=True, kw_only=True):
    """Which faults the mail of one inbox has met."""

    happened: list[Happened] = []
