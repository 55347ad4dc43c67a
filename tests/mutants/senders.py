"""Faults in the checks of who sent a mail."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{file}::{name}" for name in names))


SENDERS = (
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
                "    unsure = _missing_answer_could_pass(found, author, "
                "_envelope_domain(envelope), parsed)\n",
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
                "present.count(name) == 1",
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
                "src/oncebox/mail/auth/dmarc.py",
                "_PUBLIC_SUFFIXES.privatesuffix(domain) or domain",
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
)
