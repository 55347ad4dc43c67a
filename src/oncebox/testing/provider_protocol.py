"""Fault scripts, requests and responses of scripted providers; `ProviderBehaviour`."""

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol, Self

import msgspec


class ProviderFaultAction(StrEnum):
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


class ProviderFault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one request, once."""

    action: ProviderFaultAction = ProviderFaultAction.PROCEED
    #: the status of an error
    code: int = 0
    #: which of the errors of that status; empty: the usual one
    name: str = ""
    #: seconds to wait before the answer, or that the answer asks to wait
    seconds: float = 0.0
    #: whether the mail is taken before anything else, if it can be
    accepts_mail: bool = False

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok`` · ``drop_before_body`` · ``drop`` · ``hang_up`` · ``silence`` · ``sleep(SECONDS)`` ·
        ``reject(CODE)`` · ``429(SECONDS)`` · ``409_concurrent`` · ``409_mismatch`` · ``500`` (any
        status) · ``200_garbage`` · ``partial_batch``, and with the mail taken first:
        ``accept_then_drop``, ``…_hang_up``, ``…_silence``, ``…_sleep(SECONDS)``, ``…_500``,
        ``…_garbage``.

        Raises: ValueError.
        """
        form = _FAULT_NAME.fullmatch(name)
        if form is None or (form["word"] in _NEEDS_NUMBER and form["number"] is None):
            raise ValueError(
                f"there is no fault {name!r}; write such as accept_then_drop, reject(422)"
            )
        word, number = form["word"], float(form["number"] or 0)
        takes = form["takes"] is not None
        if word in _ACTIONS:
            return cls(action=_ACTIONS[word], accepts_mail=takes)
        if word == "sleep":
            return cls(seconds=number, accepts_mail=takes)
        if word == "reject":
            return cls(action=ProviderFaultAction.REFUSE, code=int(number))
        status, _, kind = word.partition("_")
        return cls(
            action=ProviderFaultAction.REFUSE,
            code=int(status),
            name=kind,
            seconds=number,
            accepts_mail=takes,
        )


_ACTIONS = {
    "ok": ProviderFaultAction.PROCEED,
    "drop_before_body": ProviderFaultAction.DROP_BEFORE_BODY,
    "drop": ProviderFaultAction.DROP,
    "hang_up": ProviderFaultAction.HANG_UP,
    "silence": ProviderFaultAction.SILENCE,
    "garbage": ProviderFaultAction.GARBAGE,
    "200_garbage": ProviderFaultAction.GARBAGE,
    "partial_batch": ProviderFaultAction.PARTIAL,
}
_NEEDS_NUMBER = frozenset({"sleep", "reject"})
#: written (2), or =2 as for the mail server
_NUMBER = r"(?:[(=](?P<number>[0-9]+(?:\.[0-9]+)?)\)?)?"
_FAULT_WORDS = "|".join(
    [*_ACTIONS, *_NEEDS_NUMBER, "409_concurrent", "409_mismatch", "[345][0-9]{2}"]
)
_FAULT_NAME = re.compile(rf"(?P<takes>accept_then_)?(?P<word>{_FAULT_WORDS}){_NUMBER}")


class ProviderScript:
    """Faults in the order in which they happen, one to a request; after them all goes well."""

    def __init__(self) -> None:
        """Begin without any."""
        self._faults: deque[ProviderFault] = deque()
        self._repeated: ProviderFault | None = None
        self._lock = threading.Lock()

    def add(self, *faults: ProviderFault | str) -> None:
        """Let these happen to the next requests that bring mail, one after the other."""
        with self._lock:
            self._faults.extend(map(_to_fault, faults))

    def always(self, fault: ProviderFault | str | None) -> None:
        """Let this happen whenever no other is in turn; None: all goes well again."""
        with self._lock:
            self._repeated = None if fault is None else _to_fault(fault)

    def next(self) -> ProviderFault:
        """Take the fault of this request."""
        with self._lock:
            return self._faults.popleft() if self._faults else self._repeated or ProviderFault()

    @property
    def is_over(self) -> bool:
        """Whether everything that was added has happened."""
        with self._lock:
            return not self._faults


def _to_fault(given: ProviderFault | str) -> ProviderFault:
    return given if isinstance(given, ProviderFault) else ProviderFault.parse(given)


#: seconds, on a clock that tests may move on
Now = Callable[[], float]


class ProviderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    method: str
    path: str
    #: by lower-case names
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        """Leave out what is written, and who logs in."""
        return f"ProviderRequest({self.method} {self.path}, {len(self.body)} bytes)"


class ProviderResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class ProviderMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was really taken."""

    #: what the provider calls it
    id: str
    #: the idempotency key it came with; empty: none
    key: str
    #: what was asked for, as it was understood
    payload: dict[str, Any]
    #: the whole request that brought it, byte for byte
    body: bytes
    recipients: tuple[str, ...]
    message_id: str
    tags: Mapping[str, str]

    def __repr__(self) -> str:
        """Leave out what is written, and to whom."""
        return f"ProviderMail({self.id}, {len(self.recipients)} recipients)"


class ProviderWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, signed."""

    headers: dict[str, str]
    body: bytes


class ProviderBehaviour(Protocol):
    """A provider: what it takes, how it refuses, and what it tells. One thread at a time."""

    name: str
    #: every mail that was really taken, whatever the client was told
    accepted: list[ProviderMail]

    def is_send_request(self, request: ProviderRequest) -> bool:
        """Say whether a request is one that the script is about."""
        ...

    def answer(self, request: ProviderRequest, fault: ProviderFault, now: Now) -> ProviderResponse:
        """Take, replay or refuse, and say so; what is accepted is on the list from here on."""
        ...

    def finish(self, request: ProviderRequest) -> None:
        """Hear that the answer to a request is given, or was cut off."""
        ...

    def error_response(self, fault: ProviderFault) -> ProviderResponse:
        """Return the error that a script asks for."""
        ...

    def webhook(
        self, event: str, taken: ProviderMail, secret: str, **details: Any
    ) -> ProviderWebhook:
        """Return a webhook about a mail that was taken."""
        ...
