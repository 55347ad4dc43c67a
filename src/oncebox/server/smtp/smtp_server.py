"""SMTP server: listens, and stops without losing a mail.

See docs/decisions/0023-use-a-sans-io-smtp-session-with-strict-line-endings.md.
"""

import asyncio
import resource
import socket
from functools import partial
from pathlib import Path
from typing import Self

import msgspec

from oncebox.core.metrics import Telemetry
from oncebox.server.smtp.connection import (
    MailStore,
    RecipientLookup,
    SmtpConnection,
    SmtpConnections,
    SmtpContext,
)
from oncebox.server.smtp.mail_limits import MailLimits
from oncebox.server.smtp.mail_spool import MailSpool
from oncebox.server.smtp.smtp_replies import SessionRules
from oncebox.server.smtp.tls import TlsCertificate
from oncebox.settings import SmtpSettings

_BACKLOG = 1024
#: descriptors of a connection: its socket and its spool file
_FILES_EACH = 2


class SmtpServer:
    """Receives mail until stopped: ``async with SmtpServer(…)``."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        sockets: list[socket.socket],
        settings: SmtpSettings,
        telemetry: Telemetry,
        *,
        directory: RecipientLookup,
        post: MailStore,
        folder: Path,
        mail_limits: MailLimits | None = None,
        auth: bool = False,
    ) -> None:
        """Prepare; large mails are spooled in ``folder``; ``auth``: any credentials are accepted.

        Raises: ConfigInvalid, if the certificate cannot be used.
        """
        settings = _limit_to_file_descriptors(settings)
        tls = TlsCertificate(settings, telemetry) if settings.tls_certificate else None
        self._sockets = sockets
        self._connections = SmtpConnections(settings, telemetry)
        self._spool = MailSpool(folder, in_memory=settings.committing)
        hostname = settings.hostname or socket.gethostname() or "localhost"
        self._context = SmtpContext(
            rules=SessionRules.from_settings(
                settings, hostname, starttls=tls is not None, auth=auth
            ),
            mail_limits=mail_limits or MailLimits(settings),
            connections=self._connections,
            recipients=directory,
            mail_store=post,
            spool=self._spool,
            telemetry=telemetry,
            tls=tls,
        )
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to listen; when this returns, a client can connect."""
        loop = asyncio.get_running_loop()
        connect = partial(SmtpConnection, self._context)
        for each in self._sockets:
            self._servers.append(await loop.create_server(connect, sock=each, backlog=_BACKLOG))
        self._tasks.append(asyncio.create_task(self._connections.run()))
        if self._context.tls is not None:
            self._tasks.append(asyncio.create_task(self._context.tls.watch()))

    async def stop(self) -> None:
        """Stop listening, give the mails in progress some time, then close the connections."""
        if not self._tasks:
            return
        for server in self._servers:
            server.close()
        await self._connections.stop()
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._spool.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()


def _limit_to_file_descriptors(settings: SmtpSettings) -> SmtpSettings:
    """Raise the limit of open files for the connections, or lower their number to fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections * _FILES_EACH
    if soft == resource.RLIM_INFINITY:
        return settings
    most = soft + wanted if hard == resource.RLIM_INFINITY else min(soft + wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    available = max(most - soft, soft // 4) // _FILES_EACH
    return msgspec.structs.replace(
        settings, connections=max(1, min(settings.connections, available))
    )
