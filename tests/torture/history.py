"""What clients asked, what they were told and what reached the world, kept outside the faults."""

import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self


class Kind(StrEnum):
    """What one line of a history says about a call."""

    #: The call is about to be made; nothing is known yet.
    INVOKE = "invoke"
    #: The caller was told that it happened.
    OK = "ok"
    #: The caller was told that it did not happen.
    FAIL = "fail"
    #: The caller was told nothing it can rely on: it may or may not have happened.
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a history."""

    kind: Kind
    #: What was called, such as ``accept``.
    verb: str
    #: The caller's idempotency key.
    key: str
    #: Pairs the end of a call with its beginning, unique in one history file.
    call: str
    #: The id the answer carried, if it carried one.
    id: str | None = None
    #: What else the caller knew, such as the error.
    note: str | None = None
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One call that reached the outside world."""

    #: The idempotency key handed to the world.
    key: str
    #: The delivery on whose behalf the call was made.
    delivery: str
    #: The process that made the call.
    pid: int
    #: The fence it held while calling, where the stand-in knows one.
    fence: int | None = None


class AppendOnly:
    """A file of JSON lines to which many processes may append, killed at any moment.

    Every line is one ``write`` on an ``O_APPEND`` descriptor. It begins with a line break as
    well as ending with one, so that a line torn by a kill never swallows its successor.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back; the file stays."""
        os.close(self._descriptor)

    def append(self, fields: dict[str, Any]) -> None:
        """Add one line, whole or not at all unless the process dies inside the call."""
        filled = {name: value for name, value in fields.items() if value is not None}
        line = b"\n" + json.dumps(filled, separators=(",", ":")).encode() + b"\n"
        if os.write(self._descriptor, line) != len(line):
            message = f"short write to {self.path}"
            raise OSError(message)


class History(AppendOnly):
    """The client's side of a run: invoke, then ok, fail or info."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._numbers = itertools.count(1)

    def invoke(self, verb: str, key: str) -> "Call":
        """Note that a call is about to be made, and return the handle that ends it."""
        call = Call(self, verb, key, f"{os.getpid()}-{next(self._numbers)}")
        call.tell(Kind.INVOKE)
        return call


class Call:
    """One call in flight; say how it ended exactly once, or never when the process dies."""

    def __init__(self, history: History, verb: str, key: str, number: str) -> None:
        self._history = history
        self._verb = verb
        self._key = key
        self._number = number

    def ok(self, identity: str | None = None, note: str | None = None) -> None:
        """It happened, and the caller was told so."""
        self.tell(Kind.OK, identity, note)

    def fail(self, note: str | None = None) -> None:
        """It did not happen, and the caller was told so."""
        self.tell(Kind.FAIL, None, note)

    def info(self, note: str | None = None) -> None:
        """Nobody knows: a lost answer, a timeout, a cut connection."""
        self.tell(Kind.INFO, None, note)

    def tell(self, kind: Kind, identity: str | None = None, note: str | None = None) -> None:
        """Append one line of this call."""
        self._history.append(
            {
                "kind": kind,
                "verb": self._verb,
                "key": self._key,
                "call": self._number,
                "id": identity,
                "note": note,
                "pid": os.getpid(),
            }
        )


class Downstream(AppendOnly):
    """The outside world of the handlers under test: it only counts who called it."""

    def call(self, key: str, *, delivery: str, fence: int | None = None) -> None:
        """Make one effect happen."""
        self.append({"key": key, "delivery": delivery, "pid": os.getpid(), "fence": fence})


@dataclass(frozen=True, slots=True)
class Torn:
    """A line whose writer died while writing it."""

    text: str


def read_history(path: Path) -> list[Event]:
    """Read the whole lines of a history in the order they were written."""
    return [
        Event(**{**line, "kind": Kind(line["kind"])})
        for line in _lines(path)
        if not isinstance(line, Torn)
    ]


def read_downstream(path: Path) -> list[Effect]:
    """Read the effects in the order in which the world felt them."""
    return [Effect(**line) for line in _lines(path) if not isinstance(line, Torn)]


def read_torn(path: Path) -> list[Torn]:
    """Read only the lines that a kill tore apart; a checker may want to mention them."""
    return [line for line in _lines(path) if isinstance(line, Torn)]


def _lines(path: Path) -> Iterator[dict[str, Any] | Torn]:
    if not path.exists():
        return
    for raw in path.read_bytes().split(b"\n"):
        if not raw:
            continue
        try:
            yield json.loads(raw)
        except ValueError:
            yield Torn(raw.decode(errors="replace"))
