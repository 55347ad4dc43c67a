"""Base of the scripted servers: fault scripts; listening in a thread or the running loop."""

import asyncio
import ssl
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

Fault = TypeVar("Fault")

_MAX_LINE_BYTES = 1 << 20
_STOP_TIMEOUT = 10.0


class FaultScript(Generic[Fault]):
    """Faults in the order in which they happen; without any, nothing goes wrong. Thread-safe."""

    def __init__(self, parse: Callable[[str], Fault]) -> None:
        self._parse = parse
        self._faults: deque[Fault] = deque()
        self._repeated: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, *faults: Fault | str) -> None:
        """Let these happen next, one after the other."""
        with self._lock:
            self._faults.extend(map(self._to_fault, faults))

    def always(self, *faults: Fault | str) -> None:
        """Let these happen whenever no other is due; none: nothing goes wrong."""
        with self._lock:
            self._repeated = list(map(self._to_fault, faults))

    def take(self, applies: Callable[[Fault], bool] = lambda _: True) -> Fault | None:
        """Return the fault that happens now, if it applies."""
        with self._lock:
            if self._faults:
                return self._faults.popleft() if applies(self._faults[0]) else None
            return next(filter(applies, self._repeated), None)

    @property
    def is_over(self) -> bool:
        """Whether every added fault has happened."""
        with self._lock:
            return not self._faults

    def _to_fault(self, given: Fault | str) -> Fault:
        return self._parse(given) if isinstance(given, str) else given


class LoopbackServer(ABC):
    """Listens in a block and serves each client in its own task; port 0 takes any free port."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.host = host
        self.port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: OSError | None = None

    @abstractmethod
    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one client."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, self.host, self.port, limit=_MAX_LINE_BYTES, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None  # noqa: S101 - it was entered
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._server.wait_closed()

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name=type(self).__name__, daemon=True
        )
        self._thread.start()
        if not ready.wait(_STOP_TIMEOUT) or self._loop is None:
            raise OSError(
                f"no server could be started on {self.host}:{self.port}"
            ) from self._failure
        return self

    def __exit__(self, *error: object) -> None:
        assert self._loop and self._stop and self._thread  # noqa: PT018, S101 - it was entered
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_TIMEOUT)

    async def _serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        try:
            async with self:
                self._loop = asyncio.get_running_loop()
                ready.set()
                await self._stop.wait()
        except OSError as error:
            self._failure = error
            ready.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.get_running_loop().create_task(self._run_client(reader, writer))
        self._clients.add(client)
        client.add_done_callback(self._clients.discard)

    async def _run_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.handle_client(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
