"""Faults in the deadlines of database calls: a caller that waits, a claim that does not hold."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_POOL = "src/oncebox/db/session_pool.py"
_GROUP = "src/oncebox/db/group_commit.py"
_POSTGRES = "src/oncebox/db/postgres.py"


def _tests(*names: str) -> tuple[Selection, ...]:
    file = "tests/contract/db/test_deadlines.py"
    return tuple(Selection((f"{file}::{name}",)) for name in names)


def _poolers(*names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"tests/db/test_pooler.py::{name}" for name in names)),)


def _stalled(*names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"tests/db/test_stalled_sessions.py::{name}" for name in names)),)


DEADLINES = (
    Mutant(
        "a process paused in a pipeline that keeps its locks",
        (
            Patch(
                _POSTGRES,
                "                    connection.execute(_END_STALLED, (_STALLED_AFTER,))\n",
                "",
            ),
        ),
        _stalled("test_a_process_paused_in_the_middle_of_a_pipeline_loses_its_locks"),
    ),
    Mutant(
        "sessions of other programs that are ended for their transactions",
        (Patch(_POSTGRES, " AND application_name = 'oncebox'", ""),),
        _stalled("test_a_session_outside_a_transaction_and_those_of_others_are_left_alone"),
    ),
    Mutant(
        "sessions that are ended although they hold nothing",
        (Patch(_POSTGRES, " AND xact_start IS NOT NULL AND", " AND"),),
        _stalled("test_a_session_outside_a_transaction_and_those_of_others_are_left_alone"),
    ),
    Mutant(
        "a call that runs after its caller was told that nothing happened",
        (
            Patch(
                _POOL,
                "            jobs = [job for job in jobs if job.begin()]\n",
                "            _ = [job for job in jobs if job.begin()]\n",
            ),
        ),
        _tests("test_what_has_not_begun_by_the_deadline_never_happens"),
    ),
    Mutant(
        "a caller that is told that nothing was stored while it is being stored",
        (
            Patch(
                _POOL,
                "error = commit_overdue() if is_running and writes else database_overdue()",
                "error = database_overdue()",
            ),
        ),
        _tests("test_a_caller_is_told_in_time_that_its_write_may_still_be_committed"),
    ),
    Mutant(
        "an item that is committed after its caller was told that it is not",
        (
            Patch(
                _GROUP,
                "                removed.append(self._pending.popleft())\n",
                "                removed.append(self._pending[0])\n                break\n",
            ),
        ),
        _tests("test_an_item_that_was_given_up_is_in_no_later_commit"),
    ),
    Mutant(
        "everybody who waits for a database that does not answer",
        (
            Patch(
                _GROUP,
                "        if self._is_overdue and self._flushers and waiter is not None:\n"
                "            raise database_overdue()\n",
                "",
            ),
        ),
        _tests("test_while_a_commit_is_overdue_one_caller_tries_and_the_others_hear_at_once"),
    ),
    Mutant(
        "reads behind commits that hang",
        (
            Patch(
                "src/oncebox/db/postgres.py",
                "        return await self._readers.submit(\n",
                "        return await self._sessions.submit(\n",
            ),
        ),
        _tests("test_reads_are_answered_while_every_write_hangs"),
    ),
    Mutant(
        "a full disk that is ready after a small change",
        (Patch("src/oncebox/db/startup.py", "    if database.disk_full:\n", "    if False:\n"),),
        _tests("test_after_a_full_disk_the_service_is_ready_when_there_is_room_for_a_large_mail"),
    ),
    Mutant(
        "a pooler that mixes up sessions",
        (
            Patch(
                "src/oncebox/db/postgres.py",
                "    if more or one == other:\n",
                "    if more and one == other:\n",
            ),
        ),
        _poolers("test_a_pooler_is_recognised_while_other_programs_use_it"),
    ),
)
