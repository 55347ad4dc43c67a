"""The service of a test run: one for all pytest workers, or an existing one by URL."""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from oncebox.client.core import network
from oncebox.client.core.calls import get_call
from oncebox.client.sync import Client
from oncebox.core.credentials import Credentials
from oncebox.errors import ConfigInvalid, NotFound
from oncebox.testing import server_lifetime
from oncebox.testing.chaos import TestMode

#: seconds for a service to start on a machine that is busy with tests
_START_TIMEOUT = 120.0
_POLL_INTERVAL = 0.05


class _Greeting(msgspec.Struct, frozen=True):
    """What a service prints when it has started."""

    #: the file with its URL and key
    credentials: str


class OnceboxServer(msgspec.Struct, frozen=True, kw_only=True):
    """A service in test mode; its ``repr`` does not show the key."""

    url: str
    api_key: str
    smtp_host: str
    smtp_port: int
    #: the certificate of STARTTLS in PEM; None: one of the service's own settings
    smtp_certificate: str | None = None
    #: the id of the inbox that gets mail for unknown addresses
    catch_all: str
    #: its process; None if it was running already
    pid: int | None = None

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables with which ``Client()`` uses this service."""
        return {"ONCEBOX_URL": self.url, "ONCEBOX_API_KEY": self.api_key}

    def __repr__(self) -> str:
        return f"OnceboxServer(url={self.url!r}, smtp='{self.smtp_host}:{self.smtp_port}')"


@contextmanager
def shared_server(folder: Path) -> Iterator[OnceboxServer]:
    """Return the service of a run; its first user starts it, and it ends with the last."""
    with server_lifetime.hold_alive_lock(folder):
        with (folder / server_lifetime.START_LOCK).open("ab") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not (folder / server_lifetime.LOG_FILE).exists():
                _start_process(folder)
            greeting = _wait_for_credentials(folder)
        yield _describe_server(greeting, int((folder / server_lifetime.PID_FILE).read_text()))


def existing_server(url: str) -> OnceboxServer:
    """Return a service that is running already."""
    return _describe_server(network.find(url, None), None)


def _start_process(folder: Path) -> None:
    with (folder / server_lifetime.LOG_FILE).open("wb") as log:
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "oncebox.testing.server_lifetime", str(folder)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _wait_for_credentials(folder: Path) -> Credentials:
    """Wait until the service has started."""
    file = folder / server_lifetime.GREETING
    until = time.monotonic() + _START_TIMEOUT
    log, ended = folder / server_lifetime.LOG_FILE, folder / server_lifetime.ENDED_MARKER
    while time.monotonic() < until and log.exists() and not ended.exists():
        output = file.read_bytes() if file.exists() else b""
        if output.endswith(b"\n") and (folder / server_lifetime.PID_FILE).exists():
            greeting = msgspec.json.decode(output.splitlines()[0], type=_Greeting)
            return msgspec.json.decode(Path(greeting.credentials).read_bytes(), type=Credentials)
        time.sleep(_POLL_INTERVAL)
    text = log.read_text(errors="replace") if log.exists() else "nothing; its process was ended"
    last = text.splitlines()[-15:]
    raise ConfigInvalid("\n".join(["no service could be started for the tests; its log:", *last]))


def _describe_server(found: Credentials, pid: int | None) -> OnceboxServer:
    """Return a service with its SMTP address, if it is in test mode."""
    with Client(found.url, found.key, timeout=10.0) as client:
        try:
            mode = client._runner.run(get_call(TestMode, "test"))  # noqa: SLF001 - not a user's call
        except NotFound as error:
            raise ConfigInvalid(
                f"the service at {found.url} is not in test mode, and tests must not use it; "
                "start one with: oncebox serve --test"
            ) from error
    host, _, port = (mode.smtp or "").rpartition(":")
    return OnceboxServer(
        url=found.url,
        api_key=found.key,
        smtp_host=host.strip("[]"),
        smtp_port=int(port or 0),
        smtp_certificate=mode.smtp_certificate,
        catch_all=mode.catch_all,
        pid=pid,
    )
