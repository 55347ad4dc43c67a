"""Where the time of a run goes: tests and seconds of work by folder, printed at its end."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

_PHASES = ("setup", "call", "teardown")


@dataclass
class Folder:
    """What the tests of one folder took, in all workers together."""

    tests: int = 0
    setup: float = 0.0
    call: float = 0.0
    teardown: float = 0.0

    @property
    def seconds(self) -> float:
        return self.setup + self.call + self.teardown


class Timetable:
    """Adds up what every test reports; under xdist, in the process that hears all workers."""

    def __init__(self) -> None:
        self._folders: defaultdict[str, Folder] = defaultdict(Folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        folder = self._folders[_folder(report.nodeid)]
        if report.when == "setup":
            folder.tests += 1
        setattr(folder, report.when, getattr(folder, report.when) + report.duration)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        terminalreporter.section("seconds of work, all workers together")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> Iterable[str]:
        """Return the table, the longest first."""
        yield _line("folder", "tests", *_PHASES, "all")
        longest = sorted(self._folders.items(), key=lambda each: -each[1].seconds)
        for name, folder in longest:
            yield _row(name, folder)
        yield _row("together", _sum(self._folders.values()))


def _folder(nodeid: str) -> str:
    """Return the folder below tests/ in which a test lies."""
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _sum(folders: Iterable[Folder]) -> Folder:
    total = Folder()
    for each in folders:
        total.tests += each.tests
        total.setup += each.setup
        total.call += each.call
        total.teardown += each.teardown
    return total


def _row(name: str, folder: Folder) -> str:
    times = (folder.setup, folder.call, folder.teardown, folder.seconds)
    return _line(name, str(folder.tests), *(f"{each:.1f}" for each in times))


def _line(name: str, *columns: str) -> str:
    return f"{name:<24}" + "".join(f"{each:>10}" for each in columns)
