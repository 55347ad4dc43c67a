"""Open lines to a relay: used again, checked before, never more than allowed."""

import asyncio

import pytest

from oncebox.model.sends.transports import NotSent, SendAccepted, SendPhase
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import SmtpTransport
from tests.support.http import until
from tests.support.ports import free_port
from tests.transports.handover import Marks, parcel, to


async def test_an_open_line_is_used_again_after_it_was_checked(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    server.script("ok", "451@rcpt", "550@dot")

    for _ in range(5):
        await way.send(parcel(), Marks())

    assert (server.connections, len(server.accepted)) == (1, 3)
    assert server.commands.count("RSET") == 4


@pytest.mark.parametrize("fault", ["421@dot", "drop@dot", "drop@body", "421@rcpt"])
async def test_a_line_that_broke_is_not_used_again(
    server: ScriptedSmtp, way: SmtpTransport, fault: str
) -> None:
    server.script(fault)
    await way.send(parcel(), Marks())

    assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    assert (server.connections, len(server.accepted)) == (2, 1)


async def test_a_line_that_was_closed_meanwhile_costs_no_mail() -> None:
    port = free_port()
    async with ScriptedSmtp(port=port) as first:
        way = to(first)
        assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    async with ScriptedSmtp(port=port) as second:
        assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
        assert len(second.accepted) == 1
        await way.close()


async def test_a_line_that_nobody_needs_is_closed(server: ScriptedSmtp) -> None:
    way = to(server, idle=0.05)
    await way.send(parcel(), Marks())

    await until(lambda: "QUIT" in server.commands)
    await way.close()


async def test_no_more_lines_are_open_than_allowed(server: ScriptedSmtp) -> None:
    way = to(server, most_connections=2)

    outcomes = await asyncio.gather(*(way.send(parcel(), Marks()) for _ in range(20)))

    assert all(isinstance(each, SendAccepted) for each in outcomes)
    assert (server.connections, len(server.accepted)) == (2, 20)
    await way.close()


async def test_waiting_for_a_line_ends_at_the_deadline(server: ScriptedSmtp) -> None:
    server.script("sleep=5@mail")
    way = to(server, most_connections=1)
    first = asyncio.create_task(way.send(parcel(), Marks()))
    await asyncio.sleep(0)

    outcome = await way.send(parcel(within=0.2), Marks())

    assert outcome == NotSent(code="deadline_passed", phase=SendPhase.CONNECT)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await way.close()
