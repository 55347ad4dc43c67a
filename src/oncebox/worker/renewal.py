"""Renewal: leases are looked at again and again, whatever a look meets."""

import asyncio
from collections.abc import Awaitable, Callable

from oncebox.errors import StoreError
from oncebox.telemetry import Telemetry

#: seconds between two looks, at most
LOOK_EVERY = 0.25


async def keep_renewing(
    renew: Callable[[], Awaitable[None]], lease: float, telemetry: Telemetry
) -> None:
    """Renew what gets old, several times in a lease, until cancelled."""
    while True:
        await asyncio.sleep(min(LOOK_EVERY, lease / 6))
        try:
            await renew()
        except StoreError as error:
            telemetry.store_errors.labels(error.code).inc()
        except Exception:
            # All who hold a lease depend on this; the next look may go better.
            telemetry.log.exception("renewal_stumbled")
