"""SMTP out against a real server that fails at every step: what is said is what is known."""

import asyncio
import socket

import pytest

from oncebox.core import clock, faults
from oncebox.errors import ConfigInvalid
from oncebox.model.sends.transports import (
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
)
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import GREYLIST_RETRY_MS, SmtpTransport
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from tests.support.http import until
from tests.support.ports import free_port
from tests.transports.handover import MESSAGE, Marks, parcel, to


async def test_a_mail_is_taken_once_and_named(server: ScriptedSmtp, way: SmtpTransport) -> None:
    marks = Marks(server=server)

    outcome = await way.send(parcel(), marks)

    assert outcome == SendAccepted(provider_id="0000000001")
    assert (marks.asked, marks.taken) == (1, 0)
    (mail,) = server.accepted
    assert (mail.sender, mail.recipients) == ("ann@example.com", ("bob@example.net",))
    assert mail.message == MESSAGE
    assert mail.options == (f"SIZE={len(MESSAGE)}",)


@pytest.mark.parametrize("act", ["drop", "hang_up", "421", "451"])
@pytest.mark.parametrize(
    ("step", "phase"),
    [
        ("connect", SendPhase.CONNECT),
        ("hello", SendPhase.GREETED),
        ("mail", SendPhase.ENVELOPE),
        ("rcpt", SendPhase.ENVELOPE),
        ("data", SendPhase.ENVELOPE),
        ("body", SendPhase.BODY),
    ],
)
async def test_what_fails_before_the_dot_is_not_sent(
    server: ScriptedSmtp, way: SmtpTransport, act: str, step: str, phase: SendPhase
) -> None:
    server.script(f"{act}@{step}")
    # Who breaks in on the body must have time to do so before it is over.
    message = MESSAGE + (b"y" * 900 + b"\r\n") * (15_000 if step == "body" else 1)
    marks = Marks()

    outcome = await way.send(parcel(message=message), marks)

    assert isinstance(outcome, NotSent)
    assert (outcome.phase, outcome.opens_circuit) == (phase, False)
    assert server.script_is_over
    assert (marks.asked, server.accepted) == (0, [])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("451@dot", NotSent(
            code="message_deferred", phase=SendPhase.ANSWERED, reply=451,
            retry_after=GREYLIST_RETRY_MS)),
        ("421@dot", NotSent(code="message_deferred", phase=SendPhase.ANSWERED, reply=421)),
        ("452@dot", NotSent(code="message_deferred", phase=SendPhase.ANSWERED, reply=452)),
        ("554@dot", SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=554)),
        ("354@dot", SendUnknown(code="reply_unexpected", phase=SendPhase.ANSWERED, reply=354)),
        ("drop@dot", SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)),
        ("hang_up@dot", SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)),
        ("silence@dot", SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)),
    ],
)  # fmt: skip
async def test_what_is_not_taken_after_the_dot_is_told_by_the_reply_alone(
    server: ScriptedSmtp, fault: str, expected: SendOutcome
) -> None:
    server.script(fault)
    way, marks = to(server, answer_within=0.5 if "silence" in fault else 60.0), Marks()

    assert await way.send(parcel(), marks) == expected

    assert (marks.asked, server.accepted) == (1, [])
    await way.close()


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("accept_then_drop", "connection_lost"),
        ("accept_then_hang_up", "connection_lost"),
        ("accept_then_silence", "no_answer"),
        ("accept_then_sleep=30", "no_answer"),
    ],
)
async def test_a_lost_answer_leaves_an_accepted_mail_unknown(
    server: ScriptedSmtp, fault: str, code: str
) -> None:
    server.script(fault)
    way = to(server, answer_within=0.5)

    outcome = await way.send(parcel(), Marks())

    assert outcome == SendUnknown(code=code, phase=SendPhase.HANDED_OVER)
    await until(lambda: server.count("<one@example.com>") == 1)
    await way.close()


