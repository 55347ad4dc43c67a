"""Faults in sends: a second mail, a lost proof, a doubt that ends by itself."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection, Torture


def _tests(*names: str, file: str = "tests/contract/sends/test_tries.py") -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


_WALK = _tests(
    "test_every_walk_agrees_with_the_model_and_takes_only_moves_of_the_table",
    file="tests/contract/sends/test_send_walks.py",
)

SENDS = (
    Mutant(
        "a hand-over after the lease",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "= 'claimed' AND fence = :fence AND due_at > :now\n    AND (valid_until",
                "= 'claimed' AND fence = :fence\n    AND (valid_until",
            ),
        ),
        (_tests("test_no_marker_after_the_lease_even_if_nobody_swept"), _WALK),
    ),
    Mutant(
        "a hand-over by a stale fence",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "= 'claimed' AND fence = :fence AND due_at > :now\n    AND (valid_until",
                "= 'claimed' AND fence >= :fence AND due_at > :now\n    AND (valid_until",
            ),
        ),
        (_tests("test_no_marker_for_a_stale_fence"), _WALK),
    ),
    Mutant(
        "a marker for whoever asks beside the holder",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.py",
                "return [(marker.id, marker.fence) in marked for marker in markers]",
                "return [marker.id in {id_ for id_, _ in marked} for marker in markers]",
            ),
        ),
        (_tests("test_no_marker_for_a_stale_fence_that_asks_beside_the_holder"),),
    ),
    Mutant(
        "a mail to the suppression list",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark\n"
                "        WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = "
                "oncebox_sends.tenant\n    )\nRETURNING id, fence;\n\n-- name: suppress",
                "            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark\n"
                "        WHERE goes_to.send_id = oncebox_sends.id AND 1 = 0\n"
                "    )\nRETURNING id, fence;\n\n-- name: suppress",
            ),
        ),
        (_tests("test_no_marker_for_a_suppressed_recipient"), _WALK),
    ),
    Mutant(
        "a mail that comes too late",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "due_at > :now\n    AND (valid_until IS NULL OR valid_until > :now)\n",
                "due_at > :now\n",
            ),
        ),
        (_tests("test_no_marker_after_valid_until"), _WALK),
    ),
    Mutant(
        "a replay after the provider has forgotten the key",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "        OR (again = 'replay' AND oncebox_sends.replay_until > :now))\n",
                "        OR again = 'replay')\n",
            ),
        ),
        (_tests("test_replay_ends_with_the_window"),),
    ),
    Mutant(
        "a repeat that is given up because its lease was late",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "    AND (again IS NULL OR valid_until",
                "    AND (1 = 1 OR valid_until",
            ),
        ),
        (_tests("test_a_repeat_is_not_given_up_because_its_lease_was_renewed_too_late"),),
    ),
    Mutant(
        "a window that begins anew with every replay",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "replay_until = CASE WHEN in_doubt_at IS NULL THEN :replay_until "
                "ELSE replay_until END",
                "replay_until = :replay_until",
            ),
        ),
        (_tests("test_replay_repeats_inside_the_window_with_the_same_key"),),
    ),
    Mutant(
        "a lost hand-over that is sent again",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.py",
                "    claimed = sorted(row[:3] for row in lost if row[3] == SendState.CLAIMED)\n",
                "    claimed = sorted(row[:3] for row in lost)\n",
            ),
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "AND fence = :fence AND state = 'claimed' AND due_at <= :now",
                "AND fence = :fence AND due_at <= :now",
            ),
        ),
        (
            _tests("test_an_expired_sending_becomes_unknown_and_is_never_claimed_again"),
            _WALK,
            Torture("sends-crash-points", "sqlite", ("doubled",)),
        ),
    ),
    Mutant(
        "a lost hand-over whose worker may still deny it",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "AND fence = :fence AND state IN ('claimed', 'sending')\n"
                "RETURNING :fence, id;\n\n-- name: reject",
                "AND fence >= :fence AND state IN ('claimed', 'sending', 'unknown')\n"
                "RETURNING :fence, id;\n\n-- name: reject",
            ),
        ),
        (
            _tests(
                "test_an_expired_sending_becomes_unknown_and_is_never_claimed_again",
                "test_a_stale_fence_changes_nothing_but_is_on_record",
            ),
            _WALK,
        ),
    ),
    Mutant(
        "proof that comes too late for its fence",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "state <> 'sent' AND :fence <= fence",
                "state <> 'sent' AND :fence = fence",
            ),
        ),
        (
            _tests("test_a_late_success_of_a_stale_fence_is_recorded"),
            _WALK,
            Torture("sends-pauses", "postgres", ("unproven",)),
        ),
    ),
    Mutant(
        "proof that a wrong end keeps out",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "state <> 'sent' AND :fence <= fence",
                "state IN ('pending', 'claimed', 'sending', 'unknown') AND :fence <= fence",
            ),
        ),
        (_tests("test_proof_counts_whatever_was_thought_before"), _WALK),
    ),
    Mutant(
        "a rejected repeat that ends the doubt of what it repeated",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "SET state = CASE WHEN in_doubt_at IS NOT NULL THEN 'unknown' ELSE 'failed' END,\n"
                "    due_at = NULL, again = NULL,",
                "SET state = 'failed', in_doubt_at = NULL,\n    due_at = NULL, again = NULL,",
            ),
        ),
        (
            _tests("test_a_repeat_that_was_not_taken_says_nothing_of_the_hand_over_in_doubt"),
            _WALK,
        ),
    ),
    Mutant(
        "a send in doubt that goes another way",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "transport = CASE WHEN in_doubt_at IS NULL AND pinned = 0 AND EXISTS (",
                "transport = CASE WHEN pinned = 0 AND EXISTS (",
            ),
        ),
        (_tests("test_another_way_is_taken_only_from_proven_not_sent"),),
    ),
    Mutant(
        "a provider key that outlives its refusal",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "    epoch = epoch + CASE WHEN in_doubt_at IS NULL AND state = 'sending' "
                "THEN 1 ELSE 0 END,\n    replay_until",
                "    replay_until",
            ),
        ),
        (_tests("test_what_was_not_sent_is_tried_again_when_it_is_due"),),
    ),
    Mutant(
        "another audience under a key whose send failed",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "    AND oncebox_sends.protected = :protected AND state IN",
                "    AND state IN",
            ),
        ),
        (
            _tests(
                "test_other_protected_fields_are_refused_even_where_nothing_was_sent",
                file="tests/contract/sends/test_sends.py",
            ),
        ),
    ),
    Mutant(
        "a send in doubt that its next caller arms again",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "marked_at = NULL, replay_until = NULL, again = NULL,\n",
                "marked_at = NULL, replay_until = NULL, again = NULL, in_doubt_at = NULL,\n",
            ),
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "state IN ('failed', 'expired', 'cancelled')",
                "state IN ('failed', 'expired', 'cancelled', 'unknown')",
            ),
        ),
        (
            _tests(
                "test_a_repeat_of_what_is_in_doubt_sends_nothing",
                file="tests/contract/sends/test_sends.py",
            ),
            _WALK,
        ),
    ),
    Mutant(
        "a claim by a paused transport",
        (Patch("src/oncebox/ledger/sends/lifecycle.sql", " AND way.paused = 0\n", "\n"),),
        (
            _tests(
                "test_by_a_paused_transport_nothing_is_claimed",
                file="tests/contract/sends/test_transports.py",
            ),
        ),
    ),
    Mutant(
        "many sends that try a transport after its rest",
        (
            Patch(
                "src/oncebox/ledger/sends/transports.py",
                "TransportCapacity(\n        min(allowed, 1) if probe else allowed,",
                "TransportCapacity(allowed,",
            ),
        ),
        (
            _tests(
                "test_after_its_rest_one_send_tries_and_the_others_wait",
                file="tests/contract/sends/test_transports.py",
            ),
        ),
    ),
    Mutant(
        "more than the rate of a transport",
        (
            Patch(
                "src/oncebox/ledger/sends/transports.sql",
                "SET allowance = allowance - :taken * rate_within\n",
                "SET allowance = allowance - :taken\n",
            ),
        ),
        (
            _tests(
                "test_no_more_is_begun_than_the_rate_allows",
                file="tests/contract/sends/test_transports.py",
            ),
        ),
    ),
    Mutant(
        "a call off of what may have been sent",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "    AND state IN ('pending', 'claimed') AND in_doubt_at IS NULL;",
                "    AND state IN ('pending', 'claimed', 'sending') AND in_doubt_at IS NULL;",
            ),
        ),
        (
            _tests(
                "test_a_send_on_the_wire_cannot_be_cancelled",
                file="tests/contract/sends/test_operations.py",
            ),
            _WALK,
        ),
    ),
    Mutant(
        "words of a send that was armed again, let go",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "ended_at = NULL, keep_until = NULL,\n    purged_at = NULL",
                "ended_at = NULL,\n    purged_at = NULL",
            ),
            Patch(
                "src/oncebox/ledger/maintenance.sql",
                "    AND state IN ('sent', 'failed', 'suppressed', 'cancelled', 'expired', "
                "'logged')\nRETURNING id;\n\n-- name: drop_bodies",
                "RETURNING id;\n\n-- name: drop_bodies",
            ),
        ),
        (
            _tests(
                "test_what_is_armed_again_in_time_keeps_its_words",
                file="tests/contract/sends/test_retention.py",
            ),
        ),
    ),
    Mutant(
        "a send that opens in another row",
        (
            Patch(
                "src/oncebox/ledger/ciphers.py",
                'return msgspec.msgpack.encode(("send", what, tenant, name))',
                'return msgspec.msgpack.encode(("send", what, tenant, name[:0]))',
            ),
        ),
        (
            _tests(
                "test_what_a_send_says_is_sealed_for_its_own_place",
                file="tests/contract/sends/test_sends.py",
            ),
        ),
    ),
)
