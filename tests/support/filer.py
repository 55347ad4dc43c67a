"""A process that files the mail of a database and ends: ``python -m tests.support.filer URL``."""

import asyncio
import sys

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from tests.support.databases import Place
from tests.support.program import settings

_LEFT = """
SELECT COUNT(*) FROM oncebox_deliveries
WHERE source = '@mail' AND state IN ('received', 'processing', 'failed')
"""


async def main(url: str) -> None:
    """Work until no mail is left."""
    place = Place(url.partition(":")[0].removesuffix("ql"), url)
    box = Oncebox(settings=settings(place, worker={"lease": 0.4}))
    await box.open()
    box._start_workers()
    while await box.components.database.read(_left):  # noqa: ASYNC110 - it rings no bell
        await asyncio.sleep(0.02)
    await box.close()


def _left(tx: Transaction) -> int:
    ((count,),) = tx.execute(_LEFT)
    return int(count)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
