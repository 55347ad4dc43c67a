"""Rooms of the client: verbs that are described once and serve both clients.

A room of the sync client is a ``Room[Now]``: its verbs return results. A room of the async
client is a ``Room[Later]``: the same verbs return something to await. Both know only how to
carry out what a verb describes.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from oncebox.client.call import Call, Plan
from oncebox.client.following import Following
from oncebox.client.shift import Shift
from oncebox.client.tail import Tail

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
When = TypeVar("When", bound="Now | Later")


class Now:
    """Marks rooms whose verbs return results."""


class Later:
    """Marks rooms whose verbs return something to await."""


class Carrier(Protocol):
    """Carries out what a verb describes, now or later."""

    def carry(self, what: Call[Any] | Plan[Any]) -> Any:
        """Return what comes of a call or a plan, or something to await for it."""

    def pages(self, first: Call[Any]) -> Any:
        """Return an iterator over a list, sync or async, fetching its pages as they are read."""

    def tail(self, tail: Tail[Any, Any]) -> Any:
        """Return an iterator over a list that grows, sync or async."""

    def work(self, shift: Shift) -> Any:
        """Return an iterator over work, sync or async, fetching it as it is wanted."""

    def follow(self, following: Following) -> Any:
        """Return an iterator over events, sync or async, as they happen."""


class Room(Generic[When]):
    """A group of verbs."""

    def __init__(self, carrier: Carrier) -> None:
        """Have verbs carried out by this carrier."""
        self._carrier = carrier


class PageOf(Protocol[T_co]):
    """A part of a list."""

    @property
    def data(self) -> Sequence[T_co]:
        """What is in it."""


class Verb(Generic[P, T]):
    """A method made from a function that describes a call or a plan."""

    @overload
    def __init__(self, describe: Callable[P, Call[T]]) -> None: ...
    @overload
    def __init__(self, describe: Callable[P, Plan[T]]) -> None: ...
    def __init__(self, describe: Callable[P, Any]) -> None:
        """Take the function; its parameters and its words become the method's."""
        self._describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]

    @overload
    def __get__(self, room: None, kind: type) -> "Verb[P, T]": ...
    @overload
    def __get__(self, room: Room[Now], kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, room: Room[Later], kind: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, room: Room[Any] | None, kind: type) -> Any:
        """Return the method of a room."""
        if room is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return room._carrier.carry(self._describe(*args, **kwargs))  # noqa: SLF001 - its own

        return update_wrapper(method, self._describe)


class _Iterating(Generic[P, T]):
    """A method that returns an iterator, made from a function that describes what it is over."""

    def __init__(self, describe: Callable[P, Any]) -> None:
        """Take the function; its parameters and its words become the method's."""
        self._describe = describe
        update_wrapper(self, describe)  # type: ignore[arg-type]

    @overload
    def __get__(self, room: None, kind: type) -> Self: ...
    @overload
    def __get__(self, room: Room[Now], kind: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, room: Room[Later], kind: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, room: Room[Any] | None, kind: type) -> Any:
        """Return the method of a room."""
        if room is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return self._carried(room._carrier, self._describe(*args, **kwargs))  # noqa: SLF001 - its own

        return update_wrapper(method, self._describe)

    def _carried(self, carrier: Carrier, described: Any) -> Any:
        raise NotImplementedError


class Listing(_Iterating[P, T]):
    """A method that goes through a list, made from a function that describes its first page."""

    def __init__(self, describe: Callable[P, Call[PageOf[T]]]) -> None:
        """Take the function."""
        super().__init__(describe)

    def _carried(self, carrier: Carrier, described: Any) -> Any:
        return carrier.pages(described)


class Tailing(_Iterating[P, T]):
    """A method that goes through a list that grows, made from a function that describes it."""

    def __init__(self, describe: Callable[P, Tail[Any, T]]) -> None:
        """Take the function."""
        super().__init__(describe)

    def _carried(self, carrier: Carrier, described: Any) -> Any:
        return carrier.tail(described)
