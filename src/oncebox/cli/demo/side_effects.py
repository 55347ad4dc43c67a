"""Side effects of demo handlers, counted in files that survive killed processes."""

import os
from pathlib import Path


class SideEffects:
    """A folder with one file for each kind of deed, shared by all processes of the story."""

    def __init__(self, folder: Path) -> None:
        """Open it, or make it."""
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def do(self, deed: str) -> str:
        """Do something that cannot be taken back; which process did it is on record."""
        with (self._folder / deed).open("a") as book:
            book.write(f"{os.getpid()}\n")
        return deed

    def processes(self, deed: str) -> list[int]:
        """Return the process of each time that something was done."""
        book = self._folder / deed
        return [int(line) for line in book.read_text().split()] if book.exists() else []

    def count(self, deed: str) -> int:
        """Return how often something was done."""
        return len(self.processes(deed))
