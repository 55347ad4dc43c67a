"""Child processes of the demo: agent, naive agent, naive worker; and their `SideEffects`."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path


class SideEffects:
    """A folder with one file per effect, a line for each time; it survives killed processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def do(self, effect: str) -> str:
        """Do something that cannot be undone, and record the process that did it."""
        with (self._folder / effect).open("a") as file:
            file.write(f"{os.getpid()}\n")
        return effect

    def processes(self, effect: str) -> list[int]:
        """Return the process of each time an effect happened."""
        file = self._folder / effect
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def count(self, effect: str) -> int:
        """Return how often an effect happened."""
        return len(self.processes(effect))


def agent() -> None:
    """Wait for the code of an attempt; service, key, attempt and claim key come on one line."""
    from oncebox.client.sync import Client  # noqa: PLC0415 - the naive programs need none
    from oncebox.errors import OnceboxError  # noqa: PLC0415 - as above

    url, key, attempt, *claim_key = sys.stdin.readline().split()
    with Client(url, key) as client:
        inbox = client.inboxes.create(attempt_id=attempt)
        try:
            _print(inbox.wait_for_code(claim_key=claim_key[0] if claim_key else None).value)
        except OnceboxError as error:
            _print(error.code)
    sys.stdin.read()  # until it is killed or the demo ends


def naive_agent(mailbox: Path) -> None:
    """Remove the oldest mail from a mailbox, which keeps two agents from reading it."""
    code = None
    for mail in sorted(mailbox.iterdir())[:1]:
        code = re.search(r"\b[0-9]{6}\b", mail.read_text())
        mail.unlink()
    _print(code[0] if code else "nothing")
    sys.stdin.read()  # until it is killed or the demo ends


def naive_worker(effects: Path) -> None:
    """Charge, wait, ship; start over when restarted."""
    world = SideEffects(effects)
    _print(world.do("charged"))
    if sys.stdin.readline():  # empty: the demo has ended
        _print(world.do("shipped"))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_PROGRAMS: dict[str, Callable[..., None]] = {
    "agent": agent,
    "naive_agent": naive_agent,
    "naive_worker": naive_worker,
}

if __name__ == "__main__":
    _PROGRAMS[sys.argv[1]](*map(Path, sys.argv[2:]))
