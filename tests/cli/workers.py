"""Real worker processes on a SQLite file, and what a test needs to watch them."""

import asyncio
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.inspection import DeliveryRecord
from oncebox.settings_loading import load_settings
from tests.torture.processes import Child, Children, TooLate, until

#: short leases and waits, so that what is lost is soon found again
QUICK = {
    "ONCEBOX_WORKER__LEASE": "1",
    "ONCEBOX_WORKER__POLL": "0.1",
    "ONCEBOX_WORKER__WATCHDOG": "1",
    "ONCEBOX_RETRY__TRIES": "3",
    "ONCEBOX_RETRY__FIRST_WAIT": "0.05",
}


class Workers:
    """Starts ``oncebox worker`` on a folder of its own."""

    def __init__(self, folder: Path, children: Children) -> None:
        self._children = children
        self._settings = {**QUICK, "ONCEBOX_DATA_DIR": str(folder / "data")}
        self.notes = folder / "notes"

    def set(self, name: str, value: str) -> None:
        """Change a setting for what is started from now on."""
        self._settings[name] = value

    def start(self, target: str, *options: str) -> Child:
        """Start a worker and return its parent process."""
        environment = {**self._settings, "NOTES": str(self.notes)}
        return self._children.python("oncebox", "worker", target, *options, environment=environment)

    def accept(self, types: Iterable[str], *, body: str = "") -> None:
        """Store a delivery of each type."""
        asyncio.run(self._accept(list(types), body))

    def facts(self) -> list[DeliveryRecord]:
        """Return every delivery."""
        return asyncio.run(self._facts())

    def wait_until(
        self, holds: Callable[[list[DeliveryRecord]], bool], *, timeout: float
    ) -> list[DeliveryRecord]:
        """Look again and again until something holds of the deliveries."""
        for _ in until(timeout):
            found = self.facts()
            if holds(found):
                return found
            time.sleep(0.2)
        message = f"it did not come true: {[(each.type, each.state, each.tries) for each in found]}"
        raise TooLate(message)

    def noted(self) -> list[str]:
        """Return what the handlers noted."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def wait_for_note(self, word: str) -> None:
        """Wait until a handler has noted a word."""
        for _ in until(20.0):
            if word in self.noted():
                return
        message = f"{word!r} was not noted"
        raise TooLate(message)

    def _box(self) -> Oncebox:
        return Oncebox(settings=load_settings(self._settings))

    async def _accept(self, types: list[str], body: str) -> None:
        async with self._box() as box:
            for number, kind in enumerate(types):
                await box.accept("shop", key=f"{kind}-{number}", type=kind, body=body)

    async def _facts(self) -> list[DeliveryRecord]:
        async with self._box() as box:
            return await box.components.database.read(inspections.newest, "default", most=1000)


def kids(parent: int) -> list[int]:
    """Return the processes a process has started and that are alive."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            fields = _stat(folder)
            if fields and int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def is_gone(pid: int) -> bool:
    """Say whether a process has ended, buried or not."""
    fields = _stat(Path(f"/proc/{pid}"))
    return not fields or fields[0] in "ZX"


def _stat(folder: Path) -> list[str]:
    try:
        text = (folder / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def memory_limit(pid: int) -> int:
    """Return the bytes of address space a process may use."""
    return resource.prlimit(pid, resource.RLIMIT_AS)[0]
