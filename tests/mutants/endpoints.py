"""Faults where events are delivered to endpoints: passed over, doubled, believed, sent for ever."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LEDGER = "src/oncebox/ledger/endpoints/endpoints.py"
_SQL = "src/oncebox/ledger/endpoints/endpoints.sql"
_MODEL = "src/oncebox/model/endpoints.py"
_PROCESSOR = "src/oncebox/workers/endpoints/endpoint_processor.py"
_EGRESS = "src/oncebox/core/egress.py"


def _one(name: str, file: str, change: tuple[str, str], test: str, names: str) -> Mutant:
    killers = tuple(f"tests/contract/endpoints/{test}.py::{each}" for each in names.split())
    return Mutant(f"endpoints: {name}", (Patch(file, *change),), (Selection(killers),))


ENDPOINTS = (
    _one(
        "two processes store the same events",
        _SQL,
        (" AND cursor = :before", " AND (cursor = :before OR cursor > 0)"),
        "test_endpoints",
        "test_two_processes_store_the_same_events_once",
    ),
    _one(
        "events from before an endpoint was added",
        _MODEL,
        ("event.number > self.since", "event.number > 0"),
        "test_endpoints",
        "test_events_that_wait_for_others_are_not_those_of_a_new_endpoint",
    ),
    _one(
        "events that endpoints cause",
        _MODEL,
        ("            and not _is_about_endpoints(event, self.name)\n", ""),
        "test_endpoints",
        "test_what_endpoints_cause_is_not_sent_to_them",
    ),
    _one(
        "ordered events side by side",
        _LEDGER,
        ("lane=place.lane(event)", "lane=place.lane(event) and None"),
        "test_endpoints",
        "test_an_ordered_endpoint_gets_the_events_of_an_inbox_one_after_the_other",
    ),
    _one(
        "a breaker that never opens",
        _MODEL,
        ("if failures < BREAKER_FAILURES:", "if failures >= 0:"),
        "test_endpoints",
        "test_a_breaker_opens_after_failures_and_is_announced",
    ),
    _one(
        "a refusal is an acceptance",
        _MODEL,
        ("_MULTIPLE_CHOICES, _GONE = 200, 300, 410", "_MULTIPLE_CHOICES, _GONE = 200, 600, 410"),
        "test_endpoint_worker",
        "test_events_are_repeated_until_they_are_accepted",
    ),
    _one(
        "another id for each try",
        _PROCESSOR,
        ("sign(secrets, delivery.key,", "sign(secrets, f'{delivery.key}-{delivery.tries}',"),
        "test_endpoint_worker",
        "test_events_are_repeated_until_they_are_accepted",
    ),
    _one(
        "only the newest secret signs",
        _PROCESSOR,
        ("signed = sign(secrets,", "signed = sign(secrets[:1],"),
        "test_endpoint_worker",
        "test_an_event_arrives_signed_as_two_independent_libraries_read_it",
    ),
    _one(
        "addresses inside the network",
        _EGRESS,
        ("is_public_answer(each) or self", "is_public_answer(each) or each or self"),
        "test_endpoint_worker",
        "test_addresses_inside_are_refused_unless_they_are_allowed",
    ),
    Mutant(
        "endpoints: plain http to anybody",
        (Patch(_EGRESS, 'plain = parts.scheme == "https" and (', "plain = parts.scheme and ("),),
        (Selection(("tests/core/test_egress.py",)),),
    ),
)  # fmt: skip
