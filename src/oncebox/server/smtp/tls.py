"""TLS certificate for STARTTLS, reloaded when its files change."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid
from oncebox.settings import SmtpSettings

#: seconds between two checks of the files
_CHECK_EVERY = 10.0


class TlsCertificate:
    """The certificate for new TLS connections."""

    def __init__(
        self, settings: SmtpSettings, telemetry: Telemetry, *, every: float = _CHECK_EVERY
    ) -> None:
        """Read the files.

        Raises: ConfigInvalid.
        """
        self._settings = settings
        self._telemetry = telemetry
        self._every = every
        named = (settings.tls_certificate, settings.tls_key)
        self._files = [Path(each) for each in named if each]
        self._stats = self._file_stats()
        self.context = _context(settings)

    async def watch(self) -> None:
        """Reload the files when they have changed, until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            await asyncio.to_thread(self.reload_if_changed)

    def reload_if_changed(self) -> None:
        """Reload the files if they have changed; unusable files leave the old certificate in use.

        A certificate may be written before its key, so a failed reload is tried again.
        """
        stats = self._file_stats()
        if stats == self._stats:
            return
        try:
            self.context = _context(self._settings)
        except ConfigInvalid as error:
            self._telemetry.log.warning("smtp_certificate_unusable", code=error.code)
            return
        self._stats = stats
        self._telemetry.log.info("smtp_certificate_renewed")

    def _file_stats(self) -> list[tuple[int, int]]:
        stats = []
        for file in self._files:
            with suppress(OSError):  # it is being replaced just now
                found = file.stat()
                stats.append((found.st_mtime_ns, found.st_size))
        return stats


def _context(settings: SmtpSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            "the certificate for STARTTLS cannot be used; check smtp.tls_certificate and "
            f"smtp.tls_key: {type(error).__name__}"
        ) from error
    return context
