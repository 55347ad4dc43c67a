"""Faults of test mode, of chaos, and of the pytest plugin."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_TESTING = "src/oncebox/testing"


def _faults(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/testing/test_mail_faults.py::{name}",)),)


def _plugin(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/testing/test_plugin.py::{name}",)),)


def _served(name: str) -> tuple[Selection, ...]:
    return (Selection((f"tests/cli/test_test_mode.py::{name}",)),)


PLUGIN = (
    Mutant(
        "test mode that takes mail for an inbox that has ended",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "frozenset({RecipientStatus.UNKNOWN, RecipientStatus.NOT_OURS})",
                "frozenset({RecipientStatus.UNKNOWN, RecipientStatus.NOT_OURS, "
                "RecipientStatus.CLOSED})",
            ),
        ),
        _faults("test_an_inbox_that_has_ended_stays_ended"),
    ),
    Mutant(
        "links to this machine without test mode",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py", "here=self._test\n        )", "here=True)"
            ),
        ),
        _served("test_chaos_alone_is_no_test_mode"),
    ),
    Mutant(
        "faults that any key may ask for",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "import OPERATORS, ApiCall",
                "import AGENTS as OPERATORS, ApiCall",
            ),
        ),
        _faults("test_only_operators_ask_for_faults"),
    ),
    Mutant(
        "faults of one inbox for all",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "            own = self._schedules_by_inbox.get(inbox_id)\n",
                "            own = next(iter(self._schedules_by_inbox.values()), None)\n",
            ),
        ),
        _faults("test_faults_of_one_inbox_are_not_those_of_another"),
    ),
    Mutant(
        "a connection that is cut before the mail is stored",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "            await self._store_and_release(envelope, data)\n"
                "                raise SessionAborted\n",
                "            raise SessionAborted\n",
            ),
        ),
        _faults("test_a_mail_whose_250_is_lost_is_there"),
    ),
    Mutant(
        "a 421 for a mail that was stored",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "                raise SessionAborted(_REPLY_421)\n",
                "                await self._store_and_release(envelope, data)\n"
                "                raise SessionAborted(_REPLY_421)\n",
            ),
        ),
        _faults("test_a_sender_that_is_told_421_has_delivered_nothing"),
    ),
    Mutant(
        "mail that overtakes nobody",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                'case "delay" | "reorder":',
                'case "delay":',
            ),
        ),
        _faults("test_mail_is_overtaken_by_the_next"),
    ),
    Mutant(
        "held mail that is forgotten at the end",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "            await self._mail_injector.close()\n",
                "            return\n",
            ),
        ),
        _served("test_what_is_held_arrives_when_the_service_stops"),
    ),
    Mutant(
        "a webhook that is cut off before it is stored",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                '            case "drop_after_accept":\n'
                "                response = await self._handle(request, body)\n",
                '            case "drop_after_accept":\n'
                '                response = (200, [], b"")\n',
            ),
        ),
        _served("test_a_webhook_whose_answer_is_lost_is_there"),
    ),
    Mutant(
        "dice that all rules share",
        (
            Patch(
                f"{_TESTING}/chaos.py",
                'random.Random(f"{self.seed}/{index}/{number}").random()',
                "random.random()",
            ),
        ),
        (
            Selection(
                (
                    "tests/testing/test_chaos.py::test_the_same_seed_does_the_same_to_the_same_sequence",
                )
            ),
        ),
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
                "src/oncebox/testing/server_lifetime.py",
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
        (Patch(f"{_TESTING}/plugin.py", "    fixtures.trim_traceback(call.excinfo.value)\n", ""),),
        _plugin("test_a_failing_test_tells_why_each_message_did_not_fit_and_no_secret"),
    ),
    Mutant(
        "tests that use whatever service there is",
        (
            Patch(
                "src/oncebox/testing/shared_server.py",
                "        except NotFound as error:\n",
                "        except NotFound as error:\n"
                '            mode = TestMode(smtp=None, catch_all="", catch_all_email="")\n'
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
                "src/oncebox/testing/fixtures.py",
                "        if report.cursor > after or report.unread:",
                "        if report.cursor < 0:",
            ),
        ),
        _faults("test_mail_that_came_is_no_silence"),
    ),
    Mutant(
        "silence that shows the codes of the mail that broke it",
        (
            Patch(
                f"{_TESTING}/fixtures.py",
                'return "…" if _DIGIT.search(word) or is_part else word',
                'return "…" if is_part and not _DIGIT.search(word) else word',
            ),
        ),
        _faults("test_silence_that_is_broken_shows_who_wrote_when_and_about_what_but_no_secret"),
    ),
)
