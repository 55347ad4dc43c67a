"""A call of the API as data, and the steps of which longer plans are made.

What a client does is described here once, without any I/O: a ``Call`` is one question with a
typed answer, a ``Plan`` is a generator that yields steps and is sent what came of them. The two
clients differ only in how they take a step.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from oncebox import ids
from oncebox.errors import KeyInvalid
from oncebox.wire.fields import Page

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_LONGEST_KEY = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T_co]):
    """One question to the service and the type of its answer."""

    method: str
    path: str
    answer: type[T_co]
    query: msgspec.Struct | None = None
    body: msgspec.Struct | None = None
    #: what makes a repeat of this call the same call, where it creates something
    idempotency_key: str | None = None
    #: sending it twice is the same as sending it once
    repeatable: bool = False
    #: but is not sent again here: whoever asks knows better how to go on
    alone: bool = False
    #: made anew for the next call, so that only this call knows its own repeats
    private_key: bool = False
    #: seconds that the service takes on purpose before it answers
    wait: float = 0
    #: seconds in all, where the client's own deadline is not meant
    within: float | None = None


class Request(NamedTuple):
    """A call as it is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes


class Reply(NamedTuple):
    """What came back."""

    status: int
    #: by lowered names
    headers: Mapping[str, str]
    body: bytes


class Send(NamedTuple):
    """A step: send a request once; a ``Reply`` comes of it, or ``NoAnswer``."""

    request: Request
    #: seconds
    within: float


class Pause(NamedTuple):
    """A step: do nothing for so many seconds."""

    seconds: float


class Run(NamedTuple):
    """A step: call a function of the user."""

    function: Callable[[], Any]
    #: seconds after which an answer is no longer waited for, where that is possible
    within: float
    #: what to do at once if the function cannot be stopped, and what when it ends well after all
    unstopped: "Callable[[], Plan[None]] | None" = None
    outlived: "Callable[[Any], Plan[None]] | None" = None


class Open(NamedTuple):
    """A step: send a request whose answer may go on; an ``Opened`` comes of it, or ``NoAnswer``."""

    request: Request
    #: seconds until the answer begins
    within: float


class Opened(NamedTuple):
    """An answer that has begun."""

    #: with its body, unless it goes on
    reply: Reply
    #: to read on by; None if that was all
    line: Any


class Read(NamedTuple):
    """A step: read on; bytes come of it, none at the end, or ``NoAnswer``."""

    line: Any
    #: seconds
    within: float


class Shut(NamedTuple):
    """A step: let an answer go."""

    line: Any


class Allowance(NamedTuple):
    """A step: learn how many seconds a call may take."""


Step: TypeAlias = Call[Any] | Send | Pause | Run | Open | Read | Shut | Allowance
Plan: TypeAlias = Generator[Step, Any, T]


def ask(call: Call[T]) -> Plan[T]:
    """Ask, as a part of a plan."""
    answer: T = yield call
    return answer


def path(*parts: str) -> str:
    """Return a path below ``/v1`` of names that may hold anything."""
    return "/v1/" + "/".join(_quoted(part) for part in parts)


def creating(
    kind: type[T], where: str, body: msgspec.Struct, idempotency_key: str | None
) -> Call[T]:
    """Return a call that creates something, once, however often it is sent.

    Raises: KeyInvalid.
    """
    return Call(
        method="POST",
        path=where,
        answer=kind,
        body=body,
        idempotency_key=checked_key(idempotency_key) or ids.new("idk"),
        repeatable=True,
        private_key=idempotency_key is None,
    )


def paged(
    kind: type[T], where: str, query: Callable[..., msgspec.Struct], /, **wanted: Any
) -> Call[T]:
    """Return a call for one page of a list; what is not wanted is left to the service."""
    named = {name: value for name, value in wanted.items() if value is not None}
    return Call(method="GET", path=where, answer=kind, query=query(**named), repeatable=True)


def next_page(call: Call[T], page: Page) -> Call[T] | None:
    """Return the call for what comes after a page; None if nothing does."""
    if not page.has_more or page.next_cursor is None or call.query is None:
        return None
    query = msgspec.structs.replace(call.query, cursor=page.next_cursor)
    return Call(method="GET", path=call.path, answer=call.answer, query=query, repeatable=True)


def checked_key(key: str | None) -> str | None:
    """Return a key that fits into a header.

    Raises: KeyInvalid.
    """
    if key is None or (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        return key
    message = f"a key is 1 to {_LONGEST_KEY} printable ASCII characters; choose another"
    raise KeyInvalid(message)


def _quoted(part: str) -> str:
    """Quote a part of a path whole, also where it would mean this folder or the one above."""
    return part.replace(".", "%2E") if part in {".", ".."} else quote(part, safe="")
