"""Concurrent callers share commits, and each key is one send."""

import asyncio
from collections import Counter

import msgspec

from oncebox.db.database import Database
from oncebox.errors import DatabaseClosed
from oncebox.ledger.sends import lifecycle, submission
from oncebox.ledger.sends.lifecycle import SendClaimant
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends.send import AnswerStatus, IntentAccepted, SendMarker, SendReport, SendState
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.mailer import RELAY, TAKEN, Mailer, repeat_of

_WHO = SendClaimant(TENANT, RELAY, "ann", LEASE)
KEYS, CALLERS = 8, 6


async def test_many_callers_of_few_keys_get_one_send_each(clerk: Clerk, database: Database) -> None:
    mailer, ledger = Mailer(clerk), Ledger(database)
    news = [mailer.new(f"key {n % KEYS}") for n in range(KEYS * CALLERS)]
    answers = await asyncio.gather(
        *(ledger.submit(submission.store_intents, each) for each in news)
    )
    told = [each for each in answers if isinstance(each, IntentAccepted)]

    assert Counter(each.created for each in told) == {
        True: KEYS,
        False: KEYS * (CALLERS - 1),
    }
    assert len({each.send.message_id for each in told}) == KEYS
    now = ledger.clock()
    claims = (ledger.write(lifecycle.claim, _WHO, 5, now) for _ in range(4))
    claimed = await asyncio.gather(*claims)
    assert sorted(each.send.fence for some in claimed for each in some) == [1] * KEYS


async def test_a_send_goes_its_way_in_three_commits(clerk: Clerk, database: Database) -> None:
    mailer, ledger = Mailer(clerk), Ledger(database)
    new = mailer.new()
    existing = ledger.shared(submission.find_existing)
    assert await existing.read(repeat_of(new)) is None
    await ledger.submit(submission.store_intents, new)
    claimed = await ledger.write(lifecycle.claim, _WHO, 9, ledger.clock())
    ((send, _, _),) = (msgspec.structs.astuple(each) for each in claimed)
    until = ledger.clock() + LEASE
    marker = SendMarker(tenant=TENANT, id=send.id, fence=send.fence, until=until)

    assert await ledger.submit(lifecycle.renew, marker)
    assert await ledger.submit(lifecycle.mark_sending, marker)
    assert not await ledger.submit(lifecycle.mark_sending, marker)
    word = SendReport(tenant=TENANT, id=send.id, fence=1, outcome=TAKEN, transport=RELAY)
    settled = await ledger.submit(lifecycle.settle, word)
    assert settled is not None
    assert (settled.counted, settled.send.state) == (True, SendState.SENT)
    again = await existing.read(repeat_of(mailer.new()))
    assert again is not None
    assert again.status is AnswerStatus.DUPLICATE


async def test_shared_read_answers_all_callers_when_the_ledger_closes(
    clerk: Clerk, database: Database
) -> None:
    mailer, ledger = Mailer(clerk), Ledger(database)
    existing = ledger.shared(submission.find_existing)
    asking = [asyncio.create_task(existing.read(repeat_of(mailer.new(key)))) for key in "ab"]
    await asyncio.sleep(0)
    asking.append(asyncio.create_task(existing.read(repeat_of(mailer.new("c")))))
    await asyncio.sleep(0)
    await existing.close()

    async with asyncio.timeout(5):
        told = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(each) for each in told] == [DatabaseClosed] * 3
