"""Faults in the checks of who sent a mail."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


_RULES = "tests/contract/inboxes/test_sender_rules.py"
_REPLAY = "tests/model/test_replay.py"

SENDERS = (
    Mutant(
        "a signed To that two programs read differently",
        (
            Patch(
                "src/oncebox/model/inboxes/replay.py",
                "(unclear or not _names_inbox",
                "(not _names_inbox",
            ),
        ),
        (_tests(_REPLAY, "test_a_signed_to_that_programs_read_differently_names_nobody"),),
    ),
    Mutant(
        "a signed beginning taken for the whole mail",
        (
            Patch(
                "src/oncebox/mail/auth/dkim_verify.py",
                "result=AuthResult.NEUTRAL if partly else AuthResult.PASS",
                "result=AuthResult.PASS",
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dkim_verify.py",
                "test_a_signature_of_the_beginning_proves_nothing_about_the_rest",
            ),
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_a_signed_beginning_proves_nothing",
            ),
        ),
    ),
    Mutant(
        "a second From beside the signed one",
        (
            Patch(
                "src/oncebox/mail/auth/dkim_verify.py",
                " *sorted(_SINGLETON_FIELDS.intersection(signature.names))",
                "",
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dkim_verify.py",
                "test_a_second_from_breaks_every_signature",
                "test_whoever_caught_a_signed_mail_cannot_put_a_second_field_above_the_signed_one",
            ),
        ),
    ),
    Mutant(
        "a forgery in doubt because of a stranger's name server",
        (
            Patch(
                "src/oncebox/workers/mail/sender_authentication.py",
                "    unsure = bool(envelope.origin) or _missing_answer_could_pass(\n"
                "        found, author, _envelope_domain(envelope), parsed\n    )\n",
                "    unsure = AuthResult.TEMPERROR in {found.spf.result, dkim}\n",
            ),
        ),
        (
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_a_stranger_with_dead_name_servers_does_not_make_a_forgery_doubtful",
            ),
        ),
    ),
    Mutant(
        "a second Date believed because one is signed",
        (
            Patch(
                "src/oncebox/mail/auth/dkim_verify.py",
                "present.count(name) <= 1",
                "name in present",
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dkim_verify.py",
                "test_a_field_that_was_signed_twice_is_not_covered",
            ),
        ),
    ),
    Mutant(
        "headers with line ends of several kinds believed",
        (
            Patch(
                "src/oncebox/mail/auth/dkim_message.py",
                'head.count(b"\\r") != head.count(_CRLF) or head.count(b"\\n") != '
                "head.count(_CRLF)",
                "not head",
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dkim_verify.py",
                "test_a_header_that_programs_read_differently_is_not_believed",
            ),
        ),
    ),
    Mutant(
        "users of one host speaking for each other",
        (
            Patch(
                "src/oncebox/model/inboxes/addresses.py",
                "public_suffixes().privatesuffix(domain) or domain",
                '".".join(domain.split(".")[-2:])',
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dmarc.py", "test_relatives_are_aligned_unless_it_is_strict"
            ),
        ),
    ),
    Mutant(
        "a strict owner not obeyed",
        (
            Patch(
                "src/oncebox/mail/auth/dmarc.py",
                "author == other or (\n"
                "        not strict and organisational_domain(author) == "
                "organisational_domain(other)\n"
                "    )",
                "organisational_domain(author) == organisational_domain(other)",
            ),
        ),
        (
            _tests(
                "tests/mail/auth/test_dmarc.py", "test_relatives_are_aligned_unless_it_is_strict"
            ),
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_relatives_prove_each_other_unless_the_owner_is_strict",
            ),
        ),
    ),
    Mutant(
        "an open SPF record taken for proof",
        (
            Patch(
                "src/oncebox/workers/mail/sender_authentication.py",
                'and "spf_anybody" not in found.spf.flags\n',
                "\n",
            ),
        ),
        (
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_a_pass_that_everybody_gets_proves_nothing",
            ),
        ),
    ),
    Mutant(
        "an ambiguous From aligned with something",
        (
            Patch(
                "src/oncebox/workers/mail/sender_authentication.py",
                'ascii_domain(parsed.sender.domain) if parsed.sender.standing == "single" else ""',
                "ascii_domain(parsed.sender.domain)",
            ),
        ),
        (
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_a_from_that_names_nobody_is_never_aligned",
            ),
        ),
    ),
    Mutant(
        "checks without an end",
        (
            Patch(
                "src/oncebox/workers/mail/sender_authentication.py",
                "await asyncio.wait(tasks, timeout=seconds)",
                "await asyncio.wait(tasks, timeout=30)",
            ),
        ),
        (
            _tests(
                "tests/workers/test_sender_authentication.py",
                "test_what_is_not_answered_in_time_is_a_temperror_and_the_rest_counts",
            ),
        ),
    ),
    Mutant(
        "a signed mail to somebody else counts like one to the inbox",
        (
            Patch(
                "src/oncebox/model/inboxes/replay.py",
                "        yield NOT_ADDRESSED\n",
                "        yield from ()\n",
            ),
        ),
        (
            _tests(
                _RULES,
                "test_a_signed_mail_to_somebody_else_does_not_replace_the_code_of_an_inbox",
            ),
            _tests(_REPLAY, "test_a_signed_to_names_the_inbox_or_somebody_else"),
        ),
    ),
    Mutant(
        "an inbox addressed by a field that anybody can add",
        (
            Patch(
                "src/oncebox/model/inboxes/replay.py",
                " if code in verdict.details for each in field",
                " if code for each in field",
            ),
        ),
        (
            _tests(_RULES, "test_an_inbox_that_stands_in_an_unsigned_cc_is_not_addressed"),
            _tests(_REPLAY, "test_only_signed_fields_name_the_inbox"),
        ),
    ),
    Mutant(
        "an old signature believed",
        (
            Patch(
                "src/oncebox/model/inboxes/replay.py",
                "    return verdict.signed_at < oldest\n",
                "    return verdict.signed_at < 0 < oldest\n",
            ),
        ),
        (
            _tests(_RULES, "test_an_old_signature_proves_nothing"),
            _tests(_REPLAY, "test_a_signature_is_old_by_its_age_or_if_the_inbox_is_younger"),
        ),
    ),
    Mutant(
        "a replay replaces the code of an inbox",
        (
            Patch(
                "src/oncebox/model/inboxes/artifact.py",
                "each.purposes, each.proven, each.replayed]",
                "each.purposes, each.proven]",
            ),
            Patch(
                "src/oncebox/model/inboxes/artifact.py",
                "    return [each for each in best if not each.replayed] or best\n",
                "    return best\n",
            ),
        ),
        (
            _tests(
                _RULES,
                "test_without_rules_a_mail_to_somebody_else_does_not_replace_an_unproven_one",
                "test_a_policy_can_allow_forwards_but_they_replace_no_mail_to_the_inbox",
            ),
            _tests(
                "tests/model/test_artifact_choice.py", "test_the_right_one_is_chosen_in_any_order"
            ),
        ),
    ),
    Mutant(
        "a wait that believes From wherever mail comes from inside",
        (
            Patch(
                "src/oncebox/model/inboxes/wait_filter.py",
                "is_reserved_domain(inbox.domain) and ",
                "",
            ),
        ),
        (
            _tests(
                "tests/model/test_wait_filter.py",
                "test_mail_of_this_machine_needs_no_proof_in_a_domain_that_the_internet_does_not"
                "_know",
            ),
        ),
    ),
    Mutant(
        "a recipient that only the envelope names",
        (
            Patch(
                "src/oncebox/model/inboxes/wait_filter.py",
                "    if awaited.recipient and not confirmed_recipient(",
                "    if not awaited.recipient and not confirmed_recipient(",
            ),
        ),
        (
            _tests(
                "tests/model/test_wait_filter.py",
                "test_a_recipient_that_only_the_envelope_names_is_another_than_the_signed_one",
            ),
        ),
    ),
)
