"""Metrics begin at zero: an increase from nothing is none, and no alert would fire."""

import ast
from pathlib import Path

import pytest
from prometheus_client import Counter

import oncebox
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


def test_every_use_of_a_metric_gives_all_its_labels() -> None:
    """One too few is an exception where an error is counted, and ends the task that met it."""
    declared = {
        name: len(each.labels) for name, each in vars(Telemetry).items() if isinstance(each, Metric)
    }
    calls = (
        (path.name, node)
        for path in Path(oncebox.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".labels")
    )
    found = [(file, node, ast.unparse(node.func).split(".")[-2]) for file, node in calls]
    wrong = [
        f"{file}:{node.lineno}: {name}"
        for file, node, name in found
        if name in declared and not any(isinstance(each, ast.Starred) for each in node.args)
        if len(node.args) != declared[name]
    ]

    assert len(found) > 50
    assert wrong == []
