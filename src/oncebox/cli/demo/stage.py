"""The stage: a folder, a real service on free ports, and whatever else a scene needs."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from oncebox.cli.demo.actor import Actor
from oncebox.cli.demo.hook import new_secret
from oncebox.cli.demo.world import World
from oncebox.client.sync import Client
from oncebox.model.delivery import State
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.wire.deliveries import Inspection

#: short leases, so that what a killed worker held is soon free; and no questions to name servers
_SETTINGS = """\
[http]
port = 0

[smtp]
port = 0
hostname = "localhost"

[mail]
authenticate = false

[parser]
children = 1

[worker]
lease = 3
poll = 0.1
stop_within = 0
"""
_ENDED = frozenset({State.DONE, State.DEAD, State.HELD})
_GLANCE = 0.02


class Greeting(msgspec.Struct, frozen=True):
    """Where the service is, in its own words."""

    url: str
    smtp: str
    key: str


class Relay(NamedTuple):
    """A mail server, and the process that tells the service of it; that has a word when done."""

    server: ScriptedSmtp
    clerk: Actor


class Stage:
    """Everything that a scene may use; leaving it ends every process."""

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        """Use an empty folder; ``note`` hears what happens at the moment."""
        self.folder = folder
        self.note = note
        self.world = World(folder / "world")
        self._actors: list[Actor] = []
        self._leaving = ExitStack()
        self._environment = _environment(folder)
        (folder / "oncebox.toml").write_text(_SETTINGS)

    def __enter__(self) -> Self:
        self.note("starting a service")
        try:
            service = self.start("oncebox", "serve", "--child", "0", "--json")
            self._greeting = msgspec.json.decode(service.hear(), type=Greeting)
        except BaseException:
            self._leaving.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._leaving.close()

    @property
    def smtp(self) -> tuple[str, int]:
        """Where the service receives mail."""
        host, _, port = self._greeting.smtp.rpartition(":")
        return host, int(port)

    @property
    def url(self) -> str:
        """Where the service answers."""
        return self._greeting.url

    @cached_property
    def client(self) -> Client:
        """A client of the service, with its first key."""
        return self.client_of(self._greeting.key)

    def client_of(self, key: str) -> Client:
        """Return a client with another key."""
        return self._leaving.enter_context(Client(self.url, key))

    @cached_property
    def shop(self) -> tuple[str, str]:
        """Where the shop's webhooks go, and the secret that signs them."""
        secret = new_secret()
        made = self.client.sources.add("shop", "standard-webhooks", secrets=[secret])
        return f"{self.url}/in/{made.public_id}", secret

    @cached_property
    def workers(self) -> list[Actor]:
        """Two processes that run the shop's handlers."""
        command = ("oncebox", "worker", "oncebox.cli.demo.shop:box", "--child")
        return [self.start(*command, str(number)) for number in range(2)]

    @cached_property
    def relay(self) -> Relay:
        """A mail server that fails as told, by which mail leaves."""
        server = self._leaving.enter_context(ScriptedSmtp())
        where = ("--host", server.host, "--port", str(server.port), "--security", "none")
        clerk = self.start("oncebox", "transport", "add", "relay", "--kind", "smtp", *where)
        return Relay(server, clerk)

    def start(self, *command: str) -> Actor:
        """Start ``python -m`` with a command; it ends with the stage at the latest."""
        actor = Actor(list(command), self.folder, self._environment)
        self._actors.append(actor)
        self._leaving.callback(actor.kill)
        return actor

    def settled(self, type_: str) -> list[Inspection]:
        """Wait until every delivery of a type has ended; return all that is known of them."""
        inspect, found = self.client.deliveries.inspect, list[Inspection]()

        def all_ended() -> bool:
            listed = self.client.deliveries.list()
            found[:] = [inspect(each.id) for each in listed if each.type == type_]
            return all(each.delivery.state in _ENDED for each in found)

        self.until(all_ended)
        return found

    def until(self, holds: Callable[[], bool]) -> None:
        """Look again and again until something holds; the demo as a whole has a limit.

        Raises: DemoFailed, if a process ended that should not.
        """
        while not holds():
            for actor in self._actors:
                actor.check()
            time.sleep(_GLANCE)


def _environment(folder: Path) -> dict[str, str]:
    """Return what processes are given: nothing of the user's own Oncebox."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONCEBOX_")}
    if "PYTHONPATH" in kept:  # they run in another folder
        parts = kept["PYTHONPATH"].split(os.pathsep)
        kept["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts if part)
    return {
        **kept,
        "ONCEBOX_CONFIG": str(folder / "oncebox.toml"),
        "ONCEBOX_DATA_DIR": str(folder),
    }
