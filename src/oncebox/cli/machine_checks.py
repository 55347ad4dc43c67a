"""The doctor's checks of the machine: disk, files of TLS and of the key, what is installed."""

import os
import re
import shutil
import ssl
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from oncebox import clock
from oncebox.cli import key_file
from oncebox.cli.findings import Check, Status
from oncebox.config import Settings
from oncebox.errors import DatabaseUnsafe
from oncebox.store.filesystem import refuse_network

_MEBIBYTE = 1024 * 1024
#: free bytes below which commits will soon fail, and below which somebody should know
_TOO_LITTLE, _LITTLE = 100 * _MEBIBYTE, 1024 * _MEBIBYTE
#: the same for files that can still be made
_TOO_FEW, _FEW = 1_000, 10_000
#: days before its end when a certificate should have been renewed
_SOON = 14
_EXTRA = re.compile(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]")


def machine(settings: Settings) -> Iterator[Check]:
    """Look at what is there before any database is opened."""
    yield _extras()
    if settings.smtp.tls_certificate:
        yield _certificate(settings.smtp.tls_certificate, settings.smtp.tls_key or None)
    key = key_file.place(settings)
    if key is not None:
        yield from _key_mode(key)


def disk(folder: Path) -> Iterator[Check]:
    """Look at the file system a SQLite file lies on, or would lie on."""
    present = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    try:
        refuse_network(present)
    except DatabaseUnsafe as error:
        yield Check("file system", Status.FAIL, error.code, str(error))
    else:
        yield Check("file system", Status.OK, f"{folder} is local")
    remedy = f"free some room on the disk of {folder}"
    free = shutil.disk_usage(present).free
    message = f"{free // _MEBIBYTE} MiB free"
    yield _enough("disk space", free, (_TOO_LITTLE, _LITTLE), message, remedy)
    found = os.statvfs(present)
    if found.f_files:  # some file systems have no limit and say 0
        message = f"{found.f_favail} more files can be made"
        remedy = f"delete files on the disk of {folder}, or use another"
        yield _enough("inodes", found.f_favail, (_TOO_FEW, _FEW), message, remedy)


def _enough(name: str, left: int, limits: tuple[int, int], message: str, remedy: str) -> Check:
    too_little, little = limits
    if left >= little:
        return Check(name, Status.OK, message)
    return Check(name, Status.FAIL if left < too_little else Status.WARN, message, remedy)


def _key_mode(path: Path) -> Iterator[Check]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return  # whether it should be there is seen when the database is opened
    except OSError as error:
        remedy = "run this as the user of the service"
        yield Check("key file", Status.WARN, f"{path}: {error.strerror}", remedy)
        return
    message = f"{path} has mode {mode:04o}"
    if mode & 0o077:
        remedy = f"let only its owner read it: chmod 600 {path}"
        yield Check("key file", Status.WARN, message, remedy)
    else:
        yield Check("key file", Status.OK, message)


def _certificate(file: str, key: str | None) -> Check:
    """Look whether the files can be read, belong together, and for how long they are good."""
    remedy = "check smtp.tls_certificate and smtp.tls_key"
    try:
        # A key with a passphrase would ask for it, and nobody is there.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, key, password=lambda: b"")
        ends = _ends(Path(file))
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        message = "the key is not the certificate's" if mismatch else "the files cannot be used"
        return Check("tls", Status.FAIL, message, remedy)
    except OSError as error:
        return Check("tls", Status.FAIL, f"cannot be read: {error.strerror}", remedy)
    except ValueError:
        return Check("tls", Status.FAIL, "the files cannot be used", remedy)
    days = (ends - datetime.fromtimestamp(clock.system() / 1000, UTC)).days
    message = f"{file} is good until {ends:%Y-%m-%d}"
    if days >= _SOON:
        return Check("tls", Status.OK, message)
    return Check("tls", Status.FAIL if days < 0 else Status.WARN, message, "renew the certificate")


def _ends(file: Path) -> datetime:
    from cryptography import x509  # noqa: PLC0415 - few have a certificate

    return x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc


def _extras() -> Check:
    """Say which extras are installed; without one, only what needs it is missing."""
    found: dict[str, bool] = {}
    for text in metadata.requires("oncebox") or ():
        if wanted := _EXTRA.match(text):
            name, extra = wanted.groups()
            found[extra] = found.get(extra, True) and _is_installed(name)
    told = [f"{extra} {'is' if there else 'is not'} installed" for extra, there in found.items()]
    return Check("extras", Status.OK, ", ".join(told) or "there are none")


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
