"""Faults in inboxes: addresses, who sees them, when they end, and what matches."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LEDGER = "src/oncebox/ledger/inboxes"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


def _deleted(*names: str) -> Selection:
    return _tests("tests/contract/inboxes/test_inbox_retention.py", *names)


INBOXES = (
    Mutant(
        "addresses whose accents are two characters",
        (
            Patch(
                "src/oncebox/model/inboxes/addresses.py",
                'unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())',
                "text.casefold()",
            ),
        ),
        (
            _tests(
                "tests/model/test_addresses.py", "test_twins_in_nfc_and_nfd_are_one_address_or_none"
            ),
        ),
    ),
    Mutant(
        "addresses that can be sent on",
        (Patch("src/oncebox/model/inboxes/addresses.py", "[a-z0-9#$&'*+/", "[a-z0-9%!#$&'*+/"),),
        (
            _tests(
                "tests/model/test_addresses.py",
                "test_what_other_software_might_read_differently_is_refused",
            ),
        ),
    ),
    Mutant(
        "a From that can be read in two ways matches",
        (
            Patch(
                "src/oncebox/model/inboxes/inbox.py",
                '    if sender.standing != "single":\n',
                '    if sender.standing == "missing":\n',
            ),
        ),
        (_tests("tests/model/test_inbox.py", "test_a_from_that_is_not_one_never_matches_a_rule"),),
    ),
    Mutant(
        "a forged sender matches",
        (
            Patch(
                "src/oncebox/model/inboxes/inbox.py",
                "    if not (forged or required):\n",
                "    if not required:\n",
            ),
        ),
        (
            _tests(
                "tests/model/test_inbox.py",
                "test_a_forged_sender_never_matches_and_an_unknown_one_only_where_it_may",
            ),
        ),
    ),
    Mutant(
        "a rule about senders that believes From",
        (
            Patch(
                "src/oncebox/model/inboxes/inbox.py",
                '    return bool(policy.senders) and "not_checked" not in verdict.details\n',
                "    return False\n",
            ),
        ),
        (
            _tests(
                "tests/model/test_inbox.py",
                "test_a_forged_sender_never_matches_and_an_unknown_one_only_where_it_may",
            ),
            _tests(
                "tests/contract/inboxes/test_sender_rules.py",
                "test_a_rule_about_senders_requires_proof",
            ),
        ),
    ),
    Mutant(
        "a rule about a public suffix that lets everybody in",
        (
            Patch(
                "src/oncebox/model/inboxes/inbox.py",
                '(domain.endswith(f".{rule}") and _have_one_owner(rule, domain))',
                'domain.endswith(f".{rule}")',
            ),
        ),
        (_tests("tests/model/test_inbox.py", "test_a_sender_fits_a_rule_or_does_not"),),
    ),
    Mutant(
        "a change of a policy that undoes another",
        (Patch(f"{_LEDGER}/inboxes.sql", " AND policy = :stored;", ";"),),
        (
            _tests(
                "tests/contract/inboxes/test_inboxes.py",
                "test_of_two_who_change_a_policy_at_once_one_is_told_to_try_again",
            ),
        ),
    ),
    Mutant(
        "agents that see every inbox",
        (
            Patch(
                "src/oncebox/ledger/admin/api_keys.py",
                'return None if self.sees_all else self.key or ""',
                "return None",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_inboxes.py",
                "test_an_agent_sees_only_what_its_key_made",
            ),
            _tests(
                "tests/server/api/test_inboxes.py",
                "test_an_agent_sees_only_its_own_and_an_operator_all",
            ),
        ),
    ),
    Mutant(
        "inboxes of domains that are somebody else's",
        (
            Patch(
                f"{_LEDGER}/inboxes.sql",
                "FROM oncebox_domains WHERE name = :domain AND tenant = :tenant)",
                "WHERE :domain IS NOT NULL)",
            ),
            Patch(
                "src/oncebox/ledger/inboxes/allocation.py",
                "        if _find_domain(tx, requester.tenant, old.domain) is None:\n",
                "        if not old.domain:\n",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_inboxes.py",
                "test_no_address_is_made_of_a_domain_that_was_given_away",
            ),
        ),
    ),
    Mutant(
        "a rotation for everybody who asks",
        (Patch(f"{_LEDGER}/inboxes.sql", "    AND rotated_to IS NULL;\n", "    AND 1 = 1;\n"),),
        (
            _tests(
                "tests/contract/inboxes/test_inboxes.py",
                "test_two_who_rotate_one_inbox_at_once_get_one_new",
                "test_a_repeated_rotation_returns_the_same_and_the_new_one_can_be_rotated",
            ),
        ),
    ),
    Mutant(
        "steps that are taken twice",
        (
            Patch(
                "src/oncebox/ledger/inboxes/inboxes.sql",
                "state = 'draining' AND due_at <= :now\nRETURNING id, tenant, attempt_id, state",
                "due_at <= :now\nRETURNING id, tenant, attempt_id, state",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_expiry.py",
                "test_an_inbox_drains_after_its_time_and_then_expires",
                "test_an_inbox_with_nothing_matched_is_reported_missed_once",
            ),
        ),
    ),
    Mutant(
        "an inbox that is missed though something matched",
        (
            Patch(
                "src/oncebox/ledger/inboxes/inboxes.sql",
                "CASE WHEN matched = 0 AND NOT",
                "CASE WHEN NOT",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_expiry.py",
                "test_an_inbox_with_nothing_matched_is_reported_missed_once",
                "test_a_message_that_commits_first_keeps_an_inbox_from_being_missed",
            ),
        ),
    ),
    Mutant(
        "mail for the owner before",
        (
            Patch(
                "src/oncebox/ledger/inboxes/recipient_directory.sql",
                "ON domain.tenant = inbox.tenant",
                "ON 1 = 1",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_recipient_directory.py",
                "test_mail_for_a_domain_that_changed_hands_never_reaches_its_old_inboxes",
            ),
        ),
    ),
    Mutant(
        "addresses that are remembered as unknown",
        (
            Patch(
                "src/oncebox/ledger/inboxes/recipient_directory.py",
                "if one is not None and one.route.status not in _UNCACHED and self._is_open(one):",
                "if one is not None:",
            ),
            Patch(
                "src/oncebox/ledger/inboxes/recipient_directory.py",
                " or not self._is_open(cached[0]):\n"
                "            return None\n"
                "        return cached[0].route\n",
                ":\n            return None\n        return cached[0].otherwise\n",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_recipient_directory.py",
                "test_only_open_inboxes_are_remembered",
                "test_an_inbox_that_was_just_made_is_found_at_once",
            ),
        ),
    ),
    Mutant(
        "an end that memory does not know",
        (
            Patch(
                "src/oncebox/ledger/inboxes/recipient_directory.py",
                " or not self._is_open(cached[0]):\n",
                ":\n",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_recipient_directory.py",
                "test_an_inbox_expires_on_time_though_nobody_swept_and_it_is_remembered",
                "test_a_draining_inbox_ends_on_time_though_it_is_remembered",
            ),
        ),
    ),
    Mutant(
        "an answer from before the close",
        (
            Patch(
                "src/oncebox/ledger/inboxes/recipient_directory.py",
                "        if changes != self._changes:\n            return\n",
                "",
            ),
        ),
        (
            _tests(
                "tests/contract/inboxes/test_recipient_directory.py",
                "test_an_answer_from_before_a_close_is_not_remembered_after_it",
            ),
        ),
    ),
    Mutant(
        "a deleted inbox whose address is assigned again",
        (
            Patch(
                f"{_LEDGER}/inboxes.py",
                "    added -= retention.refuse_retired(",
                "    added |= retention.refuse_retired(",
            ),
        ),
        (_deleted("test_the_address_of_a_deleted_inbox_is_never_assigned_again"),),
    ),
    Mutant(
        "a deleted inbox with mail that waits for a person",
        (
            Patch(
                f"{_LEDGER}/retention.sql",
                "            AND mail.purged_at IS NULL\n",
                "            AND mail.purged_at < 0\n",
            ),
        ),
        (_deleted("test_an_inbox_with_mail_that_waits_for_somebody_is_kept"),),
    ),
    Mutant(
        "a deleted inbox that has the claim of a value of another",
        (
            Patch(
                f"{_LEDGER}/retention.sql",
                "WHERE same.same_as = own.id AND same.purged_at IS NULL",
                "WHERE same.same_as = own.id AND same.purged_at < 0",
            ),
        ),
        (_deleted("test_a_value_stays_granted_in_another_inbox_when_the_first_is_deleted"),),
    ),
    Mutant(
        "a purged value that is granted again in a third inbox",
        (
            Patch(
                "src/oncebox/ledger/maintenance.sql",
                "    ) THEN attempt_mark END\n",
                "    ) THEN NULL END\n",
            ),
        ),
        (
            _deleted(
                "test_a_value_whose_first_row_was_purged_is_not_granted_again_in_a_third_inbox"
            ),
        ),
    ),
)
