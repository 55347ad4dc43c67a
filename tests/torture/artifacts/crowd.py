"""A crowd of processes that claim, each with its pipe; the dead are replaced."""

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.processes import TooLate, until

CLAIMER = "tests.torture.artifacts.claimer"
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a claimer was told."""

    claim_key: str
    #: ``granted``, or why not
    word: str
    #: what the artifact says
    value: str = ""
    repeated: bool = False


class Claimer:
    """One process of the crowd."""

    def __init__(self, nursling: Nursling, pipe: Path, claim_key: str) -> None:
        self.claim_key = claim_key
        self._nursling = nursling
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        self._read = 0
        self._answers: dict[str, Answer] = {}

    @property
    def running(self) -> bool:
        """Whether nobody has killed it."""
        return self._nursling.running

    def await_ready(self) -> None:
        """Wait until it listens.

        Raises: TooLate.
        """
        self._nursling.wait_for("ready", timeout=_PATIENCE)

    def order(self, order: str) -> None:
        """Tell it to claim an artifact."""
        os.write(self._pipe, f"{order}\n".encode())

    def kill(self) -> None:
        """Kill it, whatever it is doing."""
        self._nursling.kill()

    def code(self) -> int:
        """Return how it ended."""
        return self._nursling.wait(timeout=_PATIENCE)

    def close(self) -> None:
        """End it and let go of its pipe."""
        self._nursling.clean_away()
        os.close(self._pipe)

    def text(self) -> str:
        """Return all it has said."""
        return self._nursling.text()

    def answer(self, order: str) -> Answer | None:
        """Return what it was told to an order, if it was."""
        self._catch_up()
        return self._answers.get(order)

    def _catch_up(self) -> None:
        """Read what it has said since the last look; a half line waits for its other half."""
        with self._nursling.output.open("rb") as said:
            said.seek(self._read)
            whole, newline, _rest = said.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.decode(errors="replace").splitlines():
            match line.split():
                case ["granted", order, value, repeated]:
                    again = repeated == "again"
                    self._answers[order] = Answer(self.claim_key, "granted", value, again)
                case ["denied", order, why]:
                    self._answers[order] = Answer(self.claim_key, why)


class Crowd:
    """Claimers by number; each number has its claim key for ever."""

    def __init__(
        self,
        nursery: Nursery,
        url: str,
        folder: Path,
        claim_keys: Sequence[str],
        *options: str,
    ) -> None:
        self._nursery = nursery
        self._url = url
        self._folder = folder
        self._claim_keys = claim_keys
        self._options = options
        self.all: list[Claimer] = []

    def fill(self, armed: Iterable[str] = ()) -> None:
        """Start whoever is missing; the first ones with these fault plans."""
        plans = iter(armed)
        if not self.all:
            self.all = [self._start(key, next(plans, "")) for key in self._claim_keys]
        else:
            for number, each in enumerate(self.all):
                if not each.running:
                    each.close()
                    self.all[number] = self._start(each.claim_key, next(plans, ""))
        for each in self.all:
            each.await_ready()

    def order(self, order: str) -> None:
        """Tell all to claim the same artifact."""
        for each in self.all:
            each.order(order)

    def answers(self, order: str) -> list[Answer]:
        """Wait until all who live were answered; return what all were told, the dead too.

        Raises: TooLate.
        """
        silent = self.all
        for _ in until(_PATIENCE):
            # Who lives is asked first, so that nobody's last words are missed.
            alive = [each for each in silent if each.running]
            silent = [each for each in alive if each.answer(order) is None]
            if not silent:
                told = (each.answer(order) for each in self.all)
                return [each for each in told if each is not None]
        raise TooLate(f"{len(silent)} were not answered: {silent[0].text()[-2000:]}")

    def beside(self, claim_key: str) -> "Crowd":
        """Return a crowd of one, with a claim key of its own."""
        other = Crowd(self._nursery, self._url, self._folder, (claim_key,))
        other.fill()
        return other

    def close(self) -> None:
        """End all."""
        for each in self.all:
            each.close()

    def _start(self, claim_key: str, armed: str) -> Claimer:
        pipe = Path(tempfile.mkdtemp(prefix="pipe-", dir=self._folder)) / "orders"
        os.mkfifo(pipe)
        nursling = self._nursery.start(
            CLAIMER, self._url, str(pipe), claim_key, *self._options, faults=armed
        )
        return Claimer(nursling, pipe, claim_key)
