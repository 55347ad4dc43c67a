"""A real service on a free port, in a thread of its own, so that sync and async can call it."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from oncebox.box import Oncebox
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.deliveries.delivery import Accepted
from oncebox.service import Role, Service, ServiceStarted
from oncebox.settings import HttpSettings, RetrySettings, SmtpSettings, WaitSettings, WorkerSettings
from tests.support.databases import Place
from tests.support.program import settings

T = TypeVar("T")


@dataclass
class Running:
    """A service that answers."""

    place: Place
    folder: Path
    port: int = 0
    url: str = ""
    #: where it receives mail, such as ``127.0.0.1:2525``
    smtp: str = ""
    #: an admin key of the home tenant
    key: str = ""
    role: Role = Role.EDGE
    box: Oncebox = field(init=False)
    _loop: asyncio.AbstractEventLoop = field(init=False)
    _service: Service = field(init=False)
    _thread: threading.Thread = field(init=False)

    def start(self) -> None:
        """Start in a thread; return when clients can connect."""
        up = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(up,), name="service", daemon=True)
        self._thread.start()
        assert up.wait(30)
        assert self.url, "the service did not start"

    def stop(self) -> None:
        """Stop it, as a signal would."""
        self._loop.call_soon_threadsafe(self._service.stop)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def accept(self, source: str, key: str, **rest: Any) -> Accepted:
        """Take a delivery in."""
        return self.call(self.box.accept(source, key=key, **rest))

    def _run(self, up: threading.Event) -> None:
        try:
            asyncio.run(self._serve(up))
        finally:
            up.set()

    async def _serve(self, up: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self.box = Oncebox(
            settings=msgspec.structs.replace(
                settings(self.place),
                tenant=DEFAULT_TENANT,
                data_dir=str(self.folder),
                http=HttpSettings(port=self.port, stop_within=1),
                smtp=SmtpSettings(port=0, stop_within=1),
                worker=WorkerSettings(watchdog=0, lease=30),
                retry=RetrySettings(first_wait=0.01, longest_wait=0.01),
                waits=WaitSettings(lease=0.3),
            )
        )
        self._service = Service(self.box, self.role)

        def tell(started: ServiceStarted) -> None:
            self.url = started.url or ""
            self.smtp = started.smtp or ""
            self.port = int(self.url.rpartition(":")[2])
            self.key = started.key or self.key
            up.set()

        await self._service.run(tell)


@contextmanager
def running(place: Place, folder: Path, role: Role = Role.EDGE) -> Iterator[Running]:
    """Run a service."""
    service = Running(place, folder, role=role)
    service.start()
    try:
        yield service
    finally:
        service.stop()
