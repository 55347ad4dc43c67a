"""Replies after a commit: of all its mails together, when the next commit may begin."""

import asyncio
from typing import Any, cast

from oncebox.core.metrics import Telemetry
from oncebox.errors import StoreUnavailable
from oncebox.server.smtp.connection import SmtpConnection, SmtpConnections
from oncebox.settings import SmtpSettings


class Waiting:
    """A connection whose mail is being committed."""

    def __init__(self, *, fails: bool = False) -> None:
        self.replies: list[Exception | None] = []
        self.aborted = False
        self._fails = fails

    def reply(self, error: Exception | None) -> None:
        if self._fails:
            raise RuntimeError("canary")
        self.replies.append(error)

    def abort(self) -> None:
        self.aborted = True


def _end(connections: SmtpConnections, waiting: Waiting, error: Exception | None = None) -> None:
    connections.reply_later(cast("SmtpConnection", cast("Any", waiting)), error)


async def test_the_replies_of_a_commit_are_written_after_whoever_ended_it_has_gone_on() -> None:
    connections = SmtpConnections(SmtpSettings(), Telemetry())
    one, other, failure = Waiting(), Waiting(), StoreUnavailable("no")
    _end(connections, one)
    _end(connections, other, failure)
    before = (list(one.replies), list(other.replies))
    await asyncio.sleep(0)

    assert before == ([], [])
    assert (one.replies, other.replies) == ([None], [failure])


async def test_a_connection_that_fails_keeps_no_other_from_its_reply() -> None:
    connections = SmtpConnections(SmtpSettings(), Telemetry())
    broken, sound = Waiting(fails=True), Waiting()
    _end(connections, broken)
    _end(connections, sound)
    await asyncio.sleep(0)

    assert broken.aborted
    assert sound.replies == [None]
