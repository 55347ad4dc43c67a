"""Real serving processes, and what a test needs to call them."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.workers import Workers
from tests.torture.processes import Child, Children


class Services(Workers):
    """Starts ``oncebox serve`` on a folder of its own."""

    def __init__(self, folder: Path, children: Children) -> None:
        super().__init__(folder, children)
        self.folder = folder / "data"
        self.set("ONCEBOX_HTTP__STOP_WITHIN", "5")
        self.set("ONCEBOX_SMTP__PORT", "0")
        self.set("ONCEBOX_WAITS__LEASE", "0.3")

    def serve(self, *arguments: str, port: str = "0") -> "Running":
        """Start a service on a free port and wait until it says that it is up."""
        child = self.start_command("serve", *arguments, "--port", port)
        child.wait_for("service_started", timeout=60)
        return Running(child, self.folder)

    def start_command(self, *arguments: str) -> Child:
        """Start a command in the environment of this folder."""
        environment = {**self._settings, "NOTES": str(self.notes)}
        return self._children.python("oncebox", *arguments, environment=environment)


class Running:
    """A service that is up."""

    def __init__(self, child: Child, folder: Path) -> None:
        self.child = child
        self._folder = folder

    @property
    def greeting(self) -> dict[str, str]:
        """What it said at its start, by name."""
        lines = (line.partition(":") for line in self.child.text().splitlines())
        return {name: value.strip() for name, _, value in lines if name.isalpha()}

    @property
    def url(self) -> str:
        """Where it listens, after whatever restart."""
        facts = [line for line in self.child.text().splitlines() if "service_started" in line]
        return str(json.loads(facts[-1])["url"])

    @property
    def key(self) -> str:
        """The first key, from the credentials file."""
        return str(json.loads((self._folder / "credentials.json").read_text())["key"])

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask for something that needs no key."""
        with urllib.request.urlopen(self.url + path, timeout=10) as response:  # noqa: S310 - our own
            return response.status, response.read()

    def client(self) -> httpx2.Client:
        """Return a client with the first key."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=20)

    def json(self, path: str) -> Any:
        """Ask for something with the first key."""
        with self.client() as client:
            return client.get(path).raise_for_status().json()
