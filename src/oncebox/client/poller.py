"""`Poller`: duplicate-safe polling of any API, for programs that keep their own loop."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

from oncebox.client.core.listings import (
    ItemFunction,
    ItemFunctions,
    item_body,
    item_key,
    item_time,
)
from oncebox.client.core.polling import ListFunction, PollLoop, PollOptions
from oncebox.client.errors import PollMisused

if TYPE_CHECKING:
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.asynchronous.polls import AsyncPolledMessage
    from oncebox.client.sync import Client
    from oncebox.client.sync.polls import PolledMessage


class Box(Protocol):
    """An embedded ``Oncebox``."""

    def client(self) -> "AsyncClient":
        """Return a client of the box."""


class Poller:
    """Polls an API with a function of yours, and hands out each message once.

    ``async for message in Poller(list_fn, mailbox="support", store=AsyncClient())``; with a
    ``Client``, ``for``. The store is a client of a running service, or an opened ``Oncebox``.

    ``list_fn(cursor)`` returns items, or a tuple of items and the next cursor; the first cursor is
    None. With ``overlap``, it gets a time instead, and is asked for so many seconds before the
    newest message again. An item is a dict or an object with an ``id``; ``key``, ``body`` and
    ``time`` are functions of an item for other shapes. ``list_fn`` may take ``timeout``.

    One loop polls a mailbox at a time, over all processes; others wait, or raise ``MailboxInUse``
    with ``on_conflict="raise"``. A message is done when the next one is asked for. If the program
    dies before, it is handed out again; when it was done, never.

    All times are in seconds: ``interval`` between two lists that bring nothing new, ``within`` for
    the whole loop, ``timeout`` of one list, ``lease`` after which a program that died is replaced.

    Raises: PollMisused.
    """

    def __init__(  # noqa: PLR0913 - a loop has this many properties
        self,
        list_fn: ListFunction,
        *,
        mailbox: str,
        store: "AsyncClient | Client | Box",
        key: ItemFunction = item_key,
        body: ItemFunction = item_body,
        time: ItemFunction = item_time,
        interval: float = 10.0,
        within: float | None = None,
        overlap: float | None = None,
        timeout: float = 30.0,
        lease: float = 30.0,
        on_conflict: Literal["wait", "raise"] = "wait",
    ) -> None:
        self._store = store
        self._options = PollOptions(
            list_fn=list_fn,
            mailbox=mailbox,
            functions=ItemFunctions(key, body, time),
            interval=interval,
            within=within,
            overlap=overlap,
            timeout=timeout,
            lease=lease,
            on_conflict=on_conflict,
        )
        self._stopped = False

    def stop(self) -> None:
        """End the loop once its message is done, from any thread; it begins no more."""
        self._stopped = True

    def __aiter__(self) -> "AsyncIterator[AsyncPolledMessage]":
        """Poll; messages come as they are listed."""
        from oncebox.client.asynchronous import AsyncClient  # noqa: PLC0415 - or Client is used
        from oncebox.client.asynchronous.polls import poll_messages  # noqa: PLC0415

        store: Any = self._store
        if not isinstance(store, AsyncClient) and hasattr(store, "client"):
            store = store.client()
        if not isinstance(store, AsyncClient):
            raise PollMisused("this store is not async; use: for message in Poller(…)")
        runner = store._runner  # noqa: SLF001 - shared on purpose
        return poll_messages(runner, self.loop())

    def __iter__(self) -> "Iterator[PolledMessage]":
        """Poll; messages come as they are listed."""
        from oncebox.client.sync import Client  # noqa: PLC0415 - or AsyncClient is used
        from oncebox.client.sync.polls import poll_messages  # noqa: PLC0415

        if not isinstance(self._store, Client):
            raise PollMisused("this store is async; use: async for message in Poller(…)")
        runner = self._store._runner  # noqa: SLF001 - shared on purpose
        return poll_messages(runner, self.loop())

    def loop(self) -> PollLoop:
        """Return a new loop, for a runner of its plans."""
        return PollLoop(options=self._options, is_stopped=lambda: self._stopped)
