"""Faults of how mail is read."""

from tests.mutants.mutants import Mutant
from tests.mutants.workshop import Patch, Selection

_MAIL = "src/oncebox/mail"
_WORKER = "src/oncebox/worker"
_TESTS = "tests/mail"


def _tests(file: str, *names: str) -> tuple[Selection, ...]:
    return (Selection(tuple(f"{_TESTS}/{file}::{name}" for name in names)),)


READING = (
    Mutant(
        "a sender whose name looks like another address believed",
        (Patch(f"{_MAIL}/author.py", "for found in _LOOKS_LIKE_ONE.findall(shown):",
               "for found in ():"),),
        _tests("test_author.py", "test_what_can_be_read_in_two_ways_is_ambiguous"),
    ),
    Mutant(
        "the first of two From fields believed",
        (Patch(f"{_MAIL}/author.py", "if len(fields) == 1 and not doubtful",
               "if fields and not doubtful"),),
        _tests("test_author.py", "test_what_can_be_read_in_two_ways_is_ambiguous"),
    ),
    Mutant(
        "a sender believed although the header was cut",
        (Patch(f"{_MAIL}/parse.py", "doubtful=header.doubtful", "doubtful=False"),),
        _tests("test_attacks.py", "test_a_header_over_its_limits_is_cut_before_it_is_read"),
    ),
    Mutant(
        "any codec of Python used for a mail",
        (Patch(f"{_MAIL}/charset.py",
               'return _CODECS.get(name.strip("\\"\' \\t").lower()) if len(name) <= _LONGEST_NAME '
               "else None",
               "return name"),),
        _tests("test_attacks.py",
               "test_a_charset_that_is_none_is_read_as_latin_1_and_flagged"),
    ),
    Mutant(
        "text in the colour of its ground taken for visible",
        (Patch(f"{_MAIL}/visible.py",
               "return ground is not None and colours.alike(ink, ground)", "return False"),),
        _tests("test_visible.py", "test_hidden_text_is_reported_apart"),
    ),
    Mutant(
        "a Message-ID alone taken for the message",
        (Patch(f"{_MAIL}/identity.py",
               "return digest((*sign, sender, bare(parsed.subject), bare(parsed.text)))",
               "return digest(sign)"),),
        _tests("test_parse.py",
               "test_a_mail_that_differs_in_what_counts_is_another_message"),
    ),
    Mutant(
        "the neighbours of a deadly mail lost with it",
        (Patch(f"{_WORKER}/parsers.py",
               "            guilty.end(death)\n            del left[0]\n",
               "            for each in left:\n                each.end(death)\n"
               "            left.clear()\n"),),
        _tests(
            "test_parsers.py",
            "test_a_mail_that_takes_too_long_costs_its_structure_and_no_neighbour_anything",
        ),
    ),
    Mutant(
        "a mail given up because somebody killed its reader",
        (Patch(f"{_WORKER}/parsers.py",
               "if guilty.alone or death in {Death.CPU, Death.WALL}:", "if death:"),),
        _tests("test_parsers.py", "test_a_child_that_somebody_kills_costs_nothing"),
    ),
    Mutant(
        "a child that gets all our environment",
        (Patch(f"{_WORKER}/reading.py",
               "{name: os.environ[name] for name in _PASSED_ON if name in os.environ}",
               "dict(os.environ)"),),
        _tests("test_parsers.py", "test_a_child_inherits_nothing_and_knows_no_secrets"),
    ),
)  # fmt: skip
