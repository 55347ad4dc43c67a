"""Faults in statements that share round trips, and in what a process tells itself."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_POSTGRES = "src/oncebox/db/postgres.py"
_TRANSACTION = "src/oncebox/db/postgres_transaction.py"
_HUB = "src/oncebox/ledger/inboxes/longpoll.py"
_SENT = "tests/contract/db/test_sent_statements.py"
_RINGS = "tests/contract/db/test_notifications.py"
_LOBBY = "tests/contract/inboxes/test_longpoll_hub.py"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


PIPELINES = (
    Mutant(
        "a commit that was sent counts as done",
        (
            Patch(
                _TRANSACTION,
                '            self.receive()\n            if cursor.statusmessage != "COMMIT":',
                '            if cursor.statusmessage not in {"COMMIT", None}:',
            ),
        ),
        _tests(_SENT, "test_an_error_of_what_was_sent_leaves_nothing"),
    ),
    Mutant(
        "what is sent first is outside the transaction",
        (
            Patch(
                _TRANSACTION,
                "        self._begin()\n        cursor = self._connection.cursor(binary=True)\n",
                "        cursor = self._connection.cursor(binary=True)\n",
            ),
        ),
        _tests(_SENT, "test_an_error_after_statements_were_sent_leaves_nothing"),
    ),
    Mutant(
        "a deadlock that is taken for an unknown commit",
        (Patch(_POSTGRES, "if not self._is_undone(error):", "if error.sqlstate:"),),
        _tests(_SENT, "test_a_deadlock_with_the_last_statement_is_repeated"),
    ),
    Mutant(
        "a rollback that is taken for a commit",
        (Patch(_TRANSACTION, 'cursor.statusmessage != "COMMIT":', "not cursor.statusmessage:"),),
        _tests(
            _SENT,
            "test_a_transaction_whose_caller_ignored_an_error_is_never_taken_for_committed",
        ),
    ),
    Mutant(
        "a process that hears itself",
        (Patch(_POSTGRES, "if not self._is_own(notice.pid):", "if notice.pid:"),),
        _tests(_RINGS, "test_a_ring_reaches_the_subscribers_here_once"),
    ),
    Mutant(
        "a process that takes every other one for itself",
        (Patch(_POSTGRES, "pid == self._notifying_pid", "pid != self._notifying_pid"),),
        _tests(_RINGS, "test_a_ring_reaches_the_subscribers_here_once"),
    ),
    Mutant(
        "an old read that takes back what was filed meanwhile",
        (
            Patch(
                _HUB,
                "watched.position = position.merged(watched.position)",
                "watched.position = position",
            ),
        ),
        _tests(_LOBBY, "test_an_older_read_does_not_take_back_a_message_filed_here"),
    ),
    Mutant(
        "a message that wakes nobody here",
        (Patch(_HUB, "InboxPosition(sequence, 0, 0)", "InboxPosition(0, 0, 0)"),),
        _tests(_LOBBY, "test_a_message_filed_here_wakes_at_once_without_a_read"),
    ),
)
