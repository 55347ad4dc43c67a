"""FanOut: turns numbered events into deliveries to endpoints, any number of processes at a time.

The cursor of a tenant advances in the commit that stores the deliveries; who is too late stores
nothing.
"""

from oncebox.core import faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import LeaseLost, StoreError
from oncebox.ledger.endpoints import endpoints
from oncebox.ledger.notifications import DUE, STREAM
from oncebox.ledger.transactions import Ledger

#: seconds between two looks, at most
_POLL = 1.0


class FanOut:
    """Stores the deliveries of new events."""

    def __init__(self, ledger: Ledger, telemetry: Telemetry) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._numbered = ledger.subscribe(STREAM)

    async def run(self) -> None:
        """Store the deliveries of new events until cancelled."""
        while True:
            try:
                await self.fan_out()
            except StoreError as error:
                self._telemetry.count_store_error("endpoints", error)
            except Exception:
                # Endpoints depend on this; the next round may succeed.
                self._telemetry.log.exception("fan_out_failed")
            await self._numbered.wait(_POLL)

    async def fan_out(self) -> int:
        """Store the deliveries of all events that are numbered; return how many.

        Raises: StoreError.
        """
        stored = 0
        for tenant in await self._ledger.read(endpoints.tenants_behind):
            stored += await self._fan_out_tenant(tenant)
        return stored

    async def _fan_out_tenant(self, tenant: str) -> int:
        stored, has_more = 0, True
        while has_more:
            try:
                done = await self._ledger.write(endpoints.fan_out, tenant, self._ledger.clock())
            except LeaseLost:
                return stored  # another process is at it
            faults.point("endpoints.fanned-out")
            if done.missed:
                self._telemetry.endpoint_events_missed.inc(done.missed)
                self._telemetry.log.error(
                    "endpoint_events_missed", tenant=tenant, events=done.missed
                )
            if done.deliveries:
                self._ledger.notify(DUE)
            stored, has_more = stored + done.deliveries, done.has_more
        return stored
