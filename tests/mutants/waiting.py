"""Faults in waiting: wake-ups that are lost, grants that are doubled, keys that have ended."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LOBBY = "tests/contract/inboxes/test_longpoll_hub.py"
_WAITS = "tests/server/api/test_waits.py"
_CLIENT = "tests/client/test_waits.py"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


WAITING = (
    Mutant(
        "one who waits forgets what it has looked at",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.py",
                "        try:\n            async with asyncio.timeout(within):\n",
                "        self.snapshot()\n"
                "        try:\n            async with asyncio.timeout(within):\n",
            ),
        ),
        (_tests(_LOBBY, "test_what_is_filed_between_the_look_and_the_rest_is_not_missed"),),
    ),
    Mutant(
        "a lobby that only wakes who came first",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.py",
                "        for each in watched.waiters:\n",
                "        for each in list(watched.waiters)[:1]:\n",
            ),
        ),
        (_tests(_LOBBY, "test_a_thousand_who_wait_for_one_inbox_cost_one_look_per_wake"),),
    ),
    Mutant(
        "everybody who waits reads for himself",
        (
            Patch(
                "src/oncebox/db/group_commit.py",
                "                    self._pending[:_MAX_SHARED_READS],\n"
                "                    self._pending[_MAX_SHARED_READS:],\n",
                "                    self._pending[:1],\n                    self._pending[1:],\n",
            ),
        ),
        (_tests(_WAITS, "test_a_thousand_who_wait_for_one_code_are_one_grant_and_few_readings"),),
    ),
    Mutant(
        "what was taken back wakes nobody",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.sql",
                "    SELECT SUM(releases) FROM oncebox_artifacts\n",
                "    SELECT SUM(0) FROM oncebox_artifacts\n",
            ),
        ),
        (_tests(_LOBBY, "test_what_was_taken_back_wakes_who_waits"),),
    ),
    Mutant(
        "a repeat over many inboxes takes one more",
        (
            Patch(
                "src/oncebox/server/api/artifacts.py",
                "        return (not mine, all(each.claimed for each in match_.found))\n",
                "        return (False, mine)\n",
            ),
        ),
        (_tests(_WAITS, "test_a_repeat_over_many_inboxes_gets_the_same_and_not_one_more"),),
    ),
    Mutant(
        "a closed inbox whose mail is still to be read counts as over",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.py",
                "self._over[inbox.id] = not _count_unread(self._tx, inbox)",
                "self._over[inbox.id] = True",
            ),
        ),
        (_tests(_WAITS, "test_what_was_taken_before_the_inbox_closed_is_waited_for"),),
    ),
    Mutant(
        "a key that ended while it waited is granted something",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.py",
                "        if not self._keys[query.key.id]:\n",
                "        if not query.key:\n",
            ),
        ),
        (_tests(_WAITS, "test_a_key_that_was_revoked_while_it_waited_gets_nothing"),),
    ),
    Mutant(
        "a resume token of somebody else",
        (
            Patch(
                "src/oncebox/server/http/cursors.py",
                "msgspec.json.encode([call.tenant, call.key.id, sorted(",
                'msgspec.json.encode([call.tenant, "", sorted(',
            ),
        ),
        (_tests(_WAITS, "test_a_resume_token_is_good_for_its_own_request_only"),),
    ),
    Mutant(
        "a client that gives up with its connection",
        (
            Patch(
                "src/oncebox/client/core/inbox_plans.py",
                "        if not is_transient(error):\n",
                "        if error is not None:\n",
            ),
        ),
        (
            _tests(
                _CLIENT,
                "test_an_answer_that_was_lost_is_asked_for_again",
                "test_a_grant_whose_answer_was_lost_is_granted_again",
            ),
        ),
    ),
)
