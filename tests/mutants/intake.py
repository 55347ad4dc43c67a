"""Faults in webhook intake: compiled schemes, bulk statements, connections on the loop."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_COMPILATION = "src/oncebox/webhooks/compilation.py"
_REQUESTS = "src/oncebox/server/webhooks/request_verification.py"
_GROUP = "tests/contract/db/test_group_commit.py"
_LOOP = "src/oncebox/db/loop_connection.py"
_DEDUPLICATION = "src/oncebox/ledger/deliveries/deduplication.py"


def _compilation(*names: str) -> Selection:
    return Selection(tuple(f"tests/webhooks/test_compilation.py::{name}" for name in names))


def _requests(*names: str) -> Selection:
    file = "tests/server/webhooks/test_request_verification.py"
    return Selection(tuple(f"{file}::{name}" for name in names))


def _loop(*names: str) -> Selection:
    return Selection(tuple(f"tests/db/test_loop_connection.py::{name}" for name in names))


def _counting(*names: str) -> Selection:
    file = "tests/contract/deliveries/test_counting_duplicates.py"
    return Selection(tuple(f"{file}::{name}" for name in names))


_SAME_AS_ACCEPT = "test_duplicates_are_answered_and_stored_as_by_accept_alone"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


def _submitting(*names: str) -> Selection:
    return _tests("tests/server/api/test_accept.py", *names)


INTAKE = (
    Mutant(
        "a compiled scheme that accepts any signature",
        (
            Patch(
                _COMPILATION,
                "if hmac.compare_digest(digest, candidate):",
                "if digest:",
            ),
        ),
        (
            _compilation(
                "test_whatever_is_changed_it_never_says_anything_else",
                "test_the_secret_that_fits_is_the_same",
            ),
        ),
    ),
    Mutant(
        "a compiled scheme without a window",
        (Patch(_COMPILATION, "if window and not -window <= age <= window:", "if window < 0:"),),
        (_compilation("test_a_request_outside_the_window_is_left_to_the_general_path"),),
    ),
    Mutant(
        "a compiled scheme that overlooks a second signature header",
        (
            Patch(
                _COMPILATION,
                "if is_odd or (others and not others.isdisjoint(headers)):",
                "if is_odd:",
            ),
        ),
        (_compilation("test_a_second_signature_header_is_left_to_the_general_path"),),
    ),
    Mutant(
        "a compiled scheme that takes an id of several parts for signed",
        (
            Patch(
                _COMPILATION,
                "return joint.join(values), signed",
                "return joint.join(values), True",
            ),
        ),
        (_compilation("test_an_id_with_a_part_in_an_unsigned_header_is_not_taken_for_signed"),),
    ),
    Mutant(
        "a compiled scheme whose fingerprint has the volatile members",
        (
            Patch(
                _COMPILATION,
                "event_parsing.fingerprint(body, volatile) if volatile else",
                "event_parsing.fingerprint(body, volatile[:0]) if volatile else",
            ),
        ),
        (_compilation("test_ids_types_and_fingerprints_are_the_same_for_any_body"),),
    ),
    Mutant(
        "a compiled source that any address may use",
        (
            Patch(
                _REQUESTS,
                "if event is None or (compiled.networks and not compiled.allows_address(address)):",
                "if event is None or (compiled.networks and not address):",
            ),
        ),
        (
            _requests(
                "test_a_request_from_an_address_that_is_not_allowed_is_left_to_the_general_path"
            ),
        ),
    ),
    Mutant(
        "a compiled source that forgets whether its ids are signed",
        (
            Patch(
                _REQUESTS,
                "unsigned=not event.id_signed,\n        road",
                "unsigned=False,\n        road",
            ),
        ),
        (_requests("test_a_usual_request_is_stored_as_the_general_path_stores_it"),),
    ),
    Mutant(
        "the general path forgets whether ids are signed",
        (Patch(_REQUESTS, '"unsigned": not event.id_signed,', '"unsigned": False,'),),
        (_requests("test_a_usual_request_is_stored_as_the_general_path_stores_it"),),
    ),
    Mutant(
        "a compiled source that expects no sender",
        (
            Patch(
                _REQUESTS,
                "fast=compile_scheme(scheme, secrets, options) if not source.expect else None,",
                "fast=compile_scheme(scheme, secrets, options),",
            ),
        ),
        (_requests("test_a_source_that_expects_a_sender_is_not_compiled"),),
    ),
    Mutant(
        "a broken connection on the loop that promises nothing was stored",
        (
            Patch(
                _LOOP,
                "raise errors.CommitUnknown(",
                "raise errors.DatabaseUnreachable(",
            ),
        ),
        (_loop("test_a_connection_that_breaks_before_the_answer_leaves_the_commit_unknown"),),
    ),
    Mutant(
        "a connection on the loop that is used again while its statement runs",
        (
            Patch(
                _LOOP,
                "self.close()  # the caller gave up; the statement may still be executed",
                "pass",
            ),
        ),
        (_loop("test_a_caller_that_gives_up_takes_its_connection_along"),),
    ),
    Mutant(
        "a refused statement on the loop that counts as done",
        (
            Patch(
                _LOOP,
                "if result.status in _SUCCEEDED:",
                "if result.status:",
            ),
        ),
        (
            _loop(
                "test_a_refused_row_refuses_its_statement_only",
                "test_errors_of_the_loop_are_those_of_the_sessions",
            ),
        ),
    ),
    Mutant(
        "rows that were not inserted are answered as new",
        (
            Patch(
                "src/oncebox/db/group_commit.py",
                "results = self._insert.results(items) if inserted == len(items) else None",
                "results = self._insert.results(items)",
            ),
        ),
        (Selection((f"{_GROUP}::test_the_shortcut_and_the_long_way_give_the_same_answers",)),),
    ),
    Mutant(
        "a counted duplicate whose body is another",
        (
            Patch(
                _DEDUPLICATION,
                "return id_ != each.id and fingerprint == each.fingerprint and not rearms",
                "return id_ != each.id and bool(fingerprint) and not rearms",
            ),
        ),
        (
            _counting(_SAME_AS_ACCEPT),
            _counting("test_another_body_among_duplicates_is_left_to_accept"),
        ),
    ),
    Mutant(
        "a counted duplicate that is new",
        (
            Patch(
                _DEDUPLICATION,
                "return id_ != each.id and fingerprint == each.fingerprint and not rearms",
                "return bool(id_) and fingerprint == each.fingerprint and not rearms",
            ),
        ),
        (_counting("test_an_arrival_that_the_insert_has_stored_is_left_to_accept"),),
    ),
    Mutant(
        "a counted duplicate that rearms no dead delivery",
        (
            Patch(
                _DEDUPLICATION,
                "_REARMED_STATES = (DeliveryState.FAILED, DeliveryState.DEAD)",
                "_REARMED_STATES = (DeliveryState.FAILED,)",
            ),
        ),
        (
            _counting(_SAME_AS_ACCEPT),
            _counting("test_a_delivery_that_a_redelivery_rearms_is_left_to_accept"),
        ),
    ),
    Mutant(
        "a counted duplicate that hastens no failed delivery",
        (
            Patch(
                _DEDUPLICATION,
                "_REARMED_STATES = (DeliveryState.FAILED, DeliveryState.DEAD)",
                "_REARMED_STATES = (DeliveryState.DEAD,)",
            ),
        ),
        (
            _counting(_SAME_AS_ACCEPT),
            _counting("test_a_delivery_that_a_redelivery_rearms_is_left_to_accept"),
        ),
    ),
    Mutant(
        "a counted duplicate that is an echo",
        (
            Patch(
                _DEDUPLICATION,
                "if any(each.echo_of is not None for each in arrivals):",
                "if not arrivals:",
            ),
        ),
        (_counting("test_an_echo_among_duplicates_is_left_to_accept"),),
    ),
    Mutant(
        "a counted duplicate that is not counted",
        (Patch(_DEDUPLICATION, "    await _record_by_statements(database, seen)\n", ""),),
        (
            _counting(_SAME_AS_ACCEPT),
            _counting("test_a_storm_of_duplicates_takes_no_session_thread"),
        ),
    ),
    Mutant(
        "a counted duplicate without an example",
        (
            Patch(
                _DEDUPLICATION,
                "await database.run_bulk(_sql.keep, examples, now=now)",
                "pass",
            ),
        ),
        (_counting(_SAME_AS_ACCEPT), _counting("test_a_plain_duplicate_is_counted")),
    ),
    Mutant(
        "a statement on the loop that runs another of the same name",
        (
            Patch(_LOOP, "self._prepared.get(query.postgres)", "self._prepared.get(query.name)"),
            Patch(_LOOP, "dict[bytes, bytes] = {}", "dict[str, bytes] = {}"),
            Patch(
                _LOOP, "self._prepared[query.postgres] = name", "self._prepared[query.name] = name"
            ),
        ),
        (_loop("test_queries_with_the_same_name_are_different_statements"),),
    ),
    Mutant(
        "a compiled source with headers of any size",
        (
            Patch(
                _REQUESTS,
                "if len(headers) > limits.headers or len(head.fields) > limits.header_count:",
                "if len(head.fields) > limits.header_count:",
            ),
        ),
        (_requests("test_headers_beyond_a_limit_are_left_to_the_general_path_which_refuses_them"),),
    ),
    Mutant(
        "a compiled source with any number of headers",
        (
            Patch(
                _REQUESTS,
                "if len(headers) > limits.headers or len(head.fields) > limits.header_count:",
                "if len(headers) > limits.headers:",
            ),
        ),
        (_requests("test_headers_beyond_a_limit_are_left_to_the_general_path_which_refuses_them"),),
    ),
    Mutant(
        "a compiled scheme that takes its only id for signed",
        (
            Patch(
                _COMPILATION,
                'return (value, signed) if value else ("", False)',
                'return (value, True) if value else ("", False)',
            ),
        ),
        (_compilation("test_an_id_in_an_unsigned_header_is_not_taken_for_signed"),),
    ),
    Mutant(
        "keys that submit to any source",
        (
            Patch(
                "src/oncebox/server/api/deliveries.py",
                "    if not call.key.may_submit(name):\n",
                "    if not call.key.id:\n",
            ),
        ),
        (_submitting("test_only_keys_that_may_submit_to_the_source_do"),),
    ),
    Mutant(
        "submitted events of another tenant's source",
        (
            Patch(
                "src/oncebox/server/api/deliveries.py",
                "        tenant=call.tenant,\n        redelivery=source.redelivery,\n",
                "        redelivery=source.redelivery,\n",
            ),
        ),
        (_submitting("test_a_key_submits_to_the_sources_of_its_own_tenant_only"),),
    ),
    Mutant(
        "a policy that only sees types with a handler",
        (
            Patch(
                "src/oncebox/workers/deliveries/handlers.py",
                "        return await self._policies.refusal(delivery) or await process(",
                "        known = self._find(delivery)\n"
                "        return known and await self._policies.refusal(delivery) or await process(",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_policies.py",
                "test_a_policy_is_asked_for_types_that_nobody_handles_too",
            ),
        ),
    ),
    Mutant(
        "a policy that pull workers get past",
        (
            Patch(
                "src/oncebox/server/api/pull.py",
                "    return await _allowed(call, ask, claimed)\n",
                "    return claimed\n",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_pull.py",
                "test_a_policy_is_asked_before_a_pull_worker_gets_a_delivery",
            ),
        ),
    ),
)
