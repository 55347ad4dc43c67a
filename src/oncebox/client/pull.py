"""Work that is fetched: what a worker says about its claims, all of it fenced and repeatable."""

from typing import Any, Literal

from oncebox.client.call import Call, path
from oncebox.client.room import Room, Verb, When
from oncebox.wire import pull as wire
from oncebox.wire.deliveries import Effect


def heartbeat(
    id: str,  # noqa: A002 - the word users know
    fence: int,
    *,
    lease: float | None = None,
) -> Call[wire.Leased]:
    """Keep a claim for ``lease`` seconds from now.

    Raises: LeaseLost.
    """
    body = wire.Heartbeat(fence=fence, lease=lease)
    return Call(
        method="POST", path=_at(id, "heartbeat"), answer=wire.Leased, body=body, repeatable=True
    )


def complete(id: str, fence: int) -> Call[wire.Ended]:  # noqa: A002 - as above
    """Say that a delivery is done.

    Raises: LeaseLost.
    """
    body = wire.Complete(fence=fence)
    return Call(
        method="POST", path=_at(id, "complete"), answer=wire.Ended, body=body, repeatable=True
    )


def fail(
    id: str,  # noqa: A002 - as above
    fence: int,
    error: str,
    *,
    permanent: bool = False,
    retry_after: float | None = None,
) -> Call[wire.Ended]:
    """Say that a try failed: it is repeated, not before ``retry_after`` seconds, or given up.

    Raises: LeaseLost.
    """
    body = wire.Fail(fence=fence, error=error, permanent=permanent, retry_after=retry_after)
    return Call(method="POST", path=_at(id, "fail"), answer=wire.Ended, body=body, repeatable=True)


def begin(
    id: str,  # noqa: A002 - as above
    name: str,
    fence: int,
    *,
    safe: Literal["idempotent", "once", "verify"] = "once",
    timeout: float = 20,
    window: float = 86_400,
) -> Call[wire.BegunEffect]:
    """Journal a side effect before it happens; learn whether it happened before.

    Raises: LeaseLost.
    """
    body = wire.BeginEffect(fence=fence, safe=safe, timeout=timeout, window=window)
    where = _at(id, "effects", name)
    return Call(method="POST", path=where, answer=wire.BegunEffect, body=body, repeatable=True)


def finish(  # noqa: PLR0913 - what, its name, how it ended, and which start is meant
    id: str,  # noqa: A002 - as above
    name: str,
    fence: int,
    state: Literal["done", "not_done", "unknown"],
    *,
    result: Any = None,
    error: str | None = None,
    started_at: int | None = None,
) -> Call[Effect]:
    """Journal how a side effect ended; return what the journal says now.

    Other than done, it is said of the start that ``started_at`` names, else of this claim's own.
    """
    body = wire.FinishEffect(
        fence=fence, state=state, result=result, error=error, started_at=started_at
    )
    where = _at(id, "effects", name)
    return Call(method="PUT", path=where, answer=Effect, body=body, repeatable=True)


def _at(id_: str, *parts: str) -> str:
    return path("deliveries", id_, *parts)


class Effects(Room[When]):
    """``client.deliveries.effects``."""

    begin = Verb(begin)
    finish = Verb(finish)
