"""Metrics: one scrape tells what came, what was repeated, what was refused and how it ended."""

import asyncio

import pytest

from oncebox.errors import InputRefused, Permanent, Transient
from oncebox.model.deliveries.delivery import Allow, Delivery, Drop, Hold
from oncebox.workers.deliveries.once import Once
from tests.support.databases import Place
from tests.support.program import SOURCE, Program


@pytest.fixture
def program(place: Place) -> Program:
    program = Program(place, retry={"tries": 2})

    @program.box.policy(SOURCE)
    async def policy(delivery: Delivery) -> Allow | Hold | Drop:
        rulings: dict[str, Hold | Drop] = {"hold": Hold("x"), "drop": Drop("x")}
        return rulings.get(delivery.type, Allow())

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        if delivery.type == "permanent":
            raise Permanent
        if delivery.type == "hopeless":
            raise RuntimeError
        await once.do("effect", _effect, delivery)
        if delivery.tries == 1 and delivery.type == "again":
            raise Transient

    return program


async def _effect(delivery: Delivery) -> None:
    if delivery.type == "doubt":
        raise OSError


async def test_one_scrape_tells_what_happened(program: Program) -> None:
    async with program.running():
        for number, type_ in enumerate(
            ["", "", "", "again", "permanent", "hopeless", "hold", "drop", "doubt"]
        ):
            await program.handled(str(number), type=type_)
        await program.accept("0")
        await program.accept("1")
        await program.accept("2", body=b"other")
        for body in (b"x" * 1001, b"y" * 1002):
            with pytest.raises(InputRefused):
                await program.accept("big", body=body)
        with pytest.raises(InputRefused):
            await program.accept("")
        await program.until(lambda: program.metric("oncebox_in_flight") == 0)

        metric = program.metric
        assert metric("oncebox_accepted_total", source=SOURCE) == 9
        duplicates = "oncebox_duplicates_total"
        assert metric(duplicates, layer="delivery", **{"class": "provider_retry"}) == 2
        assert metric(duplicates, layer="delivery", **{"class": "conflict"}) == 1
        assert metric("oncebox_refused_total", code="body_too_large") == 2
        assert metric("oncebox_refused_total", code="key_invalid") == 1
        settled = {
            outcome: metric("oncebox_settled_total", source=SOURCE, outcome=outcome)
            for outcome in ("handled", "failed", "permanent", "tries_used_up", "held", "dropped")
        }
        assert settled == {
            "handled": 4,
            "failed": 3,
            "permanent": 1,
            "tries_used_up": 1,
            "held": 3,  # one of them is the conflict, which was held on arrival
            "dropped": 1,
        }
        effects = {
            outcome: metric("oncebox_effects_total", outcome=outcome)
            for outcome in ("called", "returned", "in_doubt")
        }
        assert effects == {"called": 4, "returned": 1, "in_doubt": 1}
        assert metric("oncebox_handler_seconds_count", source=SOURCE) == 12
        assert metric("oncebox_lease_conflicts_total") == 0


async def test_shared_commits_are_counted_by_size(program: Program) -> None:
    async with program.running():
        ids = await asyncio.gather(*(program.accept(str(number)) for number in range(50)))
        await program.ended(*ids)
        await program.until(lambda: program.metric("oncebox_in_flight") == 0)

        assert program.metric("oncebox_commit_rows_sum", group="accept") == 50
        assert program.metric("oncebox_commit_rows_count", group="accept") < 50
        assert program.metric("oncebox_commit_rows_sum", group="settle") == 50


async def test_nothing_a_sender_wrote_enters_a_metric(program: Program) -> None:
    async with program.running():
        await program.handled("secret-key", body=b"secret-body", type="permanent")
        await program.accept("secret-key", body=b"secret-other")

        assert "secret" not in program.box.metrics()


async def test_each_box_counts_for_itself(place: Place, program: Program) -> None:
    other = Program(place)
    async with program.running(), other.running():
        await program.handled()

        assert other.metric("oncebox_accepted_total", source=SOURCE) == 0


async def test_every_series_of_a_handled_source_begins_at_zero(program: Program) -> None:
    async with program.running():
        lines = program.box.metrics().splitlines()

    for name in (
        f'oncebox_accepted_total{{source="{SOURCE}"}}',
        f'oncebox_settled_total{{outcome="tries_used_up",source="{SOURCE}"}}',
        f'oncebox_settled_total{{outcome="held",source="{SOURCE}"}}',
        f'oncebox_deliveries{{source="{SOURCE}",state="dead"}}',
        'oncebox_accepted_total{source="@mail"}',
        'oncebox_store_errors_total{code="disk_full",path="webhook"}',
        'oncebox_rejected_total{class="wrong_source"}',
        'oncebox_http_requests_total{route="/in/",status="503"}',
    ):
        assert f"{name} 0.0" in lines


async def test_the_free_space_of_the_disk_is_a_metric(program: Program) -> None:
    async with program.running():
        assert program.metric("oncebox_free_disk_bytes") > 0
