"""The server: listens for SMTP, knows its connections, and stops without losing a mail."""

import asyncio
import resource
import socket
from pathlib import Path
from typing import Self

import msgspec

from oncebox.config import SmtpSettings
from oncebox.edge.smtp.certificate import Certificate
from oncebox.edge.smtp.connection import Connection
from oncebox.edge.smtp.office import Directory, Office, Post
from oncebox.edge.smtp.rules import Rules
from oncebox.edge.smtp.spool import Spool
from oncebox.edge.smtp.watch import Watch
from oncebox.telemetry import Telemetry

_BACKLOG = 1024
#: what a connection may have open: its socket and its spool file
_FILES_EACH = 2


class SmtpServer:
    """Receives mail until stopped: ``async with SmtpServer(…)``."""

    def __init__(
        self,
        sockets: list[socket.socket],
        settings: SmtpSettings,
        telemetry: Telemetry,
        *,
        directory: Directory,
        post: Post,
        folder: Path,
    ) -> None:
        """Prepare; nobody is greeted before ``start``. Large mails pass through ``folder``.

        Raises: ConfigInvalid, if the certificate cannot be used.
        """
        settings = _within_files(settings)
        tls = Certificate(settings, telemetry) if settings.tls_certificate else None
        self._sockets = sockets
        self._watch = Watch(settings, telemetry)
        self._spool = Spool(folder, in_memory=settings.committing)
        self._office = Office(
            rules=Rules.of(settings, _hostname(settings), starttls=tls is not None),
            watch=self._watch,
            directory=directory,
            post=post,
            spool=self._spool,
            telemetry=telemetry,
            tls=tls,
        )
        self._servers: list[asyncio.Server] = []
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to receive; when this returns, a client can connect."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            server = await loop.create_server(
                lambda: Connection(self._office), sock=each, backlog=_BACKLOG
            )
            self._servers.append(server)
        self._watching.append(asyncio.create_task(self._watch.run()))
        if self._office.tls is not None:
            self._watching.append(asyncio.create_task(self._office.tls.watch()))

    async def stop(self) -> None:
        """Take no more connections, let mails under way finish for a while, end the rest."""
        if not self._watching:
            return
        for server in self._servers:
            server.close()
        await self._watch.stop()
        for each in self._watching:
            each.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._watching = []
        self._spool.close()

    async def __aenter__(self) -> Self:
        """Begin to receive."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()


def _hostname(settings: SmtpSettings) -> str:
    return settings.hostname or socket.gethostname() or "localhost"


def _within_files(settings: SmtpSettings) -> SmtpSettings:
    """Open as many files as the system allows beyond those of others, and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections * _FILES_EACH
    if soft == resource.RLIM_INFINITY:
        return settings
    most = soft + wanted if hard == resource.RLIM_INFINITY else min(soft + wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    room = max(most - soft, soft // 4) // _FILES_EACH
    return msgspec.structs.replace(settings, connections=max(1, min(settings.connections, room)))
