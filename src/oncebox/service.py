"""``Service``: runs one box in one role, with HTTP and SMTP in front of it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from oncebox.box import Oncebox
from oncebox.core import clock
from oncebox.errors import ListenAddressUnavailable
from oncebox.ledger.admin import api_keys
from oncebox.server.http.http_server import HttpServer, is_taken, listen
from oncebox.wiring import Interceptor, build_http_handlers, build_smtp_server, load_server
from oncebox.workers.maintenance.backlog_gauges import BacklogGauges
from oncebox.workers.maintenance.mailbox_gauges import MailboxGauges
from oncebox.workers.maintenance.sweeper import InboxExpirer, Sweeper
from oncebox.workers.process.child_control import Watchdog

if TYPE_CHECKING:
    from oncebox.server.smtp.smtp_server import SmtpServer


#: how to choose another address
_HTTP_REMEDY = "--port, or http.host and http.port"
_SMTP_REMEDY = "smtp.host and smtp.port, or smtp.enabled = false"
#: seconds in which a port may become free: an earlier service drains before it stops
_FREED_WITHIN = 3.0
_BIND_POLL = 0.1


class Role(StrEnum):
    """What one process does; any number of each may share a PostgreSQL database."""

    #: serve HTTP, receive, read and send mail, run the handlers, number events, sweep
    ALL = "all"
    #: serve HTTP and receive mail only
    EDGE = "edge"
    #: read and send mail, run the handlers, number events, sweep
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class ServiceStarted:
    """Addresses and credentials of a service that has started."""

    #: where it serves HTTP; none for a worker
    url: str | None = None
    #: where it receives mail, such as ``127.0.0.1:2525``; none for a worker
    smtp: str | None = None
    #: the file with a key for this user's own programs
    credentials: Path | None = None
    #: the first key, if this start created it
    key: str | None = None

    def __repr__(self) -> str:  # without the key
        return f"ServiceStarted(url={self.url!r})"


class Service:
    """Runs one box in one role."""

    def __init__(self, box: Oncebox, role: Role, interceptor: Interceptor | None = None) -> None:
        """Open nothing before ``run``; only test mode has an ``interceptor``."""
        self._box = box
        self._interceptor = interceptor
        if interceptor is not None:
            box.judge_link = interceptor.judge_link
        self._role = role
        self._stopping = asyncio.Event()
        self._server: HttpServer | None = None
        self._smtp: SmtpServer | None = None

    def stop(self) -> None:
        """Ask the service to finish what it does and end."""
        self._stopping.set()

    def drain(self) -> None:
        """Stop after ``http.drain``; until then requests are served, and ``/readyz`` fails."""
        seconds = 0.0 if self._server is None else self._box.settings.http.drain
        if not seconds:
            self.stop()
            return
        self._box.components.is_draining = True
        self._box.telemetry.log.info("service_draining", seconds=seconds)
        asyncio.get_running_loop().call_later(seconds, self.stop)

    async def run(self, tell: Callable[[ServiceStarted], None]) -> None:
        """Serve until ``stop``; call ``tell`` once clients can connect.

        Raises: ListenAddressUnavailable, ConfigInvalid, StoreError.
        """
        with ExitStack() as stack:
            # Bound first: a port that is taken is the most common error.
            http, smtp = await self._bind(stack)
            try:
                await self._open_box()
                started = await self._prepare(http, smtp)
                await self._start_servers(http, smtp)
                await self._run_until_stopped(lambda: tell(started))
            finally:
                await self._box.close()

    async def _open_box(self) -> None:
        """Open the box; meanwhile, import the servers."""
        if self._role is Role.WORKER:
            await self._box.open()
            return
        loading = asyncio.create_task(asyncio.to_thread(load_server))
        try:
            await self._box.open()
        finally:
            await loading

    async def _bind(self, stack: ExitStack) -> tuple[list[socket], list[socket]]:
        """Return the sockets for HTTP and for SMTP."""
        if self._role is Role.WORKER:
            return [], []
        settings = self._box.settings
        host, port, remedy = settings.http.host, settings.http.port, _HTTP_REMEDY
        http = [stack.enter_context(each) for each in await self._listen(host, port, remedy)]
        if not settings.smtp.enabled:
            return http, []
        host, port, remedy = settings.smtp.host, settings.smtp.port, _SMTP_REMEDY
        smtp = [stack.enter_context(each) for each in await self._listen(host, port, remedy)]
        return http, smtp

    async def _listen(self, host: str, port: int, remedy: str) -> list[socket]:
        """Listen; a port that is taken is tried again, since an earlier service may be stopping."""
        until = clock.steady() + _FREED_WITHIN
        while True:
            try:
                return listen(host, port)
            except ListenAddressUnavailable as error:
                is_over = self._stopping.is_set() or clock.steady() >= until
                if is_over or not is_taken(error):
                    raise ListenAddressUnavailable(f"{error} ({remedy})") from error
            await asyncio.sleep(_BIND_POLL)

    async def _start_servers(self, http: list[socket], smtp: list[socket]) -> None:
        """Begin to answer."""
        components, settings = self._box.components, self._box.settings
        if http:
            app, webhooks = build_http_handlers(
                components, self._stopping, self._mcp_app, self._interceptor
            )
            self._server = HttpServer(app, http, settings.http, self._box.telemetry, webhooks)
            await self._server.start()
        if smtp:
            self._smtp = build_smtp_server(components, smtp, self._interceptor)
            await self._smtp.start()

    def _mcp_app(self, api: Any) -> Any:
        """Return the MCP application; imported here, because that takes a second."""
        from oncebox.mcp.dispatch import check_installed  # noqa: PLC0415

        check_installed()
        from oncebox.mcp.http_app import McpHttpApp  # noqa: PLC0415

        return McpHttpApp(api, self._stopping)

    async def _prepare(self, http: list[socket], smtp: list[socket]) -> ServiceStarted:
        """Create the first key, if there is none; return the addresses."""
        if not http:
            return ServiceStarted()
        components, settings = self._box.components, self._box.settings
        url = f"http://{_local_address(settings.http.host, http)}"
        mail = _local_address(settings.smtp.host, smtp) if smtp else None
        if self._interceptor is not None:
            await self._interceptor.begin(components, mail)
        first = await api_keys.ensure_first_key(
            components.database, settings.folder, tenant=settings.tenant, url=url
        )
        if not first.known:
            self._box.telemetry.log.warning("credentials_mismatched", file=str(first.path))
            return ServiceStarted(url=url, smtp=mail)
        key = first.credentials.key if first.new else None
        return ServiceStarted(url=url, smtp=mail, credentials=first.path, key=key)

    async def _run_until_stopped(self, tell: Callable[[], None]) -> None:
        """Run all tasks until ``stop``, or until one of them fails."""
        working = [asyncio.create_task(self._box.work())] if self.runs_workers else []
        background = [asyncio.create_task(each) for each in self._background_tasks()]
        stopped = asyncio.create_task(self._stopping.wait())
        everything = {*working, *background, stopped}
        try:
            tell()
            done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()  # a task that failed ends the others
        finally:
            self._stopping.set()
            self._box.stop_working()
            servers = [each.stop() for each in (self._server, self._smtp) if each is not None]
            await asyncio.gather(*servers)
            if self._interceptor is not None:
                await self._interceptor.end()
            for each in (*background, stopped):
                each.cancel()
            await asyncio.gather(*everything, return_exceptions=True)

    @property
    def runs_workers(self) -> bool:
        """Whether this process runs workers."""
        return self._role is not Role.EDGE

    def _background_tasks(self) -> Iterator[Coroutine[Any, Any, None]]:
        components, telemetry = self._box.components, self._box.telemetry
        settings, ledger = self._box.settings, components.ledger
        if not self.runs_workers:  # ``Oncebox.work`` has its own watchdog and gauges
            yield _watch_forever(Watchdog(telemetry, limit=settings.worker.watchdog))
            yield BacklogGauges(ledger, telemetry).run()
            written = components.mailbox_service.written
            yield MailboxGauges(ledger, telemetry, written).run()
        else:
            yield InboxExpirer(ledger, telemetry, draining=components.inboxes.draining).run()
            events, keep = settings.events, settings.retention
            yield Sweeper(ledger, components.sources, telemetry, events=events, keep=keep).run()


async def _watch_forever(watchdog: Watchdog) -> None:
    """Watch until cancelled, also if the watchdog is switched off."""
    await watchdog.watch()
    await asyncio.Event().wait()


def _local_address(host: str, sockets: list[socket]) -> str:
    """Return the address for clients on this machine."""
    port = sockets[0].getsockname()[1]
    try:
        address = ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if address.is_unspecified:
        host = "127.0.0.1" if isinstance(address, IPv4Address) else "::1"
    return f"{host}:{port}" if isinstance(address, IPv4Address) else f"[{host}]:{port}"
