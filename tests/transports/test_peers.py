"""Other people's servers take our mail: aiosmtpd, and Postfix as a relay with its answers cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import SMTP, Envelope, Session

from oncebox.model.sends.transports import (
    NotSent,
    SendAccepted,
    SendPhase,
    SendRejected,
    SendUnknown,
)
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import SmtpTransport
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from tests.support.http import until
from tests.support.ports import free_port
from tests.support.postfix import Postfix
from tests.transports.handover import MESSAGE, Marks, parcel


class Shelf:
    """Keeps what aiosmtpd takes, and refuses some of it."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's word
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("nobody@"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - as above
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.envelopes.append(envelope)
        return "250 OK"


def way_to(port: int) -> SmtpTransport:
    return SmtpTransport(Relay(host="127.0.0.1", port=port, security=RelaySecurity.NONE))


async def test_aiosmtpd_takes_our_mail() -> None:
    shelf, port = Shelf(), free_port()
    controller = UnthreadedController(
        shelf, hostname="127.0.0.1", port=port, loop=asyncio.get_running_loop(),
        enable_SMTPUTF8=True,
    )  # fmt: skip
    server = await controller._create_server()
    large = MESSAGE + (b"." * 900 + b"\r\n") * 3000
    way = way_to(port)
    try:
        outcomes = [await way.send(parcel(message=each), Marks()) for each in (MESSAGE, large)]
        refused = await way.send(parcel(recipients=("nobody@example.net",)), Marks())
        utf8 = await way.send(parcel(recipients=("jürgen@example.net",)), Marks())
    finally:
        await way.close()
        server.close()
        await server.wait_closed()

    assert outcomes == [SendAccepted(), SendAccepted()]
    assert refused == SendRejected(code="recipient_refused", phase=SendPhase.ENVELOPE, reply=550)
    assert utf8 == SendAccepted()
    assert [each.content for each in shelf.envelopes] == [MESSAGE, large, MESSAGE]


async def test_postfix_takes_our_mail_and_hands_it_on() -> None:
    async with ScriptedSmtp() as target:
        with Postfix.relaying(target.port) as relay:
            way = way_to(relay.port)
            outcomes = [
                await way.send(
                    parcel(recipients=("a@example.net", "b@example.net")), Marks()
                )
                for _ in range(3)
            ]  # fmt: skip
            await way.close()
            await until(lambda: len(target.accepted) == 3, within=60)
            log = relay.log()

    for outcome in outcomes:
        assert isinstance(outcome, SendAccepted)
        # Its name for the mail leads to its log.
        assert outcome.provider_id
        assert f"{outcome.provider_id}: from=<ann@example.com>" in log
    text = MESSAGE.partition(b"\r\n\r\n")[2]
    assert all(mail.message.endswith(b"\r\n\r\n" + text) for mail in target.accepted)


async def test_postfix_that_answers_451_has_not_taken_it() -> None:
    later = "check_sender_access inline:{{%s=451 4.7.1 come back later}}"
    with Postfix.discarding(
        smtpd_sender_restrictions=later % "early@example.com",
        smtpd_end_of_data_restrictions=later % "late@example.com",
    ) as relay:
        way, marks = way_to(relay.port), Marks()
        early = await way.send(parcel(sender="early@example.com"), marks)
        asked = marks.asked
        late = await way.send(parcel(sender="late@example.com"), marks)
        taken = await way.send(parcel(), marks)
        await way.close()

    # Postfix waits for the recipient before it says what it thinks of the sender.
    assert early == NotSent(
        code="recipient_deferred", phase=SendPhase.ENVELOPE, reply=451, retry_after=300_000
    )
    assert late == NotSent(
        code="message_deferred", phase=SendPhase.ANSWERED, reply=451, retry_after=300_000
    )
    assert (asked, marks.asked) == (0, 2)
    assert isinstance(taken, SendAccepted)


async def test_postfix_cut_after_the_dot_leaves_the_mail_unknown_although_it_went_out() -> None:
    async with ScriptedSmtp() as target:
        with Postfix.relaying(target.port) as relay:
            async with _cutting(relay.port) as port:
                way, marks = way_to(port), Marks()
                outcome = await way.send(parcel(), marks)
                await way.close()
            await until(lambda: len(target.accepted) == 1, within=60)

    assert outcome == SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)
    assert marks.asked == 1


@asynccontextmanager
async def _cutting(upstream: int) -> AsyncIterator[int]:
    """Stand before a mail server and lose its answer to the dot, and the line with it."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, out = await asyncio.open_connection("127.0.0.1", upstream)
        ended = False

        async def forth() -> None:
            nonlocal ended
            while data := await reader.read(65_536):
                ended = ended or data.endswith(b".\r\n")
                out.write(data)

        passing = asyncio.create_task(forth())
        while data := await back.read(65_536):
            if ended:
                break
            writer.write(data)
        passing.cancel()
        out.close()
        writer.transport.abort()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
