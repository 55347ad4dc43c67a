"""Short, repeatable runs of the state machine on both databases; `run.py` runs it at length."""

from tests.statemachine.run import drive
from tests.statemachine.walk import walk
from tests.support.clerk import Clerk
from tests.support.databases import Place


def test_the_ledger_keeps_its_promises_whatever_happens(place: Place) -> None:
    drive(place, examples=40 if place.kind == "sqlite" else 15, steps=40, derandomize=True)


def test_the_ledger_keeps_its_promises_on_long_walks(clerk: Clerk) -> None:
    for seed in range(20 if clerk.place.kind == "sqlite" else 8):
        walk(clerk, seed=seed, steps=100)
