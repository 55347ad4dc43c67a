"""Deliveries: what came in, what became of it, and the work that is fetched from it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, overload

from oncebox.client import pull
from oncebox.client.call import Call, paged, path
from oncebox.client.claiming import claim
from oncebox.client.room import Carrier, Later, Listing, Now, Room, Verb, When
from oncebox.client.shift import Shift, worker_name
from oncebox.client.work import AsyncWork, Work
from oncebox.model.delivery import State
from oncebox.wire import deliveries as wire

_ALL = path("deliveries")

Words = Mapping[str, Literal["done", "not_done"]]


def list_(
    *, state: State | str | None = None, source: str | None = None
) -> Call[wire.DeliveryPage]:
    """Go through deliveries, newest first."""
    return page(state=state, source=source)


def page(
    *,
    state: State | str | None = None,
    source: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[wire.DeliveryPage]:
    """Return some deliveries, newest first."""
    return paged(
        wire.DeliveryPage,
        _ALL,
        wire.DeliveryQuery,
        state=state,
        source=source,
        limit=limit,
        cursor=cursor,
    )


def inspect(
    id: str,  # noqa: A002 - the word users know
    *,
    payload: bool = False,
) -> Call[wire.Inspection]:
    """Return everything known of a delivery, with what arrived if ``payload`` is wanted."""
    return Call(
        method="GET",
        path=path("deliveries", id),
        answer=wire.Inspection,
        query=wire.InspectQuery(payload=payload),
        repeatable=True,
    )


def replay(
    id: str,  # noqa: A002 - as above
    *,
    why: str,
    effects: Words | None = None,
    dry_run: bool = False,
) -> Call[wire.Replayed]:
    """Run a done or dead delivery again; effects that are done stay done.

    ``effects`` is your word on those in doubt.
    """
    return _brought_back(id, "replay", why, effects, dry_run=dry_run)


def release(
    id: str,  # noqa: A002 - as above
    *,
    why: str,
    effects: Words | None = None,
    dry_run: bool = False,
) -> Call[wire.Replayed]:
    """Let a held delivery run; ``effects`` is your word on those in doubt."""
    return _brought_back(id, "release", why, effects, dry_run=dry_run)


def hold(id: str, *, why: str) -> Call[wire.Delivery]:  # noqa: A002 - as above
    """Keep a waiting delivery from running."""
    return Call(
        method="POST",
        path=path("deliveries", id, "hold"),
        answer=wire.Delivery,
        body=wire.Hold(why=why),
    )


def _brought_back(
    id_: str, verb: str, why: str, effects: Words | None, *, dry_run: bool
) -> Call[wire.Replayed]:
    return Call(
        method="POST",
        path=path("deliveries", id_, verb),
        answer=wire.Replayed,
        body=wire.Replay(why=why, effects=dict(effects or {}), dry_run=dry_run),
        repeatable=dry_run,  # a second real one would run the delivery a second time
    )


class Deliveries(Room[When]):
    """``client.deliveries``."""

    def __init__(self, carrier: Carrier) -> None:
        """Have verbs carried out by this carrier."""
        super().__init__(carrier)
        self.effects: pull.Effects[When] = pull.Effects(carrier)

    list = Listing(list_)
    page = Verb(page)
    inspect = Verb(inspect)
    replay = Verb(replay)
    hold = Verb(hold)
    release = Verb(release)
    claim = Verb(claim)
    heartbeat = Verb(pull.heartbeat)
    complete = Verb(pull.complete)
    fail = Verb(pull.fail)

    @overload
    def work(
        self: "Deliveries[Now]",
        *sources: str,
        lease: float | None = None,
        time_limit: float = 300,
        idle: float | None = None,
        worker: str | None = None,
    ) -> Iterator[Work]: ...
    @overload
    def work(
        self: "Deliveries[Later]",
        *sources: str,
        lease: float | None = None,
        time_limit: float = 300,
        idle: float | None = None,
        worker: str | None = None,
    ) -> AsyncIterator[AsyncWork]: ...
    def work(
        self,
        *sources: str,
        lease: float | None = None,
        time_limit: float = 300,
        idle: float | None = None,
        worker: str | None = None,
    ) -> Any:
        """Fetch one delivery after another of these sources, or of all the key may work on.

        Each is used in a ``with`` block, which keeps its lease alive for up to ``time_limit``
        seconds and tells the service how it ended. With ``idle``, ends after so many seconds
        without work; else it waits for ever, also for a service that is away for a while.
        """
        shift = Shift(
            sources=sources,
            lease=lease,
            time_limit=time_limit,
            idle=idle,
            worker=worker or worker_name(),
        )
        return self._carrier.work(shift)
