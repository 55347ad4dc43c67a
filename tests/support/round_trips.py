"""Round trips: how often a ledger function waits for the server, counted at its transaction."""

from collections.abc import Callable
from typing import Any

from oncebox.db.database import Row, SentStatement, Transaction


class RoundTrips:
    """A transaction of many writers that counts the waits for results, without BEGIN and COMMIT."""

    is_serial = False

    def __init__(self, tx: Transaction) -> None:
        """Count nothing yet."""
        self._tx = tx
        self.count = 0
        self._unread: set[SentStatement] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Run a statement and wait for its result, which comes after those of the sent ones."""

        def waited(*args: Any, **values: Any) -> Any:
            if args[1:] != ([],):  # over no rows nothing is run
                self.receive()
                self.count += 1
            return getattr(self._tx, name)(*args, **values)

        return waited

    def receive(self) -> None:
        """Have the results of all that was sent."""
        self._unread.clear()

    def send(self, *args: Any, **values: Any) -> SentStatement:
        """Send a statement."""
        return self._sent(self._tx.send(*args, **values))

    def send_many(self, query: Any, rows: Any, /, **shared: Any) -> SentStatement:
        """Send a bulk statement."""
        sent = self._tx.send_many(query, rows, **shared)
        return self._sent(sent) if rows else sent

    def _sent(self, sent: SentStatement) -> SentStatement:
        self._unread.add(sent)
        return _Counted(self, sent)

    def wait_for(self, sent: SentStatement) -> None:
        """Count a round trip, if the result has not come with another one."""
        if sent in self._unread:
            self.receive()
            self.count += 1


class _Counted:
    def __init__(self, trips: RoundTrips, sent: SentStatement) -> None:
        self._trips = trips
        self._sent = sent

    def rows(self) -> list[Row]:
        self._trips.wait_for(self._sent)
        return self._sent.rows()

    def count(self) -> int:
        self._trips.wait_for(self._sent)
        return self._sent.count()


def counted(function: Callable[..., Any], *args: Any) -> Callable[[Transaction], int]:
    """Return a function that runs a ledger function, and returns its round trips."""

    def run(tx: Transaction) -> int:
        trips = RoundTrips(tx)
        function(trips, *args)
        return trips.count

    return run
