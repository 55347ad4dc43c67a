"""Faults in the receiver of mail."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


SMTP = (
    Mutant(
        "a bare line end that is no fault",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "            self._bare = True\n",
                "            self._bare = False\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_session.py",
                "test_a_bare_line_end_in_a_mail_ends_the_conversation",
                "test_a_mail_is_read_as_a_plain_reader_would_line_by_line",
            ),
            _tests("tests/server/smtp/test_smuggling.py", "test_a_false_end_is_none"),
        ),
    ),
    Mutant(
        "a bare CR that is not looked for",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "may_be_bare=first < end)",
                "may_be_bare=False)",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_session.py",
                "test_a_bare_line_end_in_a_mail_ends_the_conversation",
                "test_a_mail_is_read_as_a_plain_reader_would_line_by_line",
            ),
        ),
    ),
    Mutant(
        "a bare CR that is not looked for before the last piece",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "may_be_bare=first < length)",
                "may_be_bare=False)",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_session.py",
                "test_any_cut_of_the_same_bytes_is_the_same_conversation",
            ),
        ),
    ),
    Mutant(
        "an end that must come in one piece",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                'half = next((half for half in _PARTIAL_ENDS if data.endswith(half)), b"")',
                'half = b""',
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_session.py",
                "test_any_cut_of_the_same_bytes_is_the_same_conversation",
            ),
        ),
    ),
    Mutant(
        "plaintext that survives the handshake",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                '        self._buffer, self._at, self._helo = b"", 0, None\n',
                "        self._helo = None\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_session.py",
                "test_what_is_slipped_in_behind_starttls_is_never_heard",
            ),
            _tests(
                "tests/server/smtp/test_tls.py",
                "test_what_is_slipped_in_before_the_handshake_is_never_heard",
            ),
        ),
    ),
    Mutant(
        "a 250 before the commit",
        (
            Patch(
                "src/oncebox/server/smtp/connection.py",
                "            self._context.mail_store.begin(session.envelope, data, self)\n",
                "            ignored = asyncio.get_running_loop().create_future()\n"
                "            self._context.mail_store.begin(session.envelope, data, ignored)\n"
                "            self.set_result([])\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_abuse.py",
                "test_trouble_of_ours_is_never_held_against_the_mail",
            ),
            _tests("tests/server/smtp/test_commits.py", "test_no_answer_comes_before_the_commit"),
        ),
    ),
    Mutant(
        "a post that does not wait for its commit",
        (
            Patch(
                "src/oncebox/ledger/inboxes/mail_intake.py",
                "        self._group.enqueue(self.deliveries(envelope, data), waiter)\n",
                "        self._group.enqueue(self.deliveries(envelope, data))\n"
                "        waiter.set_result([])\n",
            ),
        ),
        (_tests("tests/server/smtp/test_commits.py", "test_no_answer_comes_before_the_commit"),),
    ),
    Mutant(
        "a large mail that is not waited for",
        (
            Patch(
                "src/oncebox/server/smtp/connection.py",
                "                    await self._context.mail_store.store(envelope, data)\n",
                "                    storing = self._context.mail_store.store(envelope, data)\n"
                "                    asyncio.ensure_future(storing)\n",
            ),
        ),
        (_tests("tests/server/smtp/test_commits.py", "test_no_answer_comes_before_the_commit"),),
    ),
    Mutant(
        "a refused mail in the next one's file",
        (
            Patch(
                "src/oncebox/server/smtp/connection.py",
                "            self._drop_spooled_mail()  # that mail was refused",
                "            pass  # that mail was refused",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_connections.py", "test_a_full_disk_is_told_and_forgotten"
            ),
        ),
    ),
    Mutant(
        "trouble of ours as the sender's fault",
        (
            Patch(
                "src/oncebox/server/smtp/mail_spool.py",
                "    return smtp_replies.DISK_FULL if full else smtp_replies.TRY_LATER\n",
                "    return smtp_replies.DISK_FULL if full else smtp_replies.TOO_LARGE\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_abuse.py",
                "test_trouble_of_ours_is_never_held_against_the_mail",
            ),
        ),
    ),
    Mutant(
        "patience that every byte of a mail renews",
        (
            Patch(
                "src/oncebox/server/smtp/connection.py",
                "        return self._credit >= 0\n",
                "        return True\n",
            ),
        ),
        (_tests("tests/server/smtp/test_connections.py", "test_a_dripping_mail_is_cut_off"),),
    ),
    Mutant(
        "a key without the inbox",
        (
            Patch(
                "src/oncebox/ledger/inboxes/mail_intake.py",
                'key=f"{inbox_id}:{arrival.mark.hex()}",',
                'key=f"inbox:{arrival.mark.hex()}",',
            ),
        ),
        (
            Selection(
                (
                    "tests/contract/inboxes/test_mail_intake.py::test_every_inbox_has_its_delivery_and_those_of_a_tenant_share_the_bytes",
                )
            ),
        ),
    ),
    Mutant(
        "a fault of one connection that keeps the others from their replies",
        (
            Patch(
                "src/oncebox/server/smtp/connection.py",
                "                # The others must still get their replies.\n",
                "                return\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_replies.py",
                "test_a_connection_that_fails_keeps_no_other_from_its_reply",
            ),
        ),
    ),
    Mutant(
        "a login outside test mode",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "        if not self._rules.auth:\n            raise CommandRefused",
                "        if self._rules is None:\n            raise CommandRefused",
            ),
        ),
        (_tests("tests/server/smtp/test_auth.py", "test_auth_is_not_offered_outside_test_mode"),),
    ),
    Mutant(
        "a login with chaos rules alone",
        (
            Patch(
                "src/oncebox/testing/fault_injection.py",
                "        return self._test\n",
                "        return self._test or self._rules is not None\n",
            ),
        ),
        (_tests("tests/cli/test_test_mode.py", "test_chaos_alone_offers_neither_login_nor_tls"),),
    ),
    Mutant(
        "a login that survives the handshake",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "        self._is_logged_in = False\n        self._reset_mail()\n",
                "        self._reset_mail()\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_auth.py",
                "test_what_was_said_before_tls_about_credentials_is_forgotten",
            ),
        ),
    ),
    Mutant(
        "a wrong answer to AUTH after which the next command is an answer too",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "        self._prompts = ()\n        self._add_refusal(reply)\n",
                "        self._add_refusal(reply)\n",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_auth.py",
                "test_a_wrong_answer_ends_auth_and_it_may_be_tried_again",
            ),
        ),
    ),
    Mutant(
        "the middle of a long line taken for AUTH",
        (
            Patch(
                "src/oncebox/server/smtp/smtp_session.py",
                "return not self._skipped and (",
                "return (",
            ),
        ),
        (
            _tests(
                "tests/server/smtp/test_auth.py",
                "test_the_middle_of_a_line_that_is_too_long_is_no_auth_line",
            ),
        ),
    ),
)
