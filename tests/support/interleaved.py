"""Two transactions at the same time: one stops before its commit while the other tries."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from oncebox.db.database import Transaction
from tests.support.databases import Place

T = TypeVar("T")
U = TypeVar("U")

_SURELY_WAITING = 0.15
_GIVE_UP_AFTER = 30.0


class Running(Generic[T]):
    """One transaction under way, in a thread and on a connection of its own."""

    def __init__(self, place: Place, work: Callable[[Transaction], T]) -> None:
        """Begin."""
        self._place = place
        self._work = work
        self._answers: list[T] = []
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def answer(self) -> T:
        """Wait for its end; return what it returned, or raise what it raised."""
        self._thread.join(_GIVE_UP_AFTER)
        assert not self._thread.is_alive(), "the transaction never ended"
        if self._failures:
            raise self._failures[0]
        return self._answers[0]

    def _run(self) -> None:
        session = self._place.session()
        try:
            self._answers.append(session.run(self._work))
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
            self._failures.append(error)
        finally:
            session.close()


class Slow(Running[T]):
    """A transaction that has written and waits with its commit."""

    def __init__(self, place: Place, work: Callable[[Transaction], T]) -> None:
        """Begin, and return when everything is written."""
        written, self._commit = Event(), Event()

        def slowly(tx: Transaction) -> T:
            answer = work(tx)
            tx.execute("SELECT 1")  # what was sent before is done
            written.set()
            self._commit.wait(_GIVE_UP_AFTER)
            return answer

        super().__init__(place, slowly)
        assert written.wait(_GIVE_UP_AFTER)

    def commit(self) -> T:
        """Let it commit."""
        self._commit.set()
        return self.answer()


def wait_for_a_lock() -> None:
    """Give a transaction that was just begun the time to run into a lock."""
    Event().wait(_SURELY_WAITING)


def interleave(
    place: Place, first: Callable[[Transaction], T], second: Callable[[Transaction], U]
) -> tuple[T, U]:
    """Let ``first`` write, then start ``second``, then let ``first`` commit; return both answers.

    The second meets the first's rows uncommitted, and waits for it wherever a lock is.
    """
    one = Slow(place, first)
    two = Running(place, second)
    wait_for_a_lock()
    return one.commit(), two.answer()
