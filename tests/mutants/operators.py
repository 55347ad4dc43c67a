"""Faults in what a person does to deliveries and transports: past a doubt, or for another."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_OPERATIONS = "src/oncebox/ledger/deliveries/operations.py"
_OPERATIONS_SQL = "src/oncebox/ledger/deliveries/operations.sql"


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
)
