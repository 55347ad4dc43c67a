"""Faults in the filing, choosing and granting of artifacts."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection, Torture

_FILED, _CLAIMED = (
    "tests/contract/artifacts/test_artifacts.py",
    "tests/contract/artifacts/test_claims.py",
)
_LEASED = "tests/contract/artifacts/test_leases.py"
_AWAITED = "tests/server/api/test_message_waits.py"
_CHOSEN = "tests/model/test_artifact_choice.py"
_FLOODED = "tests/contract/inboxes/test_flooded_inboxes.py"


#: the condition under which a claimed artifact is given to the next worker
_UNLEASED = (
    "            AND used_at IS NULL AND COALESCE(lease_until, 0) <= :now))\n    AND (matched"
)


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


ARTIFACTS = (
    Mutant(
        "named senders are looked for among the newest only",
        (
            Patch(
                "src/oncebox/ledger/artifacts/artifacts.py",
                '        for sender in ("", *key.senders)\n        for proven in (0, 1)\n',
                '        for sender in ("", *key.senders[:0])\n        for proven in (0, 1)\n',
            ),
        ),
        (
            _tests(
                _FLOODED,
                "test_mails_of_others_do_not_displace_those_of_the_named_sender",
                "test_after_a_flood_a_new_code_still_supersedes_the_old_one_of_its_sender",
            ),
        ),
    ),
    Mutant(
        "a claim forgets which senders were named",
        (
            Patch(
                "src/oncebox/ledger/inboxes/longpoll.py",
                "            senders=awaited.sender_organisations,\n",
                "",
            ),
        ),
        (_tests(_FLOODED, "test_mails_of_others_do_not_displace_those_of_the_named_sender"),),
    ),
    Mutant(
        "mails of named senders push into every choice",
        (
            Patch(
                "src/oncebox/ledger/artifacts/artifacts.py",
                '            for sender in ("", *key.senders):\n',
                "            for sender in {name for *_, name in found}:\n",
            ),
        ),
        (_tests(_FLOODED, "test_who_names_no_sender_chooses_among_the_newest_whoever_waits_too"),),
    ),
    Mutant(
        "taken without a look whether it is free",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
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
                "src/oncebox/ledger/artifacts/claims.py",
                '    if artifact.claimed:\n        return "already_claimed"\n',
                "",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
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
                "src/oncebox/ledger/ciphers.py",
                "_artifact_hmac(self._claim_key, tenant, key_id, claim_key)",
                "_artifact_hmac(self._claim_key, tenant, claim_key)",
            ),
        ),
        (_tests(_CLAIMED, "test_another_claim_does_not_get_it"),),
    ),
    Mutant(
        "what was superseded is granted",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                "    if artifact.state is ArtifactState.SUPERSEDED and "
                "artifact.superseded_by != skipped:",
                "    if False:",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
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
                "src/oncebox/ledger/artifacts/claims.py",
                '    audit.record(tx, entry, "artifact.release", id_, holder)\n',
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
        (Patch("src/oncebox/ledger/artifacts/claims.py", "if not judged.allowed:", "if False:"),),
        (_tests(_CLAIMED, "test_a_link_that_the_policy_refuses_stays_available"),),
    ),
    Mutant(
        "an agent's wish looks into anybody's inbox",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
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
                "src/oncebox/model/inboxes/artifact.py",
                "        groups[_sender_identity(each), each.purposes, each.proven, each.replayed]"
                ".append(each)",
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
                "src/oncebox/model/inboxes/artifact.py",
                "    best = [each for each in artifacts if each.proven] or artifacts\n",
                "    best = artifacts\n",
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
                "src/oncebox/model/inboxes/artifact.py",
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
                "src/oncebox/workers/mail/mail_processor.py",
                " if proven and _DATE_IS_SIGNED in verdict.details else None",
                "",
            ),
        ),
        (
            _tests(
                "tests/model/test_artifact.py", "test_a_date_counts_only_if_its_sender_signed_it"
            ),
        ),
    ),
    Mutant(
        "what came before the inbox was made matches",
        (
            Patch(
                "src/oncebox/ledger/artifacts/artifacts.py",
                "is_early = filing.delivery.received_at < message.inbox_created_at",
                "is_early = False",
            ),
        ),
        (_tests(_FILED, "test_what_came_before_the_inbox_was_made_matches_nothing"),),
    ),
    Mutant(
        "a mark that is the same in every inbox",
        (
            Patch(
                "src/oncebox/ledger/ciphers.py",
                "self._value_key, tenant, inbox_id, kind.value, _comparable",
                "self._value_key, kind.value, _comparable",
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
        (Patch("src/oncebox/db/sqlite.py", '            "secure_delete = ON",\n', ""),),
        (_tests(_FILED, "test_what_was_overwritten_is_not_in_the_file_any_more"),),
    ),
    Mutant(
        "what was claimed is kept for ever",
        (
            Patch(
                "src/oncebox/ledger/maintenance.sql",
                "WHERE purged_at IS NULL AND received_at <= :before ORDER BY received_at",
                "WHERE purged_at IS NULL AND received_at <= :before AND state <> 'claimed'\n"
                "ORDER BY received_at",
            ),
        ),
        (_tests(_FILED, "test_what_an_artifact_says_is_overwritten_after_its_time"),),
    ),
    Mutant(
        "every worker of a claim reads the code",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                '    return "in_flight" if artifact.is_leased(now) and not reread else None',
                "    return None",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
                _UNLEASED,
                "            AND used_at IS NULL))\n    AND (matched",
            ),
        ),
        (_tests(_LEASED, "test_of_four_workers_of_one_claim_one_is_granted_in_one_commit"),),
    ),
    Mutant(
        "a lease that a second process does not look at",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
                _UNLEASED,
                "            AND used_at IS NULL))\n    AND (matched",
            ),
        ),
        (Torture("artifacts-workers", "postgres", ("doubled",)),),
    ),
    Mutant(
        "a lease of a code that never ends",
        (
            Patch(
                "src/oncebox/model/inboxes/artifact.py",
                "        return self.lease_until is not None and self.lease_until > now",
                "        return self.lease_until is not None",
            ),
        ),
        (_tests(_LEASED, "test_after_a_crash_the_lease_ends_and_the_next_worker_reads_it"),),
    ),
    Mutant(
        "what was used is read again after the lease",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                '    if artifact.used_at is not None:\n        return "used"\n',
                "",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
                _UNLEASED,
                "            AND COALESCE(lease_until, 0) <= :now))\n    AND (matched",
            ),
        ),
        (_tests(_LEASED, "test_what_was_used_is_granted_to_no_worker_any_more"),),
    ),
    Mutant(
        "anybody's key says that a code was used",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                "    if found.claimed_by != (requester.key or _TERMINAL_KEY):",
                "    if False:",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
                " AND state = 'claimed' AND claimed_by = :key_id;",
                " AND state = 'claimed' AND :key_id <> '';",
            ),
        ),
        (_tests(_LEASED, "test_only_the_key_that_claimed_it_can_say_that_it_was_used"),),
    ),
    Mutant(
        "each inbox of an attempt grants the code",
        (
            Patch(
                "src/oncebox/ledger/artifacts/artifacts.py",
                "    in_attempt = attempt_fingerprint(own.value_fingerprint, attempt_id) "
                "if attempt_id else None",
                "    in_attempt = None",
            ),
        ),
        (
            _tests(
                _LEASED,
                "test_the_same_code_in_two_inboxes_of_an_attempt_is_granted_once",
                "test_the_same_code_in_one_commit_for_two_inboxes_is_one",
            ),
        ),
    ),
    Mutant(
        "a code of another inbox is taken without a look whether it is free",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.sql",
                "    AND (oncebox_artifacts.state <> 'claimed'\n",
                "    AND (oncebox_artifacts.state <> 'none'\n",
            ),
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                '    if artifact.claimed:\n        return "already_claimed"\n',
                "",
            ),
        ),
        (
            _tests(
                _LEASED,
                "test_the_same_code_in_two_inboxes_of_an_attempt_is_granted_once",
            ),
        ),
    ),
    Mutant(
        "a message that is granted anew after its retention",
        (
            Patch(
                "src/oncebox/ledger/maintenance.sql",
                "mark = CASE WHEN kind = 'message' THEN oncebox_artifacts.mark ELSE :mark END",
                "mark = :mark",
            ),
        ),
        (
            _tests(
                _AWAITED,
                "test_a_granted_message_is_not_granted_anew_after_the_retention_of_artifacts",
            ),
        ),
    ),
    Mutant(
        "an unproven message granted before a proven one",
        (
            Patch(
                "src/oncebox/model/inboxes/artifact.py",
                "    best = _most_trusted(every)\n",
                "    best = every\n",
            ),
        ),
        (
            _tests(
                _AWAITED,
                "test_mail_of_a_proven_sender_goes_before_mail_of_an_unproven_one",
            ),
        ),
    ),
    Mutant(
        "a message proven by a signature without its subject",
        (
            Patch(
                "src/oncebox/model/inboxes/message.py",
                "    if verdict == PROVEN_VERDICT and not covers_subject(document.verdict):\n",
                "    if verdict == PROVEN_VERDICT and not document.verdict:\n",
            ),
        ),
        (
            _tests(
                "tests/model/test_awaited_message.py",
                "test_a_signature_without_the_subject_does_not_prove_a_message",
            ),
        ),
    ),
    Mutant(
        "a repeat that gets another message than before",
        (
            Patch(
                "src/oncebox/model/inboxes/artifact.py",
                "next(chain(unused, free, own, best), None)",
                "next(chain(free, unused, own, best), None)",
            ),
        ),
        (_tests(_AWAITED, "test_a_repeat_after_a_lost_answer_gets_the_same_message"),),
    ),
    Mutant(
        "racing claims that choose the same message",
        (
            Patch(
                "src/oncebox/ledger/artifacts/claims.py",
                "            chosen_by[choice.message_id] = mark\n",
                "",
            ),
        ),
        (_tests(_AWAITED, "test_claims_that_race_for_many_messages_get_one_each"),),
    ),
    Mutant(
        "a link that character references hide in HTML",
        (
            Patch(
                "src/oncebox/mail/excerpt.py",
                "_REFERENCE.sub(_decoded_reference, html[:_LOOKED_AT])",
                "html[:_LOOKED_AT]",
            ),
        ),
        (
            _tests(
                "tests/mail/test_excerpt.py",
                "test_character_references_hide_no_link_in_html",
            ),
        ),
    ),
    Mutant(
        "an attachment that replaces a file",
        (
            Patch(
                "src/oncebox/cli/commands/message.py",
                "content, replace=force)",
                "content, replace=True)",
            ),
        ),
        (
            _tests(
                "tests/cli/test_message.py",
                "test_an_attachment_replaces_no_file_unless_forced",
            ),
        ),
    ),
)
