"""The server: listens for SMTP, knows its connections, and stops without losing a mail."""

import asyncio
import resource
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from oncebox.config import SmtpSettings
from oncebox.edge.smtp.connection import Connection, Directory, Office, Post
from oncebox.edge.smtp.rules import Rules
from oncebox.edge.smtp.spool import Spool
from oncebox.edge.smtp.watch import Watch
from oncebox.errors import ConfigInvalid
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
        tls = certificate(settings)
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
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to receive; when this returns, a client can connect."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            server = await loop.create_server(
                lambda: Connection(self._office), sock=each, backlog=_BACKLOG
            )
            self._servers.append(server)
        self._watching = asyncio.create_task(self._watch.run())

    async def stop(self) -> None:
        """Take no more connections, let mails under way finish for a while, end the rest."""
        if self._watching is None:
            return
        for server in self._servers:
            server.close()
        await self._watch.stop()
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
        self._watching = None
        self._spool.close()

    async def __aenter__(self) -> Self:
        """Begin to receive."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()


def certificate(settings: SmtpSettings) -> ssl.SSLContext | None:
    """Return what STARTTLS shows, if there is a certificate.

    Raises: ConfigInvalid.
    """
    if not settings.tls_certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    except (OSError, ValueError) as error:
        message = (
            "the certificate for STARTTLS cannot be used; check smtp.tls_certificate and "
            f"smtp.tls_key: {type(error).__name__}"
        )
        raise ConfigInvalid(message) from error
    return context


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
