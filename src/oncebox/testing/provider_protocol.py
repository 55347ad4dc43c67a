"""Faults, requests and responses of scripted providers."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Self

import msgspec


class ProviderFaultAction(StrEnum):
    """What happens to a request that sends mail."""

    #: no fault
    PROCEED = "proceed"
    #: the connection is reset after the headers; nothing is accepted
    DROP_BEFORE_BODY = "drop_before_body"
    #: the connection is reset
    DROP = "drop"
    #: the connection is closed properly
    HANG_UP = "hang_up"
    #: no answer ever; the connection stays open
    SILENCE = "silence"
    #: an error, of ``code`` and perhaps ``name``
    REFUSE = "refuse"
    #: 200 with an unreadable body
    GARBAGE = "garbage"
    #: only the first half of a batch is accepted
    PARTIAL = "partial"


class ProviderFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of one request."""

    action: ProviderFaultAction = ProviderFaultAction.PROCEED
    #: the status of an error
    code: int = 0
    #: which error of that status; empty: the usual one
    name: str = ""
    #: seconds before the response, or in its Retry-After
    seconds: float = 0.0
    #: whether the mail is accepted first
    accepts_mail: bool = False

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok`` · ``drop_before_body`` · ``drop`` · ``hang_up`` · ``silence`` · ``sleep(SECONDS)`` ·
        ``reject(CODE)`` · ``429(SECONDS)`` · ``409_concurrent`` · ``409_mismatch`` · ``500`` (any
        status) · ``200_garbage`` · ``partial_batch``, and after accepting the mail:
        ``accept_then_drop``, ``…_hang_up``, ``…_silence``, ``…_sleep(SECONDS)``, ``…_500``,
        ``…_garbage``.

        Raises: ValueError.
        """
        form = _FAULT_NAME.fullmatch(name)
        if form is None or (form["word"] in _NEEDS_NUMBER and form["number"] is None):
            raise ValueError(
                f"there is no fault {name!r}; write one such as accept_then_drop or reject(422)"
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


#: seconds, on a clock that tests may advance
Now = Callable[[], float]


class ProviderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A received request."""

    method: str
    path: str
    #: by lower-case names
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"ProviderRequest({self.method} {self.path}, {len(self.body)} bytes)"


class ProviderResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class ProviderMail(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted mail."""

    #: the provider's id
    id: str
    #: idempotency key; empty without one
    key: str
    #: the decoded request, or its part of a batch
    payload: dict[str, Any]
    #: the body of the request
    body: bytes
    recipients: tuple[str, ...]
    message_id: str
    tags: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ProviderMail({self.id}, {len(self.recipients)} recipients)"


class ProviderWebhook(msgspec.Struct, frozen=True, kw_only=True):
    """A signed webhook."""

    headers: dict[str, str]
    body: bytes
