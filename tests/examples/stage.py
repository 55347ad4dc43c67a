"""Where examples are played: a service, the small site beside it, and the agent's own key."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from examples.site import Site
from oncebox.client.sync import Client
from tests.cli.services import Running, Services
from tests.project.tree import ROOT
from tests.torture.processes import Children

EXAMPLES = ROOT / "examples"
#: no example takes longer, also where everything is slow
_LONGEST = 100
_KILLED = -9


@dataclass
class Stage:
    """A service that is up, and everything an example is handed."""

    folder: Path
    #: where the service has its database
    data: Path
    running: Running
    site: Site
    environment: dict[str, str] = field(default_factory=dict)

    def play(self, example: str, *arguments: str, **environment: str) -> list[str]:
        """Run an example to its end; return what it printed."""
        ended = self._run(example, arguments, environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    def play_until_killed(self, example: str, *arguments: str, **environment: str) -> list[str]:
        """Run an example that dies on the way; return what it printed until then."""
        ended = self._run(example, arguments, environment)
        assert ended.returncode == _KILLED, ended.stderr
        return ended.stdout.splitlines()

    def seen_by_the_site(self, attempt_id: str) -> Counter[str]:
        """Count what the site did for the address of an attempt."""
        with Client(self.running.url, self.running.key) as client:
            (address,) = {each.email for each in client.inboxes.list(attempt_id=attempt_id)}
        return Counter(what for what, email in self.site.log if email == address)

    def _run(
        self, example: str, arguments: tuple[str, ...], environment: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(EXAMPLES / example), *arguments],
            capture_output=True,
            check=False,
            cwd=self.folder,
            env={**self.environment, **environment},
            text=True,
            timeout=_LONGEST,
        )


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Start a service and a site that mails to it."""
    with Children(folder) as children:
        services = Services(folder, children)
        services.set("ONCEBOX_WORKER__LEASE", "30")
        services.set("ONCEBOX_WORKER__WATCHDOG", "0")
        running = services.serve()
        with Site(running.greeting["smtp"]) as site:
            threading.Thread(target=site.serve_forever, daemon=True).start()
            stage = Stage(folder, services.folder, running, site)
            stage.environment = {**os.environ, **_access(running), "SITE": site.url}
            yield stage
            site.shutdown()
        running.child.terminate()


def _access(running: Running) -> dict[str, str]:
    """Return where the service is and a key as agents have it."""
    with Client(running.url, running.key) as client:
        return {"ONCEBOX_URL": running.url, "ONCEBOX_API_KEY": client.keys.make(["agent"]).key}
