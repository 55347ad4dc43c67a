"""Periodic renewal of leases."""

import asyncio
from collections.abc import Awaitable, Callable

from oncebox.core.metrics import Telemetry
from oncebox.errors import StoreError

#: seconds between two renewals, at most
RENEW_EVERY = 0.25
#: seconds in which a stopping worker gives its work back; after that, its leases expire
RELEASE_WITHIN = 10.0


async def renew_periodically(
    renew: Callable[[], Awaitable[None]], lease: float, telemetry: Telemetry
) -> None:
    """Call ``renew`` several times per lease, until cancelled."""
    while True:
        await asyncio.sleep(min(RENEW_EVERY, lease / 6))
        try:
            await renew()
        except StoreError as error:
            telemetry.count_store_error("leases", error)
        except Exception:
            # All leases depend on this; the next renewal may succeed.
            telemetry.log.exception("lease_renewal_failed")
