"""Metrics begin at zero: an increase from nothing is none, and no alert would fire."""

import pytest
from prometheus_client import Counter

from oncebox.core.metrics import COUNTED_STATES, SETTLED_OUTCOMES, Metric, Telemetry
from oncebox.workers.mail.parser_pool import ChildDeath

COUNTERS = [
    each
    for each in vars(Telemetry).values()
    if isinstance(each, Metric) and each.kind is Counter and "source" not in each.labels
]


@pytest.mark.parametrize("metric", COUNTERS, ids=lambda metric: metric.name)
def test_every_counter_has_its_series_from_the_beginning(metric: Metric[Counter]) -> None:
    lines = [
        line
        for line in Telemetry().scrape().splitlines()
        if line.startswith(f"{metric.name}_total")
    ]

    assert lines
    assert all(line.endswith(" 0.0") for line in lines)
    assert len(lines) == max(1, len({*metric.known}))


def test_a_source_has_its_series_as_soon_as_it_is_expected() -> None:
    telemetry = Telemetry()
    telemetry.expect_source("shop")
    telemetry.settled.labels("shop", "held").inc()
    telemetry.expect_source("shop")
    lines = [line for line in telemetry.scrape().splitlines() if 'source="shop"' in line]

    assert 'oncebox_settled_total{outcome="held",source="shop"} 1.0' in lines
    assert len([line for line in lines if line.endswith(" 0.0")]) == (
        len(SETTLED_OUTCOMES) - 1 + len(COUNTED_STATES) + 3
    )


def test_the_causes_of_death_are_known() -> None:
    assert {cause for (cause,) in Telemetry.__dict__["parser_deaths"].known} == {*ChildDeath}
