"""Scripts for a mail server: at which step it fails, and how."""

import re
import threading
from collections import deque
from enum import StrEnum
from typing import Self

import msgspec


class Step(StrEnum):
    """Where a conversation is, in this order."""

    CONNECT = "connect"
    HELLO = "hello"
    STARTTLS = "starttls"
    LOGIN = "login"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    #: the first line of the mail is here, its dot is not
    BODY = "body"
    #: the whole mail is here
    DOT = "dot"


class Act(StrEnum):
    """What is done instead of what should be."""

    #: nothing else: it goes on as if nothing were
    PROCEED = "proceed"
    REPLY = "reply"
    #: the connection is reset
    DROP = "drop"
    #: the connection is closed in order
    HANG_UP = "hang_up"
    #: no answer ever; the connection stays open
    SILENCE = "silence"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong, once."""

    step: Step
    act: Act = Act.PROCEED
    #: the reply, such as 451
    code: int = 0
    #: seconds to wait before the act
    after: float = 0.0
    #: at the dot: whether the mail is taken before anything else
    takes: bool = False

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok`` · ``drop@STEP`` · ``hang_up@STEP`` · ``silence@STEP`` · ``sleep=SECONDS@STEP`` ·
        ``451@STEP`` (any reply), and with the mail taken first: ``accept_then_drop``,
        ``accept_then_hang_up``, ``accept_then_silence``, ``accept_then_sleep=SECONDS``,
        ``accept_then_451``.

        Raises: ValueError.
        """
        if name == "ok":
            return cls(step=Step.DOT)
        form = _NAME.fullmatch(name)
        if form is None or (form["takes"] is None) != (form["step"] in list(Step)):
            message = f"there is no fault {name!r}; write such as drop@dot, 451@rcpt, sleep=2@mail"
            raise ValueError(message)
        return cls(
            step=Step(form["step"] or "dot"),
            act=Act.REPLY if form["code"] else Act(form["act"] or "proceed"),
            code=int(form["code"] or 0),
            after=float(form["seconds"] or 0),
            takes=form["takes"] is not None,
        )


_ACTS = r"(?P<act>drop|hang_up|silence)|sleep=(?P<seconds>[0-9.]+)|(?P<code>[2-5][0-9]{2})"
_NAME = re.compile(rf"(?P<takes>accept_then_)?(?:{_ACTS})(?:@(?P<step>[a-z]+))?")


class Script:
    """Faults in the order in which they happen; after them all goes well."""

    def __init__(self) -> None:
        """Begin without any."""
        self._faults: deque[Fault] = deque()
        self._standing: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, *faults: Fault | str) -> None:
        """Let these happen next, one after the other, each at the next time its step comes."""
        with self._lock:
            self._faults.extend(map(_fault, faults))

    def always(self, *faults: Fault | str) -> None:
        """Let these happen every time, when no other is in turn; none: all goes well again."""
        with self._lock:
            self._standing = list(map(_fault, faults))

    def at(self, step: Step) -> Fault | None:
        """Take the fault of this moment."""
        with self._lock:
            if self._faults and self._faults[0].step is step:
                return self._faults.popleft()
            if self._faults:
                return None
            return next((each for each in self._standing if each.step is step), None)

    @property
    def is_over(self) -> bool:
        """Whether everything that was added has happened."""
        with self._lock:
            return not self._faults


def _fault(given: Fault | str) -> Fault:
    return given if isinstance(given, Fault) else Fault.named(given)
