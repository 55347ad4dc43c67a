"""Faults in the service: webhooks on their direct path, the API."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


SERVICE = (
    Mutant(
        "an answer by the express whatever became of the commit",
        (
            Patch(
                "src/oncebox/server/webhooks/endpoint.py",
                "            self._exchange.refuse(known)\n",
                "            self._exchange.respond(200, _ACCEPTED_HEADERS, _ACCEPTED.body)\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_fast_path.py",
                "test_a_failed_commit_is_reported_as_temporary",
            ),
        ),
    ),
    Mutant(
        "any key for any route",
        (
            Patch(
                "src/oncebox/server/http/api_endpoint.py",
                "        if is_foreign or not (has_source or key.may(*route.scopes)):\n"
                "            raise Forbidden\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_permissions.py",
                "test_only_keys_with_the_scope_get_through",
                "test_what_concerns_all_tenants_is_only_for_who_runs_the_place",
            ),
        ),
    ),
    Mutant(
        "one tenant for everybody",
        (
            Patch(
                "src/oncebox/server/http/api_endpoint.py",
                "            tenant=key.tenant,\n",
                "            tenant=self._components.settings.tenant,\n",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_permissions.py",
                "test_what_is_foreign_looks_like_what_is_missing",
                "test_lists_hold_nothing_of_others",
            ),
        ),
    ),
    Mutant(
        "a worker of any source",
        (
            Patch(
                "src/oncebox/server/api/pull.py",
                "    return pull.WorkerCaller(tenant=call.tenant, sources=sources)\n",
                "    return pull.WorkerCaller(tenant=call.tenant)\n",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_permissions.py",
                "test_a_worker_of_one_source_sees_nothing_of_another",
            ),
        ),
    ),
    Mutant(
        "work claimed for a client that has gone",
        (
            Patch(
                "src/oncebox/server/api/pull.py",
                "            if call.stopping.is_set() or left.done():\n",
                "            if call.stopping.is_set():\n",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_pull.py",
                "test_a_client_that_goes_while_it_waits_is_handed_nothing",
            ),
        ),
    ),
    Mutant(
        "a lost lease that nobody is told of",
        (
            Patch(
                "src/oncebox/server/api/pull.py",
                "    if not ended.counts:\n        raise _lease_lost(call)\n",
                "",
            ),
        ),
        (_tests("tests/server/api/test_pull.py", "test_a_stale_worker_cannot_settle_and_is_told"),),
    ),
    Mutant(
        "a creation whose answer is not kept",
        (
            Patch(
                "src/oncebox/ledger/admin/idempotency.py",
                "        finish(tx, master_key, fresh, response, ledger.clock())\n",
                "        abandon(tx, fresh)\n",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_api.py",
                "test_a_repeated_creation_gets_the_first_answer_and_creates_nothing",
                "test_racing_creations_with_one_key_create_once",
            ),
        ),
    ),
    Mutant(
        "cursors that fit any list",
        (
            Patch(
                "src/oncebox/server/http/cursors.py",
                'return b"cursor\\0" + msgspec.json.encode([tenant, route, filters])',
                'return b"cursor\\0"',
            ),
        ),
        (
            _tests("tests/server/api/test_api.py", "test_a_cursor_is_good_for_its_own_list_only"),
            _tests(
                "tests/server/api/test_cursors.py", "test_a_cursor_of_another_tenant_leads_nowhere"
            ),
        ),
    ),
    Mutant(
        "errors from inside told outside",
        (
            Patch(
                "src/oncebox/server/http/problems.py",
                'detail = str(error) if isinstance(error, _OWN_DETAIL) else ""',
                'detail = "" if isinstance(error, type) else str(error)',
            ),
        ),
        (
            _tests(
                "tests/server/http/test_problems.py",
                "test_errors_from_inside_are_told_by_what_they_are_only",
            ),
            _tests(
                "tests/server/api/test_api.py",
                "test_a_store_that_cannot_answer_is_503_and_says_nothing_of_why",
            ),
        ),
    ),
)
