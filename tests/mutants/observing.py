"""Faults in what an operator sees: metrics for strangers, secrets in the log, silent holds."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_ACCESS = "tests/server/api/test_monitoring_access.py"
_REQUESTS = "tests/server/api/test_request_log.py"
_HANDLERS = "tests/contract/deliveries/test_handler_log.py"
_EVENTS = "tests/contract/deliveries/test_delivery_events.py"
_BACKLOG = "tests/contract/deliveries/test_backlog.py"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


OBSERVING = (
    Mutant(
        "metrics for everybody",
        (
            Patch(
                "src/oncebox/server/http/request_context.py",
                "        return parse_address(request.address).is_loopback\n",
                "        return bool(parse_address(request.address))\n",
            ),
        ),
        (_tests(_ACCESS, "test_who_is_elsewhere_is_told_to_bring_a_key"),),
    ),
    Mutant(
        "metrics through a proxy that nobody told us of",
        (
            Patch(
                "src/oncebox/server/http/request_context.py",
                "    if any(name in request.headers for name in _FORWARDED_BY):\n"
                "        return False\n",
                "",
            ),
        ),
        (_tests(_ACCESS, "test_a_request_that_a_proxy_here_passed_on_is_not_of_this_machine"),),
    ),
    Mutant(
        "metrics of all tenants for one of them",
        (
            Patch(
                "src/oncebox/server/api/service_info.py",
                "    home=True,\n",
                "    home=False,\n",
            ),
        ),
        (_tests(_ACCESS, "test_metrics_are_not_for_agents_nor_for_other_tenants"),),
    ),
    Mutant(
        "nobody hears of what is held on arrival",
        (
            Patch(
                "src/oncebox/ledger/deliveries/deduplication.py",
                "    settlements.record_end_events(tx, map(_held_on_arrival, held), now)\n",
                "    settlements.record_end_events(tx, map(_held_on_arrival, held[:0]), now)\n",
            ),
        ),
        (_tests(_EVENTS, "test_a_delivery_held_on_arrival_is_told_of_once"),),
    ),
    Mutant(
        "every key in the log as it is",
        (
            Patch(
                "src/oncebox/core/logging.py",
                "    if _IDENTIFIER.fullmatch(key):\n",
                "    if _IDENTIFIER.fullmatch(key) or key:\n",
            ),
        ),
        (_tests(_HANDLERS, "test_any_other_key_is_logged_as_a_digest"),),
    ),
    Mutant(
        "a policy's reason in the log",
        (
            Patch(
                "src/oncebox/workers/deliveries/policies.py",
                '                reason="policy",\n',
                "                reason=decision.reason,\n",
            ),
        ),
        (_tests(_HANDLERS, "test_what_a_policy_holds_is_a_warning_without_its_reason"),),
    ),
    Mutant(
        "a token in the log",
        (
            Patch(
                "src/oncebox/server/api/artifacts.py",
                '{"token": True} if asked.token is not None',
                '{"token": asked.token} if asked.token is not None',
            ),
        ),
        (_tests(_REQUESTS, "test_a_wait_in_vain_is_logged_with_what_it_waited_for"),),
    ),
    Mutant(
        "the dead are forgotten in the gauges",
        (
            Patch(
                "src/oncebox/ledger/deliveries/backlog.sql",
                ") AS dead WHERE seen_at IS NULL GROUP BY source;",
                ") AS dead WHERE seen_at IS NOT NULL GROUP BY source;",
            ),
        ),
        (_tests(_BACKLOG, "test_dead_ones_are_counted_until_they_are_acknowledged"),),
    ),
)
