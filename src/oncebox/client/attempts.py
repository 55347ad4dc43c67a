"""Attempts: what an agent does once, and how often it asks for its mail again."""

from typing import Any, Literal

from oncebox.client.call import Call, creating, path
from oncebox.client.room import Room, Verb, When
from oncebox.wire import attempts as wire


def begin(
    attempt_id: str,
    name: str,
    *,
    safe: Literal["idempotent", "once", "verify"] = "once",
    lease: float | None = None,
    window: float = 86_400,
    request_key: str | None = None,
) -> Call[wire.BegunAction]:
    """Begin an action, or learn how it stands.

    Give each begin a ``request_key`` of its own: then it may be sent again when no answer came.
    """
    body = wire.BeginAction(safe=safe, lease=lease, window=window, request_key=request_key)
    return Call(
        method="POST",
        path=_at(attempt_id, name),
        answer=wire.BegunAction,
        body=body,
        repeatable=request_key is not None,
    )


def done(attempt_id: str, name: str, fence: int, result: Any = None) -> Call[wire.Action]:
    """Say that an action happened, and what to give to repeats; late is not too late."""
    body = wire.DoneAction(fence=fence, result=result)
    return _said(_at(attempt_id, name, "done"), body)


def not_done(attempt_id: str, name: str, fence: int) -> Call[wire.Action]:
    """Say that an action did not happen, so that it may begin again.

    Raises: LeaseLost.
    """
    return _said(_at(attempt_id, name, "not-done"), wire.EndAction(fence=fence))


def heartbeat(
    attempt_id: str, name: str, fence: int, *, lease: float | None = None
) -> Call[wire.Action]:
    """Keep an action for ``lease`` seconds from now.

    Raises: LeaseLost.
    """
    body = wire.HeartbeatAction(fence=fence, lease=lease)
    return _said(_at(attempt_id, name, "heartbeat"), body)


def resend(attempt_id: str, *, idempotency_key: str | None = None) -> Call[wire.Resend]:
    """Get leave to ask for the mail again.

    Raises: ResendsUsedUp.
    """
    where = path("attempts", attempt_id, "resend")
    return creating(wire.Resend, where, wire.NewResend(), idempotency_key)


def stats(attempt_id: str) -> Call[wire.AttemptStats]:
    """Return what came of all inboxes of an attempt, and what it did."""
    return Call(
        method="GET",
        path=path("attempts", attempt_id, "stats"),
        answer=wire.AttemptStats,
        repeatable=True,
    )


def _said(
    where: str, body: wire.DoneAction | wire.EndAction | wire.HeartbeatAction
) -> Call[wire.Action]:
    return Call(method="POST", path=where, answer=wire.Action, body=body, repeatable=True)


def _at(attempt_id: str, name: str, *verb: str) -> str:
    return path("attempts", attempt_id, "actions", name, *verb)


class Attempts(Room[When]):
    """``client.attempts``; ``client.attempt(…)`` is the handle of one."""

    begin = Verb(begin)
    done = Verb(done)
    not_done = Verb(not_done)
    heartbeat = Verb(heartbeat)
    resend = Verb(resend)
    stats = Verb(stats)
