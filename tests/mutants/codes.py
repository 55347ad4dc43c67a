"""Faults of finding codes."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


CODES = (
    Mutant(
        "a guess between two codes",
        (Patch("src/oncebox/mail/codes/code_finder.py", "    if not tied:\n", "    if True:\n"),),
        _tests(
            "tests/mail/codes/test_codes.py",
            "test_two_that_are_as_good_are_tied",
            "test_parts_that_have_different_codes_are_tied",
        ),
    ),
    Mutant(
        "a code whose digits were turned around",
        (Patch("src/oncebox/mail/codes/shapes.py", 'return "reversed"', 'return ""'),),
        _tests(
            "tests/mail/codes/test_codes.py", "test_what_is_not_what_it_looks_like_is_not_taken"
        ),
    ),
    Mutant(
        "digits of two scripts in one code",
        (
            Patch(
                "src/oncebox/mail/languages/folding.py",
                "    if text.isascii():\n        return False",
                "    return False",
            ),
        ),
        _tests(
            "tests/mail/codes/test_codes.py", "test_what_is_not_what_it_looks_like_is_not_taken"
        ),
    ),
    Mutant(
        "an order taken for a code",
        (Patch("src/oncebox/mail/codes/scoring.py", "Label.OTHER: -40", "Label.OTHER: 0"),),
        _tests("tests/mail/codes/test_codes.py", "test_no_code_is_found_where_there_is_none"),
    ),
    Mutant(
        "an older mail below that counts",
        (
            Patch(
                "src/oncebox/mail/codes/scoring.py",
                "if self._is_quoted(line):",
                "if False:",
            ),
        ),
        _tests("tests/mail/codes/test_codes.py", "test_an_older_mail_below_does_not_count"),
    ),
    Mutant(
        "the number of an order in the subject taken for the code",
        (
            Patch(
                "src/oncebox/mail/codes/scoring.py",
                'self.add("subject_names_otherwise", -25)',
                'self.add("subject_names_otherwise", 20)',
            ),
        ),
        _tests(
            "tests/mail/codes/test_codes_variants.py",
            "test_the_number_of_an_order_in_the_subject_is_not_the_code",
        ),
    ),
    Mutant(
        "a code that goes on with the next sentence",
        (
            Patch(
                "src/oncebox/mail/codes/shapes.py",
                r"(?:[0-9]|[A-Za-z](?=\n|\Z))",
                "[A-Za-z0-9]",
            ),
        ),
        _tests(
            "tests/mail/codes/test_codes_variants.py",
            "test_a_word_of_one_letter_is_no_part_of_a_code",
        ),
    ),
    Mutant(
        "a code with a rival called certain",
        (
            Patch(
                "src/oncebox/mail/codes/code_finder.py",
                "_doubted(first) if near else first",
                "first",
            ),
        ),
        _tests(
            "tests/mail/codes/test_codes_variants.py",
            "test_a_code_with_a_rival_or_evidence_against_it_is_not_certain",
        ),
    ),
    Mutant(
        "as many candidates as a mail has numbers",
        (Patch("src/oncebox/mail/codes/shapes.py", "MOST_TOKENS = 120", "MOST_TOKENS = 2_000"),),
        _tests(
            "tests/mail/codes/test_codes_hostile.py",
            "test_twice_the_text_takes_at_most_twice_the_steps",
        ),
    ),
)
