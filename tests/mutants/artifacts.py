"""Faults in the filing, choosing and granting of artifacts."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection, Torture

_INBOXES = "src/oncebox/ledger/inboxes"
_CHOICE = "src/oncebox/model/choice.py"
_FILED, _CLAIMED = "tests/contract/test_artifacts.py", "tests/contract/test_claims.py"
_CHOSEN = "tests/unit/test_choice.py"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


ARTIFACTS = (
    Mutant(
        "taken without a look whether it is free",
        (
            Patch(
                f"{_INBOXES}/claims.sql",
                "AND (oncebox_artifacts.state = 'available'\n",
                "AND (oncebox_artifacts.state <> 'none'\n",
            ),
        ),
        (Torture("artifacts-claims", "postgres", ("doubled", "stolen")),),
    ),
    Mutant(
        "granted to whoever asks, claimed or not",
        (
            Patch(
                f"{_INBOXES}/claims.py",
                "if artifact.claimed and not own:",
                "if False and not own:",
            ),
            Patch(
                f"{_INBOXES}/claims.sql",
                "AND (oncebox_artifacts.state = 'available'\n",
                "AND (oncebox_artifacts.state <> 'none'\n",
            ),
        ),
        (
            _tests(
                _CLAIMED,
                "test_another_claim_does_not_get_it",
                "test_of_many_claims_in_one_commit_one_is_granted",
            ),
        ),
    ),
    Mutant(
        "a claim key that is not bound to the API key",
        (
            Patch(
                f"{_INBOXES}/strongbox.py",
                "_digest(self._claims, tenant, key_id, claim_key)",
                "_digest(self._claims, tenant, claim_key)",
            ),
        ),
        (_tests(_CLAIMED, "test_another_claim_does_not_get_it"),),
    ),
    Mutant(
        "what was superseded is granted",
        (
            Patch(
                f"{_INBOXES}/claims.py",
                "        if not own and replaced:",
                "        if False:",
            ),
            Patch(
                f"{_INBOXES}/claims.sql",
                "AND (oncebox_artifacts.state = 'available'\n",
                "AND (oncebox_artifacts.state <> 'claimed'\n",
            ),
        ),
        (_tests(_CLAIMED, "test_what_was_superseded_is_not_granted"),),
    ),
    Mutant(
        "a release that nobody writes down",
        (
            Patch(
                f"{_INBOXES}/claims.py",
                '    audit.record(tx, deed, "artifact.release", id_, holder)\n',
                "",
            ),
        ),
        (
            _tests(
                _CLAIMED,
                "test_a_released_artifact_can_be_claimed_again_and_the_audit_says_why",
            ),
        ),
    ),
    Mutant(
        "a link is handed out whatever the policy says",
        (Patch(f"{_INBOXES}/claims.py", "if not judged.allowed:", "if False:"),),
        (_tests(_CLAIMED, "test_a_link_that_the_policy_refuses_stays_available"),),
    ),
    Mutant(
        "an agent's wish looks into anybody's inbox",
        (
            Patch(
                f"{_INBOXES}/claims.py",
                "    return claimant.owner is None or owner[1] == claimant.owner",
                "    return True",
            ),
        ),
        (_tests(_CLAIMED, "test_missing_and_foreign_look_the_same"),),
    ),
    Mutant(
        "the latest wins, whoever sent it",
        (
            Patch(
                _CHOICE,
                "        groups[_sender(each), each.purposes, each.proven].append(each)",
                "        groups[each.proven].append(each)",
            ),
        ),
        (
            _tests(
                _CHOSEN,
                "test_the_right_one_is_chosen_in_any_order",
                "test_it_is_never_a_guess",
            ),
            _tests(_FILED, "test_two_senders_are_a_conflict_that_is_told_once"),
        ),
    ),
    Mutant(
        "an unproven sender counts like a proven one",
        (
            Patch(
                _CHOICE,
                "    current, replaced = _current(proven or matched)",
                "    current, replaced = _current(matched)",
            ),
        ),
        (
            _tests(_CHOSEN, "test_unproven_mail_changes_nothing_among_the_proven"),
            _tests(_FILED, "test_an_unproven_look_alike_neither_wins_nor_disturbs"),
        ),
    ),
    Mutant(
        "ordered by arrival although the dates are signed",
        (
            Patch(
                _CHOICE,
                "    return (artifact.signed_at or 0 if signed else 0, artifact.received_at)",
                "    return (0, artifact.received_at)",
            ),
        ),
        (
            _tests(
                _FILED,
                "test_a_greylisted_older_code_that_comes_after_the_resend_does_not_count",
            ),
        ),
    ),
    Mutant(
        "a date that nobody signed is believed",
        (
            Patch(
                "src/oncebox/worker/findings.py",
                "    return parsed.date if signed else None",
                "    return parsed.date",
            ),
        ),
        (_tests("tests/unit/test_artifact.py", "test_a_date_counts_only_if_its_sender_signed_it"),),
    ),
    Mutant(
        "what came before the inbox was made matches",
        (
            Patch(
                f"{_INBOXES}/artifacts.py",
                "return self.brought.filing.delivery.received_at < self.brought.inbox_since",
                "return False",
            ),
        ),
        (_tests(_FILED, "test_what_came_before_the_inbox_was_made_matches_nothing"),),
    ),
    Mutant(
        "a mark that is the same in every inbox",
        (
            Patch(
                f"{_INBOXES}/strongbox.py",
                "_digest(self._values, tenant, inbox_id, kind.value, value)",
                "_digest(self._values, kind.value, value)",
            ),
        ),
        (
            _tests(
                _FILED,
                "test_the_same_value_in_two_inboxes_is_two_artifacts_with_nothing_in_common",
            ),
        ),
    ),
    Mutant(
        "what was let go of stays in the file",
        (Patch("src/oncebox/store/sqlite.py", '            "secure_delete = ON",\n', ""),),
        (_tests(_FILED, "test_what_was_overwritten_is_not_in_the_file_any_more"),),
    ),
    Mutant(
        "what was claimed is kept for ever",
        (
            Patch(
                f"{_INBOXES}/retention.sql",
                "WHERE purged_at IS NULL AND received_at <= :before ORDER BY received_at",
                "WHERE purged_at IS NULL AND received_at <= :before AND state <> 'claimed'\n"
                "ORDER BY received_at",
            ),
        ),
        (_tests(_FILED, "test_what_an_artifact_says_is_overwritten_after_its_time"),),
    ),
)
