"""Faults in how links are found, and in which are handed out."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_LINK_POLICY = "src/oncebox/mail/links/link_policy.py"
_LINK_FINDER = "src/oncebox/mail/links/link_finder.py"

_TEST_LAYOUT = "tests/mail/html/test_layout.py"
_TEST_LINKS = "tests/mail/links/test_links.py"
_TEST_LINKS_VARIANTS = "tests/mail/links/test_links_variants.py"
_TEST_LINK_POLICY = "tests/mail/links/test_link_policy.py"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


LINKS = (
    Mutant(
        "a backslash let into a link",
        (Patch(_LINK_POLICY, r'r"[!-\[\]-~]*"', r'r"[!-~]*"'),),
        _tests(_TEST_LINK_POLICY, "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a user before the host let through",
        (Patch(_LINK_POLICY, 'if "@" in authority:', 'if "@@" in authority:'),),
        _tests(_TEST_LINK_POLICY, "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a name that ends like a listed one taken for one below it",
        (Patch(_LINK_POLICY, 'parts.host.endswith(f".{rule.host}")',
               "parts.host.endswith(rule.host)"),),
        _tests(_TEST_LINK_POLICY, "test_what_an_entry_does_not_name_is_refused"),
    ),
    Mutant(
        "a path taken for one below another without looking at its border",
        (Patch(_LINK_POLICY, "path == prefix or path.startswith(below)",
               "path.startswith(prefix)"),),
        _tests(_TEST_LINK_POLICY, "test_what_an_entry_does_not_name_is_refused"),
    ),
    Mutant(
        "a name believed when one of its addresses is public",
        (Patch(_LINK_POLICY, "not all(map(is_public_answer, addresses))",
               "not any(map(is_public_answer, addresses))"),),
        _tests(_TEST_LINK_POLICY,
               "test_a_name_with_an_address_that_is_not_public_is_refused"),
    ),
    Mutant(
        "a local origin compared by its beginning",
        (Patch(_LINK_POLICY, 'if same and (not rest or rest[0] in "/?#"):',
               "if same:"),),
        _tests(_TEST_LINK_POLICY,
               "test_a_local_origin_is_allowed_to_the_letter_and_no_further"),
    ),
    Mutant(
        "a number taken for the name of a host",
        (Patch("src/oncebox/model/inboxes/link_rules.py", "if _NUMBER.fullmatch(labels[-1]):",
               "if _NUMBER.fullmatch(host):"),),
        _tests(_TEST_LINK_POLICY, "test_what_does_not_fit_is_refused_with_its_reason"),
    ),
    Mutant(
        "a link without a secret given",
        (Patch(_LINK_FINDER, "points if short else -60", "0"),),
        _tests(_TEST_LINKS, "test_a_mail_without_such_a_link_has_none"),
    ),
    Mutant(
        "a link for those who did not ask taken for the one that was asked for",
        (Patch(_LINK_FINDER, "-20 if before & LinkMeaning.MAY_IGNORE else -80", "0"),),
        _tests(_TEST_LINKS, "test_a_mail_without_such_a_link_has_none"),
    ),
    Mutant(
        "a help page beside a code taken for the link",
        (Patch(_LINK_FINDER, "        points = 0 if meant else -25\n", "        points = 0\n"),),
        _tests(_TEST_LINKS_VARIANTS, "test_a_help_page_beside_a_code_is_not_taken"),
    ),
    Mutant(
        "the words of a title taken for a secret",
        (Patch("src/oncebox/mail/languages/readability.py", "_KNOWN_IN_TEN = 6",
               "_KNOWN_IN_TEN = 11"),),
        _tests(_TEST_LINKS_VARIANTS, "test_words_are_no_secret"),
    ),
    Mutant(
        "a doubtful link called certain",
        (Patch(_LINK_FINDER, "said & _CERTAIN_EVIDENCE and not doubted", "said"),),
        _tests(_TEST_LINKS_VARIANTS,
               "test_a_link_is_certain_only_if_its_action_is_named_and_nothing_speaks_against_it"),
    ),
    Mutant(
        "one of two links guessed",
        (Patch(_LINK_FINDER, "best=None if best is None or tied else",
               "best=None if best is None else"),),
        _tests(_TEST_LINKS,
               "test_two_links_as_good_as_each_other_are_a_tie_and_no_answer"),
    ),
    Mutant(
        "a hidden link taken for a visible one",
        (Patch("src/oncebox/mail/html/computed.py",
               "self.flows = visibility is VISIBLE and not self.preserves_space",
               "self.flows = not self.preserves_space"),),
        _tests(_TEST_LAYOUT, "test_an_anchor_that_nobody_sees_is_none"),
    ),
    Mutant(
        "offsets counted before white space was put in order",
        (Patch("src/oncebox/mail/html/layout.py",
               "at += len(bare) + (at > start and (apart or text[0].isspace()))",
               "at += len(text)"),),
        _tests(_TEST_LAYOUT, "test_anchors_stand_where_their_text_stands"),
    ),
    Mutant(
        "a broken link of the text part given instead of the whole one",
        (Patch(_LINK_FINDER, "if len(longer) == 1 and", "if len(longer) == 9 and"),),
        _tests(_TEST_LINKS, "test_a_broken_text_part_is_repaired_by_the_html"),
    ),
)  # fmt: skip
