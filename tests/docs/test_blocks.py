"""Every block of commands or Python on a page is run by a test, or its reason not to be is here."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click

from oncebox.cli.main import root
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.project.tree import ROOT

#: blocks that no test runs as they stand, by page and first line, and why
NOT_RUN = {
    ("demo.md", "oncebox demo"): "takes half a minute; tests/cli/test_demo.py runs it",
    ("index.md", "make install"): "runs until it is stopped; test_quickstart_inboxes.py types it",
    ("mcp.md", "pip install 'oncebox[mcp]'"): "fetches packages; tests/packaging installs extras",
    ("serving.md", "oncebox serve"): "runs until it is stopped; tests/cli/test_serve.py does it",
    ("serving.md", "oncebox serve --role edge"): "runs until it is stopped",
    ("serving.md", "oncebox serve app:box --role worker"): "runs until it is stopped",
    ("serving.md", "oncebox worker app:box --processes 4"): "runs until it is stopped",
    ("testing.md", "oncebox serve --test --chaos rules.toml"): (
        "runs until it is stopped; tests/cli/test_test_mode.py does it"
    ),
}
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
RUNNABLE = ("sh", "console", "bash", "python")
#: how a block begins: three backticks and its language
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: what is typed, wherever it stands
COMMAND = re.compile(r"^(?:\$ )?(?:oncebox|curl|pip|make|export|swaks) ", re.MULTILINE)


@cache
def run_by_tests() -> set[tuple[str, str]]:
    """Return the pages and languages whose blocks are taken by a test, to be run."""
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    takers = (text for text in texts if "blocks(" in text)
    return {found for text in takers for found in _taken(ast.parse(text))}


def _taken(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what ``blocks(DOCS / "keys.md", "sh")`` takes, also where the page has a name."""
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="blocks"), args=[page, ast.Constant(value=str(language))]
            ):
                where = names.get(page.id, page) if isinstance(page, ast.Name) else page
                if isinstance(where, ast.BinOp) and isinstance(where.right, ast.Constant):
                    yield str(where.right.value), language


def _name(page: Path) -> str:
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()


def test_every_block_is_run_by_a_test_or_says_why_not() -> None:
    """If this fails, run the block in a test that takes it by ``blocks(DOCS / page, language)``."""
    found = {
        (_name(page), text.splitlines()[0].partition(" #")[0].strip()): (_name(page), language)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text())
        if language in RUNNABLE
    }
    taken = run_by_tests()

    idle = [block for block, kind in found.items() if kind not in taken and block not in NOT_RUN]
    assert idle == []
    assert NOT_RUN.keys() - found.keys() == set()


def test_no_command_hides_in_a_block_of_something_else() -> None:
    """The reference has the usage and the examples that every command prints itself."""
    hidden = [
        (_name(page), text)
        for page in PAGES
        for language, text in FENCE.findall(page.read_text())
        if language in {"", "text"} and COMMAND.search(text) and _name(page) != "reference/cli.md"
    ]

    assert hidden == []


def test_commands_that_go_on_are_typed_rightly() -> None:
    lines = [
        line.partition("#")[0].split()
        for page in sorted({name for name, _ in NOT_RUN})
        for text in blocks(DOCS / page, "sh")
        for line in text.splitlines()
        if line.split()[:2] in (["oncebox", "serve"], ["oncebox", "worker"])
    ]

    assert len(lines) >= 6
    for words in lines:
        _understood(words[1:])


def _understood(words: list[str]) -> None:
    """Read words as ``oncebox`` would, and do nothing."""
    command: click.Command = root
    above = None
    while isinstance(command, click.Group):
        above = command.make_context("oncebox", words, parent=above)
        _, found, words = command.resolve_command(above, [*above._protected_args, *above.args])
        assert found is not None
        command = found
    command.make_context("oncebox", words, parent=above)
