"""Chaos rules and their seeded schedule: which mail and webhooks get which fault.

The fault of the n-th arrival that a rule matches depends only on the seed, the rule and n: the
same seed injects the same faults into the same sequence.
"""

import random
import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar, get_args

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.inboxes.received_mail import Envelope
from oncebox.model.inboxes.wait_filter import matches_wildcard

MailFault = Literal["duplicate", "delay", "reorder", "421", "drop_after_accept"]
WebhookFault = Literal["duplicate", "delay", "503", "drop_after_accept"]

#: seconds that a fault holds something, unless its rule sets them
_DEFAULT_SECONDS = {"delay": 1.0, "reorder": 5.0}
_MAX_RULES = 100
#: how msgspec names a location in the file
_ERROR_LOCATION = re.compile(
    r"^(?P<what>.*?) - at `\$(?:\.(?P<channel>\w+)\[(?P<at>\d+)\])?\.?(?P<key>.*)`$"
)

_FILE_HINT = "a file has a seed, and rules below [[mail]] and [[webhook]]"

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class ChaosRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, and how often it happens to the arrivals that the rule matches."""

    fault: str
    #: its probability
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    #: how many are not affected at first
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    #: 3: every third of the others
    every: Count = 1
    #: at most this often; None: no limit
    times: Count | None = None
    #: how long something is held; of delay and reorder
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] | None = None
    #: additional copies; of duplicate
    copies: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and self.fault not in _DEFAULT_SECONDS:
            raise ValueError(
                f"seconds says nothing about {self.fault}; it is for delay and reorder"
            )
        if self.copies is not None and self.fault != "duplicate":
            raise ValueError(f"copies says nothing about {self.fault}; it is for duplicate")

    @property
    def hold_seconds(self) -> float:
        """The seconds that something is held at most."""
        return _DEFAULT_SECONDS.get(self.fault, 0.0) if self.seconds is None else self.seconds

    @property
    def extra_copies(self) -> int:
        """The number of additional copies."""
        return self.copies or 1


class MailRule(ChaosRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of mail."""

    fault: MailFault
    #: glob patterns (``*``, ``?``) of a recipient and of the sender, by the envelope
    to: Pattern = "*"
    sender: Pattern = "*"

    def matches(self, envelope: Envelope) -> bool:
        """Return whether the rule is about a mail."""
        return matches_wildcard(self.sender, envelope.sender) and any(
            matches_wildcard(self.to, each.address) for each in envelope.recipients
        )


