"""The floor of a scan is a hint: complete scans come again, and clocks may be wrong."""

import pytest

from oncebox.core import clock
from oncebox.workers.scan_floor import SLACK, ScanFloor

NOW = 1_750_000_000_000


class Steady:
    """The steady clock, which only the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Steady:
    steady = Steady()
    monkeypatch.setattr(clock, "steady", steady)
    return steady


def _scan(floor: ScanFloor, now: int, empty_before: int | None) -> int:
    began = floor.begin(now)
    floor.end(began, empty_before)
    return began


def test_the_first_scan_is_complete_and_the_next_starts_where_nothing_was_left(
    steady: Steady,
) -> None:
    floor = ScanFloor()

    assert _scan(floor, NOW, NOW) == 0
    steady.seconds += 0.5
    assert _scan(floor, NOW + 500, NOW + 500) == NOW - SLACK
    assert floor.begin(NOW + 600) == NOW + 500 - SLACK


def test_a_complete_scan_comes_every_second(steady: Steady) -> None:
    floor = ScanFloor()
    _scan(floor, NOW, NOW)

    steady.seconds += 1

    assert floor.begin(NOW + 1_000) == 0


@pytest.mark.parametrize(("took", "wait"), [(0.01, 1.0), (0.1, 5.0), (10.0, 30.0)])
def test_slow_complete_scans_come_less_often_but_they_come(
    steady: Steady, took: float, wait: float
) -> None:
    floor = ScanFloor()
    began = floor.begin(NOW)
    steady.seconds += took
    floor.end(began, NOW)

    steady.seconds += wait - 0.01
    assert floor.begin(NOW) > 0
    steady.seconds += 0.02
    assert floor.begin(NOW) == 0


def test_a_floor_that_is_not_for_fast_scans_is_not_used_while_they_are(steady: Steady) -> None:
    floor = ScanFloor(every=0.0)

    assert _scan(floor, NOW, NOW) == 0
    assert floor.begin(NOW) == 0
    steady.seconds += 0.1
    floor.end(0, NOW)
    assert floor.begin(NOW) == NOW - SLACK


def test_a_scan_that_left_something_does_not_move_the_floor(steady: Steady) -> None:
    floor = ScanFloor()

    _scan(floor, NOW, None)
    assert _scan(floor, NOW, NOW) == 0
    assert _scan(floor, NOW, None) == NOW - SLACK
    assert floor.begin(NOW) == NOW - SLACK


def test_a_complete_scan_that_left_something_forgets_the_floor(steady: Steady) -> None:
    """It may have found what came below it, and left more of that."""
    floor = ScanFloor()
    _scan(floor, NOW, NOW)
    steady.seconds += 1

    assert _scan(floor, NOW, None) == 0
    assert floor.begin(NOW) == 0


def test_the_floor_does_not_fall_because_something_old_was_found(steady: Steady) -> None:
    floor = ScanFloor()
    _scan(floor, NOW, NOW)

    _scan(floor, NOW, NOW - 1_000_000)

    assert floor.begin(NOW) == NOW - SLACK


def test_a_clock_that_was_set_back_hides_nothing(steady: Steady) -> None:
    floor = ScanFloor()
    _scan(floor, NOW, NOW)

    assert floor.begin(NOW - 3_600_000) == NOW - 3_600_000 - SLACK
