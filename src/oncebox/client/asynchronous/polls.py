"""`PolledMessage`, and the messages of a `Poller`'s loop."""

from collections.abc import AsyncIterator
from math import inf

from oncebox.client.asynchronous.deliveries import AsyncWork
from oncebox.client.asynchronous.runner import AsyncHeartbeats, AsyncRunner
from oncebox.client.core.polling import PollLoop


class AsyncPolledMessage(AsyncWork):
    """One message of a ``Poller``: it is done when the next one is asked for.

    ``async with message: …`` is possible too: an error of the block fails this message, which is
    handed out again later, and the loop goes on.
    """

    in_loop = True

    async def done(self) -> None:
        """Confirm the message now, for example before ``break``.

        Raises: LeaseLost, if another loop has it by now.
        """
        await self._run(self._settle_in_loop())


async def poll_messages(runner: AsyncRunner, loop: PollLoop) -> AsyncIterator[AsyncPolledMessage]:
    """Yield the messages of a loop, each once it is leased; confirm it when the next is asked for.

    If the loop is left in another way, its message fails and the mailbox is given back, at the
    latest when the client is closed.
    """
    heartbeats = AsyncHeartbeats(runner)
    runner.endings.add(loop.end)
    await heartbeats.start(loop.heartbeats())
    try:
        while (claimed := await runner.run(loop.next())) is not None:
            message = AsyncPolledMessage(runner, claimed, inf)
            loop.hand_out(message, message._settle_in_loop)
            yield message
            await runner.run(loop.confirm())
    finally:
        heartbeats.stop()
        await runner.run(loop.end())
        runner.endings.discard(loop.end)
