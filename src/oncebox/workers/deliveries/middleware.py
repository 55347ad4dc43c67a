"""Middleware of delivery workers: functions around the processing of one delivery."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from oncebox.model.deliveries.delivery import Delivery, Settlement

#: processes one delivery; None if its lease was lost
Process = Callable[[Delivery], Awaitable[Settlement | None]]
#: processes one delivery by calling the next function of the chain, or ends it itself
Middleware = Callable[[Process, Delivery], Awaitable[Settlement | None]]


class DeliveryProcessor(Protocol):
    """Turns a claimed delivery into a settlement."""

    @property
    def process(self) -> Process:
        """Runs one try; errors become settlements by ``settle_failure``."""

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that a try may take; None is the worker's own limit."""

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return the settlement of a failed try."""


def compose(middleware: Sequence[Middleware], process: Process) -> Process:
    """Return a function that calls the middleware in order and ``process`` at the end."""
    for each in reversed(middleware):
        process = partial(each, process)
    return process
