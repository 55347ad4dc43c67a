"""Those who work are loaded after the first answer, and a stop meanwhile is heard."""

import asyncio
from pathlib import Path

from oncebox.box import Oncebox
from oncebox.settings import Settings


async def test_a_stop_while_the_crew_is_loaded_is_heard(tmp_path: Path) -> None:
    box = Oncebox(settings=Settings(data_dir=str(tmp_path)))
    await box.open()
    working = asyncio.create_task(box.work())
    await asyncio.sleep(0)
    box.stop_working()
    async with asyncio.timeout(60):
        await working

    assert box._workers == []
    await box.close()
