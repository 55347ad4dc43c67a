"""Faults in what a person does to deliveries and transports: past a doubt, or for another."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_OPERATIONS = "src/oncebox/ledger/deliveries/operations.py"
_OPERATIONS_SQL = "src/oncebox/ledger/deliveries/operations.sql"
_TRANSPORTS = "src/oncebox/ledger/sends/transports.py"
_TRANSPORTS_SQL = "src/oncebox/ledger/sends/transports.sql"
_NEEDED = "test_a_transport_that_a_send_needs_is_not_removed"


def _one(name: str, file: str, change: tuple[str, str], test: str, names: str) -> Mutant:
    killers = tuple(f"tests/contract/{test}.py::{each}" for each in names.split())
    return Mutant(name, (Patch(file, *change),), (Selection(killers),))


OPERATORS = (
    _one(
        "drop: what is not held",
        _OPERATIONS_SQL,
        (
            "AND state || '' = 'held'\nRETURNING tenant, source, lane, lane_position, type,",
            "\nRETURNING tenant, source, lane, lane_position, type,",
        ),
        "deliveries/test_transitions",
        "test_each_verb_from_each_state test_a_person_is_told_why_not_and_what_instead",
    ),
    _one(
        "drop: past an unknown effect",
        _OPERATIONS,
        (
            "facts = _resolve_effects(tx, id_, entry, resolutions)\n    row = tx.one(_sql.drop,",
            "facts = inspections.read_facts(tx, entry.tenant, id_)\n    row = tx.one(_sql.drop,",
        ),
        "deliveries/test_operations",
        "test_nothing_runs_past_an_unknown_effect "
        "test_a_drop_records_a_persons_word_on_an_unknown_effect",
    ),
    _one(
        "drop: the lane stands still",
        _OPERATIONS,
        ("lanes.advance(tx, [((tenant, source, lane), completion)], entry.at)", "del completion"),
        "deliveries/test_lanes",
        "test_a_lane_goes_on_when_its_held_head_is_dropped",
    ),
    _one(
        "drop: those who wait for its number or type still wait",
        _OPERATIONS,
        (
            "[((tenant, source, lane), completion)], entry.at)",
            "[((tenant, source, lane), None)], entry.at)",
        ),
        "deliveries/test_ordering",
        "test_a_dropped_number_counts_as_done_for_those_above_it "
        "test_a_dropped_predecessor_is_not_waited_for",
    ),
    _one(
        "drop: nobody knows who did it",
        _OPERATIONS,
        ('    audit.record(tx, entry, "drop", id_, _audit_detail(resolutions))\n', ""),
        "deliveries/test_operations",
        "test_a_dropped_delivery_is_done_and_never_runs",
    ),
    _one(
        "drop: a replay asks the policy again",
        _OPERATIONS_SQL,
        (
            "SET state = 'done', outcome = 'dropped', ended_at = :now, hold_reason",
            "SET state = 'done', outcome = 'handled', ended_at = :now, hold_reason",
        ),
        "deliveries/test_operations",
        "test_a_dropped_delivery_can_be_replayed_and_its_policy_is_not_asked_again",
    ),
    _one(
        "drop: its alert goes on",
        _OPERATIONS_SQL,
        ("SET state = 'done', outcome = 'dropped',", "SET outcome = 'dropped',"),
        "deliveries/test_backlog",
        "test_the_gauges_show_the_backlog_and_return_to_zero",
    ),
    _one(
        "transport remove: beside those who store or repeat a send",
        _TRANSPORTS,
        ("        tx.run(_sql.lock_sends)\n", "        pass\n"),
        "sends/test_transports",
        "test_a_removal_sees_a_send_that_is_stored_at_the_same_moment "
        "test_a_removal_sees_a_send_that_is_tried_again_at_the_same_moment "
        "test_a_send_that_comes_while_its_transport_is_removed_is_refused",
    ),
    _one(
        "transport remove: mail that waits is stranded",
        _TRANSPORTS_SQL,
        (
            "            AND waits.state IN ('pending', 'unknown') AND waits.due_at IS NOT NULL)",
            "            AND waits.state IN ('unknown') AND waits.due_at IS NOT NULL)",
        ),
        "sends/test_transports",
        _NEEDED,
    ),
    _one(
        "transport remove: mail on its way is stranded",
        _TRANSPORTS_SQL,
        (
            "WHERE leased.state IN ('claimed', 'sending') AND leased.due_at IS NOT NULL",
            "WHERE leased.state IN ('sending') AND leased.due_at IS NOT NULL",
        ),
        "sends/test_transports",
        _NEEDED,
    ),
    _one(
        "transport remove: a doubt that nobody can resolve",
        _TRANSPORTS_SQL,
        ("WHERE doubtful.state = 'unknown'", "WHERE doubtful.state = 'unknown' AND 1 = 0"),
        "sends/test_transports",
        _NEEDED,
    ),
    _one(
        "transport remove: its signing domains stay",
        _TRANSPORTS,
        (
            "    tx.run(_sql.forget_signing, **where)\n    audit.record(",
            "    audit.record(",
        ),
        "sends/test_transports",
        "test_a_removed_transport_is_gone_with_its_signing_domains_and_that_is_audited",
    ),
    _one(
        "transport remove: what was not sent waits for it again",
        "src/oncebox/ledger/sends/lifecycle.sql",
        (
            "way.name = oncebox_sends.transport);",
            "way.name = oncebox_sends.transport) OR tenant = :tenant AND id = :id;",
        ),
        "sends/test_transports",
        "test_what_was_not_sent_is_not_tried_again_by_a_removed_transport",
    ),
)
