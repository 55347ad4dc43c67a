"""Doctor checks of the machine: disk, inodes, key file mode, TLS certificate, ports, extras."""

import asyncio
import os
import re
import ssl
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from oncebox.cli import files
from oncebox.cli.checks import Check, CheckStatus, fail, ok, warn
from oncebox.core import clock, disk_space
from oncebox.core.disk_space import DiskLevel
from oncebox.core.files import refuse_network_filesystem
from oncebox.errors import DatabaseUnsafe, ListenAddressUnavailable
from oncebox.server.http.http_server import listen
from oncebox.settings import Settings

_MEBIBYTE = 1024 * 1024
#: free bytes below which commits will soon fail, and below which to warn
_TOO_LITTLE, _LITTLE = 100 * _MEBIBYTE, 1024 * _MEBIBYTE
#: what is refused while little space is free
_REFUSED = {
    DiskLevel.NO_LARGE_MAIL: "large mail is",
    DiskLevel.NO_MAIL: "all mail is",
    DiskLevel.NO_WEBHOOKS: "mail and webhooks are",
}
#: the same for inodes
_TOO_FEW, _FEW = 1_000, 10_000
#: days before its expiry when a certificate should have been renewed
_RENEW_DAYS = 14
_EXTRA = re.compile(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]")


def check_machine(settings: Settings) -> Iterator[Check]:
    """Check what can be checked before a database is opened."""
    yield _check_extras()
    if settings.smtp.tls_certificate:
        yield _check_certificate(settings.smtp.tls_certificate, settings.smtp.tls_key or None)
    key = files.master_key_path(settings)
    if key is not None:
        yield from _check_mode("key file", key)


def check_database_files(path: Path) -> Iterator[Check]:
    """Check that only its owner can read a SQLite file and its folder."""
    yield from _check_mode("data folder", path.parent)
    yield from _check_mode("database file", path)


def check_free_space(folder: Path, watermark: int) -> Check:
    """Check the free space on the disk of a folder, which need not exist yet."""
    disk = disk_space.measure(folder)
    message = f"{disk.free // _MEBIBYTE} MiB free"
    remedy = f"free some space on the disk of {folder}"
    level = disk_space.level_of(disk, watermark)
    if level:
        return fail("disk space", f"{message}: {_REFUSED[level]} refused", remedy)
    return _check_amount("disk space", disk.free, (_TOO_LITTLE, _LITTLE), message, remedy)


def check_disk(folder: Path, watermark: int) -> Iterator[Check]:
    """Check the file system of a SQLite file, which need not exist yet."""
    present = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    try:
        refuse_network_filesystem(present)
    except DatabaseUnsafe as error:
        yield fail("file system", error.code, str(error))
    else:
        yield ok("file system", f"{folder} is local")
    yield check_free_space(folder, watermark)
    found = os.statvfs(present)
    if found.f_files:  # 0: no limit
        message = f"{found.f_favail} more files can be made"
        remedy = f"delete files on the disk of {folder}, or use another"
        yield _check_amount("inodes", found.f_favail, (_TOO_FEW, _FEW), message, remedy)


def _check_amount(
    name: str, left: int, limits: tuple[int, int], message: str, remedy: str
) -> Check:
    too_little, little = limits
    if left >= little:
        return ok(name, message)
    return Check(name, CheckStatus.FAIL if left < too_little else CheckStatus.WARN, message, remedy)


def _check_mode(name: str, path: Path) -> Iterator[Check]:
    """Check that only its owner can read a file or a folder, if it exists."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return  # whether it is required is checked when the database is opened
    except OSError as error:
        remedy = "run this as the user of the service"
        yield warn(name, f"{path}: {error.strerror}", remedy)
        return
    mode = stat.S_IMODE(found.st_mode)
    message = f"{path} has mode {mode:04o}"
    if mode & 0o077:
        needed = "700" if stat.S_ISDIR(found.st_mode) else "600"
        remedy = f"let only its owner read it: chmod {needed} {path}"
        yield warn(name, message, remedy)
    else:
        yield ok(name, message)


def _check_certificate(file: str, key: str | None) -> Check:
    """Check that the files are readable, match, and have not expired."""
    remedy = "check smtp.tls_certificate and smtp.tls_key"
    try:
        # A key with a passphrase would prompt for it.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, key, password=lambda: b"")
        ends = _certificate_end(Path(file))
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        message = "the key is not the certificate's" if mismatch else "the files cannot be used"
        return fail("tls", message, remedy)
    except OSError as error:
        return fail("tls", f"cannot be read: {error.strerror}", remedy)
    except ValueError:
        return fail("tls", "the files cannot be used", remedy)
    days = (ends - datetime.fromtimestamp(clock.system() / 1000, UTC)).days
    message = f"{file} is valid until {ends:%Y-%m-%d}"
    if days >= _RENEW_DAYS:
        return ok("tls", message)
    return Check(
        "tls", CheckStatus.FAIL if days < 0 else CheckStatus.WARN, message, "renew the certificate"
    )


def _certificate_end(file: Path) -> datetime:
    from cryptography import x509  # noqa: PLC0415 - few have a certificate

    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc


def _check_extras() -> Check:
    """List the installed extras; a missing one is no problem."""
    found: dict[str, bool] = {}
    for text in metadata.requires("oncebox") or ():
        if wanted := _EXTRA.match(text):
            name, extra = wanted.groups()
            found[extra] = found.get(extra, True) and _is_installed(name)
    texts = [f"{extra} {'is' if there else 'is not'} installed" for extra, there in found.items()]
    return ok("extras", ", ".join(texts) or "there are none")


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


#: seconds for a listening process to identify itself
_ANSWER_TIMEOUT = 2.0
_MAX_BYTES = 4096
_PROBE_REQUEST = (
    b"GET /problems/lease_lost HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
)
_LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - it is asked here


async def check_ports(settings: Settings) -> list[Check]:
    """Check the ports the service listens on."""
    http, smtp = settings.http, settings.smtp
    checks = [_check_port("http port", http.host, http.port, _PROBE_REQUEST, b'"lease_lost"')]
    if smtp.enabled:
        checks.append(_check_port("smtp port", smtp.host, smtp.port, b"", b"ESMTP Oncebox"))
    return await asyncio.gather(*checks)


async def _check_port(name: str, host: str, port: int, ask: bytes, sign: bytes) -> Check:
    if port == 0:
        return ok(name, "a free one is chosen at every start")
    try:
        for each in listen(host, port):
            each.close()
    except ListenAddressUnavailable as error:
        if sign in await _first_bytes(_LOOPBACK_OF_ANY.get(host, host), port, ask):
            return ok(name, f"{host}:{port}, Oncebox answers there")
        setting = f"{name.partition(' ')[0]}.port"
        return warn(name, str(error), f"choose another with {setting}")
    return ok(name, f"{host}:{port} is free")


async def _first_bytes(host: str, port: int, ask: bytes) -> bytes:
    """Return the first bytes of a server's answer; empty if it is silent."""
    said = b""
    try:
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(ask)
                while len(said) < _MAX_BYTES and (more := await reader.read(_MAX_BYTES)):
                    said += more
                    if not ask:
                        break
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return said
    return said
