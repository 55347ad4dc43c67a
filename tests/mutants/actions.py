"""Faults in actions and resends: who holds one, what becomes of doubt, and how often."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection, Torture

_LEDGER = "src/oncebox/ledger/attempts"


def _tests(*names: str, file: str = "tests/contract/attempts/test_actions.py") -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


ACTIONS = (
    Mutant(
        "an action that is taken over while somebody holds it",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "state IN ('started', 'verifying') AND lease_until <= :now AND safe = :safe",
                "state IN ('started', 'verifying') AND safe = :safe",
            ),
        ),
        (_tests("test_what_was_lost_goes_on_as_was_chosen"),),
    ),
    Mutant(
        "an action that the next caller may repeat against its choice",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "lease_until <= :now AND safe = :safe\n",
                "lease_until <= :now\n",
            ),
        ),
        (_tests("test_where_the_choices_differ_no_caller_repeats"),),
    ),
    Mutant(
        "an action once that is begun again",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "SET state = CASE WHEN state = 'not_done' OR safe = 'idempotent' THEN",
                "SET state = CASE WHEN state = 'not_done' OR safe <> 'verify' THEN",
            ),
            Patch(
                f"{_LEDGER}/actions.sql",
                "        AND (safe = 'verify' OR (safe = 'idempotent' "
                "AND first_started_at >= :since))\n    ))",
                "        AND (safe = 'verify' OR first_started_at >= :since)\n    ))",
            ),
        ),
        (
            _tests(
                "test_what_was_lost_goes_on_as_was_chosen",
                "test_of_two_who_take_over_at_once_one_does",
            ),
            Torture("artifacts-actions", "sqlite", ("doubled",)),
        ),
    ),
    Mutant(
        "a stale holder that denies an action",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "    AND state IN ('started', 'verifying') AND fence = :fence\n    AND NOT (state",
                "    AND state IN ('started', 'verifying')\n    AND NOT (state",
            ),
        ),
        (_tests("test_a_stale_holder_cannot_change_the_state"),),
    ),
    Mutant(
        "proof of an action that comes too late",
        (Patch(f"{_LEDGER}/actions.sql", ":fence <= fence", ":fence = fence"),),
        (_tests("test_a_stale_holder_may_add_proof_of_success"),),
    ),
    Mutant(
        "an action whose last result replaces the first",
        (Patch(f"{_LEDGER}/actions.sql", "    AND state <> 'done' AND", "    AND"),),
        (_tests("test_repeats_are_answered_with_the_first_result"),),
    ),
    Mutant(
        "an action whose denied repeat clears its first start",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "    AND NOT (state = 'started' AND safe = 'idempotent' "
                "AND first_started_at < started_at)\n",
                "",
            ),
        ),
        (
            _tests("test_a_repeat_that_did_not_happen_leaves_the_first_start_in_doubt"),
            _tests(
                "test_every_walk_agrees_with_the_model_and_takes_every_move",
                file="tests/contract/attempts/test_action_walks.py",
            ),
        ),
    ),
    Mutant(
        "an action that its own repeated request must wait for",
        (
            Patch(
                f"{_LEDGER}/actions.sql",
                "    AND state IN ('started', 'verifying') AND request_mark = :mark\n",
                "    AND state = 'nothing' AND request_mark = :mark\n",
            ),
        ),
        (_tests("test_a_repeat_of_the_same_request_may_come_after_the_lease"),),
    ),
    Mutant(
        "an action whose result strangers are told",
        (
            Patch(
                f"{_LEDGER}/actions.py",
                "    if known is None or request.ref.requester.owner not in {None, known.owner}:\n",
                "    if known is None:\n",
            ),
        ),
        (
            _tests(
                "test_strangers_in_one_commit_are_told_apart",
                "test_an_attempt_is_of_the_key_that_made_its_first_inbox",
            ),
            _tests(
                "test_an_agent_acts_for_its_own_attempts_only",
                file="tests/server/api/test_attempts.py",
            ),
        ),
    ),
    Mutant(
        "actions of an attempt that a second inbox gives away",
        (
            Patch(
                f"{_LEDGER}/attempts.sql", "ORDER BY first.id LIMIT", "ORDER BY first.id DESC LIMIT"
            ),
        ),
        (_tests("test_an_attempt_is_of_the_key_that_made_its_first_inbox"),),
    ),
    Mutant(
        "a result of an action in plain text",
        (
            Patch(
                "src/oncebox/ledger/attempts/actions.py",
                "        return self._key.encrypt(result, bound_to=result_aad(*ref.key), "
                "purpose=RESULT)\n",
                "        return result_aad(*ref.key)[:0] + result\n",
            ),
            Patch(
                "src/oncebox/ledger/attempts/actions.py",
                "        return self._key.decrypt(action.result, bound_to=bound, purpose=RESULT)\n",
                "        return bound[:0] + action.result\n",
            ),
        ),
        (_tests("test_a_result_is_sealed", file="tests/server/api/test_attempts.py"),),
    ),
    Mutant(
        "figures of a batch: attempts of other keys",
        (
            Patch(
                f"{_LEDGER}/attempts.sql",
                "attempt_id < :highest\n            AND (CAST(:owner AS TEXT) IS NULL OR COALESCE",
                "attempt_id < :highest\n            AND (TRUE OR COALESCE",
            ),
        ),
        (
            _tests(
                "test_the_figures_of_a_batch_are_those_of_all_attempts_with_its_prefix",
                file="tests/contract/inboxes/test_inboxes.py",
            ),
        ),
    ),
    Mutant(
        "resends beyond the budget",
        (Patch(f"{_LEDGER}/attempts.sql", " AND resends < :allowed", " AND :allowed >= 0"),),
        (
            _tests(
                "test_a_resend_is_granted_as_often_as_the_policy_says",
                "test_racing_callers_never_exceed_the_budget",
                file="tests/contract/attempts/test_resends.py",
            ),
        ),
    ),
    Mutant(
        "resends and other creations told to another key",
        (
            Patch(
                "src/oncebox/server/http/api_endpoint.py",
                "{path} {call.key.id}",
                "{path}",
            ),
        ),
        (
            _tests(
                "test_the_answer_to_one_key_is_not_given_to_another",
                file="tests/server/api/test_attempts.py",
            ),
        ),
    ),
)
