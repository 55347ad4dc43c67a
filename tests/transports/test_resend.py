"""Resend out against a server that fails at every step: what is said is what is known."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.core import clock, faults
from oncebox.core.egress import Egress, EgressResponse
from oncebox.errors import ConfigInvalid
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.transports import (
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
)
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.resend import Resend as AsResend
from oncebox.transports import resend
from oncebox.transports.resend import ResendConfig, ResendTransport, judge_response
from oncebox.transports.transport import deadline_timeout
from tests.support import certificates
from tests.support.ports import free_port
from tests.transports.handover import Marks, parcel

KEY = "re_secret"
#: read once: loading certificates takes longer than most tests
TLS = ssl.create_default_context()


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    """A provider without a script."""
    async with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
async def way(provider: ScriptedProvider) -> AsyncIterator[ResendTransport]:
    """The way to it."""
    way = to(provider.url)
    yield way
    await way.close()


def to(url: str, answer_within: float = 20.0) -> ResendTransport:
    egress = Egress(local=[url.removeprefix("http://")], tls=TLS)
    return ResendTransport(
        ResendConfig(api_key=KEY, url=url), egress=egress, answer_within=answer_within
    )


async def test_a_mail_is_taken_once_and_named(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    marks = Marks(server=provider)

    outcome = await way.send(parcel(provider_key="key"), marks)

    (taken,) = provider.accepted
    assert outcome == SendAccepted(provider_id=taken.id)
    assert (marks.asked, marks.taken) == (1, 0)
    assert (taken.key, taken.message_id) == ("key", "<one@example.com>")
    assert taken.tags == {"oncebox": "snd_1"}
    assert provider.received[0].headers["authorization"] == f"Bearer {KEY}"


async def test_everything_of_a_mail_arrives(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    picture = Attachment(name="a.png", content=b"\x89PNG", media_type="image/png", content_id="a")
    email = Email(
        sender="Änn <ann@example.com>", to=("bob@example.net", "kim@example.net"),
        cc="lee@example.net", bcc="eve@example.net", reply_to="desk@example.com", subject="Grüße",
        text="hello", html="<p>hello", headers={"X-Ref": "7"}, attachments=(picture,),
        unsubscribe="https://example.com/u",
    )  # fmt: skip

    await way.send(parcel(email=email), Marks())

    assert provider.accepted[0].payload == {
        "from": "Änn <ann@example.com>",
        "to": ["bob@example.net", "kim@example.net"],
        "cc": ["lee@example.net"],
        "bcc": ["eve@example.net"],
        "reply_to": ["desk@example.com"],
        "subject": "Grüße",
        "text": "hello",
        "html": "<p>hello",
        "headers": {
            "Message-ID": "<one@example.com>",
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": "<https://example.com/u>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "X-Ref": "7",
        },
        "attachments": [
            {
                "filename": "a.png",
                "content": "iVBORw==",
                "content_type": "image/png",
                "content_id": "a",
            }
        ],
        "tags": [{"name": "oncebox", "value": "snd_1"}],
    }


async def test_an_answer_says_that_it_is_one(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    asked = {"In-Reply-To": "<asked@example.net>"}
    email = Email(
        sender="ann@example.com", to="bob@example.net", subject="x", text="x", headers=asked
    )

    await way.send(parcel(email=email), Marks())

    assert provider.accepted[0].payload["headers"]["Auto-Submitted"] == "auto-replied"


async def test_one_click_needs_an_address_that_can_be_posted_to(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    email = Email(
        sender="ann@example.com", to="bob@example.net", subject="x", html="<p>x",
        unsubscribe="mailto:u@example.com",
    )  # fmt: skip

    await way.send(parcel(email=email), Marks())

    payload = provider.accepted[0].payload
    assert payload["headers"]["List-Unsubscribe"] == "<mailto:u@example.com>"
    assert "List-Unsubscribe-Post" not in payload["headers"]
    assert "text" not in payload


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("accept_then_drop", SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)),
        ("accept_then_hang_up", SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)),
        ("accept_then_500", SendUnknown(code="server_error", phase=SendPhase.ANSWERED, reply=500)),
        ("accept_then_garbage",
         SendUnknown(code="answer_unreadable", phase=SendPhase.ANSWERED, reply=200)),
        ("drop", SendUnknown(code="connection_lost", phase=SendPhase.HANDED_OVER)),
        ("503", SendUnknown(code="server_error", phase=SendPhase.ANSWERED, reply=503)),
        ("200_garbage", SendUnknown(code="answer_unreadable", phase=SendPhase.ANSWERED, reply=200)),
        ("307", SendUnknown(code="answer_unexpected", phase=SendPhase.ANSWERED, reply=307)),
        ("409_concurrent", SendUnknown(code="key_in_use", phase=SendPhase.ANSWERED, reply=409)),
        ("409_mismatch", SendUnknown(code="key_mismatch", phase=SendPhase.ANSWERED, reply=409)),
        ("429", NotSent(code="rate_limited", phase=SendPhase.ANSWERED, reply=429)),
        ("429(2)", NotSent(
            code="rate_limited", phase=SendPhase.ANSWERED, reply=429, retry_after=2000)),
        ("reject(422)", SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=422)),
        ("reject(400)", SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=400)),
        ("reject(413)", SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=413)),
        ("reject(451)", SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=451)),
        ("reject(401)", NotSent(
            code="login_refused", phase=SendPhase.ANSWERED, reply=401, opens_circuit=True)),
        ("reject(403)", NotSent(
            code="login_refused", phase=SendPhase.ANSWERED, reply=403, opens_circuit=True)),
    ],
)  # fmt: skip
async def test_an_answer_means_what_is_written(
    provider: ScriptedProvider, way: ResendTransport, fault: str, expected: SendOutcome
) -> None:
    provider.script(fault)
    marks = Marks()

    assert await way.send(parcel(), marks) == expected
    assert (marks.asked, len(provider.accepted)) == (1, int("accept" in fault))
    assert (len(provider.received), provider.script_is_over) == (1, True)


@pytest.mark.parametrize("fault", ["silence", "accept_then_silence", "accept_then_sleep(60)"])
async def test_who_never_answers_leaves_a_mail_in_doubt(
    provider: ScriptedProvider, fault: str
) -> None:
    provider.script(fault)
    way = to(provider.url, answer_within=0.3)

    outcome = await way.send(parcel(), Marks())

    assert outcome == SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)
    await way.close()


async def test_a_repeat_is_the_same_bytes_and_is_answered_as_the_first(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    provider.script("accept_then_drop")
    email = Email(
        sender="ann@example.com", to="bob@example.net", subject="x", text="hello",
        headers={"X-B": "2", "X-A": "1"},
    )  # fmt: skip
    first = await way.send(parcel(email=email), Marks())
    second = await to(provider.url).send(parcel(email=email), Marks())

    (taken,) = provider.accepted
    assert isinstance(first, SendUnknown)
    assert second == SendAccepted(provider_id=taken.id)
    assert len({(each.headers["idempotency-key"], each.body) for each in provider.received}) == 1


async def test_a_mail_under_way_is_never_handed_over_beside_itself(
    provider: ScriptedProvider,
) -> None:
    provider.script("accept_then_silence")
    way = to(provider.url)
    lost = asyncio.create_task(way.send(parcel(), Marks()))
    while not provider.accepted:  # noqa: ASYNC110 - the provider rings no bell
        await asyncio.sleep(0.01)

    beside = await way.send(parcel(), Marks())

    assert beside == SendUnknown(code="key_in_use", phase=SendPhase.ANSWERED, reply=409)
    assert len(provider.accepted) == 1
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    await way.close()


async def test_every_hand_over_has_a_connection_of_its_own(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    for number in range(3):
        await way.send(parcel(provider_key=f"key-{number}"), Marks())

    assert provider.connections == 3


# before the body


async def test_where_nobody_listens_the_marker_is_not_asked() -> None:
    marks = Marks()
    way = to(f"http://127.0.0.1:{free_port()}")

    outcome = await way.send(parcel(), marks)

    assert outcome == NotSent(code="connect_failed", phase=SendPhase.CONNECT)
    assert marks.asked == 0


async def test_a_name_that_is_nowhere_is_not_sent() -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        raise socket.gaierror

    way = ResendTransport(ResendConfig(api_key=KEY), egress=Egress(resolve=nowhere))

    assert await way.send(parcel(), Marks()) == NotSent(
        code="host_not_found", phase=SendPhase.CONNECT
    )


async def test_a_name_that_leads_inside_is_not_followed() -> None:
    async def inside(_host: str, _port: int) -> list[str]:
        return ["10.0.0.1"]

    marks = Marks()
    way = ResendTransport(ResendConfig(api_key=KEY), egress=Egress(resolve=inside))

    outcome = await way.send(parcel(), marks)

    expected = NotSent(code="address_refused", phase=SendPhase.CONNECT, opens_circuit=True)
    assert (outcome, marks.asked) == (expected, 0)


async def test_a_certificate_of_a_stranger_ends_it_before_the_marker(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    tls, _ = certificates.make(tmp_path)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    egress = Egress(local=[place], tls=ssl.create_default_context())
    way = ResendTransport(ResendConfig(api_key=KEY, url="https://api.resend.com"), egress=egress)
    way._url = f"https://{place}/emails"
    marks = Marks()

    outcome = await way.send(parcel(), marks)

    expected = NotSent(code="certificate_refused", phase=SendPhase.CONNECT, opens_circuit=True)
    assert (outcome, marks.asked, b"".join(heard)) == (expected, 0, b"")
    await way.close()
    server.close()
    await server.wait_closed()


async def test_without_the_marker_nothing_is_transmitted(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    outcome = await way.send(parcel(), Marks(answer=False))

    assert outcome == NotSent(code="fence_lost", phase=SendPhase.BODY)
    await _heard(provider, 1)
    assert (provider.accepted, provider.received[0].body) == ([], b"")


@pytest.mark.parametrize("error", [RuntimeError("disk"), TimeoutError(), OSError("disk")])
async def test_an_error_of_the_marker_is_raised_and_nothing_is_transmitted(
    provider: ScriptedProvider, way: ResendTransport, error: Exception
) -> None:
    async def broken() -> bool:
        raise error

    with pytest.raises(type(error)) as raised:
        await way.send(parcel(), broken)

    assert raised.value is error
    await _heard(provider, 1)
    assert (provider.accepted, provider.received[0].body) == ([], b"")


async def test_a_marker_is_not_cut_short(
    provider: ScriptedProvider, way: ResendTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[asyncio.Timeout] = []
    bound = deadline_timeout

    def until(deadline: float) -> asyncio.Timeout:
        limits.append(bound(deadline))
        return limits[0]

    monkeypatch.setattr(resend, "deadline_timeout", until)
    seen: list[float | None] = []

    async def marker() -> bool:
        seen.append(limits[0].when())
        return True

    assert isinstance(await way.send(parcel(), marker), SendAccepted)
    assert (seen, limits[0].when() is None) == ([None], False)


async def test_a_marker_that_comes_too_late_for_the_deadline_sends_nothing(
    provider: ScriptedProvider, way: ResendTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = clock.steady

    async def slow() -> bool:
        monkeypatch.setattr(clock, "steady", lambda: steady() + 60)
        return True

    outcome = await way.send(parcel(), slow)

    assert outcome == NotSent(code="deadline_passed", phase=SendPhase.MARKED)
    await _heard(provider, 1)
    assert (provider.accepted, provider.received[0].body) == ([], b"")


async def test_a_deadline_that_is_over_is_not_sent(
    provider: ScriptedProvider, way: ResendTransport
) -> None:
    marks = Marks()

    outcome = await way.send(parcel(deadline=clock.steady() - 1), marks)

    assert outcome == NotSent(code="deadline_passed", phase=SendPhase.CONNECT)
    assert (marks.asked, provider.accepted) == (0, [])


@pytest.mark.parametrize(
    ("email", "code"),
    [
        (Email(sender="a@example.com", cc="b@example.net", text="x"), "to_missing"),
        (
            Email(sender="a@example.com", to=[f"b{n}@example.net" for n in range(51)], text="x"),
            "too_many_recipients",
        ),
    ],
)
async def test_what_resend_would_refuse_is_not_asked(
    provider: ScriptedProvider, way: ResendTransport, email: Email, code: str
) -> None:
    marks = Marks()

    assert await way.send(parcel(email=email), marks) == SendRejected(
        code=code, phase=SendPhase.CONNECT
    )
    assert (marks.asked, provider.received) == (0, [])


async def test_a_revoked_key_burns_nothing() -> None:
    resend_ = AsResend()
    resend_.revoked.add(KEY)
    async with ScriptedProvider(resend_) as provider:
        way = to(provider.url)
        outcome = await way.send(parcel(), Marks())

        assert isinstance(outcome, NotSent)
        assert outcome.opens_circuit
        assert provider.accepted == []
        await way.close()


async def test_a_sender_that_is_not_verified_closes_the_way_for_nobody_else() -> None:
    async with ScriptedProvider(AsResend(domains={"example.org"})) as provider:
        way = to(provider.url)

        outcome = await way.send(parcel(), Marks())

        assert outcome == SendRejected(code="sender_refused", phase=SendPhase.ANSWERED, reply=403)
        await way.close()


async def test_a_large_mail_arrives_whole(provider: ScriptedProvider, way: ResendTransport) -> None:
    attachment = Attachment(name="a.bin", content=bytes(range(256)) * 20_000)
    email = Email(
        sender="ann@example.com", to="bob@example.net", subject="x", attachments=(attachment,)
    )

    assert isinstance(await way.send(parcel(email=email), Marks()), SendAccepted)
    assert len(json.loads(provider.accepted[0].body)["attachments"][0]["content"]) > 5_000_000


@pytest.mark.parametrize("name", ["sends.connected", "sends.handed_over", "sends.reply_read"])
async def test_every_crash_point_is_passed_once(
    provider: ScriptedProvider, way: ResendTransport, name: str
) -> None:
    faults.arm(f"{name}:1:raise")
    try:
        with pytest.raises(faults.InjectedFault):
            await way.send(parcel(), Marks())
    finally:
        faults.disarm()
    await _heard(provider, 1)
    if name == "sends.connected":
        assert provider.accepted == []
    if name == "sends.reply_read":
        assert len(provider.accepted) == 1


# what answers mean


@given(status=st.integers(100, 599), body=st.one_of(st.none(), st.binary(max_size=40)))
def test_only_a_readable_id_is_proof_and_only_a_known_refusal_says_not_sent(
    status: int, body: bytes | None
) -> None:
    outcome = judge_response(EgressResponse(status, {}, body))

    if isinstance(outcome, SendAccepted):
        assert 200 <= status < 300
        assert outcome.provider_id
    elif isinstance(outcome, SendRejected):
        assert status in {400, 403, 404, 405, 413, 422, 451}
    elif isinstance(outcome, NotSent):
        assert status in {401, 403, 429}
    else:
        assert outcome.reply == status


@pytest.mark.parametrize(
    "body",
    [
        None, b"", b"{}", b"[]", b"null", b'{"id": null}', b'{"id": 7}', b'{"id": ""}', b'{"id"',
        b'{"id": "a b"}', b'{"id": "a\\nb"}', b'{"data": [{"id": "x"}]}', b"[" * 40_000,
        b'{"id": "' + b"x" * 257 + b'"}',
    ],
)  # fmt: skip
def test_success_without_a_readable_id_is_unknown(body: bytes | None) -> None:
    assert judge_response(EgressResponse(200, {}, body)) == SendUnknown(
        code="answer_unreadable", phase=SendPhase.ANSWERED, reply=200
    )


@pytest.mark.parametrize("body", [None, b"", b'{"name": "something_new"}', b"409"])
def test_a_conflict_that_does_not_say_which_is_unknown(body: bytes | None) -> None:
    outcome = judge_response(EgressResponse(409, {}, body))

    assert outcome == SendUnknown(code="answer_unexpected", phase=SendPhase.ANSWERED, reply=409)


@pytest.mark.parametrize(
    ("given", "wait"),
    [("3", 3000), ("0.5", 500), ("", None), ("soon", None), ("-1", None), ("nan", None),
     ("1e9", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)  # fmt: skip
def test_the_wait_that_is_asked_for_is_a_number_of_seconds(given: str, wait: int | None) -> None:
    outcome = judge_response(EgressResponse(429, {"retry-after": given}, b""))

    assert isinstance(outcome, NotSent)
    assert outcome.retry_after == wait


def test_a_quota_is_told_from_a_rate() -> None:
    outcome = judge_response(EgressResponse(429, {}, b'{"name": "daily_quota_exceeded"}'))

    assert outcome == NotSent(code="quota_exceeded", phase=SendPhase.ANSWERED, reply=429)


@pytest.mark.parametrize("phase", [SendPhase.CONNECT, SendPhase.BODY, SendPhase.MARKED])
@pytest.mark.parametrize("status", [200, 401, 409, 429, 500])
def test_what_is_answered_before_the_body_was_asked_for_is_not_sent(
    status: int, phase: SendPhase
) -> None:
    outcome = judge_response(EgressResponse(status, {}, b'{"id": "x"}'), phase)

    assert isinstance(outcome, NotSent)
    assert outcome.opens_circuit == (status == 401)


def test_nothing_that_the_other_side_says_is_repeated() -> None:
    said = b'{"name": "bob@example.net said hello", "message": "bob@example.net", "id": "a b"}'

    for status in range(200, 600):
        assert "bob" not in repr(judge_response(EgressResponse(status, {}, said)))


# what it is told


@pytest.mark.parametrize(
    "changed",
    [
        {"api_key": ""}, {"api_key": "a b"}, {"api_key": "a\r\nx: y"}, {"api_key": "ä"},
        {"url": "http://api.resend.com"}, {"url": "https://api.resend.com:8443"}, {"url": ""},
        {"url": "ftp://127.0.0.1"}, {"url": "https://u:p@api.resend.com"}, {"url": "https://["},
        {"url": "https://api.resend.com?x=1"}, {"url": "http://10.0.0.1"},
        {"url": "https://a..b"}, {"url": "https://:p@api.resend.com"},
        {"url": "https://api.resend.com#p"},
    ],
)  # fmt: skip
def test_what_cannot_be_spoken_to_is_refused(changed: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        ResendTransport(ResendConfig(**{"api_key": KEY, **changed}))

    assert KEY not in str(raised.value)


async def test_a_provider_on_this_machine_is_reached_without_more(
    provider: ScriptedProvider,
) -> None:
    way = ResendTransport(ResendConfig(api_key=KEY, url=f"{provider.url}/"))

    assert isinstance(await way.send(parcel(), Marks()), SendAccepted)
    await way.close()


def test_no_key_is_shown() -> None:
    assert KEY not in repr(ResendConfig(api_key=KEY))


def test_the_capability_is_what_resend_promises() -> None:
    capability = resend.ResendTransport.capability

    assert (capability.window_ms, capability.max_key_length) == (86_400_000, 256)
    assert capability.compares_body
    assert not capability.caches_errors
    assert not capability.keeps_message_id


async def _heard(provider: ScriptedProvider, requests: int) -> None:
    while len(provider.received) < requests:  # noqa: ASYNC110 - the provider rings no bell
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
