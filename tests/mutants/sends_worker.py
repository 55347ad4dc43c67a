"""Faults in the worker for sends: doubt that is denied, leases that end, mail that is burnt."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(*names: str) -> Selection:
    return Selection(tuple(f"tests/contract/sends/test_send_worker.py::{name}" for name in names))


def _decided(name: str) -> Selection:
    return Selection((f"tests/workers/test_retry_decision.py::{name}",))


_DECIDED = _decided(
    "test_another_way_is_taken_only_from_what_was_certainly_not_sent_and_not_pinned"
)
_WAITING = "test_a_waiting_send_moves_only_within_its_group_and_signed_if_it_must_be"
_TRIED = "test_a_failed_try_moves_a_send_only_within_its_group_and_signed_if_it_must_be"


def _ways(*names: str) -> Selection:
    return Selection(tuple(f"tests/contract/sends/test_transports.py::{name}" for name in names))


SENDS_WORKER = (
    Mutant(
        "a hand-over that was cut short, called not sent",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "    if one.marked:\n",
                "    if not one:\n",
            ),
        ),
        (_tests("test_who_stops_while_the_answer_is_out_leaves_doubt"),),
    ),
    Mutant(
        "a lease that ends before the answer to the dot",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "if each.renew_at <= now]",
                "if each.renew_at <= now and not each.marked]",
            ),
        ),
        (_tests("test_a_lease_is_kept_while_the_answer_to_the_dot_takes_long"),),
    ),
    Mutant(
        "a second way out of doubt",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "        and send.unknown_since is None\n",
                "",
            ),
        ),
        (_DECIDED,),
    ),
    Mutant(
        "another way for a mail that is only deferred",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "        and counts_as_failure(outcome)\n",
                "",
            ),
        ),
        (_DECIDED,),
    ),
    Mutant(
        "a way that sends nothing, taken instead",
        (
            Patch(
                "src/oncebox/ledger/sends/transports.sql",
                "AND own.failover_group <> '' AND other.kind <> 'log' AND other.paused = 0",
                "AND own.failover_group <> '' AND other.paused = 0",
            ),
        ),
        (_tests("test_nothing_goes_by_a_way_that_sends_nothing_instead"),),
    ),
    Mutant(
        "mail burnt by a refused login",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "(outcome.opens_circuit or outcome.code in _OWN_CODES)",
                "(outcome.code in _OWN_CODES)",
            ),
        ),
        (_tests("test_a_refused_login_rests_the_transport_and_costs_no_mail_a_try"),),
    ),
    Mutant(
        "a transport without configuration that logs",
        (
            Patch(
                "src/oncebox/workers/sends/transport_pool.py",
                "if transport_config.transport_kind(found) != row.kind:",
                "if row.config and transport_config.transport_kind(found) != row.kind:",
            ),
        ),
        (_tests("test_a_transport_that_lost_its_configuration_is_not_taken_for_the_log"),),
    ),
    Mutant(
        "a transport that is never opened anew",
        (
            Patch(
                "src/oncebox/workers/sends/transport_pool.py",
                "(found.kind, found.config) == (row.kind, row.config)",
                "found.kind == row.kind",
            ),
        ),
        (_tests("test_a_refused_login_rests_the_transport_and_costs_no_mail_a_try"),),
    ),
    Mutant(
        "mail that was only logged, called sent",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "logged=one.transport.kind == LOG_TRANSPORT",
                "logged=False",
            ),
        ),
        (_tests("test_without_a_transport_mail_is_logged_and_not_sent"),),
    ),
    Mutant(
        "one silent server that stops all mail",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "max(1, (self._concurrency - others) * 3 // 4)",
                "self._concurrency",
            ),
        ),
        (_tests("test_a_silent_transport_does_not_stop_the_others"),),
    ),
    Mutant(
        "sends that wait behind a resting transport",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.py",
                "tries=tries), transports.divert_stranded(tx, now)",
                "tries=tries), 0",
            ),
        ),
        (_tests("test_what_waits_for_a_way_that_rests_goes_by_another"),),
    ),
    Mutant(
        "a key that a provider has forgotten, relied on",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "capability.window_ms - _REPLAY_MARGIN",
                "capability.window_ms",
            ),
        ),
        (_decided("test_only_who_replays_keys_is_relied_on_and_not_to_the_last_minute"),),
    ),
    Mutant(
        "another way for a mail whose way was named",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "in_doubt_at IS NULL AND pinned = 0 AND EXISTS (",
                "in_doubt_at IS NULL AND EXISTS (",
            ),
        ),
        (_ways(_TRIED),),
    ),
    Mutant(
        "a waiting mail whose way was named, moved",
        (
            Patch(
                "src/oncebox/ledger/sends/transports.sql",
                "AND waits.pinned = 0 AND way.failover_group",
                "AND way.failover_group",
            ),
            Patch(
                "src/oncebox/ledger/sends/transports.sql",
                "AND in_doubt_at IS NULL AND pinned = 0\n",
                "AND in_doubt_at IS NULL\n",
            ),
        ),
        (_ways(_WAITING),),
    ),
    Mutant(
        "another way outside the group",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "                AND other.failover_group = own.failover_group\n",
                "",
            ),
        ),
        (_ways(_TRIED),),
    ),
    Mutant(
        "a signed mail that leaves unsigned",
        (
            Patch(
                "src/oncebox/ledger/sends/lifecycle.sql",
                "AND (oncebox_sends.must_sign = 0 OR other.kind = 'resend' OR EXISTS (",
                "AND (1 = 1 OR EXISTS (",
            ),
        ),
        (_ways(_TRIED),),
    ),
    Mutant(
        "a mail sent although its key is gone",
        (
            Patch(
                "src/oncebox/workers/sends/send_worker.py",
                "if one.send.must_sign and not",
                "if not one and not",
            ),
        ),
        (_tests("test_a_mail_that_must_be_signed_is_not_sent_without_its_key"),),
    ),
    Mutant(
        "a named way that is not remembered",
        (
            Patch(
                "src/oncebox/ledger/sends/outbox.py",
                "            pinned=bool(intent.transport),\n",
                "",
            ),
        ),
        (_tests("test_a_transport_the_caller_named_is_kept_when_it_fails"),),
    ),
)
