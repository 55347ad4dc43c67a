"""An answer means that a mail is on disk: while nothing can be committed, nothing is answered."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncebox.db.database import Transaction
from tests.support.databases import Place
from tests.support.mail import PLAIN, stored, storing

#: seconds in which an answer that waits for nothing would have come long ago
MOMENT = 0.4
LARGE = PLAIN * 40_000


@contextmanager
def _locked(place: Place) -> Iterator[None]:
    """Keep everybody else from writing deliveries."""
    has_begun, may_end = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        if place.kind == "postgres":
            tx.execute("LOCK TABLE oncebox_deliveries, oncebox_payloads IN EXCLUSIVE MODE")
        else:
            tx.execute("UPDATE oncebox_streams SET last = last")
        has_begun.set()
        may_end.wait(30)

    def run() -> None:
        session = place.session()
        session.run(hold)
        session.close()

    thread = threading.Thread(target=run)
    thread.start()
    has_begun.wait(10)
    try:
        yield
    finally:
        may_end.set()
        thread.join()


@pytest.mark.parametrize("mail", [PLAIN, LARGE], ids=["small", "large"])
async def test_no_answer_comes_before_the_commit(place: Place, tmp_path: Path, mail: bytes) -> None:
    database = place.open()
    async with storing(database, tmp_path) as server:
        line = await server.line()
        await line.begin("a@oncebox.test", "b@oncebox.test")
        with _locked(place):
            line.send(mail + b".\r\n")
            answer = asyncio.create_task(line.reply(within=30))
            await asyncio.sleep(MOMENT)
            answered_early = answer.done()
        said = await answer
        found = await database.read(stored)
        line.close()
    await database.close()

    assert not answered_early
    assert said.startswith("250 ")
    assert [each.body for each in found] == [mail, mail]
