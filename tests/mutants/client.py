"""Faults of the client."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


CLIENT = (
    Mutant(
        "a client that repeats whatever is lost",
        (
            Patch(
                "src/oncebox/client/core/calls.py",
                "return call.repeatable and not call.no_retry and is_transient(error)",
                "return is_transient(error)",
            ),
        ),
        _tests("tests/client/test_exchange.py", "test_what_may_not_happen_twice_is_sent_once"),
    ),
    Mutant(
        "a lost creation called safe to make anew",
        (
            Patch(
                "src/oncebox/client/core/calls.py",
                "(call.repeatable and not call.generated_key)",
                "call.repeatable",
            ),
        ),
        _tests(
            "tests/client/test_exchange.py",
            "test_a_lost_creation_says_that_making_it_anew_is_not_safe",
        ),
    ),
    Mutant(
        "a deadline that every byte sets back",
        (
            Patch(
                "src/oncebox/client/sync/runner.py",
                "self._inner.read(max_bytes, self._deadline.left(timeout, httpcore2.ReadTimeout))",
                "self._inner.read(max_bytes, timeout)",
            ),
        ),
        _tests(
            "tests/client/test_exchange.py",
            "test_one_deadline_bounds_a_call_however_the_answer_dawdles",
        ),
    ),
    Mutant(
        "a lost claim asked for under a new key",
        (
            Patch(
                "src/oncebox/client/core/work.py",
                "msgspec.structs.replace(request, wait=wait)",
                "msgspec.structs.replace(request, wait=wait, request_key=new_request_key())",
            ),
        ),
        _tests(
            "tests/client/test_claiming.py", "test_a_lost_claim_is_told_again_under_the_same_key"
        ),
    ),
    Mutant(
        "fetched effects called despite the journal",
        (
            Patch(
                "src/oncebox/client/core/work.py",
                "        begun = yield from self._begin()\n"
                "        if begun.go:\n"
                "            return (yield from self._perform(begun, requested_at))\n"
                "        before = self._earlier_effect(begun)\n"
                '        if before.state == "done":\n',
                "        begun = yield from self._begin()\n"
                "        if not begun.held:\n"
                "            return (yield from self._perform(begun, requested_at))\n"
                "        before = self._earlier_effect(begun)\n"
                '        if before.state == "done":\n',
            ),
        ),
        _tests(
            "tests/client/test_work.py",
            "test_an_effect_happens_once_however_often_the_work_is_tried",
        ),
    ),
    Mutant(
        "a lost call verified too early",
        (
            Patch(
                "src/oncebox/client/core/work.py",
                "yield PauseStep(max(0, before.surely_over_at - now) / 1000)",
                "yield PauseStep(0)",
            ),
        ),
        _tests(
            "tests/client/test_work.py",
            "test_an_effect_in_doubt_is_verified_where_the_other_side_can_be_asked",
        ),
    ),
    Mutant(
        "a filed key sent to any address",
        (
            Patch(
                "src/oncebox/client/core/network.py",
                ' and (url or stored.url).rstrip("/") == stored.url.rstrip("/")',
                "",
            ),
        ),
        _tests("tests/client/test_discovery.py", "test_the_filed_key_is_not_sent_anywhere_else"),
    ),
    Mutant(
        "one mail that is refused and stops all others",
        (
            Patch(
                "src/oncebox/client/core/send_plans.py",
                "        except _ABOUT_MAILS as error:\n",
                "        except NotFound as error:\n",
            ),
        ),
        _tests(
            "tests/client/test_send_many.py",
            "test_a_mail_that_is_refused_does_not_stop_the_others",
        ),
    ),
    Mutant(
        "a limit of the service that is not learned",
        (
            Patch(
                "src/oncebox/client/core/send_plans.py",
                "self._most = len(chunk) // 2  #",
                "self._most = len(chunk)  #",
            ),
        ),
        _tests("tests/client/test_send_many.py", "test_a_lower_limit_of_the_service_is_learned"),
    ),
)
