"""``once`` for handlers that are plain functions, which run in threads."""

import asyncio
from typing import Any, Unpack

from oncebox.model.asking import SendOptions
from oncebox.model.calling import Function
from oncebox.model.email import Email
from oncebox.wire.sends import SendAnswer
from oncebox.worker.once import Once


class SyncOnce:
    """``once`` for handlers that are plain functions."""

    def __init__(self, once: Once, loop: asyncio.AbstractEventLoop) -> None:
        """Speak to the loop from the handler's thread."""
        self._once = once
        self._loop = loop
        self.key = once.key
        self.enqueue = once.enqueue

    def do(self, name: str, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function at most once per delivery and name; see ``Once.do``."""
        return self._wait(self._once.do(name, function, *args, **kwargs))

    def transaction(self, name: str, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in our own database, truly once; see ``Once.transaction``."""
        return self._wait(self._once.transaction(name, function, *args, **kwargs))

    def send(
        self,
        email: Email,
        *,
        name: str | None = None,
        wait: float = 0.0,
        **options: Unpack[SendOptions],
    ) -> SendAnswer:
        """Send a mail once; see ``Once.send``."""
        answer: SendAnswer = self._wait(self._once.send(email, name=name, wait=wait, **options))
        return answer

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
