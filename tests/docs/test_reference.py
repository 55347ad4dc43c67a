"""The reference is whole: nothing that users meet is missing, and every row has its words."""

import re

import click
import pytest

from oncebox.cli.output import failures
from tests.docs import cli_page, python_page
from tests.docs.reference import DOCS, error_kinds, metrics
from tests.docs.remedies import LABELS, REMEDIES

REFERENCE = DOCS / "reference"
EMPTY = re.compile(r"\|\s*\|$")


@pytest.mark.parametrize("page", ["cli.md", "errors.md", "metrics.md", "schemes.md", "settings.md"])
def test_every_row_of_the_reference_says_what_it_means(page: str) -> None:
    rows = [line for line in (REFERENCE / page).read_text().splitlines() if line.startswith("| `")]
    # Of schemes a note is extra, and most batches have nothing volatile.
    bare = [line for line in rows if EMPTY.search(line) and page != "schemes.md"]

    assert len(rows) > 20
    assert bare == []


def test_every_error_says_what_helps() -> None:
    assert {kind.code for kind in error_kinds()} ^ REMEDIES.keys() == set()


def test_every_label_of_a_metric_is_explained() -> None:
    assert {label for _, _, labels, _ in metrics() for label in labels} ^ LABELS.keys() == set()


def test_every_command_is_there_with_all_its_options() -> None:
    text = (REFERENCE / "cli.md").read_text()
    for words, command in cli_page.commands():
        section = text.partition(f"\n## {words}\n")[2].partition("\n## ")[0]
        options = [each for each in command.params if isinstance(each, click.Option)]
        shown = {name for each in options if not each.hidden for name in each.opts}
        assert section, words
        assert {name for name in shown if f"`{name}`" not in section} <= set(
            re.findall(r"`(-[\w-]+)`", text.partition("\n## Common options\n")[2][:600])
        )


def test_every_exit_code_is_there() -> None:
    codes = {name for name, code in vars(failures).items() if isinstance(code, int)}

    assert codes == cli_page.EXIT_CODES.keys()


def test_every_public_name_of_python_is_there() -> None:
    text = (REFERENCE / "python.md").read_text()

    assert python_page.missing() == set()
    for things in python_page.PARTS.values():
        for thing in things:
            assert f"\n### {thing.__name__}\n" in text
