"""Demo environment: a temporary service, worker and agent processes, a scripted mail server."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NamedTuple, NoReturn, Self

import msgspec

from oncebox.cli.demo.side_effects import SideEffects
from oncebox.cli.demo.traffic import new_secret
from oncebox.client.sync import Client
from oncebox.errors import OnceboxError
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.deliveries import DeliveryInspection
from oncebox.testing.smtp import ScriptedSmtp

_LOG_LINES = 5


class DemoFailed(OnceboxError):
    """The demo could not be played to its end."""

    code = "demo_failed"


class DemoProcess:
    """``python -m module arguments`` in a folder."""

    def __init__(self, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start it."""
        self._name = " ".join(command[:2])
        self._log = folder / "actors.log"
        with self._log.open("ab") as log:
            self._process = Popen(  # noqa: S603 - the demo's own commands
                [sys.executable, "-m", *command],
                cwd=folder,
                env=environment,
                stdin=PIPE,  # it closes when this process is gone, and then they go too
                stdout=PIPE,
                stderr=log,
                text=True,
                process_group=0,  # ^C is for this process, which ends the others
            )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def hear(self) -> str:
        """Wait for its next line.

        Raises: DemoFailed, if it ends without one.
        """
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline().strip() or self._fail()

    def check(self) -> None:
        """See that it has not failed by itself.

        Raises: DemoFailed.
        """
        if (self._process.poll() or 0) > 0:
            self._fail()

    def tell(self, *words: str) -> None:
        """Say a line to it."""
        assert self._process.stdin is not None  # noqa: S101 - as above
        self._process.stdin.write(f"{' '.join(words)}\n")
        self._process.stdin.flush()

    def kill(self) -> int:
        """Kill it as ``kill -9`` does, if it still lives; return the signal it died of."""
        self._process.kill()
        return -self._process.wait()

    def _fail(self) -> NoReturn:
        self._process.kill()
        status = self._process.wait()
        words = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        raise DemoFailed(
            f"{self._name!r} ended with {status}: {' / '.join(words) or 'without a word'}"
        )


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
_ENDED = frozenset({DeliveryState.DONE, DeliveryState.DEAD, DeliveryState.HELD})
_POLL_INTERVAL = 0.02


class Greeting(msgspec.Struct, frozen=True):
    """Where the service is, in its own words."""

    url: str
    smtp: str
    key: str


class DemoRelay(NamedTuple):
    """A mail server, and the process that tells the service of it; that has a word when done."""

    server: ScriptedSmtp
    setup_process: DemoProcess


class DemoEnvironment:
    """Everything that a scene may use; leaving it ends every process."""

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        """Use an empty folder; ``note`` hears what happens at the moment."""
        self.folder = folder
        self.note = note
        self.world = SideEffects(folder / "world")
        self._processes: list[DemoProcess] = []
        self._leaving = ExitStack()
        self._environment = _process_environment(folder)
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
    def workers(self) -> list[DemoProcess]:
        """Two processes that run the shop's handlers."""
        command = ("oncebox", "worker", "oncebox.cli.demo.shop:box", "--child")
        return [self.start(*command, str(number)) for number in range(2)]

    @cached_property
    def relay(self) -> DemoRelay:
        """A mail server that fails as told, by which mail leaves."""
        server = self._leaving.enter_context(ScriptedSmtp())
        where = ("--host", server.host, "--port", str(server.port), "--security", "none")
        clerk = self.start("oncebox", "transport", "add", "relay", "--kind", "smtp", *where)
        return DemoRelay(server, clerk)

    def start(self, *command: str) -> DemoProcess:
        """Start ``python -m`` with a command; it ends with the stage at the latest."""
        actor = DemoProcess(list(command), self.folder, self._environment)
        self._processes.append(actor)
        self._leaving.callback(actor.kill)
        return actor

    def settled(self, type_: str) -> list[DeliveryInspection]:
        """Wait until every delivery of a type has ended; return all that is known of them."""
        inspect, found = self.client.deliveries.inspect, list[DeliveryInspection]()

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
            for actor in self._processes:
                actor.check()
            time.sleep(_POLL_INTERVAL)


def _process_environment(folder: Path) -> dict[str, str]:
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
