"""Faults in the service: the guard, the connections, the API."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


SERVICE = (
    Mutant(
        "a watch that never ends anybody",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "            connection.check_timeout(now)\n",
                "            pass\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_connections.py",
                "test_a_silent_connection_is_closed",
                "test_slow_headers_are_cut_off_however_steadily_they_drip",
                "test_a_slow_body_is_cut_off_and_never_whole",
                "test_a_client_that_does_not_read_is_let_go",
            ),
        ),
    ),
    Mutant(
        "patience that every byte renews",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if self.stage is Stage.IDLE:\n"
                "            self._wait_for_client(Stage.HEAD",
                "        if self.stage is not Stage.CLOSING:\n"
                "            self._wait_for_client(Stage.HEAD",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_connections.py",
                "test_slow_headers_are_cut_off_however_steadily_they_drip",
            ),
        ),
    ),
    Mutant(
        "our own work counted against the client",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        elif before is not Stage.WORK:\n"
                "            self._waiting_queue.pop(self, None)\n",
                "        elif before is not Stage.WORK:\n            pass\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_connections.py",
                "test_work_of_ours_is_never_counted_against_the_client",
            ),
        ),
    ),
    Mutant(
        "newcomers refused instead of the slow",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if longest is None:\n            return False\n",
                "        if longest is not newcomer:\n            return False\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_connections.py",
                "test_who_waits_longest_gives_way_to_who_comes_new",
            ),
        ),
    ),
    Mutant(
        "bodies in chunks without a limit",
        (
            Patch(
                "src/oncebox/server/http/request_limits.py",
                "            now.is_large = True\n",
                "            now.is_large = False\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_limits.py",
                "test_a_giant_in_chunks_is_refused_while_it_comes_and_not_kept",
                "test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not",
            ),
        ),
    ),
    Mutant(
        "an answer by the express whatever became of the commit",
        (
            Patch(
                "src/oncebox/ledger/deliveries/intake.py",
                "        self._call_back(known)\n",
                "        self._call_back(None)\n",
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
        "a size judged by the last read",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "is_small = self._bytes_before + self._read_bytes <= self._small_limit",
                "is_small = self._read_bytes <= self._small_limit",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_connections.py",
                "test_a_body_that_comes_in_many_reads_before_anybody_looks_is_still_counted",
            ),
        ),
    ),
    Mutant(
        "a body behind an upgrade that is skipped",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if self.parser.should_upgrade():\n            raise FramingError\n",
                "",
            ),
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if not self._is_whole(headers):\n            raise FramingError\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_framing.py",
                "test_a_body_behind_an_upgrade_is_refused_and_never_taken_for_a_request",
            ),
        ),
    ),
    Mutant(
        "an upgrade without a body that is overlooked",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if self.parser.should_upgrade():\n            raise FramingError\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_framing.py",
                "test_an_upgrade_without_a_body_is_refused_alike",
            ),
        ),
    ),
    Mutant(
        "a part of a body that is taken for all of it",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if not self._is_whole(headers):\n            raise FramingError\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_framing.py",
                "test_no_way_takes_a_body_that_is_shorter_than_announced",
            ),
        ),
    ),
    Mutant(
        "a part of a body from another server",
        (
            Patch(
                "src/oncebox/server/http/request_limits.py",
                "        if not is_end or not missing:\n",
                "        if not is_end or missing:\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_framing.py",
                "test_the_guard_takes_no_shorter_body_from_any_server",
            ),
        ),
    ),
    Mutant(
        "a refusal that overtakes an answer",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if self.pipeline:\n            self._refuse_in_turn()\n",
                "        if self.pipeline is None:\n            self._refuse_in_turn()\n",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_framing.py",
                "test_a_refusal_never_overtakes_the_answer_to_an_earlier_request",
            ),
        ),
    ),
    Mutant(
        "a trailer that is taken for headers",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "            self._framing.add_field(name, value)\n",
                "            HttpToolsProtocol.on_header(self, name, value)\n",
            ),
        ),
        (
            _tests("tests/server/http/test_trailers.py", "test_a_key_in_a_trailer_opens_nothing"),
            _tests(
                "tests/server/http/test_trailers.py", "test_a_signature_in_a_trailer_proves_nothing"
            ),
        ),
    ),
    Mutant(
        "a trailer of headers without a limit",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "        if self.has_large_trailer:\n            raise FramingError\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_trailers.py",
                "test_a_large_trailer_is_refused_and_ends_the_connection",
            ),
        ),
    ),
    Mutant(
        "a trailer that is counted when it has come",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "return self.has_head and self._others > self._most",
                "return self.has_large_trailer",
            ),
        ),
        (
            _tests("tests/server/http/test_trailers.py", "test_an_endless_trailer_costs_no_memory"),
            _tests(
                "tests/server/http/test_trailers.py",
                "test_extensions_of_chunks_are_counted_together",
            ),
        ),
    ),
    Mutant(
        "a trailer that small chunks pay for",
        (
            Patch(
                "src/oncebox/server/http/http_connection.py",
                "self._others = max(0, self._others) + size",
                "self._others += size",
            ),
        ),
        (_tests("tests/server/http/test_trailers.py", "test_small_chunks_pay_for_no_trailer"),),
    ),
    Mutant(
        "a length and chunks together",
        (
            Patch(
                "src/oncebox/server/http/request_limits.py",
                'is_plain = _LENGTH not in found and found[_CHUNKED].lower() == b"chunked"',
                "is_plain = True",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_limits.py",
                "test_what_two_readers_could_read_differently_is_refused",
            ),
        ),
    ),
    Mutant(
        "a circle for every request",
        (
            Patch(
                "src/oncebox/server/http/request_limits.py",
                "            now.send_to_client = _discard\n",
                "",
            ),
        ),
        (_tests("tests/server/http/test_limits.py", "test_a_request_leaves_no_garbage_behind"),),
    ),
    Mutant(
        "anybody believed who says where he is from",
        (
            Patch(
                "src/oncebox/server/rate_limits.py",
                "        if not self._is_trusted(peer):\n            return\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/server/http/test_client_address.py",
                "test_the_first_stranger_before_our_proxies_is_the_client",
                "test_nothing_a_stranger_sends_changes_who_he_is",
            ),
        ),
    ),
    Mutant(
        "any key for any route",
        (
            Patch(
                "src/oncebox/server/http/api_endpoint.py",
                "        if is_foreign or not (is_worker or key.may(*route.scopes)):\n"
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
