"""Faults by which one sender or one key delays others, or fills the disk."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_POOL = "src/oncebox/workers/mail/parser_pool.py"
_QUEUE = "src/oncebox/workers/mail/fair_queue.py"
_LIMITS = "src/oncebox/server/smtp/mail_limits.py"
_QUOTAS = "tests/contract/inboxes/test_quotas.py"
_MAIL_LIMITS = "tests/server/smtp/test_mail_limits.py"
_PROCESSOR = "tests/contract/inboxes/test_mail_processor.py"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


FAIRNESS = (
    Mutant(
        "a mail to many inboxes parsed for each",
        (Patch("src/oncebox/workers/mail/mail_processor.py",
               "            if shared:\n", "            if shared and not raw:\n"),),
        _tests(_PROCESSOR, "test_a_mail_to_many_inboxes_is_parsed_and_judged_once"),
    ),
    Mutant(
        "a mail blamed for workers that died while it waited",
        (Patch("src/oncebox/ledger/deliveries/settlements.sql",
               "AND outcome IN ('begun', 'failed')",
               "AND outcome IN ('begun', 'failed', 'lost')"),),
        _tests(_PROCESSOR, "test_a_mail_that_only_waited_in_killed_workers_is_parsed"),
    ),
    Mutant(
        "a mail that kills its workers tried for ever",
        (Patch("src/oncebox/workers/mail/mail_processor.py",
               "        return begun >= _MAX_PARSE_TRIES\n",
               "        return begun < 0 <= _MAX_PARSE_TRIES\n"),),
        _tests(_PROCESSOR, "test_a_mail_whose_parsing_killed_three_workers_is_filed_unparsed"),
    ),
    Mutant(
        "a quiet inbox deferred with the busy ones",
        (Patch(_POOL, "            following = self._waiting.pop()\n",
               "            following = ParseTask('parse', b'', {}, _NO_FLOW)\n"),),
        _tests("tests/workers/test_parser_pool.py",
               "test_the_mail_of_whoever_used_the_parsers_least_is_not_deferred"),
    ),
    Mutant(
        "large mail claimed with all other mail",
        (Patch("src/oncebox/ledger/inboxes/mail_intake.py",
               "heavy=len(data) >= self._heavy_from,", "heavy=False,"),),
        _tests(_PROCESSOR, "test_small_mail_does_not_wait_for_large_mail"),
    ),
    Mutant(
        "a deferred mail back in the queue it came from",
        (Patch("src/oncebox/ledger/deliveries/settlements.sql",
               "heavy = CASE WHEN :heavy = 1 THEN 1 ELSE heavy END", "heavy = heavy"),),
        _tests(_PROCESSOR,
               "test_a_mail_that_is_deferred_is_read_with_the_heavy_ones_and_costs_no_try"),
    ),
    Mutant(
        "a lost heavy mail taken over by the quick queue",
        (Patch("src/oncebox/ledger/deliveries/leases.sql",
               "WHERE tenant = :tenant AND source = :source AND heavy = :heavy "
               "AND state = 'processing'\n    AND due_at <= :now\n    AND tries + 1",
               "WHERE tenant = :tenant AND source = :source AND :heavy >= 0 "
               "AND state = 'processing'\n    AND due_at <= :now\n    AND tries + 1"),),
        _tests(_PROCESSOR, "test_a_lost_worker_of_one_queue_is_recovered_by_that_queue"),
    ),
    Mutant(
        "mails parsed in the order of arrival",
        (Patch(_QUEUE, "return min(self._waiting, key=self._use)",
               "return next(iter(self._waiting))"),),
        _tests("tests/workers/test_fair_queue.py",
               "test_a_mail_is_next_although_another_has_many_before_it"),
    ),
    Mutant(
        "a slow mail parsed to its end in the quick pool",
        (Patch(_POOL, "_NO_RECORDS, flow, self._quick)", "_NO_RECORDS, flow, 0.0)"),),
        _tests("tests/workers/test_parser_pool.py",
               "test_a_quick_pool_defers_a_slow_mail_and_keeps_its_child"),
    ),
    Mutant(
        "mails that are never counted towards a rate",
        (Patch(_LIMITS, "        self._addresses.count(address, now, size)\n", ""),),
        _tests(_MAIL_LIMITS,
               "test_more_mails_of_one_address_than_its_rate_wait_for_a_while"),
    ),
    Mutant(
        "webhooks refused before mail",
        (Patch("src/oncebox/core/disk_space.py", "(least // 4, DiskLevel.NO_WEBHOOKS)",
               "(least, DiskLevel.NO_WEBHOOKS)"),),
        _tests(_MAIL_LIMITS, "test_webhooks_are_refused_last"),
    ),
    Mutant(
        "mail that counts for ever",
        (Patch("src/oncebox/ledger/maintenance.py",
               "    quotas.remove_stored(tx, _filed_mails(purged))\n", ""),),
        _tests(_QUOTAS, "test_mail_no_longer_counts_when_its_raw_bytes_are_deleted"),
    ),
    Mutant(
        "copies that do not count",
        (Patch("src/oncebox/ledger/inboxes/messages.py",
               "    for each in every:\n        stored[each.inbox_id]",
               "    for each in first:\n        stored[each.inbox_id]"),),
        _tests(_QUOTAS, "test_mail_counts_when_it_is_filed_also_as_a_copy"),
    ),
    Mutant(
        "a key with any number of requests",
        (Patch("src/oncebox/server/http/api_endpoint.py",
               "if self._in_progress[key.id] >= self._requests_per_key:", "if False:"),),
        _tests("tests/server/api/test_capacity.py",
               "test_a_key_has_so_many_requests_in_progress_and_no_more"),
    ),
    Mutant(
        "webhooks refused because all connections are at work",
        (Patch("src/oncebox/server/http/server_state.py",
               "is_admitted = is_admitted or len(self.open)",
               "is_admitted = is_admitted and len(self.open)"),),
        _tests("tests/server/http/test_exchanges.py",
               "test_webhooks_on_new_connections_are_served_while_every_other_is_at_work"),
    ),
)  # fmt: skip
