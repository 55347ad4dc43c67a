"""Faults in leases that are taken by the commit of the intent, and in numbers given by it."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

#: how far the conditions of a lease are indented in both statements
_BOTH = ("    ", "        ")
_SQL = "src/oncebox/ledger/sends/submission.sql"
_OUTBOX = "src/oncebox/ledger/sends/outbox.py"
_WORKER = "src/oncebox/workers/sends/send_worker.py"
_SEQUENCER = "src/oncebox/ledger/events/event_log.py"


def _tests(*names: str) -> Selection:
    file = "tests/contract/sends/test_immediate_leases.py"
    return Selection(tuple(f"{file}::{name}" for name in names))


def _numbers(*names: str) -> Selection:
    return Selection(tuple(f"tests/contract/events/test_sequencer.py::{name}" for name in names))


_CLAIM_DECIDES = _tests("test_what_a_claim_counts_or_refuses_is_left_to_a_claim")

IMMEDIATE_LEASES = (
    Mutant(
        "a lease without a fence",
        (
            Patch(
                _SQL,
                "\n    :kept_for, :id, :size, CASE WHEN held.name = way.name THEN 1 ELSE 0 END,\n",
                "\n    :kept_for, :id, :size, 0,\n",
            ),
        ),
        (_tests("test_the_commit_leaves_what_a_claim_leaves"),),
    ),
    Mutant(
        "a lease that never ends",
        (
            Patch(
                _SQL,
                "\n    :send_at, CASE WHEN held.name = way.name THEN :until ELSE :due_at END",
                "\n    :send_at, CASE WHEN held.name = way.name THEN :until * 2 ELSE :due_at END",
            ),
        ),
        (_tests("test_a_lease_that_is_lost_before_the_marker_is_given_back"),),
    ),
    Mutant(
        "a lease on a paused transport",
        tuple(
            Patch(_SQL, f"\n    {indent}AND held.paused = 0 AND", f"\n    {indent}AND")
            for indent in _BOTH
        ),
        (_CLAIM_DECIDES,),
    ),
    Mutant(
        "a lease beside the rate limit",
        tuple(
            Patch(
                _SQL,
                f"\n    {indent}AND held.paused = 0 AND held.rate IS NULL AND",
                f"\n    {indent}AND held.paused = 0 AND",
            )
            for indent in _BOTH
        ),
        (_CLAIM_DECIDES,),
    ),
    Mutant(
        "a lease on a transport that rests",
        tuple(
            Patch(
                _SQL,
                f"\n    {indent}AND held.paused = 0 AND held.rate IS NULL"
                " AND held.rests_until IS NULL",
                f"\n    {indent}AND held.paused = 0 AND held.rate IS NULL",
            )
            for indent in _BOTH
        ),
        (_CLAIM_DECIDES,),
    ),
    Mutant(
        "a lease on a transport as it was before its change",
        tuple(
            Patch(
                _SQL,
                f"\n{indent}ON held.tenant = :tenant AND held.name = :held"
                " AND held.changed_at = :seen\n",
                f"\n{indent}ON held.tenant = :tenant AND held.name = :held AND :seen > 0\n",
            )
            for indent in _BOTH
        ),
        (_tests("test_a_transport_that_was_changed_since_is_not_used_from_memory"),),
    ),
    Mutant(
        "a lease before or after the time of a send",
        (
            Patch(
                _SQL,
                "AND :due_at <= :now AND (CAST(:valid_until AS BIGINT) IS NULL"
                " OR :valid_until > :now)\n",
                "        AND :now > 0\n",
            ),
        ),
        (_tests("test_a_send_is_not_leased_before_or_after_its_time"),),
    ),
    Mutant(
        "a leased mail to the suppression list",
        (
            Patch(
                _SQL,
                "WHERE tenant = :tenant AND id = :id AND state IN ('pending', 'claimed')\n",
                "WHERE tenant = :tenant AND id = :id AND state = 'pending'\n",
            ),
        ),
        (_tests("test_a_suppressed_recipient_gets_nothing_and_no_try_is_counted"),),
    ),
    Mutant(
        "a recipient that is forgotten on the way",
        (
            Patch(
                _SQL,
                "generate_series(0, octet_length(:marks) / 32 - 1)",
                "generate_series(0, 0)",
            ),
        ),
        (_tests("test_one_statement_stores_what_several_do"),),
    ),
    Mutant(
        "one statement beside the suppression list",
        (
            Patch(
                _SQL,
                "WHERE NOT EXISTS (SELECT 1 FROM oncebox_suppressions AS listed WHERE",
                "WHERE NOT EXISTS (SELECT 1 FROM oncebox_suppressions AS listed WHERE 1 > 2 AND",
            ),
        ),
        (_tests("test_a_suppressed_recipient_gets_nothing_and_no_try_is_counted"),),
    ),
    Mutant(
        "one statement beside the limits",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    if any(each.guards != _NO_LIMITS for each in new):\n        return None\n",
                "",
            ),
        ),
        (_tests("test_an_intent_over_its_limits_is_neither_stored_nor_leased"),),
    ),
    Mutant(
        "a leased mail that goes with its caller",
        (
            Patch(
                _OUTBOX,
                '        """Return False: a lease must reach its worker."""\n'
                "        return False\n",
                '        """Return False: a lease must reach its worker."""\n'
                "        return self.result.done()\n",
            ),
        ),
        (_tests("test_a_mail_whose_caller_has_gone_is_sent_at_once"),),
    ),
    Mutant(
        "a mail of another's lease",
        (
            Patch(
                _OUTBOX,
                "result.send.id == new.id and result.send.fence:\n",
                "result.send.fence:\n",
            ),
        ),
        (_tests("test_a_mail_that_another_process_stored_first_is_not_sent_here"),),
    ),
    Mutant(
        "capacity that is never given back",
        (
            Patch(
                _OUTBOX,
                "        self._reserved.release()\n        if not self.result.done():\n"
                "            self.result.set_exception(error)\n",
                "        if not self.result.done():\n"
                "            self.result.set_exception(error)\n",
            ),
        ),
        (_tests("test_a_lost_reply_to_the_commit_costs_a_lease_and_sends_once"),),
    ),
    Mutant(
        "new mail before mail that waits",
        (Patch(_WORKER, "            or (tenant, found.name) in self._backlogged\n", ""),),
        (_tests("test_new_mail_does_not_overtake_what_waits_for_capacity"),),
    ),
    Mutant(
        "a lease of a worker that stops",
        (
            Patch(
                _WORKER,
                "            or self._stopping.is_set()\n            or found",
                "            or found",
            ),
        ),
        (_tests("test_who_stops_leases_nothing_more"),),
    ),
    Mutant(
        "a number that overtakes an event in waiting",
        (Patch(_SEQUENCER, " or not events or tx.one(_sql.waiting) != (0,):", " or not events:"),),
        (_numbers("test_no_event_gets_a_number_before_one_that_waits_for_its_own"),),
    ),
    Mutant(
        "numbers in commits that run at the same time",
        (Patch(_SEQUENCER, "if not tx.is_serial or not events", "if not events"),),
        (_numbers("test_an_event_is_numbered_by_its_own_commit_where_commits_come_one_by_one"),),
    ),
)
