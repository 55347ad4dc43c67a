"""Scripts for a mail provider: what happens to each request that brings mail."""

import re
import threading
from collections import deque
from enum import StrEnum
from typing import Self

import msgspec


class Turn(StrEnum):
    """What a request that brings mail meets with."""

    #: as it should be
    PROCEED = "proceed"
    #: the connection is reset as soon as the headers are there; nothing is taken
    DROP_BEFORE_BODY = "drop_before_body"
    #: the connection is reset
    DROP = "drop"
    #: the connection is closed in order
    HANG_UP = "hang_up"
    #: no answer ever; the connection stays open
    SILENCE = "silence"
    #: an error, of ``code`` and perhaps ``name``
    REFUSE = "refuse"
    #: 200, and rubbish
    GARBAGE = "garbage"
    #: of a batch only the first half is taken
    PARTIAL = "partial"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one request, once."""

    turn: Turn = Turn.PROCEED
    #: the status of an error
    code: int = 0
    #: which of the errors of that status; empty: the usual one
    name: str = ""
    #: seconds to wait before the answer, or that the answer asks to wait
    seconds: float = 0.0
    #: whether the mail is taken before anything else, if it can be
    takes: bool = False

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok`` · ``drop_before_body`` · ``drop`` · ``hang_up`` · ``silence`` · ``sleep(SECONDS)`` ·
        ``reject(CODE)`` · ``429(SECONDS)`` · ``409_concurrent`` · ``409_mismatch`` · ``500`` (any
        status) · ``200_garbage`` · ``partial_batch``, and with the mail taken first:
        ``accept_then_drop``, ``…_hang_up``, ``…_silence``, ``…_sleep(SECONDS)``, ``…_500``,
        ``…_garbage``.

        Raises: ValueError.
        """
        form = _NAME.fullmatch(name)
        if form is None or (form["word"] in _NUMBERED and form["number"] is None):
            message = f"there is no fault {name!r}; write such as accept_then_drop, reject(422)"
            raise ValueError(message)
        word, number = form["word"], float(form["number"] or 0)
        takes = form["takes"] is not None
        if word in _PLAIN:
            return cls(turn=_PLAIN[word], takes=takes)
        if word == "sleep":
            return cls(seconds=number, takes=takes)
        if word == "reject":
            return cls(turn=Turn.REFUSE, code=int(number))
        status, _, kind = word.partition("_")
        return cls(turn=Turn.REFUSE, code=int(status), name=kind, seconds=number, takes=takes)


_PLAIN = {
    "ok": Turn.PROCEED,
    "drop_before_body": Turn.DROP_BEFORE_BODY,
    "drop": Turn.DROP,
    "hang_up": Turn.HANG_UP,
    "silence": Turn.SILENCE,
    "garbage": Turn.GARBAGE,
    "200_garbage": Turn.GARBAGE,
    "partial_batch": Turn.PARTIAL,
}
_NUMBERED = frozenset({"sleep", "reject"})
#: written (2), or =2 as for the mail server
_NUMBER = r"(?:[(=](?P<number>[0-9]+(?:\.[0-9]+)?)\)?)?"
_WORDS = "|".join([*_PLAIN, *_NUMBERED, "409_concurrent", "409_mismatch", "[345][0-9]{2}"])
_NAME = re.compile(rf"(?P<takes>accept_then_)?(?P<word>{_WORDS}){_NUMBER}")


class Script:
    """Faults in the order in which they happen, one to a request; after them all goes well."""

    def __init__(self) -> None:
        """Begin without any."""
        self._faults: deque[Fault] = deque()
        self._standing: Fault | None = None
        self._lock = threading.Lock()

    def add(self, *faults: Fault | str) -> None:
        """Let these happen to the next requests that bring mail, one after the other."""
        with self._lock:
            self._faults.extend(map(_fault, faults))

    def always(self, fault: Fault | str | None) -> None:
        """Let this happen whenever no other is in turn; None: all goes well again."""
        with self._lock:
            self._standing = None if fault is None else _fault(fault)

    def next(self) -> Fault:
        """Take the fault of this request."""
        with self._lock:
            return self._faults.popleft() if self._faults else self._standing or Fault()

    @property
    def is_over(self) -> bool:
        """Whether everything that was added has happened."""
        with self._lock:
            return not self._faults


def _fault(given: Fault | str) -> Fault:
    return given if isinstance(given, Fault) else Fault.named(given)
