"""Faults in the guards of sends: a second mail under a new key, mail without end, answers."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LEDGER = "src/oncebox/ledger/sends"
_GUARDS = f"{_LEDGER}/guards.py"
_SQL = f"{_LEDGER}/guards.sql"
_HELD = "RETURNING tenant, kind, name, until, used, holder;"
_LOOK = """

-- name: look
-- bulk: tenant text, kind text, name bytea
-- Read guards.
SELECT tenant, kind, name, until, used, holder FROM oncebox_send_guards /* and rows */
WHERE tenant = :tenant AND kind = :kind AND name = :name;
"""


def _tests(*names: str, file: str = "tests/contract/sends/test_limits.py") -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


def _answers(*names: str) -> Selection:
    return _tests(*names, file="tests/contract/inboxes/test_reply_rules.py")


def _automatic(*names: str) -> Selection:
    return Selection(tuple(f"tests/mail/mime/test_automatic.py::{name}" for name in names))


GUARDS = (
    Mutant(
        "guards that are read before they are held",
        (
            Patch("src/oncebox/ledger/sends/submission.sql", _HELD, _HELD + _LOOK),
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    rows = tx.many(_sql.hold, sorted(cool_downs | budgets))\n",
                "    rows = tx.many(_sql.look, sorted(cool_downs | budgets))\n"
                "    tx.many(_sql.hold, sorted(cool_downs | budgets))\n",
            ),
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    found: dict[_GuardKey, _Guard] = {}\n",
                "    found = {place: _Guard() for place in cool_downs | budgets}\n",
            ),
        ),
        (
            _tests("test_of_two_replanned_keys_at_once_one_is_let_in"),
            _tests("test_of_two_at_once_one_gets_the_last_of_a_budget"),
        ),
    ),
    Mutant(
        "a holder that was looked at before its guard was held",
        (
            Patch("src/oncebox/ledger/sends/submission.sql", _HELD, _HELD + _LOOK),
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    rows = tx.many(_sql.hold, sorted(cool_downs | budgets))\n",
                "    seen = tx.many(_sql.look, sorted(cool_downs | budgets))\n"
                "    live = set(tx.many(_sql.live, [(row[0], row[5]) for row in seen]))\n"
                "    rows = tx.many(_sql.hold, sorted(cool_downs | budgets))\n",
            ),
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    live = set(tx.many(_sql.live, begun))\n",
                "",
            ),
        ),
        (_tests("test_of_an_armed_again_and_a_replanned_key_at_once_one_is_let_in"),),
    ),
    Mutant(
        "a repeat that waited for its own key and is turned down",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    known = sends_by_key(tx, map(_send_key, fresh))\n",
                "    known: dict[tuple[str, bytes], Send] = {}\n",
            ),
        ),
        (_tests("test_of_two_with_the_same_key_at_once_both_are_told_of_one_send"),),
    ),
    Mutant(
        "a cool-down for what was never sent",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "AND oncebox_sends.id = :id\n"
                "    AND state NOT IN ('failed', 'expired', 'cancelled', 'suppressed');",
                "AND oncebox_sends.id = :id;",
            ),
        ),
        (_tests("test_a_send_proven_not_sent_starts_no_cool_down"),),
    ),
    Mutant(
        "no cool-down for what may have been sent",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "AND oncebox_sends.id = :id\n    AND state NOT IN (",
                "AND oncebox_sends.id = :id\n    AND state NOT IN ('unknown', ",
            ),
        ),
        (_tests("test_what_was_sent_or_may_have_been_cools_down"),),
    ),
    Mutant(
        "a cool-down that looks at one recipient of several",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "held = [guards[place] for place in _cool_downs(new)]",
                "held = [guards[place] for place in _cool_downs(new)[:1]]",
            ),
        ),
        (_tests("test_several_recipients_are_all_free_or_nothing_is_taken"),),
    ),
    Mutant(
        "a cool-down for all mail to somebody",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "_COOL_DOWN, mark + type_)",
                "_COOL_DOWN, mark)",
            ),
        ),
        (_tests("test_another_type_another_recipient_and_another_tenant_are_apart"),),
    ),
    Mutant(
        "guards that do not see their own commit",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "            _count_guards(guards, each, id_, now)\n",
                "",
            ),
        ),
        (
            _tests("test_in_one_commit_only_those_are_turned_down_for_whom_nothing_is_left"),
            _tests("test_in_one_commit_one_of_many_keys_cools_the_others_down"),
        ),
    ),
    Mutant(
        "repeats that are counted",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    _charge_guards(tx, stored, now)\n",
                "    _charge_guards(tx, [(each.id, each) for each in ordered], now)\n",
            ),
        ),
        (
            _tests("test_repeats_and_those_turned_down_cost_nothing"),
            _tests("test_in_one_commit_a_key_asked_for_often_is_counted_once"),
        ),
    ),
    Mutant(
        "a failed send that is armed again beside another key",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "    return known is None or (known.state in REARMABLE_STATES and "
                "known.protected == new.protected)\n",
                "    return known is None\n",
            ),
        ),
        (
            _tests("test_what_failed_is_not_armed_again_while_another_key_cools_down"),
            _tests("test_what_is_armed_again_is_counted_again"),
        ),
    ),
    Mutant(
        "an hour that ends with every send",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "    until = CASE WHEN until <= :now THEN CAST(:now AS BIGINT) + :span "
                "ELSE until END\n",
                "    until = CAST(:now AS BIGINT) + :span\n",
            ),
        ),
        (_tests("test_a_key_that_has_spent_its_hour_waits_for_the_next"),),
    ),
    Mutant(
        "one who will not be stored and keeps others out",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.py",
                "fresh = _with_transport(tx, _not_repeats(guarded, sends_by_key(tx, "
                "map(_send_key, guarded))))",
                "fresh = _not_repeats(guarded, sends_by_key(tx, map(_send_key, guarded)))",
            ),
        ),
        (_tests("test_a_way_that_is_not_there_costs_nothing"),),
    ),
    Mutant(
        "a guard that is forgotten too early",
        (
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "    SELECT tenant, kind, name FROM oncebox_send_guards WHERE until <= :now\n",
                "    SELECT tenant, kind, name FROM oncebox_send_guards WHERE :now > 0\n",
            ),
            Patch(
                "src/oncebox/ledger/sends/submission.sql",
                "WHERE until <= :now AND (tenant,",
                "WHERE (tenant,",
            ),
        ),
        (_tests("test_guards_that_guard_nothing_are_forgotten"),),
    ),
    Mutant(
        "an answer to a program",
        (
            Patch(
                "src/oncebox/ledger/sends/outbox.py",
                "        if self._is_automatic(found.document):\n",
                "        if self._is_automatic(found.document) and not id_:\n",
            ),
        ),
        (_answers("test_what_a_program_sent_is_not_answered", "test_a_bounce_is_not_answered"),),
    ),
    Mutant(
        "an answer to a mail that nobody could read",
        (
            Patch(
                "src/oncebox/ledger/sends/outbox.py",
                "parsed.status is ParseStatus.UNPARSED\n"
                "            or _HEADERS_TRUNCATED in parsed.warnings\n"
                "            or ",
                "",
            ),
        ),
        (_answers("test_what_nobody_can_read_is_taken_for_a_program"),),
    ),
    Mutant(
        "an answer to somebody else's mail",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "owner = origin.key if origin.is_agent else None",
                "owner = None",
            ),
        ),
        (_answers("test_an_agent_answers_only_what_came_to_its_own_inboxes"),),
    ),
    Mutant(
        "a batch that answers a program",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "        wanted = [await self._with_reply_headers(origin, each) for each "
                "in wanted]\n",
                "",
            ),
        ),
        (_answers("test_what_a_program_sent_is_not_answered"),),
    ),
    Mutant(
        "one word that is a person's and hides a program's",
        (
            Patch(
                "src/oncebox/mail/compose/replies.py",
                '    said = set(fields.get("auto-submitted", ())) - {"no", ""}\n',
                '    said = set(fields.get("auto-submitted", ())[:1]) - {"no", ""}\n',
            ),
        ),
        (_automatic("test_what_a_program_or_a_list_sent_is_automatic"),),
    ),
    Mutant(
        "a bounce that is taken for a person's mail",
        (
            Patch(
                "src/oncebox/mail/compose/replies.py",
                '_NULL_PATHS = frozenset({"", "<>"})',
                '_NULL_PATHS = frozenset({"<>"})',
            ),
        ),
        (
            _automatic("test_what_comes_from_nobody_is_automatic"),
            _answers("test_a_bounce_is_not_answered"),
        ),
    ),
    Mutant(
        "budgets that count nobody",
        (
            Patch(
                f"{_LEDGER}/outbox.py",
                "            guards=self._agent_guards if origin.is_agent else self._guards,\n",
                "",
            ),
        ),
        (
            _answers("test_budgets_are_for_agents"),
            _answers("test_a_replanned_mail_is_refused_with_the_earlier_one"),
        ),
    ),
)
