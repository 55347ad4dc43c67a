"""Faults in sending past the ledger: a second mail, one nobody knows of; and in templates."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LEDGER = "src/oncebox/ledger/sends"


def _tests(*names: str) -> Selection:
    return Selection(tuple(f"tests/contract/sends/test_fail_open.py::{name}" for name in names))


def _templates(*names: str) -> Selection:
    return Selection(tuple(f"tests/ledger/test_templates.py::{name}" for name in names))


FAIL_OPEN = (
    Mutant(
        "a mail past the ledger that is not written down",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "            await self._append(SpoolMarked(id=entry.new.id, at=now, "
                "replay_until=until))\n",
                "",
            ),
        ),
        (
            _tests("test_a_crash_after_the_marker_leaves_the_outcome_unknown"),
            _tests("test_every_step_is_on_disk_before_the_next"),
        ),
    ),
    Mutant(
        "a spool that does not wait for the disk",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "            _write_all(self._handle, line)\n            os.fsync(self._handle)\n",
                "            _write_all(self._handle, line)\n",
            ),
        ),
        (
            _tests("test_every_step_is_on_disk_before_the_next"),
            _tests("test_nothing_is_transmitted_that_cannot_be_spooled"),
        ),
    ),
    Mutant(
        "a second mail past the ledger for one key",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "        entry, repeated = self._entries.get(key), True\n",
                "        entry, repeated = None, True\n",
            ),
        ),
        (_tests("test_a_key_goes_once_however_many_ask"),),
    ),
    Mutant(
        "a ledger that is back and sends what went past it",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "            if result is None and self.fail_open_sender is not None:\n",
                "            if result is None and self.fail_open_sender is self:\n",
            ),
        ),
        (_tests("test_a_key_is_sent_once_while_the_ledger_is_back_and_not_updated"),),
    ),
    Mutant(
        "a doubt past the ledger that is forgotten beside its own try",
        (
            Patch(
                "src/oncebox/ledger/sends/fail_open.sql",
                "AND state = 'sending' AND in_doubt_at IS NULL;",
                "AND state = 'pending' AND in_doubt_at IS NULL;",
            ),
        ),
        (_tests("test_a_mail_past_the_ledger_leaves_doubt_beside_one_that_is_on_the_wire"),),
    ),
    Mutant(
        "a spool that the next process does not read",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "        for each in spooled:\n",
                "        for each in spooled[:0]:\n",
            ),
        ),
        (
            _tests("test_a_crash_after_the_end_forgets_nothing"),
            _tests("test_a_crash_after_the_marker_leaves_the_outcome_unknown"),
        ),
    ),
    Mutant(
        "a mail past the ledger that the ledger has",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "if later or known or self._breaker.is_open() or",
                "if later or self._breaker.is_open() or",
            ),
        ),
        (_tests("test_what_the_ledger_has_is_left_to_it"),),
    ),
    Mutant(
        "a lost reply that is taken for no commit",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "        if isinstance(error, CommitUnknown):\n            self._remember(checked)",
                "        if isinstance(error, DiskFull):\n            self._remember(checked)",
            ),
        ),
        (_tests("test_what_the_ledger_has_is_left_to_it"),),
    ),
    Mutant(
        "mail past a ledger that is only busy",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "        if not isinstance(error, _STORE_DOWN):\n            raise error\n",
                "",
            ),
        ),
        (_tests("test_a_queue_that_is_full_and_a_lost_reply_are_no_outage"),),
    ),
    Mutant(
        "a wait for a ledger that is known to be down",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "            self.fail_open_sender.ledger_failed(error)\n",
                "            pass\n",
            ),
        ),
        (
            _tests(
                "test_after_one_long_wait_mail_goes_past_the_ledger_at_once_until_it_is_seen_to_work"
            ),
        ),
    ),
    Mutant(
        "a ledger that is passed by for ever",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "            self._is_ledger_down = False\n            self._telemetry.log",
                "            self._telemetry.log",
            ),
        ),
        (
            _tests(
                "test_after_one_long_wait_mail_goes_past_the_ledger_at_once_until_it_is_seen_to_work"
            ),
        ),
    ),
    Mutant(
        "a box that fails open unasked",
        (
            Patch(
                "src/oncebox/box.py",
                "        if self.settings.sends.fail_open:\n",
                "        if self.settings.sends:\n",
            ),
        ),
        (_tests("test_a_box_fails_open_only_where_that_was_chosen"),),
    ),
    Mutant(
        "a mail past the ledger that its caller takes along",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "await asyncio.shield(entry.task)",
                "await entry.task",
            ),
        ),
        (_tests("test_who_goes_away_does_not_take_the_mail_along"),),
    ),
    Mutant(
        "a spool of two processes",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n",
                "            fcntl.flock(handle, fcntl.LOCK_UN)\n",
            ),
        ),
        (_tests("test_only_one_process_has_the_spool"),),
    ),
    Mutant(
        "mail without end past the ledger",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "            self._check_limits(new, entry.at)\n",
                "",
            ),
        ),
        (
            _tests("test_limits_hold_without_the_ledger"),
            _tests("test_a_cool_down_holds_without_the_ledger"),
        ),
    ),
    Mutant(
        "a way past the ledger that never rests",
        (
            Patch(
                "src/oncebox/workers/sends/fail_open.py",
                "        self._breaker.record(outcome)\n",
                "",
            ),
        ),
        (_tests("test_a_way_that_fails_again_and_again_rests"),),
    ),
    Mutant(
        "a send that goes by both ways",
        (
            Patch(
                "src/oncebox/ledger/sends/fail_open.sql",
                "state IN ('pending', 'claimed', 'failed',",
                "state IN ('pending', 'failed',",
            ),
        ),
        (_tests("test_what_the_ledger_meant_to_send_is_not_sent_again"),),
    ),
    Mutant(
        "a doubt past the ledger that its failures hide",
        (
            Patch(
                "src/oncebox/ledger/sends/fail_open.sql",
                "state IN ('pending', 'claimed', 'failed',",
                "state IN ('pending', 'claimed',",
            ),
        ),
        (_tests("test_what_was_thought_not_sent_is_in_doubt_after_all"),),
    ),
    Mutant(
        "a person's word that the spool overrules",
        (
            Patch(
                "src/oncebox/ledger/sends/fail_open.sql",
                "\n    AND (COALESCE(code, '') <> 'resolved' OR ended_at < :at)",
                "",
            ),
        ),
        (_tests("test_what_a_person_has_said_since_stays"),),
    ),
    Mutant(
        "a rejection past the ledger that ends what it will try",
        (
            Patch(
                "src/oncebox/ledger/sends/fail_open.py",
                "    if isinstance(spooled.outcome, SendRejected) and not created:\n"
                "        return send\n",
                "",
            ),
        ),
        (_tests("test_a_rejection_past_the_ledger_says_nothing_of_its_own_tries"),),
    ),
    Mutant(
        "a template from elsewhere",
        (
            Patch(
                f"{_LEDGER}/templates.py",
                "if not real.is_relative_to(self._path.resolve(strict=True)):",
                "if not real:",
            ),
        ),
        (_templates("test_what_leads_out_of_the_folder_is_not_read"),),
    ),
    Mutant(
        "a template whose name is a path",
        (
            Patch(
                f"{_LEDGER}/templates.py",
                "        if not _NAME.fullmatch(name):\n",
                "        if not _NAME.search(name):\n",
            ),
        ),
        (_templates("test_a_name_is_no_path"),),
    ),
    Mutant(
        "a key used past the ledger, relied on for longer than it is remembered",
        (
            Patch(
                f"{_LEDGER}/fail_open.sql",
                "SET in_doubt_at = :at, replay_until = NULL",
                "SET in_doubt_at = :at",
            ),
        ),
        (_tests("test_a_key_used_past_the_ledger_and_by_it_is_not_replayed"),),
    ),
)
