"""Crash points: labelled places where tests kill, stop, delay or fail the process.

Off unless ``ONCEBOX_FAULTS`` is set to ``name:nth:action`` (several with ``;``), where
action is ``kill``, ``stop``, ``raise`` or ``sleep=SECONDS``. Off costs one dict test.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

POINTS = frozenset({
    "accept.verified",
    "accept.written",
    "accept.committed",
    "worker.leased",
    "worker.settled-not-committed",
    "worker.committed-not-reported",
    "worker.renewing",
    "worker.dying",
    "poller.listed",
    "poller.body-done",
    "poller.confirmed",
    "parse.answered",
    "effect.started",
    "effect.done-not-recorded",
    "sequencer.numbered",
    "sequencer.committed",
    "smtp.after-354",
    "smtp.dot-seen",
    "smtp.spooled",
    "smtp.rows-written",
    "smtp.committed",
    "inbound.fetched",
    "inbound.rows-written",
    "inbound.committed",
    "mailboxes.fetched",
    "mailboxes.cursor-written",
    "mailboxes.mails-written",
    "mailboxes.stored",
    "endpoints.fanned-out",
    "endpoints.claimed",
    "endpoints.answered",
    "mail.claimed",
    "mail.parsed",
    "mail.filed",
    "mail.committed",
    "actions.begun-not-committed",
    "actions.begun",
    "actions.done-not-committed",
    "actions.done",
    "actions.resend-not-committed",
    "actions.resend",
    "artifacts.sealed",
    "artifacts.filed",
    "artifacts.claimed",
    "artifacts.granted",
    "sends.connected",
    "sends.body_drained",
    "sends.handed_over",
    "sends.reply_read",
    "sends.intent_committed",
    "sends.claimed",
    "sends.leased",
    "sends.marker_committed",
    "sends.result_committed",
    "upkeep.migrating",
    "migrate.batch-committed",
    "rotation.begun",
    "rotation.batch-committed",
    "rotation.key-file-placed",
    "upkeep.checkpointing",
    "backup.copied",
    "backup.packed",
    "restore.unpacked",
    "restore.ready",
    "restore.kept",
    "restore.placed",
})  # fmt: skip


class InjectedFault(Exception):
    """Raised at a point that a test armed with ``raise``."""


@dataclass(slots=True)
class _Armed:
    """How often a point is passed before it acts, and its action."""

    passes_left: int
    act: Callable[[], None]


_armed: dict[str, _Armed] = {}


def point(name: str) -> None:
    """Mark a crash point; does nothing unless a test armed it."""
    if _armed:
        _reach(name)


def arm(plan: str) -> None:
    """Arm the points named in a plan such as ``worker.leased:3:kill``."""
    for entry in filter(None, plan.split(";")):
        name, nth, action = entry.split(":")
        if name not in POINTS:
            raise ValueError(f"unknown fault point {name!r}; known: {', '.join(sorted(POINTS))}")
        _armed[name] = _Armed(int(nth), _action(action))


def disarm() -> None:
    """Forget every armed point."""
    _armed.clear()


def _reach(name: str) -> None:
    armed = _armed.get(name)
    if armed is None:
        return
    armed.passes_left -= 1
    if armed.passes_left == 0:
        armed.act()


def _action(text: str) -> Callable[[], None]:
    if text.startswith("sleep="):
        seconds = float(text.removeprefix("sleep="))
        return lambda: time.sleep(seconds)
    return {"kill": _kill, "stop": _stop, "raise": _raise}[text]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    # For this thread: sent to the process, another thread may take it while this one runs on.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _raise() -> None:
    raise InjectedFault


arm(os.environ.get("ONCEBOX_FAULTS", ""))
