"""Faults in the filing and reading of messages."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_INBOXES = "src/oncebox/ledger/inboxes"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


MESSAGES = (
    Mutant(
        "a lost reply files the mail again",
        (
            Patch(
                "src/oncebox/ledger/deliveries/settlements.py",
                "[each for key, each in by_key.items() if key in ended]",
                "list(by_key.values())",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_messages.py",
                "test_a_settlement_that_was_committed_before_files_nothing_twice",
                "test_a_stale_worker_files_nothing",
            ),
        ),
    ),
    Mutant(
        "the short way taken past a deed",
        (
            Patch(
                "src/oncebox/ledger/deliveries/settlements.py",
                "plain = _is_plain(settlement) and settlement.commit_hook is None",
                "plain = _is_plain(settlement)",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_messages.py",
                "test_the_delivery_is_done_and_the_message_is_there_in_one_commit",
            ),
        ),
    ),
    Mutant(
        "the Message-ID alone makes the message",
        (
            Patch(
                "src/oncebox/model/inboxes/message.py",
                "identities=_identities(parsed.identity, delivery.id,",
                'identities=_identities(parsed.message_mark or b"", delivery.id,',
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_messages.py",
                "test_a_message_id_used_again_with_other_text_is_a_second_message",
            ),
        ),
    ),
    Mutant(
        "a proven mail that is a copy of a forgery",
        (
            Patch(
                "src/oncebox/model/inboxes/message.py",
                '    of_proven = b"proven:" + said\n',
                "    of_proven = said\n",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_messages.py",
                "test_a_forgery_that_came_first_does_not_keep_the_genuine_mail_away",
            ),
        ),
    ),
    Mutant(
        "a delivery that is run again is counted as a copy",
        (
            Patch(
                f"{_INBOXES}/messages.py",
                "for each in filings if each.delivery.fence > 1]",
                "for each in filings if each.delivery.fence > 99]",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_messages.py",
                "test_a_delivery_that_is_run_again_changes_nothing",
            ),
        ),
    ),
    Mutant(
        "an agent sees everybody's inboxes",
        (
            Patch(
                "src/oncebox/ledger/inboxes/messages.sql",
                "AND (CAST(:owner AS TEXT) IS NULL OR owner = CAST(:owner AS TEXT));",
                "AND (CAST(:owner AS TEXT) IS NULL OR id = :id);",
            ),
        ),
        (
            Selection(
                ("tests/server/api/test_messages.py::test_an_agent_sees_only_inboxes_that_it_made",)
            ),
        ),
    ),
    Mutant(
        "an agent reads text without leave",
        (
            Patch(
                "src/oncebox/server/api/messages.py",
                "return call.key.may(Scope.OPERATOR, Scope.READ_TEXT)",
                "return call.key.may(Scope.OPERATOR, Scope.AGENT)",
            ),
        ),
        (
            Selection(
                (
                    "tests/server/api/test_messages.py::test_an_agent_sees_typed_fields_and_no_strangers_text",
                )
            ),
        ),
    ),
    Mutant(
        "a journal that goes before its body",
        (
            Patch(
                "src/oncebox/ledger/maintenance.sql",
                "= oncebox_effects.delivery_id AND purged_at IS NOT NULL",
                "= oncebox_effects.delivery_id",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_mail_retention.py",
                "test_a_journal_is_never_gone_before_its_body",
            ),
        ),
    ),
)
