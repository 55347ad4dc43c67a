"""Faults in polling: two loops at once, messages lost or handed out twice, lists without pauses."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LEDGER = "src/oncebox/ledger/mailboxes/polls.py"
_SQL = "src/oncebox/ledger/mailboxes/polls.sql"
_LOOP = "src/oncebox/client/core/polling.py"
_LISTINGS = "src/oncebox/client/core/listings.py"
_STORE = "src/oncebox/ledger/mailboxes/mailboxes.py"
_STORED = "src/oncebox/ledger/mailboxes/mailboxes.sql"
_CONTRACT = "tests/contract/mailboxes/test_polls.py"
_CLIENT = "tests/client/test_poller.py"
_DIED = "test_a_poller_that_died_is_followed_after_its_lease_and_can_do_nothing_more"
_CRASHES = "tests/integration/test_poller_crashes.py"


def _one(name: str, file: str, change: tuple[str, str], test: str, names: str) -> Mutant:
    killers = tuple(f"{test}::{each}" for each in names.split())
    return Mutant(f"polling: {name}", (Patch(file, *change),), (Selection(killers),))


POLLING = (
    _one(
        "a mailbox is taken from the loop that has it",
        _SQL,
        ("AND (due_at <= :now OR worker = :worker)", "AND due_at > 0"),
        _CONTRACT,
        "test_a_second_poller_is_refused_with_the_time_that_is_left_and_counted_once "
        "test_of_two_pollers_that_begin_at_the_same_time_one_gets_the_mailbox",
    ),
    _one(
        "a new loop with the fence of the old one",
        _SQL,
        ("WHEN worker = :worker AND due_at > :now THEN 0 ELSE 1 END", "WHEN 1 = 1 THEN 0 END"),
        _CONTRACT,
        "test_a_poller_that_died_is_followed_after_its_lease_and_can_do_nothing_more",
    ),
    _one(
        "a claim without the lease of the mailbox",
        _LEDGER,
        (
            "    _renew(tx, holder, now + lease)\n    return pull.claim",
            "    return pull.claim",
        ),
        _CONTRACT,
        "test_a_poller_that_died_is_followed_after_its_lease_and_can_do_nothing_more "
        "test_a_message_whose_poller_died_is_handed_to_the_next_one_first",
    ),
    Mutant(
        "polling: pages of a loop that lost its lease",
        (
            Patch(
                _SQL,
                "AND fence = :fence\n    AND due_at IS NOT NULL;\n\n-- name: renew",
                "AND :fence > 0;\n\n-- name: renew",
            ),
            Patch(
                _STORED,
                "AND fence = :fence AND cursor_version = :version",
                "AND :fence > 0 AND cursor_version = :version",
            ),
        ),
        (Selection((f"{_CONTRACT}::{_DIED}",)),),
    ),
    _one(
        "messages in the order of their ids",
        _LEDGER,
        ("        tx.run_many(_sql.arrange, sorted(order))\n", "        sorted(order)\n"),
        _CONTRACT,
        "test_messages_are_handed_out_in_the_order_of_their_list",
    ),
    _one(
        "mailboxes of programs are claimed by the service",
        _STORED,
        ("AND due_at <= :now AND kind <> 'program'", "AND due_at <= :now"),
        _CONTRACT,
        "test_a_mailbox_that_is_polled_is_not_claimed_by_the_workers_of_the_service",
    ),
    _one(
        "a message is not renewed with its mailbox",
        _LEDGER,
        ("    if message is not None:\n", "    if message is not None and until < 0:\n"),
        _CONTRACT,
        "test_a_renewal_keeps_the_mailbox_and_the_message_together",
    ),
    _one(
        "a failed list is repeated at once",
        _LEDGER,
        (
            "due_at = now + backoff(held.failures + 1, failed.retry_after, random)",
            "due_at = now + 0 * backoff(held.failures + 1, failed.retry_after, random)",
        ),
        _CONTRACT,
        "test_a_failed_poll_keeps_all_pollers_away_for_a_time_that_doubles "
        "test_a_failed_poll_is_not_repeated_before_the_time_that_the_api_asked_for",
    ),
    _one(
        "a changed message is another one",
        _STORE,
        (
            "known = {bytes(row[0]) for row in tx.many(_sql.known, keys)} if keys else set()",
            "known: set[bytes] = set(); keys.clear()",
        ),
        _CONTRACT,
        "test_a_message_that_is_listed_with_another_body_is_the_same_message",
    ),
    _one(
        "confirmed before the body",
        "src/oncebox/client/sync/polls.py",
        (
            "            yield message\n            runner.run(loop.confirm())\n",
            "            runner.run(loop.confirm())\n            yield message\n",
        ),
        _CRASHES,
        "test_a_message_is_handed_out_again_only_if_it_was_not_confirmed",
    ),
    _one(
        "a message is never confirmed",
        _LOOP,
        (
            "                yield from self._settle()\n",
            "                yield PauseStep(0)\n",
        ),
        _CRASHES,
        "test_a_message_is_handed_out_again_only_if_it_was_not_confirmed",
    ),
    _one(
        "a loop that was left confirms its message",
        _LOOP,
        ("self._settle(left, within=_SHORT_TIMEOUT)", "self._settle()"),
        _CLIENT,
        "test_a_message_whose_body_raised_is_handed_out_again_and_the_others_first "
        "test_a_loop_that_is_left_by_break_hands_its_message_out_again_unless_it_is_done",
    ),
    _one(
        "the cursor with the first part of a page",
        _LOOP,
        ("cursor = listing.cursor if is_last else self._cursor or", "cursor = listing.cursor or"),
        _CLIENT,
        "test_the_cursor_of_a_page_in_parts_is_stored_with_the_last_part",
    ),
    _one(
        "a lease that nobody renews",
        _LOOP,
        ("            if fence is None:\n                continue\n", "            continue\n"),
        _CLIENT,
        "test_the_lease_is_kept_while_a_body_takes_longer_than_it",
    ),
    _one(
        "messages from before the overlap are passed over",
        _LISTINGS,
        ("if each.key in wanted or at < before.since}", "if each.key in wanted}"),
        _CLIENT,
        "test_a_message_from_before_the_overlap_counts_if_the_api_lists_it",
    ),
    _one(
        "errors of a list function in the log",
        _LOOP,
        ("            type(error).__name__,\n", "            error,\n"),
        _CLIENT,
        "test_a_list_function_that_fails_is_called_again_later_and_nothing_is_lost",
    ),
)
