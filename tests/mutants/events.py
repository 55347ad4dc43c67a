"""Faults in events: their numbers, their readers, and the wake-ups behind them."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_EVENTS = "src/oncebox/ledger/events"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


EVENTS = (
    Mutant(
        "a sequencer without a fence",
        (
            Patch(
                f"{_EVENTS}/event_log.sql",
                "WHERE name = :name AND holder = :holder AND fence = :fence;",
                "WHERE name = :name AND :holder <> '' AND :fence > 0;",
            ),
        ),
        (
            _tests(
                "tests/contract/events/test_events.py",
                "test_a_sequencer_that_lost_its_duty_numbers_nothing",
                "test_one_who_lost_the_duty_in_the_very_moment_numbers_nothing",
            ),
        ),
    ),
    Mutant(
        "a duty that anybody takes at any time",
        (
            Patch(
                f"{_EVENTS}/event_log.sql",
                "WHERE oncebox_duties.until <= :now\n",
                "WHERE oncebox_duties.until <= :now + 100000000\n",
            ),
        ),
        (
            _tests(
                "tests/contract/events/test_events.py",
                "test_the_duty_is_one_sequencer_s_until_its_lease_is_over",
            ),
        ),
    ),
    Mutant(
        "old events that go from the middle",
        (
            Patch(
                "src/oncebox/ledger/events/event_log.py",
                "takewhile(lambda row: row[1] <= before, oldest)",
                "filter(lambda row: row[1] <= before, oldest)",
            ),
        ),
        (
            _tests(
                "tests/contract/events/test_events.py",
                "test_an_old_event_behind_a_younger_one_stays_so_that_there_is_never_a_hole",
            ),
        ),
    ),
    Mutant(
        "a cursor that goes on where events are gone",
        (
            Patch(
                "src/oncebox/ledger/events/event_log.py",
                "    if found.first > after + 1:\n",
                "    if found.first > found.last + 1:\n",
            ),
        ),
        (
            _tests(
                "tests/contract/events/test_events.py",
                "test_old_events_go_and_a_cursor_that_missed_some_is_refused",
            ),
        ),
    ),
    Mutant(
        "a notice for every repeat of a settlement",
        (
            Patch(
                "src/oncebox/ledger/deliveries/settlements.py",
                "for each in other if each.delivery.id in settled",
                "for each in other if each.delivery.id",
            ),
        ),
        (
            _tests(
                "tests/contract/deliveries/test_delivery_events.py",
                "test_a_settlement_that_is_repeated_after_a_lost_reply_tells_nothing_twice",
                "test_a_stale_worker_tells_nothing",
            ),
        ),
    ),
    Mutant(
        "an agent that hears of everybody's inboxes",
        (
            Patch(
                "src/oncebox/server/api/events.py",
                "owner=call.requester.owner",
                "owner=None",
            ),
        ),
        (
            _tests(
                "tests/server/api/test_events.py",
                "test_an_agent_sees_only_events_of_its_own_inboxes",
                "test_an_agent_s_stream_has_only_events_of_its_own_inboxes",
            ),
        ),
    ),
    Mutant(
        "a stream that outlives its key",
        (
            Patch(
                "src/oncebox/server/api/events.py",
                "                await call.recheck_key()  # a key may end while it is in use\n",
                "",
            ),
        ),
        (_tests("tests/server/api/test_events.py", "test_a_stream_ends_when_its_key_does"),),
    ),
    Mutant(
        "one ear for all",
        (
            Patch(
                "src/oncebox/db/notify.py",
                "        return Subscription(self, topic)\n",
                "        return self._default_subscriptions.setdefault(\n"
                "            topic, Subscription(self, topic)\n        )\n",
            ),
        ),
        (
            _tests(
                "tests/contract/db/test_notifications.py",
                "test_a_ring_while_a_waiter_is_busy_is_kept_for_it_whoever_else_heard_it",
            ),
        ),
    ),
)
