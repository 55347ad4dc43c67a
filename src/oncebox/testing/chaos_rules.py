"""Rules of chaos: which faults happen to which mail and webhooks, as they are written in a file."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.model.envelope import Envelope
from oncebox.model.pattern import fits

MailFault = Literal["duplicate", "delay", "reorder", "421", "drop_after_accept"]
HookFault = Literal["duplicate", "delay", "503", "drop_after_accept"]

#: seconds of a fault that holds something, where its rule names none
_SECONDS = {"delay": 1.0, "reorder": 5.0}
_MOST_RULES = 100
#: how msgspec names a place in the file
_PLACE = re.compile(r"^(?P<what>.*?) - at `\$(?:\.(?P<door>\w+)\[(?P<at>\d+)\])?\.?(?P<key>.*)`$")

_FILE = "a file has a seed, and rules below [[mail]] and [[webhook]]"

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, and how often it happens to what the rule is about."""

    fault: str
    #: how likely it is, by the seed
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    #: so many are left alone first
    after: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    #: then every third of them, if 3
    every: Count = 1
    #: at most so often; none is no limit
    times: Count | None = None
    #: how long something is held; of delay and reorder
    seconds: Annotated[float, msgspec.Meta(ge=0, le=3_600)] | None = None
    #: how many more of it there are; of duplicate
    copies: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None

    def __post_init__(self) -> None:
        """Refuse what says nothing about this fault.

        Raises: ValueError.
        """
        if self.seconds is not None and self.fault not in _SECONDS:
            message = f"seconds says nothing about {self.fault}; it is for delay and reorder"
            raise ValueError(message)
        if self.copies is not None and self.fault != "duplicate":
            message = f"copies says nothing about {self.fault}; it is for duplicate"
            raise ValueError(message)

    @property
    def holds_for(self) -> float:
        """How many seconds something is held at most."""
        return _SECONDS.get(self.fault, 0.0) if self.seconds is None else self.seconds

    @property
    def more(self) -> int:
        """How many more copies there are."""
        return self.copies or 1


class MailRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of mail."""

    fault: MailFault
    #: patterns with ``*`` and ``?``: for whom, and from whom, by the envelope
    to: Pattern = "*"
    sender: Pattern = "*"

    def is_about(self, envelope: Envelope) -> bool:
        """Say whether a mail is one that the rule is about."""
        return fits(self.sender, envelope.sender) and any(
            fits(self.to, each.address) for each in envelope.recipients
        )


class HookRule(Rule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of webhooks."""

    fault: HookFault
    #: a pattern for the name of the source
    source: Pattern = "*"

    def is_about(self, source: str) -> bool:
        """Say whether a webhook is one that the rule is about."""
        return fits(self.source, source)


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file."""

    seed: int = 0
    mail: Annotated[tuple[MailRule, ...], msgspec.Meta(max_length=_MOST_RULES)] = ()
    webhook: Annotated[tuple[HookRule, ...], msgspec.Meta(max_length=_MOST_RULES)] = ()


def read(path: Path) -> Rules:
    """Return the rules of a file.

    Raises: ConfigInvalid, naming the file, the line or the key, and what helps.
    """
    try:
        written = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        message = f"the rules of chaos in {path} cannot be read: {error.strerror}"
        raise ConfigInvalid(message) from error
    except ValueError as error:
        message = f"the rules of chaos in {path} are no TOML: {error}"
        raise ConfigInvalid(message) from error
    try:
        rules = msgspec.convert(written, Rules)
    except msgspec.ValidationError as error:
        message = f"the rules of chaos in {path} cannot be used: {_told(str(error))}"
        raise ConfigInvalid(message) from error
    if not rules.mail and not rules.webhook:
        message = (
            f"there are no rules of chaos in {path}; write at least one [[mail]] or [[webhook]]"
        )
        raise ConfigInvalid(message)
    return rules


def mail_rule(fault: str, **fields: object) -> MailRule:
    """Return one rule for mail.

    Raises: ConfigInvalid, naming what is wrong with it.
    """
    try:
        return msgspec.convert({"mail": [{"fault": fault, **fields}]}, Rules).mail[0]
    except msgspec.ValidationError as error:
        message = f"this fault cannot be used: {_told(str(error))}"
        raise ConfigInvalid(message) from error


def _told(error: str) -> str:
    """Say in plain words which key of which rule is wrong, and what it may be."""
    found = _PLACE.match(error)
    if found is None:
        return f"{error}; {_FILE}"
    what, door, key = found["what"], found["door"], found["key"]
    if door is None:
        return f"{key or 'the file'}: {what}; {_FILE}"
    where = f"{door} rule {int(found['at']) + 1}{f', {key}' if key else ''}: {what}"
    kind, faults = (MailRule, MailFault) if door == "mail" else (HookRule, HookFault)
    if key == "fault" or "`fault`" in what:
        return f"{where}; faults of {door} are {', '.join(get_args(faults))}"
    if "unknown field" in what:
        return f"{where}; a rule has {', '.join(kind.__struct_fields__)}"
    return where
