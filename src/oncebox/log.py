"""The log: facts, one line each; nothing of a sender's text, key or body ever enters.

It feeds the standard library's logger ``oncebox``, so that the host program decides.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oncebox import clock

_NAME = "oncebox"
_FIRST = ("timestamp", "level", "event")


class Log:
    """Takes facts: an event, and what is known of it by names."""

    def __init__(self) -> None:
        """Say nothing by itself: without a handler the lines go nowhere."""
        self._logger = logging.getLogger(_NAME)
        if not self._logger.handlers:
            self._logger.addHandler(logging.NullHandler())

    def info(self, event: str, **facts: Any) -> None:
        """Tell what goes as it should."""
        self._tell(logging.INFO, event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Tell what somebody may want to look at."""
        self._tell(logging.WARNING, event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Tell what went wrong."""
        self._tell(logging.ERROR, event, facts)

    def critical(self, event: str, **facts: Any) -> None:
        """Tell what ends the process."""
        self._tell(logging.CRITICAL, event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Tell of the exception being handled what it is and where it arose.

        Never its words: they may quote mail.
        """
        kind, _error, trace = sys.exc_info()
        last = traceback.extract_tb(trace)[-1] if trace else None
        facts["error"] = kind.__name__ if kind else None
        facts["where"] = f"{Path(last.filename).name}:{last.lineno}" if last else None
        self._tell(logging.ERROR, event, facts)

    def _tell(self, level: int, event: str, facts: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            now = datetime.fromtimestamp(clock.system() / 1000, UTC)
            name = logging.getLevelName(level).lower()
            fact = {"timestamp": _written(now), "level": name, "event": event, **facts}
            self._logger.log(level, fact)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to_stderr(*, as_json: bool) -> None:
    """Send log lines to standard error, for people or for machines."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Line(as_json=as_json))
    logger = logging.getLogger(_NAME)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


class _Line(logging.Formatter):
    """One line per fact, as JSON or as ``timestamp=… level=… event=… name=value …``."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fact = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
        if self._as_json:
            return json.dumps(fact, default=str)
        known = {name: fact.get(name) for name in _FIRST}
        return " ".join(f"{name}={_shown(value)}" for name, value in {**known, **fact}.items())


def _shown(value: object) -> str:
    """Return a value as logfmt has it: in quotes where it would not be seen as one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    is_plain = text.isprintable() and not any(sign in text for sign in ' ="\\')
    return text if is_plain else json.dumps(text)
