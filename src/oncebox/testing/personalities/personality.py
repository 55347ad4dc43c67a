"""What every provider is to the server that plays it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from oncebox.testing.provider_script import Fault

#: seconds, on a clock that tests may move on
Now = Callable[[], float]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    method: str
    path: str
    #: by lower-case names
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        """Leave out what is written, and who logs in."""
        return f"Request({self.method} {self.path}, {len(self.body)} bytes)"


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Taken(msgspec.Struct, frozen=True, kw_only=True):
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
        return f"Taken({self.id}, {len(self.recipients)} recipients)"


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook, signed."""

    headers: dict[str, str]
    body: bytes


class Personality(Protocol):
    """A provider: what it takes, how it refuses, and what it tells. One thread at a time."""

    name: str
    #: every mail that was really taken, whatever the client was told
    accepted: list[Taken]

    def brings_mail(self, request: Request) -> bool:
        """Say whether a request is one that the script is about."""
        ...

    def answer(self, request: Request, fault: Fault, now: Now) -> Response:
        """Take, replay or refuse, and say so; what is accepted is on the list from here on."""
        ...

    def over(self, request: Request) -> None:
        """Hear that the answer to a request is given, or was cut off."""
        ...

    def refusal(self, fault: Fault) -> Response:
        """Return the error that a script asks for."""
        ...

    def hook(self, event: str, taken: Taken, secret: str, **details: Any) -> Hook:
        """Return a webhook about a mail that was taken."""
        ...
