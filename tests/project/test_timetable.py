"""The timetable of a run adds up what its tests report."""

import pytest

from tests.support.timetable import Timetable


def _report(nodeid: str, when: str, duration: float) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("", 0, ""), {}, "passed", None, when, duration=duration)  # type: ignore[arg-type]


def test_a_folder_has_the_seconds_of_all_its_tests_the_longest_first() -> None:
    table = Timetable()
    for report in (
        _report("tests/core/test_a.py::test_one", "setup", 1.0),
        _report("tests/core/test_a.py::test_one", "call", 2.0),
        _report("tests/mail/deep/test_b.py::test_two[x/y]", "setup", 0.5),
        _report("tests/mail/deep/test_b.py::test_two[x/y]", "call", 4.0),
        _report("tests/mail/deep/test_b.py::test_two[x/y]", "teardown", 0.5),
    ):
        table.pytest_runtest_logreport(report)

    assert [line.split() for line in table.lines()] == [
        ["folder", "tests", "setup", "call", "teardown", "all"],
        ["tests/mail", "1", "0.5", "4.0", "0.5", "5.0"],
        ["tests/core", "1", "1.0", "2.0", "0.0", "3.0"],
        ["together", "2", "1.5", "6.0", "0.5", "8.0"],
    ]
