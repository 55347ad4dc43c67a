"""An inbox in the hand: what the service told of it, and what can be done with it."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import msgspec

from oncebox.client import messages, waiting
from oncebox.client.call import Call, Plan, path
from oncebox.client.room import Carrier, Later, Now, Room, When
from oncebox.client.tail import Tail
from oncebox.model.inbox import InboxState
from oncebox.wire import inboxes as wire

P = ParamSpec("P")
T = TypeVar("T")


class Field(Generic[T]):
    """A field of the inbox as the service told of it."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn which field it is."""
        self._name = name

    @overload
    def __get__(self, inbox: None, kind: type) -> "Field[T]": ...
    @overload
    def __get__(self, inbox: "Inbox[Any]", kind: type) -> T: ...
    def __get__(self, inbox: "Inbox[Any] | None", kind: type) -> Any:
        """Return its value."""
        return self if inbox is None else getattr(inbox.told, self._name)


class Deed(Generic[P, T]):
    """A method made from a function that describes a call or a plan for the id of an inbox."""

    @overload
    def __init__(self, describe: Callable[Concatenate[str, P], Call[T]]) -> None: ...
    @overload
    def __init__(self, describe: Callable[Concatenate[str, P], Plan[T]]) -> None: ...
    def __init__(self, describe: Callable[..., Any]) -> None:
        """Take the function; its parameters but the first and its words become the method's."""
        self._describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]

    @overload
    def __get__(self, inbox: None, kind: type) -> "Deed[P, T]": ...
    @overload
    def __get__(self, inbox: "Inbox[Now]", kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, inbox: "Inbox[Later]", kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, inbox: "Inbox[Any] | None", kind: type) -> Any:
        """Return the method of an inbox."""
        if inbox is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return inbox._carrier.carry(self._describe(inbox.id, *args, **kwargs))  # noqa: SLF001 - its own

        return update_wrapper(method, self._describe)


class Reading(Generic[P, T]):
    """A method that goes through a list that grows, for the id of an inbox."""

    def __init__(self, describe: Callable[Concatenate[str, P], Tail[Any, T]]) -> None:
        """Take the function; its parameters but the first and its words become the method's."""
        self._describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]

    @overload
    def __get__(self, inbox: None, kind: type) -> "Reading[P, T]": ...
    @overload
    def __get__(self, inbox: "Inbox[Now]", kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, inbox: "Inbox[Later]", kind: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, inbox: "Inbox[Any] | None", kind: type) -> Any:
        """Return the method of an inbox."""
        if inbox is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return inbox._carrier.tail(self._describe(inbox.id, *args, **kwargs))  # noqa: SLF001 - its own

        return update_wrapper(method, self._describe)


def close(inbox_id: str, *, drain: float | None = None) -> Call[wire.Inbox]:
    """Take mail for ``drain`` seconds more, then close; a second time changes nothing."""
    return ended(inbox_id, "close", drain)


def ended(inbox_id: str, verb: str, drain: float | None) -> Call[wire.Inbox]:
    """Return a call after which an inbox takes no mail, at once or in a while."""
    return Call(
        method="POST",
        path=path("inboxes", inbox_id, verb),
        answer=wire.Inbox,
        body=wire.CloseInbox(drain=drain),
        repeatable=True,
    )


class Inbox(Room[When]):
    """An inbox as it was when it was made or found, with verbs of its own."""

    id: Field[str] = Field()
    email: Field[str] = Field()
    attempt_id: Field[str | None] = Field()
    label: Field[str] = Field()
    state: Field[InboxState] = Field()
    created_at: Field[int] = Field()
    active_until: Field[int | None] = Field()
    drains_until: Field[int | None] = Field()
    ended_at: Field[int | None] = Field()
    cursor: Field[int] = Field()
    metadata: Field[dict[str, str]] = Field()
    policy: Field[wire.Policy] = Field()
    rotated_from: Field[str | None] = Field()
    rotated_to: Field[str | None] = Field()
    created: Field[bool] = Field()

    wait_for_code = Deed(waiting.wait_for_code)
    wait_for_link = Deed(waiting.wait_for_link)
    close = Deed(close)
    messages = Reading(messages.of_inbox)

    def __init__(self, carrier: Carrier, told: wire.MadeInbox) -> None:
        """Keep what the service told."""
        super().__init__(carrier)
        self.told = told

    def __eq__(self, other: object) -> bool:
        """Compare what the service told."""
        return isinstance(other, Inbox) and self.told == other.told

    def __hash__(self) -> int:
        """Go by the id."""
        return hash(self.told.id)

    def __repr__(self) -> str:
        """Show what the service told."""
        shown = ", ".join(
            f"{name}={value!r}" for name, value in msgspec.structs.asdict(self.told).items()
        )
        return f"Inbox({shown})"


def in_hand(carrier: Carrier, making: Call[wire.MadeInbox]) -> Plan[Inbox[Any]]:
    """Make an inbox, as a plan that ends with it in the hand."""
    told: wire.MadeInbox = yield making
    return Inbox(carrier, told)


class Making(Generic[P]):
    """A method that returns an inbox in the hand, made from a function that describes a call."""

    def __init__(self, describe: Callable[P, Call[wire.MadeInbox]]) -> None:
        """Take the function; its parameters and its words become the method's."""
        self._describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]

    @overload
    def __get__(self, room: None, kind: type) -> "Making[P]": ...
    @overload
    def __get__(self, room: Room[Now], kind: type) -> Callable[P, Inbox[Now]]: ...
    @overload
    def __get__(
        self, room: Room[Later], kind: type
    ) -> Callable[P, Coroutine[Any, Any, Inbox[Later]]]: ...
    def __get__(self, room: Room[Any] | None, kind: type) -> Any:
        """Return the method of a room."""
        if room is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            carrier = room._carrier  # noqa: SLF001 - its own
            return carrier.carry(in_hand(carrier, self._describe(*args, **kwargs)))

        return update_wrapper(method, self._describe)
