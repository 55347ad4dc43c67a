"""Faults where mailboxes are read and stored: cursors ahead of mail, stale readers, lost mail."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_WORKER = "src/oncebox/workers/mailboxes/mailbox_worker.py"
_ROUTING = "src/oncebox/workers/mailboxes/routing.py"
_LEDGER = "src/oncebox/ledger/mailboxes/mailboxes.py"
_SQL = "src/oncebox/ledger/mailboxes/mailboxes.sql"


def _one(name: str, file: str, change: tuple[str, str], test: str, names: str) -> Mutant:
    killers = tuple(f"tests/contract/mailboxes/{test}.py::{each}" for each in names.split())
    return Mutant(f"mailboxes: {name}", (Patch(file, *change),), (Selection(killers),))


#: the cursor of a page in one commit, its mails in the next
_APART = (
    (
        "        stored = await self._ledger.retrying().write("
        "mailboxes.store_page, lease, to_store, now)\n"
    ),
    (
        "        write = self._ledger.retrying().write\n"
        "        ahead = to_store._replace(mails=())\n"
        "        first = await write(mailboxes.store_page, lease, ahead, now)\n"
        "        rest = to_store._replace(version=first.cursor_version)\n"
        "        stored = await write(mailboxes.store_page, lease, rest, now)\n"
    ),
)

_CONFIG = "src/oncebox/mailboxes/mailbox_config.py"

MAILBOXES = (
    _one(
        "a mail that is refused for ever",
        _ROUTING,
        (
            '    refused = mailbox.failures if mailbox.failure == "mail_refused" else 0\n',
            "    refused = 0\n",
        ),
        "test_mailbox_worker",
        "test_a_mail_that_its_server_never_gives_is_skipped_in_the_end",
    ),
    _one(
        "a refresh token that is stored nowhere",
        _CONFIG,
        (
            "tokens = AccessTokens(config.token, on_new_refresh_token=keep_token)",
            "tokens = AccessTokens(config.token)",
        ),
        "test_refresh_tokens",
        "test_a_reader_that_is_opened_again_uses_the_newest_refresh_token "
        "test_another_process_uses_the_newest_refresh_token",
    ),
    _one(
        "a refresh token of a worker that lost its lease",
        _SQL,
        (
            "AND fence = :fence AND due_at IS NOT NULL;\n\n-- name: replace_config\n",
            "AND :fence = :fence AND due_at IS NOT NULL;\n\n-- name: replace_config\n",
        ),
        "test_refresh_tokens",
        "test_a_worker_that_lost_its_lease_stores_no_token",
    ),
    _one(
        "a refresh token that the settings bring back",
        _CONFIG,
        ("known.written_token != _digest(own", "known.written_token != (own"),
        "test_refresh_tokens",
        "test_the_settings_do_not_bring_the_token_back_that_the_newest_was_issued_from",
    ),
    _one(
        "a refresh token that outlives its replacement in the settings",
        _CONFIG,
        (
            " or known.written_token != _digest(own.refresh_token):",
            ":",
        ),
        "test_refresh_tokens",
        "test_a_token_that_is_new_in_the_settings_is_used",
    ),
    _one(
        "the cursor is committed before its mails",
        _WORKER,
        _APART,
        "test_mailbox_worker",
        "test_a_reader_that_fails_anywhere_passes_over_no_mail_and_reads_none_again",
    ),
    _one(
        "a reader without a lease stores a page",
        _SQL,
        ("AND fence = :fence AND cursor_version = :version", "AND cursor_version = :version"),
        "test_mailboxes",
        "test_a_reader_whose_lease_ended_stores_nothing",
    ),
    _one(
        "the cursor of another account",
        _SQL,
        ("cursor = CASE WHEN :moved = 1 THEN NULL", "cursor = CASE WHEN :moved > 1 THEN NULL"),
        "test_mailboxes",
        "test_a_mailbox_of_another_account_is_read_from_its_beginning",
    ),
    _one(
        "mail for nobody can never be read",
        _LEDGER,
        ("for digest, each in unknown.items() if each.deliveries)", "for digest in unknown)"),
        "test_mailboxes",
        "test_mail_for_nobody_is_read_by_a_resync_once_it_has_an_inbox",
    ),
    _one(
        "a time-out counts as a refusal",
        _SQL,
        ("THEN refusals + 1 ELSE 0 END", "THEN refusals + 1 ELSE refusals END"),
        "test_mailboxes",
        "test_only_refusals_in_a_row_pause_a_mailbox",
    ),
    _one(
        "a busy webhook suspends polling",
        _WORKER,
        ("waits = min(silent, longest)", "waits = max(silent, longest - longest)"),
        "test_mailbox_worker",
        "test_a_webhook_that_is_never_silent_does_not_stop_polling_for_ever",
    ),
    Mutant(
        "mailboxes: a resync passes over mail that waited",
        (
            Patch(
                _ROUTING,
                "if mailbox.cursor is None and mailbox.cursor_version:",
                "if mailbox.cursor is None and mailbox.cursor_version < 0:",
            ),
        ),
        (Selection(("tests/mailboxes/test_resync.py",)),),
    ),
    _one(
        "a page whose answer was lost is stored again",
        _SQL,
        ("AND fence = :fence AND cursor_version = :version", "AND fence = :fence"),
        "test_mailboxes",
        "test_a_page_whose_commit_answer_was_lost_is_stored_once",
    ),
    _one(
        "a mail that is given again is not recognised by its id",
        _LEDGER,
        ("if digest not in known}", "if digest or digest not in known}"),
        "test_mailboxes",
        "test_a_mail_that_the_server_gives_again_is_a_replay",
    ),
    _one(
        "the name of the mailbox hides the recipients",
        _ROUTING,
        ("for addresses in groups:", "for addresses in groups[:1]:"),
        "test_mailbox_worker",
        "test_mail_for_an_inbox_is_found_though_the_server_writes_the_name_of_the_mailbox",
    ),
    _one(
        "a mail for one inbox goes to all in its header",
        _ROUTING,
        ("for addresses in groups:", "for addresses in groups[::-1]:"),
        "test_mailbox_worker",
        "test_mail_that_was_delivered_to_one_inbox_is_not_for_the_others_in_its_header",
    ),
    _one(
        "a page that was fetched ahead is for another cursor",
        _WORKER,
        ("pages.fetch_ahead(page.cursor)", "pages.fetch_ahead(cursor or page.cursor)"),
        "test_mailbox_worker",
        "test_the_next_page_is_fetched_while_one_is_stored",
    ),
)
