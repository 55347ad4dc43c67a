"""Faults in mailbox readers by HTTP: mail that is lost or given twice, and keys that go astray."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_CLIENT = "src/oncebox/mailboxes/api_client.py"
_READER = "src/oncebox/mailboxes/api_reader.py"
_OVERLAP = "src/oncebox/mailboxes/overlap.py"
_REST = "src/oncebox/mailboxes/rest.py"
_GMAIL = "src/oncebox/mailboxes/gmail.py"
_GRAPH = "src/oncebox/mailboxes/graph.py"
_JMAP = "src/oncebox/mailboxes/jmap.py"


def _one(name: str, file: str, old: str, new: str, test: str) -> Mutant:
    where, _, function = test.partition("::")
    killer = Selection((f"tests/mailboxes/{where}.py::{function}",))
    return Mutant(f"http mailboxes: {name}", (Patch(file, old, new),), (killer,))


HTTP_MAILBOXES = (
    _one(
        "a redirect that is an answer",
        _CLIENT,
        "            if 300 <= answer.status < 400:",
        "            if answer.status < 0:",
        "test_graph::test_a_redirect_is_not_followed",
    ),
    _one(
        "a link that leads anywhere",
        _CLIENT,
        "        if not allowed or len(link)",
        "        if len(link)",
        "test_graph::test_the_link_of_a_forged_cursor_is_not_followed",
    ),
    _one(
        "a host that ends like a named one",
        _CLIENT,
        "host.endswith(each[1:])",
        "each[2:] in host",
        "test_rest::test_a_signed_link_to_a_foreign_host_is_not_followed",
    ),
    _one(
        "a key for the host of a signed link",
        _REST,
        "authorized=False",
        "authorized=True",
        "test_rest::test_a_signed_link_is_followed_without_the_key",
    ),
    _one(
        "a key in the clear",
        _CLIENT,
        '    if parts.scheme == "http" and has_secret and',
        '    if parts.scheme == "ftp" and has_secret and',
        "test_http_readers::test_a_configuration_that_cannot_work_is_refused",
    ),
    _one(
        "a position that follows a clock that is ahead",
        _REST,
        "        return min(answer.date or now, now + CLOCK_SKEW_MS)\n",
        "        return answer.date or now\n",
        "test_rest::test_a_server_whose_clock_was_ahead_for_a_while_hides_no_later_mail",
    ),
    _one(
        "a broken mail that is forgotten",
        _READER,
        "                late.append(LateMail(mail, self._now() + _LATE_FOR_MS))\n",
        "                late = late[:]\n",
        "test_http_readers::"
        "test_a_mail_that_cannot_be_downloaded_holds_nothing_up_and_is_tried_for_a_day",
    ),
    _one(
        "the same page for ever",
        _READER,
        "            if self._listings[page] > _MAX_REPEATED:",
        "            if self._listings[page] > 100_000:",
        "test_graph::test_the_same_page_for_ever_is_an_error",
    ),
    _one(
        "a listing without overlap",
        _OVERLAP,
        "    since = max(overlap.since, overlap.high - window)\n",
        "    since = max(overlap.since, overlap.high)\n",
        "test_overlap::test_nothing_is_lost_and_nothing_is_given_twice",
    ),
    _one(
        "a position that believes every date",
        _OVERLAP,
        "high = max(high, min(at, now))",
        "high = max(high, at)",
        "test_overlap::test_a_mail_from_the_future_hides_nothing",
    ),
    _one(
        "an overlap that forgets what it gave",
        _OVERLAP,
        "(*overlap.seen, *overlap.found)}",
        "overlap.found}",
        "test_overlap::test_nothing_is_lost_and_nothing_is_given_twice",
    ),
    _one(
        "a page of history that is passed over",
        _GMAIL,
        "GmailAt(at.history, page) if page else GmailAt(found.history_id)",
        "GmailAt(found.history_id)",
        "test_gmail::test_every_page_of_the_history_is_read",
    ),
    _one(
        "a mail that is new whenever it is read",
        _GRAPH,
        ', "changeType": "created"}',
        "}",
        "test_graph::test_mail_that_is_read_or_deleted_there_is_not_given_again",
    ),
    _one(
        "a channel that is opened too late",
        _JMAP,
        "            if self._state_read and state != self._state_read:",
        "            if state == self._state_read:",
        "test_jmap::test_mail_that_came_before_the_channel_was_open_ends_the_wait",
    ),
)
