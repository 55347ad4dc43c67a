"""Demo environment: a temporary service, its processes, and the mail and webhooks sent to it."""

import json
import os
import secrets
import smtplib
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email import policy
from email.message import EmailMessage
from functools import cached_property
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NoReturn

import httpx2

from oncebox.cli.demo.programs import SideEffects
from oncebox.client.sync import Client
from oncebox.core import clock
from oncebox.errors import OnceboxError
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.schemas.deliveries import DeliveryInspection
from oncebox.webhooks.signing import sign

#: short leases, so that a killed worker's delivery is soon free; no DNS queries
_SETTINGS = {
    "ONCEBOX_HTTP__PORT": "0",
    "ONCEBOX_SMTP__PORT": "0",
    "ONCEBOX_SMTP__HOSTNAME": "localhost",
    "ONCEBOX_MAIL__AUTHENTICATE": "false",
    "ONCEBOX_PARSER__CHILDREN": "1",
    "ONCEBOX_WORKER__LEASE": "3",
    "ONCEBOX_WAITS__LEASE": "1",
    "ONCEBOX_WORKER__POLL": "0.1",
    "ONCEBOX_WORKER__STOP_WITHIN": "0",
}
_ENDED = frozenset({DeliveryState.DONE, DeliveryState.DEAD, DeliveryState.HELD})
_SENDER = "no-reply@shop.example"


class DemoFailed(OnceboxError):
    """The demo could not run to its end."""

    code = "demo_failed"


class DemoProcess(Popen[str]):
    """``python -m module arguments`` in the folder of the demo."""

    def __init__(self, command: tuple[str, ...], folder: Path, environ: Mapping[str, str]) -> None:
        self._name = " ".join(command[:2])
        self._log = folder / "processes.log"
        with self._log.open("ab") as log:
            super().__init__(
                [sys.executable, "-m", *command],
                cwd=folder,
                env=environ,
                stdin=PIPE,  # closes when the demo dies, and the process ends then
                stdout=PIPE,
                stderr=log,
                text=True,
                process_group=0,  # ^C is for the demo, which ends the others
            )

    def read_line(self) -> str:
        """Wait for the next line of output.

        Raises: DemoFailed, if the process ends without one.
        """
        assert self.stdout is not None  # noqa: S101 - it is a pipe
        return self.stdout.readline().strip() or self.fail()

    def write_line(self, *words: str) -> None:
        """Write a line to its input."""
        assert self.stdin is not None  # noqa: S101 - as above
        self.stdin.write(f"{' '.join(words)}\n")
        self.stdin.flush()

    def kill_and_wait(self) -> int:
        """End the process as ``kill -9`` does; return the signal that ended it."""
        self.kill()
        return -self.wait()

    def fail(self) -> NoReturn:
        """End the process, and the demo with its last output."""
        status = -self.kill_and_wait()
        lines = self._log.read_text(errors="replace").splitlines()[-5:]
        raise DemoFailed(f"{self._name!r} ended with {status}: {' / '.join(lines) or 'no output'}")


class DemoEnvironment:
    """A service and everything else a scene may use, until a stack is closed."""

    def __init__(self, folder: Path, stack: ExitStack, note: Callable[[str], None]) -> None:
        """Start the service in an empty folder; ``note`` is called with what is happening now."""
        self.folder = folder
        self.note = note
        self.world = SideEffects(folder / "world")
        self._processes: list[DemoProcess] = []
        self._stack = stack
        self._environ = _process_environment(folder)
        note("starting a service")
        service = self.start("oncebox", "serve", "--child", "0", "--json")
        started = json.loads(service.read_line())
        host, _, port = started["smtp"].rpartition(":")
        self.smtp = host, int(port)
        self.url: str = started["url"]
        found = json.loads(Path(started["credentials"]).read_bytes())
        self.client = self.new_client(found["key"])

    def new_client(self, key: str) -> Client:
        """Return a client with an API key."""
        return self._stack.enter_context(Client(self.url, key))

    @cached_property
    def shop(self) -> tuple[str, str]:
        """The URL of the shop's webhooks, and the secret that signs them."""
        secret = new_secret()
        made = self.client.sources.add("shop", "standard-webhooks", secrets=[secret])
        return f"{self.url}/in/{made.public_id}", secret

    @cached_property
    def workers(self) -> list[DemoProcess]:
        """Two processes that run the shop's handlers."""
        command = ("oncebox", "worker", "oncebox.cli.demo.shop:box", "--child")
        return [self.start(*command, str(number)) for number in range(2)]

    def start(self, *command: str) -> DemoProcess:
        """Start ``python -m`` with a command."""
        process = DemoProcess(command, self.folder, self._environ)
        self._processes.append(process)
        self._stack.callback(process.kill_and_wait)
        return process

    def settled(self, type_: str) -> list[DeliveryInspection]:
        """Wait until every delivery of a type has ended; return their inspections."""

        def inspections() -> list[DeliveryInspection]:
            deliveries = self.client.deliveries
            return [deliveries.inspect(each.id) for each in deliveries.list() if each.type == type_]

        self.until(lambda: all(each.delivery.state in _ENDED for each in inspections()))
        return inspections()

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; the demo as a whole has a time limit.

        Raises: DemoFailed, if a process failed meanwhile.
        """
        while not holds():
            for process in self._processes:
                if (process.poll() or 0) > 0:
                    process.fail()
            time.sleep(0.02)


def _process_environment(folder: Path) -> dict[str, str]:
    """Return the environment of the processes, without the user's own Oncebox settings."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ONCEBOX_")}
    paths = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    return {
        **environ,
        "PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in paths),
        **_SETTINGS,
        "ONCEBOX_DATA_DIR": str(folder),
    }


def new_secret() -> str:
    """Return a Standard Webhooks secret."""
    return f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"


def post_webhook(
    url: str, secret: str, type_: str, id_: str, *, copies: int = 1, connections: int = 1
) -> list[int]:
    """Post copies of one signed webhook over concurrent connections; return the status codes."""
    body = json.dumps({"type": type_, "data": {"id": id_}}).encode()
    signature = sign(secret, f"evt_{id_}", clock.system(), body)
    headers = {**signature, "Content-Type": "application/json"}
    limits = httpx2.Limits(max_connections=connections)
    with (
        httpx2.Client(headers=headers, limits=limits, timeout=30, trust_env=False) as client,
        ThreadPoolExecutor(connections) as pool,
    ):
        answers = pool.map(lambda _: client.post(url, content=body), range(copies))
        return [answer.status_code for answer in answers]


def new_code() -> str:
    """Return a random code of six digits."""
    return str(100_000 + secrets.randbelow(900_000))


def code_mail(recipient: str, code: str) -> EmailMessage:
    """Return the mail that brings a code."""
    mail = EmailMessage()
    mail["From"] = _SENDER
    mail["To"] = recipient
    mail["Subject"] = "Confirm your account"
    mail["Message-ID"] = f"<{recipient.partition('@')[0]}@shop.example>"
    mail["Date"] = "Mon, 16 Nov 2026 09:00:00 +0000"
    mail.set_content(f"Your verification code is {code}.\n")
    return mail


def deliver_mail(mail: EmailMessage, host: str, port: int) -> int:
    """Deliver a mail by SMTP; return the reply code of DATA."""
    with smtplib.SMTP(host, port, local_hostname="localhost") as client:
        client.ehlo()
        client.mail(_SENDER)
        client.rcpt(str(mail["To"]))
        code, _ = client.data(mail.as_bytes(policy=policy.SMTP))
    return code
