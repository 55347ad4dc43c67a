"""Faults of what people and programs use to send: the client, the commands, the probes."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


SENDING = (
    Mutant(
        "a lost answer to a send that is not asked for again",
        (
            Patch(
                "src/oncebox/client/core/send_plans.py",
                "        idempotency_key=check_idempotency_key(key),\n        repeatable=True,",
                "        idempotency_key=check_idempotency_key(key),",
            ),
        ),
        _tests(
            "tests/client/test_sends.py",
            "test_a_lost_answer_is_requested_again_with_the_same_request",
        ),
    ),
    Mutant(
        "a wait that begins anew with every poll",
        (
            Patch(
                "src/oncebox/client/core/calls.py",
                "        return self._until - self.now()",
                "        return self.within",
            ),
        ),
        _tests(
            "tests/client/test_sends.py", "test_the_polls_of_a_wait_have_one_deadline_between_them"
        ),
    ),
    Mutant(
        "a repeat told that it was the first",
        (
            Patch(
                "src/oncebox/client/core/send_plans.py", "repeated=not is_first)", "repeated=False)"
            ),
        ),
        _tests(
            "tests/client/test_sends.py",
            "test_who_was_not_the_first_is_told_that_it_is_a_duplicate",
        ),
    ),
    Mutant(
        "a mail on disk that is raised as an error",
        (
            Patch(
                "src/oncebox/client/core/send_plans.py",
                "            if not is_transient(error):\n                raise",
                "            raise",
            ),
        ),
        _tests(
            "tests/client/test_sends.py",
            "test_a_mail_on_disk_is_no_error_because_it_cannot_be_looked_at",
        ),
    ),
    Mutant(
        "a password taken from the command line",
        (
            Patch(
                "src/oncebox/cli/configuration_options.py",
                "    text = options.read_secret(typed)",
                "    text = options.read_secret(typed) if typed == '-' else typed",
            ),
        ),
        _tests(
            "tests/cli/test_transport.py",
            "test_secrets_are_never_shown_and_never_taken_from_the_command_line",
        ),
    ),
    Mutant(
        "a change of a transport that forgets the rest",
        (
            Patch(
                "src/oncebox/cli/commands/transport.py",
                "rate=known.rate if limit is None else limit if limit.sends else None,",
                "rate=limit if limit and limit.sends else None,",
            ),
        ),
        _tests("tests/cli/test_transport.py", "test_a_change_keeps_what_was_not_typed"),
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
            "tests/contract/sends/test_transports.py",
            "test_who_keeps_a_part_of_a_transport_overwrites_no_later_change",
        ),
    ),
    Mutant(
        "a doubt that the doctor does not see",
        (
            Patch(
                "src/oncebox/cli/checks/database.py",
                '        _expect_none("unknown sends", len(unknown)',
                '        _expect_none("unknown sends", 0',
            ),
        ),
        _tests(
            "tests/cli/test_send.py",
            "test_the_doctor_reports_unknown_sends_and_a_missing_transport",
        ),
    ),
    Mutant(
        "a deed without a reason",
        (
            Patch(
                "src/oncebox/cli/commands/send.py",
                "    reason = require_reason(why)",
                "    reason = why or ''",
            ),
        ),
        _tests("tests/cli/test_send.py", "test_half_a_word_is_refused"),
    ),
    Mutant(
        "a probe that calls a refused login working",
        (
            Patch(
                "src/oncebox/cli/commands/transport.py",
                "            failure = await transport.probe(",
                "            failure = None and await transport.probe(",
            ),
        ),
        _tests("tests/cli/test_transport.py", "test_a_test_says_plainly_what_is_in_the_way"),
    ),
)
