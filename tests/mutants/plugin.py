"""Faults of test mode, of chaos, and of the pytest plugin."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_TESTING = "src/oncebox/testing"
_CHAOS = "tests/testing/test_chaos.py"


def _faults(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/testing/test_mail_faults.py::{name}",)),)


def _plugin(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/testing/test_plugin.py::{name}",)),)


def _served(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/cli/test_drill.py::{name}",)),)


PLUGIN = (
    Mutant(
        "test mode that takes mail for an inbox that has ended",
        (
            Patch(
                f"{_TESTING}/drill.py",
                "frozenset({Standing.UNKNOWN, Standing.NOT_OURS})",
                "frozenset({Standing.UNKNOWN, Standing.NOT_OURS, Standing.CLOSED})",
            ),
        ),
        _faults("test_an_inbox_that_has_ended_stays_ended"),
    ),
    Mutant(
        "links to this machine without test mode",
        (Patch(f"{_TESTING}/drill.py", "here=self._test)", "here=True)"),),
        _served("test_chaos_alone_is_no_test_mode"),
    ),
    Mutant(
        "faults that any key may ask for",
        (
            Patch(
                f"{_TESTING}/drill.py",
                "_SCOPES = frozenset({OPERATOR})",
                '_SCOPES = frozenset({OPERATOR, "agent"})',
            ),
        ),
        _faults("test_only_operators_ask_for_faults"),
    ),
    Mutant(
        "faults of one inbox for all",
        (
            Patch(
                f"{_TESTING}/drill.py",
                "            own = self._own.get(each)\n",
                "            own = next(iter(self._own.values()), None)\n",
            ),
        ),
        _faults("test_faults_of_one_inbox_are_not_those_of_another"),
    ),
    Mutant(
        "a connection that is cut before the mail is stored",
        (
            Patch(
                f"{_TESTING}/chaos_mail.py",
                "            await self._arrive(envelope, data)\n                raise BrokenOff\n",
                "            raise BrokenOff\n",
            ),
        ),
        _faults("test_a_mail_whose_250_is_lost_is_there"),
    ),
    Mutant(
        "a 421 for a mail that was stored",
        (
            Patch(
                f"{_TESTING}/chaos_mail.py",
                "                raise BrokenOff(_NOT_NOW)\n",
                "                await self._arrive(envelope, data)\n"
                "                raise BrokenOff(_NOT_NOW)\n",
            ),
        ),
        _faults("test_a_sender_that_is_told_421_has_delivered_nothing"),
    ),
    Mutant(
        "mail that overtakes nobody",
        (Patch(f"{_TESTING}/chaos_mail.py", 'case "delay" | "reorder":', 'case "delay":'),),
        _faults("test_mail_is_overtaken_by_the_next"),
    ),
    Mutant(
        "held mail that is forgotten at the end",
        (
            Patch(
                f"{_TESTING}/drill.py",
                "            await self._post.close()\n",
                "            return\n",
            ),
        ),
        _served("test_what_is_held_arrives_when_the_service_stops"),
    ),
    Mutant(
        "a webhook that is cut off before it is stored",
        (
            Patch(
                f"{_TESTING}/chaos_hooks.py",
                "        answer = await self._answered(scope, await _read(receive))\n",
                "        answer: list[Message] = []\n        await _read(receive)\n",
            ),
        ),
        _served("test_a_webhook_whose_answer_is_lost_is_there"),
    ),
    Mutant(
        "dice that all rules share",
        (
            Patch(
                f"{_TESTING}/chaos.py",
                'random.Random(f"{self.seed}/{place}/{number}").random()',
                "random.random()",
            ),
        ),
        (Selection((f"{_CHAOS}::test_the_same_seed_does_the_same_to_the_same_sequence",)),),
    ),
    Mutant(
        "a service for every worker of a run",
        (
            Patch(
                f"{_TESTING}/plugin.py",
                "    node.workerinput[_WORKER_INPUT] = str(stash[_FOLDER])\n",
                "",
            ),
        ),
        _plugin("test_workers_share_one_service_which_ends_with_the_run"),
    ),
    Mutant(
        "a keeper that never looks whether anybody is there",
        (
            Patch(
                f"{_TESTING}/keeper.py",
                "        while _is_used(alive):\n",
                "        for _ in range(1_200):  # for two minutes, and then it goes\n",
            ),
        ),
        (
            *_plugin("test_workers_share_one_service_which_ends_with_the_run"),
            *_plugin("test_a_run_that_is_killed_leaves_no_service_behind"),
        ),
    ),
    Mutant(
        "our own frames in the report of a test",
        (Patch(f"{_TESTING}/plugin.py", "    failing.trim(call.excinfo.value)\n", ""),),
        _plugin("test_a_failing_test_tells_why_each_message_did_not_fit_and_no_secret"),
    ),
    Mutant(
        "tests that use whatever service there is",
        (
            Patch(
                f"{_TESTING}/server.py",
                "        except NotFound as error:\n",
                "        except NotFound as error:\n"
                '            told = TestMode(smtp=None, catch_all="", catch_all_email="")\n'
                "        except ZeroDivisionError as error:\n",
            ),
        ),
        _plugin("test_tests_are_kept_away_from_a_service_that_is_not_in_test_mode"),
    ),
    Mutant(
        "a plugin that brings the client along",
        (
            Patch(
                f"{_TESTING}/plugin.py",
                "import pytest\n\nif TYPE_CHECKING:\n",
                "import pytest\n\nimport oncebox.client.sync\n\nif TYPE_CHECKING:\n",
            ),
        ),
        _plugin("test_who_does_not_use_it_does_not_notice_it"),
    ),
    Mutant(
        "silence while mail is not read",
        (
            Patch(
                f"{_TESTING}/inboxes.py",
                "        came = max(0, report.cursor - after) or report.unread\n",
                "        came = 0\n",
            ),
        ),
        _faults("test_mail_that_came_is_no_silence"),
    ),
)
