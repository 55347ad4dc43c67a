"""What AGENTS.md and the page of examples name is there: commands, paths, examples."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from oncebox.cli.main import GROUPS
from tests.docs.reference import DOCS
from tests.project.tree import ROOT

AGENTS = (ROOT / "AGENTS.md").read_text()
EXAMPLES = ROOT / "examples"
CODE = re.compile(r"`([^`]+)`")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
ROW = re.compile(r"^\| `([\w/.]+)` \| (.+) \|$", re.MULTILINE)
PATHS = re.compile(r"(?:[\w.-]+/)*[\w.-]+(?:\.(?:md|py|sql|toml)|/)")
#: lines of code that can be read at one go
LONGEST = 95


def test_every_command_for_agents_exists() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    commands = {f"{group} {name}".strip() for group, names in GROUPS.items() for name in names}
    makes = [words[1] for words in _spoken() if words[0] == "make"]
    typed = [" ".join(words[1:]) for words in _spoken() if words[0] == "oncebox"]
    modules = [words[2] for words in _spoken() if words[0] == ".venv/bin/python"]

    assert len(makes) > 4
    assert set(makes) <= targets
    assert len(typed) > 4
    assert set(typed) <= commands
    assert [each for each in modules if importlib.util.find_spec(each) is None] == []


def test_every_path_for_agents_exists() -> None:
    paths = [code for code in CODE.findall(AGENTS) if PATHS.fullmatch(code)]
    paths += [word for words in _spoken() for word in words if word.startswith("tests/")]

    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_it_is_short() -> None:
    assert len(AGENTS.splitlines()) <= 50


def test_every_example_is_on_the_page_in_its_own_words() -> None:
    rows = dict(ROW.findall((DOCS / "examples.md").read_text()))
    told = {path.relative_to(EXAMPLES).as_posix(): _docstring(path)[0] for path in _examples()}
    told["playwright_signup/"] = told.pop("playwright_signup/test_signup.py")
    del told["playwright_signup/conftest.py"]

    assert rows == told


def test_every_example_is_short_and_says_how_it_is_run() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in _examples()}
    silent = {path.name for path in _examples() if not _says_how(path)}

    assert {name: size for name, size in sizes.items() if size > LONGEST} == {}
    assert silent <= {"conftest.py", "embedded.py"}  # the latter is printed in the README


def test_every_example_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    called = {"hello.py": '"make run', "stripe_issue.py": '"examples.stripe_issue:box"'}
    called |= {"test_signup.py": '"playwright_signup"', "conftest.py": '"playwright_signup"'}
    names = {path.name for path in _examples()} - {"site.py"}  # the others need it

    assert [name for name in names if called.get(name, f'{name}"') not in tests] == []


def _spoken() -> Iterator[list[str]]:
    """Yield the words of everything that looks like a command."""
    for code in CODE.findall(AGENTS):
        words = code.split()
        if words[0] in {"make", "oncebox", ".venv/bin/python"} and len(words) > 1:
            yield words


def _examples() -> list[Path]:
    return sorted(path for path in EXAMPLES.rglob("*.py") if "__pycache__" not in path.parts)


def _docstring(path: Path) -> list[str]:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()


def _says_how(path: Path) -> bool:
    lines = _docstring(path)
    return any(line.startswith("    ") for line in lines) or "`make run`" in lines[0]
