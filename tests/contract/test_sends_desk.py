"""The desk of sends: many callers, few commits, one mail each."""

import asyncio
from collections import Counter

import msgspec

from oncebox.errors import DatabaseClosed
from oncebox.ledger.sends.desk import SendDesk
from oncebox.ledger.sends.leases import SendClaimant
from oncebox.model.send import Answer, Intended, Marker, SendState, SendWord
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.mailer import RELAY, TAKEN, Mailer, repeat_of

_WHO = SendClaimant(TENANT, RELAY, "ann", LEASE)
KEYS, CALLERS = 8, 6


async def test_many_callers_of_few_keys_get_one_send_each(clerk: Clerk, database: Database) -> None:
    mailer, desk = Mailer(clerk), SendDesk(database, Telemetry())
    news = [mailer.new(f"key {n % KEYS}") for n in range(KEYS * CALLERS)]
    answers = await asyncio.gather(*map(desk.intend, news))
    told = [each for each in answers if isinstance(each, Intended)]

    assert Counter(each.created for each in told) == {
        True: KEYS,
        False: KEYS * (CALLERS - 1),
    }
    assert len({each.send.message_id for each in told}) == KEYS
    claimed = await asyncio.gather(*(desk.claim(_WHO, 5) for _ in range(4)))
    assert sorted(each.send.fence for some in claimed for each in some) == [1] * KEYS


async def test_a_send_goes_its_way_in_three_commits(clerk: Clerk, database: Database) -> None:
    mailer, desk = Mailer(clerk), SendDesk(database, Telemetry())
    new = mailer.new()
    assert await desk.repeat(repeat_of(new)) is None
    await desk.intend(new)
    ((send, _, _),) = (msgspec.structs.astuple(each) for each in await desk.claim(_WHO, 9))
    until = database.clock() + LEASE
    marker = Marker(tenant=TENANT, id=send.id, fence=send.fence, until=until)

    assert await desk.renew(marker)
    assert await desk.begin(marker)
    assert not await desk.begin(marker)
    word = SendWord(tenant=TENANT, id=send.id, fence=1, outcome=TAKEN, transport=RELAY)
    settled = await desk.settle(word)
    assert settled is not None
    assert (settled.counted, settled.send.state) == (True, SendState.SENT)
    again = await desk.repeat(repeat_of(mailer.new()))
    assert again is not None
    assert again.answer is Answer.DUPLICATE


async def test_who_asks_while_the_desk_closes_is_told(clerk: Clerk, database: Database) -> None:
    mailer, desk = Mailer(clerk), SendDesk(database, Telemetry())
    asking = [asyncio.create_task(desk.repeat(repeat_of(mailer.new(key)))) for key in "ab"]
    await asyncio.sleep(0)
    asking.append(asyncio.create_task(desk.repeat(repeat_of(mailer.new("c")))))
    await asyncio.sleep(0)
    await desk.close()

    async with asyncio.timeout(5):
        told = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in told] == [DatabaseClosed] * 3
