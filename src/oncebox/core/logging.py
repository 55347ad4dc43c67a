"""Structured log: one line per event, JSON or logfmt, without any sender's content.

It writes to the standard library's logger ``oncebox``, which the host program configures.
"""

import hashlib
import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oncebox.core import clock

_LOGGER_NAME = "oncebox"
_LEADING_FIELDS = ("timestamp", "level", "event")
#: the key of a sender that is no more than a name
_IDENTIFIER = re.compile(r"[A-Za-z0-9._:-]{1,100}")
#: errors in a traceback: the error itself and its causes
_MAX_ERRORS = 6
#: frames of one error, from its beginning and from its end
_FIRST_FRAMES, _LAST_FRAMES = 10, 20


class Log:
    """Logs events with named fields."""

    def __init__(self) -> None:
        """Without a handler, write nothing."""
        self._logger = logging.getLogger(_LOGGER_NAME)
        if not self._logger.handlers:
            self._logger.addHandler(logging.NullHandler())

    def debug(self, event: str, **facts: Any) -> None:
        """Log what only matters when something is searched for."""
        self._emit(logging.DEBUG, event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Log normal operation."""
        self._emit(logging.INFO, event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Log what an operator may want to check."""
        self._emit(logging.WARNING, event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Log a failure."""
        self._emit(logging.ERROR, event, facts)

    def critical(self, event: str, **facts: Any) -> None:
        """Log what ends the process."""
        self._emit(logging.CRITICAL, event, facts)

    def exception(self, event: str, **facts: Any) -> None:
        """Log the class and place of the exception being handled, never its message.

        The message may quote mail.
        """
        kind, _error, trace = sys.exc_info()
        last = traceback.extract_tb(trace)[-1] if trace else None
        facts["error"] = kind.__name__ if kind else None
        facts["where"] = f"{Path(last.filename).name}:{last.lineno}" if last else None
        self._emit(logging.ERROR, event, facts)

    def _emit(self, level: int, event: str, facts: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            name = logging.getLevelName(level).lower()
            leading = {"timestamp": iso_time(clock.system()), "level": name, "event": event}
            self._logger.log(level, leading | facts | leading)  # no fact replaces them


def loggable_key(key: str) -> str:
    """Return a sender's key for the log: an identifier as it is, other text as a digest."""
    if _IDENTIFIER.fullmatch(key):
        return key
    return f"digest:{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:16]}"


def traceback_fields(error: BaseException) -> dict[str, str]:
    """Return the class of an error and the traceback of it and its causes, as log fields.

    Messages are left out, since they may quote mail.
    """
    chains = [f"{type(each).__name__} at {_call_chain(each)}" for each in _causes(error)]
    return {"error": type(error).__name__, "traceback": "; from ".join(chains)}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each once, up to a limit."""
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
    """Return the call chain of an error, from the caller to its origin."""
    walked = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [f"{code.co_filename}:{line} in {code.co_qualname}" for code, line in walked]
    if len(frames) > _FIRST_FRAMES + _LAST_FRAMES:
        frames[_FIRST_FRAMES:-_LAST_FRAMES] = ["…"]
    return " > ".join(frames) or "an unknown place"


def iso_time(milliseconds: int) -> str:
    """Return a time in ISO 8601, in milliseconds."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def log_to_stderr(level: str = "info", format_: str = "auto") -> None:
    """Send log lines from a level on to standard error, as ``text``, ``json`` or ``auto``."""
    as_json = not sys.stderr.isatty() if format_ == "auto" else format_ == "json"
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter(as_json=as_json))
    logger = logging.getLogger(_LOGGER_NAME)
    logger.addHandler(handler)
    logger.setLevel(level.upper())


class _LazyHandler(logging.Handler):
    """Begins the log with the first line."""

    def __init__(self, begin: Callable[[], None]) -> None:
        super().__init__()
        self._begin = begin

    def emit(self, record: logging.LogRecord) -> None:
        logger = logging.getLogger(_LOGGER_NAME)
        logger.removeHandler(self)
        self._begin()
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def log_lazily(begin: Callable[[], None]) -> None:
    """Call ``begin``, which sends log lines somewhere, when there is one."""
    logger = logging.getLogger(_LOGGER_NAME)
    logger.addHandler(_LazyHandler(begin))
    logger.setLevel(logging.DEBUG)


class _LineFormatter(logging.Formatter):
    """One line per event, as JSON or as ``timestamp=… level=… event=… name=value …``."""

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
    """Return a value in logfmt, in quotes if necessary."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    is_plain = text.isprintable() and not any(sign in text for sign in ' ="\\')
    return text if is_plain else json.dumps(text)
