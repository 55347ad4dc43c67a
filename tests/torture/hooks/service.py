"""The service under torture: a real ``oncebox serve`` with a source that the command line added."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from oncebox.core import credentials
from tests.support.ports import free_port
from tests.torture.checks import Violation
from tests.torture.history import Effect, read_downstream
from tests.torture.hooks.app import RUNS
from tests.torture.hooks.events import SECRET, SOURCE
from tests.torture.ledger.books import count_open, prepare_marks
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.processes import ROOT, Child, Children, TooLate, kids, until

BOX = "tests.torture.hooks.app:box"
#: Short leases and waits, so that what a kill interrupted is soon worked again.
QUICK = {
    "ONCEBOX_WORKER__LEASE": "1",
    "ONCEBOX_WORKER__POLL": "0.2",
    "ONCEBOX_RETRY__FIRST_WAIT": "0.05",
    "ONCEBOX_RETRY__LONGEST_WAIT": "0.2",
}
_PATIENCE = 60.0
#: Each look is a connection of its own, which must not keep the service from its work.
_LOOK_EVERY = 0.2


class Service:
    """Serves one database on one port, through any number of lives."""

    def __init__(
        self,
        folder: Path,
        url: str,
        children: Children,
        settings: Mapping[str, str] | None = None,
        *,
        known: bool = False,
    ) -> None:
        """Make the source, unless it is known; ``start`` begins to serve."""
        self.port = free_port()
        self.url = url
        self._runs = folder / "runs"
        self._children = children
        self._environment = {
            **QUICK,
            "ONCEBOX_DATABASE_URL": url,
            "ONCEBOX_DATA_DIR": str(folder / "data"),
            "ONCEBOX_MASTER_KEY": MASTER_KEY,
            "ONCEBOX_HTTP__PORT": str(self.port),
            "ONCEBOX_SMTP__PORT": "0",
            RUNS: str(self._runs),
            **(settings or {}),
        }
        if known:
            return
        self._type("source", "add", SOURCE, "--scheme", "github", "--secret", "-", given=SECRET)
        prepare_marks(url)

    def start(self) -> None:
        """Begin to serve; when this returns, clients can connect."""
        self._parent = self._children.python("oncebox", "serve", BOX, environment=self._environment)
        self._parent.wait_for("service_started", timeout=_PATIENCE)

    def kill_child(self) -> None:
        """Kill the process that serves; its parent will start another."""
        os.kill(self._serving(), signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the process that serves, and its parent before it hears of it."""
        serving = self._serving()
        self._parent.stop()
        with suppress(ProcessLookupError):  # a fault may have killed it already
            os.kill(serving, signal.SIGKILL)
        self._parent.kill()

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self._parent.terminate()
        return self._parent.wait(timeout=_PATIENCE)

    def settle(self) -> list[Violation]:
        """Wait until everything is worked; if that gets no further, say what the service said.

        After many kills much is left to do: what was lost is worked before anything new.
        """
        fewest = sys.maxsize
        give_up = time.monotonic() + _PATIENCE
        while time.monotonic() < give_up:
            left = count_open(self.url)
            if not left:
                return []
            if left < fewest:
                fewest, give_up = left, time.monotonic() + _PATIENCE
            time.sleep(_LOOK_EVERY)
        words = "\n".join(self._parent.text().splitlines()[-30:])
        return [Violation("stuck", "service", f"{fewest} deliveries wait; it says:\n{words}")]

    def said(self) -> str:
        """Return what it has logged."""
        return self._parent.text()

    def key(self) -> str:
        """Return the key that its first start has created."""
        found = credentials.read(Path(self._environment["ONCEBOX_DATA_DIR"]))
        return found.key if found else ""

    def runs(self) -> list[Effect]:
        """Return every run of the handler."""
        return read_downstream(self._runs)

    def _serving(self) -> int:
        """Return the process that serves now, or soon will."""
        for _ in until(_PATIENCE):
            if found := kids([self._parent.pid]):
                return found[0]
        raise TooLate(f"{self._parent!r} has no child")

    def _type(self, *words: str, given: str) -> None:
        """Type a command."""
        subprocess.run(
            [sys.executable, "-m", "oncebox", *words],
            check=True,
            cwd=ROOT,
            env={**os.environ, **self._environment},
            input=given.encode(),
            capture_output=True,
        )


def send(service: Service, children: Children, *options: str) -> Child:
    """Start a provider that sends to a service."""
    return children.python("tests.torture.hooks.sender", str(service.port), *options)
