"""One LISTEN connection per process, in a thread that reconnects by itself."""

import asyncio
from contextlib import suppress
from threading import Event, Thread

import psycopg

from oncebox.store.bell import Bell

_LOOK_EVERY = 0.5
_RECONNECT_EVERY = 0.5


class Listener:
    """Rings the process's bell whenever the server notifies; losing it costs only speed."""

    def __init__(self, url: str, bell: Bell) -> None:
        """Start listening."""
        self._url = url
        self._bell = bell
        self._loop = asyncio.get_running_loop()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="oncebox-listener", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop listening."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(psycopg.Error):
                self._listen()
            self._stopping.wait(_RECONNECT_EVERY)

    def _listen(self) -> None:
        with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as connection:
            connection.execute("LISTEN oncebox")
            self._tell(self._bell.ring_all)  # something may have rung while nobody listened
            while not self._stopping.is_set():
                for notice in connection.notifies(timeout=_LOOK_EVERY, stop_after=1):
                    self._tell(self._bell.ring, notice.payload)

    def _tell(self, ring: object, *args: str) -> None:
        with suppress(RuntimeError):  # the loop has ended; so will we
            self._loop.call_soon_threadsafe(ring, *args)  # type: ignore[arg-type]
