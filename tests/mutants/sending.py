"""Faults of what people and programs use to send: the client, the commands, the probes."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_CLIENT = "src/oncebox/client/sending.py"
_CLI = "src/oncebox/cli"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"tests/{file}::{name}" for name in names)),)


SENDING = (
    Mutant(
        "a lost answer to a send that is not asked for again",
        (
            Patch(
                _CLIENT,
                "        idempotency_key=key,\n        repeatable=True,",
                "        idempotency_key=key,",
            ),
        ),
        _tests("client/test_sends.py", "test_a_lost_answer_is_asked_for_again_in_the_same_words"),
    ),
    Mutant(
        "a wait that begins anew with every poll",
        (
            Patch(
                _CLIENT,
                "        return self._until - self.now()",
                "        return self.within",
            ),
        ),
        _tests("client/test_sends.py", "test_the_polls_of_a_wait_have_one_deadline_between_them"),
    ),
    Mutant(
        "a repeat told that it was the first",
        (Patch(_CLIENT, "repeated=not mine)", "repeated=False)"),),
        _tests("client/test_sends.py", "test_who_was_not_the_first_is_told_that_it_is_a_duplicate"),
    ),
    Mutant(
        "a mail on disk that is raised as an error",
        (
            Patch(
                _CLIENT,
                "            if not may_pass(error):\n                raise",
                "            raise",
            ),
        ),
        _tests(
            "client/test_sends.py",
            "test_a_mail_on_disk_is_no_error_because_it_cannot_be_looked_at",
        ),
    ),
    Mutant(
        "a password taken from the command line",
        (
            Patch(
                f"{_CLI}/transport_options.py",
                "    text = source_options.secret(typed)",
                "    text = source_options.secret(typed) if typed == '-' else typed",
            ),
        ),
        _tests(
            "cli/test_transport.py",
            "test_secrets_are_never_shown_and_never_taken_from_the_command_line",
        ),
    ),
    Mutant(
        "a change of a transport that forgets the rest",
        (
            Patch(
                f"{_CLI}/transport.py",
                "rate=known.rate if limit is None else limit if limit.sends else None,",
                "rate=limit if limit and limit.sends else None,",
            ),
        ),
        _tests("cli/test_transport.py", "test_a_change_keeps_what_was_not_typed"),
    ),
    Mutant(
        "a change of a transport over a later one",
        (
            Patch(
                "src/oncebox/ledger/sends/transports.sql",
                "\n    AND (CAST(:seen AS BIGINT) IS NULL OR changed_at = :seen);",
                " AND CAST(:seen AS BIGINT) IS NOT DISTINCT FROM :seen;",
            ),
        ),
        _tests(
            "contract/test_sends_ways.py",
            "test_who_keeps_a_part_of_a_transport_overwrites_no_later_change",
        ),
    ),
    Mutant(
        "a doubt that the doctor does not see",
        (
            Patch(
                f"{_CLI}/send_checks.py",
                "status = Status.WARN if doubtful else Status.OK",
                "status = Status.OK",
            ),
        ),
        _tests("cli/test_send.py", "test_the_doctor_sees_doubt_and_that_there_is_only_log"),
    ),
    Mutant(
        "a deed without a reason",
        (
            Patch(
                f"{_CLI}/send_deeds.py",
                "    reason = require_why(why)",
                "    reason = why or ''",
            ),
        ),
        _tests("cli/test_send.py", "test_half_a_word_is_refused"),
    ),
    Mutant(
        "a probe that calls a refused login working",
        (
            Patch(
                f"{_CLI}/transport_test.py",
                "            trouble = await probe(",
                "            trouble = None and await probe(",
            ),
        ),
        _tests("cli/test_transport.py", "test_a_test_says_plainly_what_is_in_the_way"),
    ),
)
