"""Faults in the checks of who sent a mail."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_MAIL = "src/oncebox/mail"
_TESTS = "tests/mail"


def _tests(file: str, *names: str) -> Selection:
    return Selection(tuple(f"{_TESTS}/{file}::{name}" for name in names))


SENDERS = (
    Mutant(
        "a signed beginning taken for the whole mail",
        (
            Patch(
                f"{_MAIL}/dkim.py",
                "result=Result.NEUTRAL if partly else Result.PASS",
                "result=Result.PASS",
            ),
        ),
        (
            _tests(
                "test_dkim.py",
                "test_a_signature_of_the_beginning_proves_nothing_about_the_rest",
            ),
            _tests("test_authenticator.py", "test_a_signed_beginning_proves_nothing"),
        ),
    ),
    Mutant(
        "a second From beside the signed one",
        (Patch(f"{_MAIL}/dkim.py", " *sorted(_SINGLE.intersection(signature.names))", ""),),
        (
            _tests(
                "test_dkim.py",
                "test_a_second_from_breaks_every_signature",
                "test_whoever_caught_a_signed_mail_cannot_put_a_second_field_above_the_signed_one",
            ),
        ),
    ),
    Mutant(
        "a forgery in doubt because of a stranger's name server",
        (
            Patch(
                "src/oncebox/worker/authenticator.py",
                "    unsure = _unsure(found, author, _bouncing(envelope), parsed)\n",
                "    unsure = Result.TEMPERROR in {found.spf.result, dkim}\n",
            ),
        ),
        (
            _tests(
                "test_authenticator.py",
                "test_a_stranger_with_dead_name_servers_does_not_make_a_forgery_doubtful",
            ),
        ),
    ),
    Mutant(
        "a second Date believed because one is signed",
        (Patch(f"{_MAIL}/dkim.py", "present.count(name) == 1", "name in present"),),
        (_tests("test_dkim.py", "test_a_field_that_was_signed_twice_is_not_covered"),),
    ),
    Mutant(
        "headers with line ends of several kinds believed",
        (
            Patch(
                f"{_MAIL}/dkim_message.py",
                'head.count(b"\\r") != head.count(_END) or head.count(b"\\n") != head.count(_END)',
                "not head",
            ),
        ),
        (
            _tests(
                "test_dkim.py",
                "test_a_header_that_programs_read_differently_is_not_believed",
            ),
        ),
    ),
    Mutant(
        "users of one host speaking for each other",
        (
            Patch(
                f"{_MAIL}/dmarc.py",
                "_SUFFIXES.privatesuffix(domain) or domain",
                '".".join(domain.split(".")[-2:])',
            ),
        ),
        (_tests("test_dmarc.py", "test_relatives_are_aligned_unless_it_is_strict"),),
    ),
    Mutant(
        "a strict owner not obeyed",
        (
            Patch(
                f"{_MAIL}/dmarc.py",
                "author == other or (not strict and organisation(author) == organisation(other))",
                "organisation(author) == organisation(other)",
            ),
        ),
        (
            _tests("test_dmarc.py", "test_relatives_are_aligned_unless_it_is_strict"),
            _tests(
                "test_authenticator.py",
                "test_relatives_prove_each_other_unless_the_owner_is_strict",
            ),
        ),
    ),
    Mutant(
        "an open SPF record taken for proof",
        (
            Patch(
                "src/oncebox/worker/authenticator.py",
                'and "spf_anybody" not in found.spf.flags\n',
                "\n",
            ),
        ),
        (_tests("test_authenticator.py", "test_a_pass_that_everybody_gets_proves_nothing"),),
    ),
    Mutant(
        "an ambiguous From aligned with something",
        (
            Patch(
                "src/oncebox/worker/authenticator.py",
                'ascii_name(parsed.sender.domain) if parsed.sender.standing == "single" else ""',
                "ascii_name(parsed.sender.domain)",
            ),
        ),
        (_tests("test_authenticator.py", "test_a_from_that_names_nobody_is_never_aligned"),),
    ),
    Mutant(
        "checks without an end",
        (
            Patch(
                "src/oncebox/worker/authenticator.py",
                "await asyncio.wait(tasks, timeout=seconds)",
                "await asyncio.wait(tasks, timeout=30)",
            ),
        ),
        (
            _tests(
                "test_authenticator.py",
                "test_what_is_not_answered_in_time_is_a_temperror_and_the_rest_counts",
            ),
        ),
    ),
)
