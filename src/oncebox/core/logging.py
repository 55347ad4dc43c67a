"""Structured log: one line per event, JSON or logfmt, without any sender's content.

It feeds the standard library's logger ``oncebox``, so that the host program decides.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oncebox.core import clock

_LOGGER_NAME = "oncebox"
_LEADING_FIELDS = ("timestamp", "level", "event")
#: errors of which a traceback tells: the one, and what caused it
_MAX_ERRORS = 6
#: frames of one error: so many from its beginning, so many from its end
_FIRST_FRAMES, _LAST_FRAMES = 10, 20


class Log:
    """Takes facts: an event, and what is known of it by names."""

    def __init__(self) -> None:
        """Say nothing by itself: without a handler the lines go nowhere."""
        self._logger = logging.getLogger(_LOGGER_NAME)
        if not self._logger.handlers:
            self._logger.addHandler(logging.NullHandler())

    def info(self, event: str, **facts: Any) -> None:
        """Tell what goes as it should."""
        self._emit(logging.INFO, event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Tell what somebody may want to look at."""
        self._emit(logging.WARNING, event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Tell what went wrong."""
        self._emit(logging.ERROR, event, facts)

    def critical(self, event: str, **facts: Any) -> None:
        """Tell what ends the process."""
        self._emit(logging.CRITICAL, event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Tell of the exception being handled what it is and where it arose.

        Never its words: they may quote mail.
        """
        kind, _error, trace = sys.exc_info()
        last = traceback.extract_tb(trace)[-1] if trace else None
        facts["error"] = kind.__name__ if kind else None
        facts["where"] = f"{Path(last.filename).name}:{last.lineno}" if last else None
        self._emit(logging.ERROR, event, facts)

    def _emit(self, level: int, event: str, facts: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            name = logging.getLevelName(level).lower()
            fact = {"timestamp": iso_time(clock.system()), "level": name, "event": event, **facts}
            self._logger.log(level, fact)


def traceback_fields(error: BaseException) -> dict[str, str]:
    """Return of an error, as facts for the log, what it is and where it and its causes arose.

    Never its words: they may quote mail.
    """
    chains = [f"{type(each).__name__} at {_call_chain(each)}" for each in _causes(error)]
    return {"error": type(error).__name__, "traceback": "; from ".join(chains)}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, each once and not without end."""
    found = [error]
    for each in found:
        yield each
        context = None if each.__suppress_context__ else each.__context__
        group = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        causes = (each.__cause__ or context, *group)
        found += [new for new in causes if new is not None and not _contains(found, new)]
        del found[_MAX_ERRORS:]


def _contains(found: list[BaseException], error: BaseException) -> bool:
    return any(each is error for each in found)


def _call_chain(error: BaseException) -> str:
    """Return the way an error took, from who called to where it arose."""
    walked = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [f"{code.co_filename}:{line} in {code.co_qualname}" for code, line in walked]
    if len(frames) > _FIRST_FRAMES + _LAST_FRAMES:
        frames[_FIRST_FRAMES:-_LAST_FRAMES] = ["…"]
    return " > ".join(frames) or "an unknown place"


def iso_time(milliseconds: int) -> str:
    """Return a moment as it stands in the log."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to_stderr(*, as_json: bool) -> None:
    """Send log lines to standard error, for people or for machines."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter(as_json=as_json))
    logger = logging.getLogger(_LOGGER_NAME)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


class _LineFormatter(logging.Formatter):
    """One line per fact, as JSON or as ``timestamp=… level=… event=… name=value …``."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fact = record.msg if isinstance(record.msg, dict) else {"event": record.getMessage()}
        if self._as_json:
            return json.dumps(fact, default=str)
        known = {name: fact.get(name) for name in _LEADING_FIELDS}
        return " ".join(
            f"{name}={_logfmt_value(value)}" for name, value in {**known, **fact}.items()
        )


def _logfmt_value(value: object) -> str:
    """Return a value as logfmt has it: in quotes where it would not be seen as one."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    is_plain = text.isprintable() and not any(sign in text for sign in ' ="\\')
    return text if is_plain else json.dumps(text)
