"""Faults in the IMAP reader: mail lost, read twice, or changed; limits and TLS that are none."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_READER = "src/oncebox/mailboxes/imap.py"
_PAGE = "src/oncebox/mailboxes/imap_page.py"
_CONNECTION = "src/oncebox/mailboxes/imap_connection.py"
_RESPONSES = "src/oncebox/mailboxes/imap_responses.py"
_TOKENS = "src/oncebox/mailboxes/access_tokens.py"


def _one(name: str, file: str, change: tuple[str, str], test: str, names: str) -> Mutant:
    killers = tuple(f"tests/mailboxes/{test}.py::{each}" for each in names.split())
    return Mutant(f"imap: {name}", (Patch(file, *change),), (Selection(killers),))


IMAP = (
    _one(
        "a mail is older than its second",
        _PAGE,
        ("received_at += _LAST_OF_SECOND_MS", "received_at += 0 * _LAST_OF_SECOND_MS"),
        "test_imap",
        "test_a_mail_is_not_older_than_the_second_that_the_server_names",
    ),
    _one(
        "the last mail again and again",
        _READER,
        (
            "await self._search_once(words, criteria, lowest, bound)",
            "await self._search_once(words, criteria, 1, bound)",
        ),
        "test_imap",
        "test_the_last_mail_is_not_read_again_though_a_search_returns_it",
    ),
    _one(
        "mail is marked as seen",
        _READER,
        ("(UID BODY.PEEK[])", "(UID BODY[])"),
        "test_imap",
        "test_a_mail_above_the_limit_is_skipped_unread",
    ),
    _one(
        "a new UIDVALIDITY is not looked at",
        _READER,
        ("if position is None or position.uidvalidity != status.uidvalidity:", "if not position:"),
        "test_imap",
        "test_a_changed_uidvalidity_is_a_bounded_resync_and_nothing_is_lost",
    ),
    _one(
        "a resync of the newest mails only",
        _READER,
        ("min(*found, *later, MAX_UID)", "min(*found, *later[:0], MAX_UID)"),
        "test_imap",
        "test_a_changed_uidvalidity_is_a_bounded_resync_and_nothing_is_lost",
    ),
    _one(
        "a resync without an end",
        _READER,
        ("if self._resyncs[folder] > _MAX_RESYNCS:", "if self._resyncs[folder] < 0:"),
        "test_imap",
        "test_a_uidvalidity_that_never_lasts_needs_the_operator",
    ),
    _one(
        "a folder that counts as read before its end",
        _READER,
        ("ahead.status.modseq if is_done else 0,", "ahead.status.modseq,"),
        "test_imap",
        "test_the_same_cursor_gives_the_same_mails_to_any_reader",
    ),
    _one(
        "mail from before the mailbox was added",
        _PAGE,
        ("return uid <= ahead.position.until and", "return uid < 0 and"),
        "test_imap",
        "test_a_resync_does_not_bring_mail_from_before_the_mailbox_was_added "
        "test_mail_of_some_days_is_read_by_the_minute",
    ),
    _one(
        "old mail that arrives later is passed over",
        _PAGE,
        ("return uid <= ahead.position.until and", "return"),
        "test_imap",
        "test_mail_of_some_days_is_read_by_the_minute",
    ),
    _one(
        "a connection that is kept after a cancelled call",
        _READER,
        (
            "            self._drop()\n            if isinstance(error, OSError):",
            "            if isinstance(error, OSError):",
        ),
        "test_imap_connection",
        "test_a_call_that_is_cancelled_leaves_no_answer_for_the_next_one",
    ),
    _one(
        "every announcement is believed at once",
        _READER,
        ("return 0.0 if wrong < 0 else", "return 0.0 if wrong < 99 else"),
        "test_imap_connection",
        "test_mail_that_is_announced_and_never_there_costs_no_busy_loop",
    ),
    _one(
        "a refused token is kept",
        _TOKENS,
        ("        if token == self._token:\n", "        if not token:\n"),
        "test_imap_connection",
        "test_a_token_that_expires_in_idle_is_replaced_by_a_new_login",
    ),
    _one(
        "a literal of any length",
        _RESPONSES,
        ("if self._literal_bytes > self.max_literal or", "if"),
        "test_imap_responses",
        "test_a_literal_above_its_limit_is_refused_before_it_arrives",
    ),
    _one(
        "the text of a status that ends in braces waits for a literal",
        _RESPONSES,
        ("not in _STATUS_KINDS)\n\n\ndef _literal_size", "!= '')\n\n\ndef _literal_size"),
        "test_imap_responses",
        "test_every_part_of_a_response_is_told_apart",
    ),
    _one(
        "bytes before TLS pass for encrypted ones",
        _CONNECTION,
        ("if not self._parser.is_empty:", "if self._is_over:"),
        "test_imap_connection",
        "test_starttls_is_required_and_what_was_said_before_it_does_not_count",
    ),
    _one(
        "a login before TLS is believed",
        _CONNECTION,
        ('if greeting.kind == "PREAUTH" or "STARTTLS"', 'if "STARTTLS"'),
        "test_imap_connection",
        "test_starttls_is_required_and_what_was_said_before_it_does_not_count",
    ),
)
