"""How the Python files are named, sized and introduced, and which clock they ask."""

import ast
from collections.abc import Collection, Iterator

import pytest

from tests.project.tree import PACKAGE, ROOT, modules, name

LONGEST = 700
DRAWERS = {"base", "common", "helper", "helpers", "util", "utils"}
CLOCKS = {
    "time.time",
    "time.time_ns",
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "date.today",
}
#: what times work; a busy machine would decide how a test ends
STOPWATCHES = {
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.process_time",
    "time.process_time_ns",
    "time.thread_time",
}


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in modules()}

    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_no_module_is_a_drawer() -> None:
    found = [name(path) for path in modules() if {path.stem, path.parent.name} & DRAWERS]

    assert found == []


def test_every_public_module_says_what_it_is_for() -> None:
    """A module with nothing in it has nothing to say."""
    silent = []
    for path in modules():
        tree = ast.parse(path.read_text())
        public = path.stem == "__init__" or not path.stem.startswith("_")
        if public and tree.body and not ast.get_docstring(tree):
            silent.append(name(path))

    assert silent == []


def test_only_the_clock_asks_the_time() -> None:
    askers = [
        f"{name(path)}:{line} {asked}"
        for path in modules()
        if path != PACKAGE / "core" / "clock.py"
        for line, asked in _clocks_asked(path.read_text())
    ]

    assert askers == []


def test_tests_count_work_and_never_time_it() -> None:
    """``tests/support/steps.py`` counts."""
    found = [
        f"{name(path)}:{line} {asked}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line, asked in _clocks_asked(path.read_text(), STOPWATCHES)
    ]

    assert found == []


def test_a_stopwatch_is_seen() -> None:
    assert len(list(_clocks_asked("import time\ntime.process_time()", STOPWATCHES))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.time_ns()",
        "from time import time",
        "from time import time_ns as ns",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime as dt\nclock = dt.utcnow",
        "from datetime import date\ndate.today()",
    ],
)
def test_a_question_to_the_clock_is_seen(source: str) -> None:
    assert len(list(_clocks_asked(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.monotonic()",
        "from time import monotonic, sleep",
        '"""Never call time.time() here."""',
        "from datetime import datetime\ndatetime.fromisoformat('2024-01-01')",
        "box.now()",
    ],
)
def test_an_innocent_line_is_not_a_question_to_the_clock(source: str) -> None:
    assert list(_clocks_asked(source)) == []


def _clocks_asked(source: str, clocks: Collection[str] = CLOCKS) -> Iterator[tuple[int, str]]:
    """Find each mention of a clock, by the name it was imported under."""
    tree = ast.parse(source)
    real_names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                real_names[alias.asname or alias.name] = alias.name
                if isinstance(node, ast.ImportFrom) and f"{node.module}.{alias.name}" in clocks:
                    yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            asked = f"{_last_word(node.value, real_names)}.{node.attr}"
            if asked in clocks:
                yield node.lineno, asked


def _last_word(node: ast.expr, real_names: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return real_names.get(node.id, node.id)
    return node.attr if isinstance(node, ast.Attribute) else ""
