"""Faults in how links are found, and in which are handed out."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_MAIL = "src/oncebox/mail"
_MODEL = "src/oncebox/model"
_TESTS = "tests/mail"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{_TESTS}/{file}::{name}" for name in names)),)


LINKS = (
    Mutant(
        "a backslash let into a link",
        (Patch(f"{_MAIL}/linkpolicy.py", r'r"[!-\[\]-~]*"', r'r"[!-~]*"'),),
        _tests("test_linkpolicy.py", "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a user before the host let through",
        (Patch(f"{_MAIL}/linkpolicy.py", 'if "@" in authority:', 'if "@@" in authority:'),),
        _tests("test_linkpolicy.py", "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a name that ends like a listed one taken for one below it",
        (Patch(f"{_MAIL}/linkpolicy.py", 'parts.host.endswith(f".{rule.host}")',
               "parts.host.endswith(rule.host)"),),
        _tests("test_linkpolicy.py", "test_what_an_entry_does_not_name_is_refused"),
    ),
    Mutant(
        "a path taken for one below another without looking at its border",
        (Patch(f"{_MAIL}/linkpolicy.py", "path == prefix or path.startswith(below)",
               "path.startswith(prefix)"),),
        _tests("test_linkpolicy.py", "test_what_an_entry_does_not_name_is_refused"),
    ),
    Mutant(
        "a name believed when one of its addresses is public",
        (Patch(f"{_MAIL}/linkpolicy.py", "not all(map(leads_public, addresses))",
               "not any(map(leads_public, addresses))"),),
        _tests("test_linkpolicy.py",
               "test_a_name_with_an_address_that_is_not_public_is_refused"),
    ),
    Mutant(
        "a local origin compared by its beginning",
        (Patch(f"{_MAIL}/linkpolicy.py", 'if same and (not rest or rest[0] in "/?#"):',
               "if same:"),),
        _tests("test_linkpolicy.py",
               "test_a_local_origin_is_allowed_to_the_letter_and_no_further"),
    ),
    Mutant(
        "a number taken for the name of a host",
        (Patch(f"{_MODEL}/link_rule.py", "if _NUMBER.fullmatch(labels[-1]):",
               "if _NUMBER.fullmatch(host):"),),
        _tests("test_linkpolicy.py", "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a link without a secret given",
        (Patch(f"{_MAIL}/linkscores.py", "points if short else -60", "0"),),
        _tests("test_links.py", "test_a_mail_without_such_a_link_has_none"),
    ),
    Mutant(
        "a link for those who did not ask taken for the one that was asked for",
        (Patch(f"{_MAIL}/linkscores.py", "-20 if Said.IGNORE in before else -80", "0"),),
        _tests("test_links.py", "test_a_mail_without_such_a_link_has_none"),
    ),
    Mutant(
        "one of two links guessed",
        (Patch(f"{_MAIL}/links.py", "best=None if best is None or tied else",
               "best=None if best is None else"),),
        _tests("test_links.py",
               "test_two_links_as_good_as_each_other_are_a_tie_and_no_answer"),
    ),
    Mutant(
        "a hidden link taken for a visible one",
        (Patch(f"{_MAIL}/visible.py", "if look.kept or not look.shows:", "if look.kept:"),),
        _tests("test_layout.py", "test_an_anchor_that_nobody_sees_is_none"),
    ),
    Mutant(
        "offsets counted before white space was put in order",
        (Patch(f"{_MAIL}/layout.py",
               "at += len(bare) + (at > start and (apart or text[0].isspace()))",
               "at += len(text)"),),
        _tests("test_layout.py", "test_anchors_stand_where_their_text_stands"),
    ),
    Mutant(
        "a broken link of the text part given instead of the whole one",
        (Patch(f"{_MAIL}/links.py", "if len(longer) == 1 and", "if len(longer) == 9 and"),),
        _tests("test_links.py", "test_a_broken_text_part_is_repaired_by_the_html"),
    ),
)  # fmt: skip
