# Generated from oncebox/client/asynchronous/polls.py by `make sync-client`; do not edit.
"""`PolledMessage`, and the messages of a `Poller`'s loop."""

from collections.abc import Iterator
from math import inf

from oncebox.client.core.polling import PollLoop
from oncebox.client.sync.deliveries import Work
from oncebox.client.sync.runner import Heartbeats, SyncRunner


class PolledMessage(Work):
    """One message of a ``Poller``: it is done when the next one is asked for.

    ``with message: …`` is possible too: an error of the block fails this message, which is
    handed out again later, and the loop goes on.
    """

    in_loop = True

    def done(self) -> None:
        """Confirm the message now, for example before ``break``.

        Raises: LeaseLost, if another loop has it by now.
        """
        self._run(self._settle_in_loop())


def poll_messages(runner: SyncRunner, loop: PollLoop) -> Iterator[PolledMessage]:
    """Yield the messages of a loop, each once it is leased; confirm it when the next is asked for.

    If the loop is left in another way, its message fails and the mailbox is given back, at the
    latest when the client is closed.
    """
    heartbeats = Heartbeats(runner)
    runner.endings.add(loop.end)
    heartbeats.start(loop.heartbeats())
    try:
        while (claimed := runner.run(loop.next())) is not None:
            message = PolledMessage(runner, claimed, inf)
            loop.hand_out(message, message._settle_in_loop)
            yield message
            runner.run(loop.confirm())
    finally:
        heartbeats.stop()
        runner.run(loop.end())
        runner.endings.discard(loop.end)