async def test_a_slow_answer_is_waited_for_beyond_the_deadline(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    server.script("accept_then_sleep=0.6")
    mail = parcel(within=2.0)

    async def late() -> bool:
        await asyncio.sleep(mail.deadline - clock.steady() - 0.3)
        return True

    assert isinstance(await way.send(mail, late), SendAccepted)
    assert clock.steady() > mail.deadline


@pytest.mark.parametrize(
    ("fault", "code", "reply"),
    [
        ("550@mail", "sender_refused", 550),
        ("550@rcpt", "recipient_refused", 550),
        ("554@data", "message_refused", 554),
    ],
)
async def test_a_refusal_of_the_mail_is_for_good(
    server: ScriptedSmtp, way: SmtpTransport, fault: str, code: str, reply: int
) -> None:
    server.script(fault)

    assert await way.send(parcel(), Marks()) == SendRejected(
        code=code, phase=SendPhase.ENVELOPE, reply=reply
    )
    assert server.accepted == []


@pytest.mark.parametrize(
    ("fault", "phase", "code"),
    [
        ("554@connect", SendPhase.CONNECT, "session_refused"),
        ("550@hello", SendPhase.GREETED, "session_refused"),
        ("530@mail", SendPhase.ENVELOPE, "login_required"),
    ],
)
async def test_a_refusal_of_us_opens_the_circuit_and_burns_no_mail(
    server: ScriptedSmtp, way: SmtpTransport, fault: str, phase: SendPhase, code: str
) -> None:
    server.always(fault)

    outcome = await way.send(parcel(), Marks())

    assert isinstance(outcome, NotSent)
    assert (outcome.phase, outcome.code, outcome.opens_circuit) == (phase, code, True)


@pytest.mark.parametrize("code", [354, 250])
async def test_a_server_that_is_somewhere_else_gets_nothing(
    server: ScriptedSmtp, way: SmtpTransport, code: int
) -> None:
    server.script(f"{code}@mail" if code == 354 else f"{code}@data")

    outcome = await way.send(parcel(), Marks())

    assert outcome == NotSent(code="reply_unexpected", phase=SendPhase.ENVELOPE, reply=code)
    assert server.accepted == []


async def test_a_server_that_breaks_in_on_the_mail_is_heard(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    server.script("552@body")
    message = MESSAGE + (b"y" * 900 + b"\r\n") * 20_000

    outcome = await way.send(parcel(message=message), Marks())

    assert outcome == SendRejected(code="message_refused", phase=SendPhase.BODY, reply=552)
    assert server.accepted == []


async def test_one_refused_recipient_is_all_refused(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    server.refuse("eve@example.net")
    recipients = ("bob@example.net", "eve@example.net", "kim@example.net")

    outcome = await way.send(parcel(recipients=recipients), Marks())

    assert outcome == SendRejected(code="recipient_refused", phase=SendPhase.ENVELOPE, reply=550)
    assert server.accepted == []
    assert "RCPT TO:<kim@example.net>" not in server.commands


async def test_without_the_marker_nothing_is_transmitted(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    marks = Marks(answer=False)

    outcome = await way.send(parcel(), marks)

    assert outcome == NotSent(code="fence_lost", phase=SendPhase.BODY)
    assert (marks.asked, server.accepted) == (1, [])
    assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    assert len(server.accepted) == 1


@pytest.mark.parametrize("error", [RuntimeError, TimeoutError])
async def test_an_error_of_the_marker_is_raised_and_nothing_is_transmitted(
    server: ScriptedSmtp, way: SmtpTransport, error: type[Exception]
) -> None:
    async def broken() -> bool:
        raise error

    with pytest.raises(error):
        await way.send(parcel(), broken)

    assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    assert len(server.accepted) == 1


async def test_a_marker_that_takes_too_long_hands_nothing_over(
    server: ScriptedSmtp, way: SmtpTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = clock.steady

    async def slow() -> bool:
        monkeypatch.setattr(clock, "steady", lambda: steady() + 3600)
        return True

    outcome = await way.send(parcel(), slow)

    assert outcome == NotSent(code="deadline_passed", phase=SendPhase.MARKED)
    assert server.accepted == []


async def test_a_line_that_is_cut_while_the_marker_commits_is_no_doubt(way: SmtpTransport) -> None:
    """The server's goodbye is heard before the dot is written, so it is not written."""
    async with _speaking("220 x", "250 x", "250 x", "250 x", "354 x") as (port, cut):
        way = SmtpTransport(Relay(host="127.0.0.1", port=port, security=RelaySecurity.NONE))

        async def cutting() -> bool:
            cut.set()
            for _ in range(50):
                await asyncio.sleep(0.005)
            return True

        outcome = await way.send(parcel(), cutting)

    assert outcome == NotSent(code="connection_lost", phase=SendPhase.MARKED)


@pytest.mark.parametrize("step", ["connect", "hello", "mail", "rcpt", "data"])
async def test_a_server_that_says_nothing_is_left_at_the_deadline(
    server: ScriptedSmtp, way: SmtpTransport, step: str
) -> None:
    server.script(f"silence@{step}")
    marks = Marks()

    outcome = await way.send(parcel(within=0.4), marks)

    assert isinstance(outcome, NotSent)
    assert (outcome.code, marks.asked, server.accepted) == ("deadline_passed", 0, [])


async def test_a_server_that_does_not_read_the_mail_is_left_at_the_deadline(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    """The body is drained before the marker is asked, so there is no doubt."""
    server.script("sleep=30@body")
    large = MESSAGE + (b"y" * 900 + b"\r\n") * 20_000
    marks = Marks()

    outcome = await way.send(parcel(within=2.0, message=large), marks)

    assert isinstance(outcome, NotSent)
    assert (outcome.code, marks.asked, server.accepted) == ("deadline_passed", 0, [])


async def test_nobody_listens() -> None:
    way = SmtpTransport(Relay(host="127.0.0.1", port=free_port(), security=RelaySecurity.NONE))

    assert await way.send(parcel(), Marks()) == NotSent(
        code="connect_failed", phase=SendPhase.CONNECT
    )


async def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nowhere, raising=False)
    way = SmtpTransport(Relay(host="mail.invalid", security=RelaySecurity.NONE))

    outcome = await way.send(parcel(), Marks())

    assert isinstance(outcome, NotSent)
    assert (outcome.code, outcome.phase) == ("host_not_found", SendPhase.CONNECT)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (["rubbish"], NotSent(code="reply_unreadable", phase=SendPhase.CONNECT)),
        (["220 x", "250 x", "rubbish"], NotSent(code="reply_unreadable", phase=SendPhase.ENVELOPE)),
        (
            ["220 x", "250 x", "250-a\r\n251 b"],
            NotSent(code="reply_unreadable", phase=SendPhase.ENVELOPE),
        ),
        (
            ["220 x", "250 x", "250 x\r\n421 bye"],
            NotSent(code="recipient_deferred", phase=SendPhase.ENVELOPE, reply=421),
        ),
        (
            ["220 x", "250 x", "250 x", "250 x", "354 x", "250" + "x" * 9000],
            SendUnknown(code="reply_unreadable", phase=SendPhase.HANDED_OVER),
        ),
        (
            ["220 x", "250 x", "250 x", "250 x", "354 x", "rubbish"],
            SendUnknown(code="reply_unreadable", phase=SendPhase.HANDED_OVER),
        ),
        (
            ["220 x", "250 x", "250 x", "250 x", "354 x", "250-a\r\n250-b\r\n250 id=abcdef"],
            SendAccepted(provider_id="abcdef"),
        ),
        (["220 x", "250 x", "250 x", "250 x", "354 x", "250"], SendAccepted()),
    ],
)
async def test_what_is_no_reply_is_no_answer(said: list[str], outcome: SendOutcome) -> None:
    async with _speaking(*said) as (port, _):
        way = SmtpTransport(Relay(host="127.0.0.1", port=port, security=RelaySecurity.NONE))

        assert await way.send(parcel(), Marks()) == outcome

        await way.close()


async def test_a_cancelled_mail_is_cut_off_and_not_ended(
    server: ScriptedSmtp, way: SmtpTransport
) -> None:
    asked = asyncio.Event()

    async def endless() -> bool:
        asked.set()
        await asyncio.sleep(60)
        return True

    sending = asyncio.create_task(way.send(parcel(), endless))
    await asked.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    assert (len(server.accepted), server.connections) == (1, 2)


@pytest.mark.parametrize(
    ("point", "asked", "taken"),
    [
        ("sends.connected", 0, 0),
        ("sends.body_drained", 0, 0),
        ("sends.handed_over", 1, 1),
        ("sends.reply_read", 1, 1),
    ],
)
async def test_a_crash_at_a_point_finds_the_mail_where_its_name_says(
    server: ScriptedSmtp, way: SmtpTransport, point: str, asked: int, taken: int
) -> None:
    marks = Marks()
    faults.arm(f"{point}:1:raise")
    try:
        with pytest.raises(faults.InjectedFault):
            await way.send(parcel(), marks)
    finally:
        faults.disarm()

    # What was handed over is taken in its own time.
    await until(lambda: len(server.accepted) >= taken)
    await way.send(parcel(), Marks())
    assert (marks.asked, len(server.accepted)) == (asked, taken + 1)


@pytest.mark.parametrize(
    "relay",
    [
        Relay(host=""),
        Relay(host="mail.example.com\r\nx"),
        Relay(host="mail..example.com"),
        Relay(host="mail.example.com", name=""),
        Relay(host="mail.example.com", name="a\r\nMAIL FROM:<x@y>"),
        Relay(host="mail.example.com", security=RelaySecurity.NONE, username="u", password="p"),
    ],
)
def test_a_relay_that_cannot_be_used_is_refused_at_once(relay: Relay) -> None:
    with pytest.raises(ConfigInvalid):
        SmtpTransport(relay)


def test_no_secret_and_no_address_is_shown() -> None:
    relay = Relay(host="mail.example.com", username="user-1", password="hush-1")

    shown = repr(relay) + repr(parcel())

    assert not any(each in shown for each in ("user-1", "hush-1", "bob@", "ann@", "hello"))


class _speaking:  # noqa: N801 - read as a verb
    """A server that says these lines, one for each thing it hears, whatever it hears."""

    def __init__(self, *said: str) -> None:
        self._said = list(said)
        self._cut = asyncio.Event()

    async def __aenter__(self) -> tuple[int, asyncio.Event]:
        self._server = await asyncio.start_server(self._speak, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1], self._cut

    async def __aexit__(self, *_: object) -> None:
        self._cut.set()
        self._server.close()
        await self._server.wait_closed()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number, line in enumerate(self._said):
            if number:
                end = b"\r\n.\r\n" if self._said[number - 1].startswith("354") else b"\r\n"
                cut = asyncio.ensure_future(self._cut.wait())
                heard = asyncio.ensure_future(reader.readuntil(end))
                await asyncio.wait({cut, heard}, return_when=asyncio.FIRST_COMPLETED)
                cut.cancel()
                if not heard.done() or heard.exception():
                    heard.cancel()
                    break
            writer.write(line.encode() + b"\r\n")
        else:
            await self._cut.wait()
        writer.transport.abort()
