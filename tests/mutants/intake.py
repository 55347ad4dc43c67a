"""Faults in webhook intake: compiled schemes, bulk inserts, connections on the loop."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_COMPILATION = "src/oncebox/webhooks/compilation.py"
_REQUESTS = "src/oncebox/server/webhooks/request_verification.py"
_GROUP = "tests/contract/db/test_group_commit.py"
_LOOP = "src/oncebox/db/loop_connection.py"


def _compilation(*names: str) -> Selection:
    return Selection(tuple(f"tests/webhooks/test_compilation.py::{name}" for name in names))


def _requests(*names: str) -> Selection:
    file = "tests/server/webhooks/test_request_verification.py"
    return Selection(tuple(f"{file}::{name}" for name in names))


def _loop(*names: str) -> Selection:
    return Selection(tuple(f"tests/db/test_loop_connection.py::{name}" for name in names))


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
        "a compiled scheme that takes every id for signed",
        (
            Patch(
                _COMPILATION,
                "return joint.join(values), signed",
                "return joint.join(values), True",
            ),
        ),
        (_compilation("test_an_id_in_an_unsigned_header_is_not_taken_for_signed"),),
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
                "if result.status == pq.ExecStatus.COMMAND_OK:",
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
                "            if inserted == len(items):\n",
                "            if inserted is not None:\n",
            ),
        ),
        (Selection((f"{_GROUP}::test_the_shortcut_and_the_long_way_give_the_same_answers",)),),
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
)
