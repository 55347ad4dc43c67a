"""Faults of how mail is read."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_TEST_ATTACKS = "tests/mail/mime/test_attacks.py"
_TEST_AUTHOR = "tests/mail/mime/test_author.py"
_TEST_PARSER = "tests/mail/mime/test_parser.py"
_TEST_TECHNIQUES = "tests/mail/html/test_hidden_techniques.py"
_TEST_VISIBLE_TEXT = "tests/mail/html/test_visible_text.py"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{file}::{name}" for name in names)),)


READING = (
    Mutant(
        "a sender whose name looks like another address believed",
        (Patch("src/oncebox/mail/mime/addresses.py", "for found in _ADDRESS_LIKE.findall(shown):",
               "for found in ():"),),
        _tests(_TEST_AUTHOR, "test_what_can_be_read_in_two_ways_is_ambiguous"),
    ),
    Mutant(
        "the first of two From fields believed",
        (Patch("src/oncebox/mail/mime/addresses.py", "if len(fields) == 1 and not ambiguous",
               "if fields and not ambiguous"),),
        _tests(_TEST_AUTHOR, "test_what_can_be_read_in_two_ways_is_ambiguous"),
    ),
    Mutant(
        "a sender believed although the header was cut",
        (Patch("src/oncebox/mail/parser.py", "ambiguous=header.ambiguous", "ambiguous=False"),),
        _tests(_TEST_ATTACKS, "test_a_header_over_its_limits_is_cut_before_it_is_read"),
    ),
    Mutant(
        "any codec of Python used for a mail",
        (Patch("src/oncebox/mail/mime/decoding.py",
               'return _CODECS.get(name.strip("\\"\' \\t").lower()) if len(name) <= _LONGEST_NAME '
               "else None",
               "return name"),),
        _tests(_TEST_ATTACKS,
               "test_a_charset_that_is_none_is_read_as_latin_1_and_flagged"),
    ),
    Mutant(
        "text in the colour of its ground taken for visible",
        (Patch("src/oncebox/mail/html/computed.py",
               "if background is not None and colours.are_indistinguishable(colour, background):",
               "if False:"),),
        _tests(_TEST_VISIBLE_TEXT, "test_hidden_text_is_reported_apart"),
    ),
    Mutant(
        "a code taken that text of doubtful visibility decides",
        (Patch("src/oncebox/mail/parser.py",
               "    certain = _or_none(find, body.certain_pages)\n",
               "    certain = everything\n"),),
        _tests(_TEST_TECHNIQUES, "test_a_hidden_code_never_wins"),
    ),
    Mutant(
        "a style that is not computed taken for harmless",
        (Patch("src/oncebox/mail/html/computed.py",
               "doubtful=current.doubtful or style.visibility is DOUBTFUL or tag in _DOUBTFUL_TAGS",
               "doubtful=False"),),
        _tests(_TEST_TECHNIQUES, "test_text_is_hidden_or_doubtful"),
    ),
    Mutant(
        "style rules that were not read taken for harmless",
        (Patch("src/oncebox/mail/html/stylesheets.py",
               "            if order > _MOST_RULES:\n                self._incomplete = True\n",
               "            if order > _MOST_RULES:\n"),
         Patch("src/oncebox/mail/html/stylesheets.py",
               "    self._incomplete = True\n                break\n\n    def _add_rule",
               "    break\n\n    def _add_rule")),
        _tests(_TEST_TECHNIQUES, "test_text_is_hidden_or_doubtful"),
    ),
    Mutant(
        "text under another box taken for visible",
        (Patch("src/oncebox/mail/html/visible.py",
               "if walk.exhausted or walk.is_covered or", "if walk.exhausted or"),),
        _tests(_TEST_TECHNIQUES, "test_text_is_hidden_or_doubtful"),
    ),
    Mutant(
        "the order of layered rules taken for certain",
        (Patch("src/oncebox/mail/html/stylesheets.py",
               "self._is_reordered = bool(_REORDERING.search(css))",
               "self._is_reordered = False"),),
        _tests(_TEST_TECHNIQUES, "test_text_is_hidden_or_doubtful"),
    ),
    Mutant(
        "a quoted code taken for the mail's own",
        (Patch("src/oncebox/mail/codes/code_finder.py",
               "    return _chosen_codes(_quoted_behind(ordered), tops, places)",
               "    return _chosen_codes(ordered, tops, places)"),),
        _tests("tests/mail/codes/test_codes_quoted.py",
               "test_a_quoted_code_that_stands_out_more_does_not_win"),
    ),
    Mutant(
        "a reset mail that mentions signing in taken for a login",
        (Patch("src/oncebox/mail/languages/purposes.py",
               "_named_first(subject) or _named_first(text[:_LONGEST_TEXT])",
               "_named_first(text[:_LONGEST_TEXT]) or _named_first(subject)"),),
        _tests("tests/mail/languages/test_purposes.py",
               "test_the_subject_decides_and_then_what_the_text_names_first"),
    ),
    Mutant(
        "an unclear purpose granted without a warning",
        (Patch("src/oncebox/ledger/artifacts/claims.py",
               "granted = _with_purpose_warning(granted, wanted.purpose)", "pass"),),
        _tests("tests/server/api/test_waits.py",
               "test_a_code_of_an_unclear_purpose_is_granted_with_a_warning"),
    ),
    Mutant(
        "a code that may be hidden granted",
        (Patch("src/oncebox/model/inboxes/artifact.py",
               "if len(meant) > 1 or (meant != own and _is_doubtful(meant)):",
               "if len(meant) > 1:"),),
        _tests("tests/model/test_artifact_choice.py",
               "test_the_right_one_is_chosen_in_any_order"),
    ),
    Mutant(
        "a Message-ID alone taken for the message",
        (Patch("src/oncebox/mail/parser.py",
               "return framed_digest(\n"
               "        (*sign, sender, without_whitespace(parsed.subject), "
               "without_whitespace(parsed.text))\n"
               "    )",
               "return framed_digest(sign)"),),
        _tests(_TEST_PARSER,
               "test_a_mail_that_differs_in_what_counts_is_another_message"),
    ),
    Mutant(
        "the neighbours of a deadly mail lost with it",
        (Patch("src/oncebox/workers/mail/parser_pool.py",
               "                suspect.finish(death)\n                del left[0]\n",
               "                for each in left:\n                    each.finish(death)\n"
               "                left.clear()\n"),),
        _tests(
            "tests/workers/test_parser_pool.py",
            "test_a_mail_that_takes_too_long_costs_its_structure_and_no_neighbour_anything",
        ),
    ),
    Mutant(
        "a mail given up because somebody killed its reader",
        (Patch("src/oncebox/workers/mail/parser_pool.py",
               "if suspect.alone or death in {ChildDeath.CPU, ChildDeath.WALL}:", "if death:"),),
        _tests("tests/workers/test_parser_pool.py",
               "test_a_child_that_somebody_kills_costs_nothing"),
    ),
    Mutant(
        "a child that gets all our environment",
        (Patch("src/oncebox/workers/mail/parser_pool.py",
               "{name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}",
               "dict(os.environ)"),),
        _tests("tests/workers/test_parser_pool.py",
               "test_a_child_inherits_nothing_and_knows_no_secrets"),
    ),
    Mutant(
        "mail that waits for the next look",
        (Patch("src/oncebox/workers/mail/mail_processor.py", "await self._arrivals.wait(wait)",
               "await asyncio.sleep(wait)"),),
        _tests("tests/contract/inboxes/test_mail_processor.py",
               "test_mail_that_arrives_right_after_a_look_is_found_at_once"),
    ),
    Mutant(
        "garbage of parsed mails that stays",
        (Patch("src/oncebox/workers/mail/parser_process.py",
               "            gc.collect()  # after the reply",
               "            pass  # after the reply"),),
        _tests("tests/workers/test_parser_process.py",
               "test_a_parser_without_a_collector_does_not_grow_with_the_mails_it_parses"),
    ),
)  # fmt: skip