class WebhookRule(ChaosRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of webhooks."""

    fault: WebhookFault
    #: a glob pattern of the source's name
    source: Pattern = "*"

    def matches(self, source: str) -> bool:
        """Return whether the rule is about webhooks of a source."""
        return matches_wildcard(self.source, source)


class ChaosRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a rules file."""

    seed: int = 0
    mail: Annotated[tuple[MailRule, ...], msgspec.Meta(max_length=_MAX_RULES)] = ()
    webhook: Annotated[tuple[WebhookRule, ...], msgspec.Meta(max_length=_MAX_RULES)] = ()


def read_rules(path: Path) -> ChaosRules:
    """Return the rules of a file; ``ConfigInvalid`` names the line or the key, and the remedy."""
    try:
        written = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigInvalid(
            f"the chaos rules in {path} cannot be read: {error.strerror}"
        ) from error
    except ValueError as error:
        raise ConfigInvalid(f"the chaos rules in {path} are not valid TOML: {error}") from error
    try:
        rules = msgspec.convert(written, ChaosRules)
    except msgspec.ValidationError as error:
        raise ConfigInvalid(
            f"the chaos rules in {path} cannot be used: {_explain_error(str(error))}"
        ) from error
    if not rules.mail and not rules.webhook:
        raise ConfigInvalid(
            f"there are no chaos rules in {path}; write at least one [[mail]] or [[webhook]]"
        )
    return rules


def mail_rule(fault: str, **fields: object) -> MailRule:
    """Return one rule for mail; ``ConfigInvalid`` names what is wrong with it."""
    try:
        return msgspec.convert({"mail": [{"fault": fault, **fields}]}, ChaosRules).mail[0]
    except msgspec.ValidationError as error:
        raise ConfigInvalid(f"this fault cannot be used: {_explain_error(str(error))}") from error


def _explain_error(error: str) -> str:
    """Return which key of which rule is wrong, and what it may be."""
    found = _ERROR_LOCATION.match(error)
    if found is None:
        return f"{error}; {_FILE_HINT}"
    what, channel, key = found["what"], found["channel"], found["key"]
    if channel is None:
        return f"{key or 'the file'}: {what}; {_FILE_HINT}"
    where = f"{channel} rule {int(found['at']) + 1}{f', {key}' if key else ''}: {what}"
    kind, faults = (MailRule, MailFault) if channel == "mail" else (WebhookRule, WebhookFault)
    if key == "fault" or "`fault`" in what:
        return f"{where}; faults of {channel} are {', '.join(get_args(faults))}"
    if "unknown field" in what:
        return f"{where}; a rule has {', '.join(kind.__struct_fields__)}"
    return where


RuleT = TypeVar("RuleT", bound=ChaosRule)

#: how many faults a report lists
_MAX_REMEMBERED = 10_000


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that happened."""

    #: the number of the arrival, from 1
    arrival: int
    fault: str
    #: the number of the rule, from 1
    rule: int


class FaultSchedule(Generic[RuleT]):
    """Rules, and the counts of what they matched so far."""

    def __init__(self, rules: Sequence[RuleT], seed: int) -> None:
        self.rules = tuple(rules)
        self.seed = seed
        self.happened: list[InjectedFault] = []
        self._arrivals = 0
        self._matched = [0] * len(self.rules)
        self._applied = [0] * len(self.rules)

    def next(self, is_about: Callable[[RuleT], bool]) -> RuleT | None:
        """Return the rule that applies to the next arrival: the first of those that would."""
        self._arrivals += 1
        chosen: int | None = None
        for index, rule in enumerate(self.rules):
            if not is_about(rule):
                continue
            self._matched[index] += 1
            if chosen is None and self._applies(index, rule):
                chosen = index
        if chosen is None:
            return None
        self._applied[chosen] += 1
        rule = self.rules[chosen]
        if len(self.happened) < _MAX_REMEMBERED:
            self.happened.append(
                InjectedFault(arrival=self._arrivals, fault=rule.fault, rule=chosen + 1)
            )
        return rule

    def _applies(self, index: int, rule: RuleT) -> bool:
        number = self._matched[index] - rule.after
        if number < 1 or number % rule.every:
            return False
        if rule.times is not None and self._applied[index] >= rule.times:
            return False
        # Each rule has its own random numbers, so rules do not influence each other.
        return random.Random(f"{self.seed}/{index}/{number}").random() < rule.chance  # noqa: S311 - repeatable


class TestMode(msgspec.Struct, frozen=True, kw_only=True):
    """A service in test mode."""

    __test__ = False  # pytest takes it for a test by its name

    #: the SMTP address, such as ``127.0.0.1:2525``; None: SMTP is off
    smtp: str | None
    #: the certificate of STARTTLS in PEM, made for this start; None: the one of the settings
    smtp_certificate: str | None = None
    #: the inbox that gets mail for unknown addresses, and its address
    catch_all: str
    catch_all_email: str


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Faults to inject into the mail of one inbox."""

    seed: int = 0
    rules: Annotated[list[MailRule], msgspec.Meta(max_length=100)] = []


class FaultReport(msgspec.Struct, frozen=True, kw_only=True):
    """Faults that were injected into the mail of one inbox."""

    happened: list[InjectedFault] = []
