"""Boxes as the torture opens them: short leases, quick polls, one master key for all."""

import base64

from oncebox.box import Oncebox
from oncebox.settings_loading import load_settings

#: Every process that opens the same database must bring the same key.
MASTER_KEY = base64.b64encode(bytes(32)).decode()


def new_box(url: str, *, lease: float = 1.0, concurrency: int = 8) -> Oncebox:
    """Return a box on this database that notices a lost worker within about one lease."""
    settings = load_settings(
        {},
        database_url=url,
        master_key=MASTER_KEY,
        connections=3,
        worker={
            "lease": lease,
            "concurrency": concurrency,
            "poll": 0.2,
            "handler_limit": 30.0,
            "stop_within": 5.0,
        },
        retry={"first_wait": 0.05, "longest_wait": 0.2},
    )
    return Oncebox(settings=settings, migrate=True)
