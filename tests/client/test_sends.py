"""Sends by the clients: asked for again without harm, and followed to one deadline."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypedDict

import msgspec
import pytest

from oncebox.client.core import send_plans
from oncebox.client.core.calls import PollSchedule, TimeoutStep
from oncebox.client.core.send_plans import send_request
from oncebox.client.errors import AnswerUnreadable, NoAnswer
from oncebox.client.sync import Client
from oncebox.core import clock
from oncebox.errors import ConfigInvalid, KeyInvalid, NotFound, StateConflict
from oncebox.errors.http import Forbidden
from oncebox.errors.sends import MailboxInvalid, SendKeyConflict
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import intent_key, key_audience
from oncebox.schemas import sends as wire
from tests.client.conftest import Speaker
from tests.support.running import Running
from tests.support.scripted import answer, cut, late, nobody, problem, scripted

EMAIL = Email(
    sender="shop@example.com",
    to="Ann <ann@example.com>",
    subject="Thanks",
    text="CANARYTEXT",
    attachments=[Attachment(name="a.bin", content=b"\x00\xff")],
)


class About(TypedDict):
    event_type: str
    entity_id: str


ABOUT: About = {"event_type": "order.confirmation", "entity_id": "order_4821"}


def told(status: str, state: str | None = None, **more: Any) -> dict[str, Any]:
    waits = {"in_flight": 1.0}.get(status)
    return {
        "id": "snd_1", "status": status, "state": state or status, "message_id": "<a@example.com>",
        "transport": "log", "created_at": 1, "retry_after": waits, **more,
    }  # fmt: skip


SENT = answer(told("sent", created=True), 201)
UNDER_WAY = told("in_flight", "claimed", created=True)
MINE = answer(UNDER_WAY, 202)


def send(url: str, speaker: Speaker, **more: Any) -> Any:
    return speaker.ask(url, lambda c: c.send(EMAIL, **{**ABOUT, **more}))


# before anything is asked


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf")])
def test_a_wait_without_an_end_is_refused(speaker: Speaker, wait: float) -> None:
    with scripted(SENT) as script, pytest.raises(ConfigInvalid, match="wait"):
        send(script.url, speaker, wait=wait)

    assert script.heard == []


@pytest.mark.parametrize(
    "more",
    [
        {"entity_id": ""},
        {"key": ""},
        {"key": "k" * 10_000},
        {"on_unknown": "hope"},
        {"send_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is refused
    ],
    ids=["no-entity", "empty-key", "long-key", "no-choice", "no-zone"],
)
def test_a_mail_that_nobody_could_know_again_is_refused(
    speaker: Speaker, more: dict[str, Any]
) -> None:
    with scripted(SENT) as script, pytest.raises(KeyInvalid):
        send(script.url, speaker, **more)

    assert script.heard == []


# against a script


def test_a_mail_goes_as_it_was_written(speaker: Speaker) -> None:
    moment = datetime(2026, 11, 16, tzinfo=UTC)
    with scripted(SENT) as script:
        found = send(script.url, speaker, valid_until=moment, key="k 1", on_unknown="replay")

    (heard,) = script.heard
    assert (heard.method, heard.path) == ("POST", "/v1/sends?wait=10.0")
    assert heard.headers["idempotency-key"] == '"k 1"'
    assert (heard.json["to"], heard.json["text"]) == (["Ann <ann@example.com>"], "CANARYTEXT")
    assert heard.json["attachments"][0]["content"] == "AP8="
    assert (heard.json["valid_until"], heard.json["on_unknown"]) == (1_794_787_200_000, "replay")
    assert (found.status, found.created, found.message_id) == ("sent", True, "<a@example.com>")


@pytest.mark.parametrize(
    "trouble",
    [cut(), problem("commit_unknown", 503, retry_safe=True), problem("server_busy", 503)],
    ids=["cut", "commit-unknown", "busy"],
)
def test_a_lost_answer_is_requested_again_with_the_same_request(
    speaker: Speaker, trouble: Any
) -> None:
    with scripted(trouble, SENT) as script:
        found = send(script.url, speaker)

    first, second = script.heard
    assert (first.path, first.body) == (second.path, second.body)
    assert found.status == "sent"


def test_asking_anew_is_safe_where_no_answer_came_at_all(speaker: Speaker) -> None:
    with nobody() as url, pytest.raises(NoAnswer) as caught:
        speaker.ask(url, lambda c: c.within(0.2).send(EMAIL, wait=0, **ABOUT))

    assert caught.value.retry_safe


def test_a_mail_under_way_is_followed_to_its_end(speaker: Speaker) -> None:
    with scripted(MINE, answer(told("sent"))) as script:
        found = send(script.url, speaker)

    assert [each.path.partition("?")[0] for each in script.heard] == [
        "/v1/sends",
        "/v1/sends/snd_1",
    ]
    assert (found.status, found.created, found.state) == ("sent", True, "sent")


def test_who_was_not_the_first_is_told_that_it_is_a_duplicate(speaker: Speaker) -> None:
    theirs = answer({**UNDER_WAY, "created": False, "drift": True}, 202)
    with scripted(theirs, answer(told("sent"))) as script:
        found = send(script.url, speaker)

    assert (found.status, found.created, found.drift) == ("duplicate", False, True)


def test_a_long_wait_is_several_polls_to_one_deadline(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_plans, "_LONGEST_POLL", 0.4)
    with scripted(late(0.3, MINE), late(0.3, answer(UNDER_WAY)), answer(told("sent"))) as script:
        found = send(script.url, speaker, wait=90)

    assert [each.path.partition("wait=")[2] for each in script.heard] == ["0.4"] * 3
    assert found.status == "sent"


def test_the_polls_of_a_wait_have_one_deadline_between_them() -> None:
    time = [0.0]
    answer_ = msgspec.convert(UNDER_WAY, wire.SendAnswer)
    polls = PollSchedule(within=50, longest=20, now=lambda: time[0], jitter=lambda: 1.0)
    plan = send_plans._follow_until_settled(answer_, polls, 0.0)
    waits: list[float] = []
    assert isinstance(next(plan), TimeoutStep)
    step: Any = plan.send(30.0)
    with suppress(StopIteration):
        while len(waits) < 10:
            waits.append(step.wait)
            time[0] += step.wait
            step = plan.send(answer_)

    assert waits == [20.0, 20.0, 10.0]


def test_after_the_deadline_the_answer_has_the_current_status(speaker: Speaker) -> None:
    with scripted(MINE) as script:
        found = send(script.url, speaker, wait=0.3)
        looked = speaker.ask(script.url, lambda c: c.sends.wait("snd_1", within=0.3))

    assert (found.status, found.retry_after) == ("in_flight", 1.0)
    assert looked.status == "in_flight"
    assert len(script.heard) < 30


@pytest.mark.parametrize("status", ["unknown", "failed", "suppressed", "logged", "duplicate"])
def test_an_end_is_told_and_not_raised(speaker: Speaker, status: str) -> None:
    state = "sent" if status == "duplicate" else status
    with scripted(answer(told(status, state))) as script:
        found = send(script.url, speaker)

    assert (found.status, len(script.heard)) == (status, 1)


def test_a_mail_on_disk_is_no_error_because_it_cannot_be_looked_at(speaker: Speaker) -> None:
    with scripted(MINE, cut(), cut(), answer(told("sent"))) as script:
        found = send(script.url, speaker)
    with scripted(MINE, cut()) as lost:
        given_up = send(lost.url, speaker, wait=0.3)
    strange = answer(b"<html>", content_type="text/html")
    with scripted(MINE, strange) as script, pytest.raises(AnswerUnreadable):
        send(script.url, speaker)

    assert found.status == "sent"
    assert given_up.status == "in_flight"


def test_the_service_is_left_alone_for_as_long_as_it_asks(speaker: Speaker) -> None:
    busy = problem("too_many_requests", 429, retry_safe=True, **{"retry-after": "1"})
    with scripted(busy, MINE, busy, answer(told("sent"))) as script:
        send(script.url, speaker)

    assert script.pauses[0] >= 1
    assert script.pauses[2] >= 1


def test_a_mail_for_later_is_not_waited_for(speaker: Speaker) -> None:
    later = {**UNDER_WAY, "state": "pending", "retry_after": 86_400.0}
    with scripted(answer(later, 202)) as script:
        found = send(script.url, speaker, send_at=2**50)
        looked = speaker.ask(script.url, lambda c: c.sends.wait("snd_1", within=30))

    assert script.heard[0].path == "/v1/sends?wait=0.0"
    assert (found.status, looked.status, len(script.heard)) == ("in_flight", "in_flight", 2)


def test_a_large_mail_is_not_held_by_the_service_while_its_end_is_waited_for(
    speaker: Speaker,
) -> None:
    large = msgspec.structs.replace(
        EMAIL, attachments=[Attachment(name="a.bin", content=bytes(100_000))]
    )
    with scripted(MINE, answer(told("sent"))) as script:
        found = speaker.ask(script.url, lambda c: c.send(large, **ABOUT))

    assert script.heard[0].path == "/v1/sends?wait=0.0"
    assert (script.heard[1].method, found.status, found.created) == ("GET", "sent", True)


def test_mails_of_a_batch_are_asked_for_as_a_whole(speaker: Speaker) -> None:
    told_of = answer({"id": "bat_1", "created": True, "data": [UNDER_WAY], "created_at": 1})
    mails = [send_request(EMAIL, event_type="e", entity_id=str(n)) for n in range(2)]
    with scripted(cut(), told_of) as script:
        found = speaker.ask(script.url, lambda c: c.sends.batch(mails))

    first, second = script.heard
    assert (first.body, len(first.json["sends"])) == (second.body, 2)
    assert "idempotency-key" not in first.headers
    assert found.id == "bat_1"
    with pytest.raises(KeyInvalid):
        send_request(EMAIL, key="own")
    with pytest.raises(KeyInvalid):
        speaker.ask("http://127.0.0.1:1", lambda c: c.sends.batch([send_request(EMAIL)]))


# against a service


def test_a_mail_is_sent_once_whoever_asks(service: Running, speaker: Speaker) -> None:
    def ask(question: Any) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    first = ask(lambda c: c.send(EMAIL, wait=0, **ABOUT))
    service.call(service.box.send(EMAIL, wait=0, **ABOUT))  # and it is worked on from here
    ended = ask(lambda c: c.sends.wait(first.id))
    again = ask(lambda c: c.send(EMAIL, **ABOUT))
    by_key = ask(
        lambda c: c.send(
            EMAIL, key=intent_key("order.confirmation", "order_4821", key_audience(EMAIL)), wait=0
        )
    )
    inspected = ask(lambda c: c.sends.inspect(first.id))
    batch = ask(
        lambda c: c.sends.batch(
            [send_request(EMAIL, **ABOUT), send_request(EMAIL, **ABOUT, version=2)]
        )
    )
    listed = ask(lambda c: c.sends.list(transport="log"))

    assert (first.status, first.created, ended.status) == ("in_flight", True, "logged")
    assert (again.id, again.status, again.created) == (first.id, "logged", False)
    assert by_key.id == first.id
    assert inspected.next_action.startswith("nothing")
    assert [each.created for each in batch.data] == [False, True]
    assert [each.id for each in listed] == [batch.data[1].id, first.id]
    other = Email(sender="other@example.com", to="ann@example.com", text="x")
    with pytest.raises(SendKeyConflict):
        ask(lambda c: c.send(other, **ABOUT))
    with pytest.raises(MailboxInvalid):
        ask(lambda c: c.send(Email(sender="a@example.com", to="a\r\nb", text="x"), **ABOUT))


def test_operators_look_and_decide_and_agents_see_their_own(service: Running) -> None:
    tomorrow = clock.system() + 86_400_000
    with Client(service.url, service.key) as client:
        made = client.keys.make(["agent"])
        theirs = client.send(EMAIL, wait=0, **ABOUT, send_at=tomorrow)
        with Client(service.url, made.key) as agent:
            mine = agent.send(EMAIL, wait=0, event_type="e", entity_id="1", send_at=tomorrow)
            seen = [each.id for each in agent.sends.list()]
            off = agent.sends.cancel(mine.id)
            with pytest.raises(NotFound):
                agent.sends.get(theirs.id)
            with pytest.raises(Forbidden):
                agent.sends.resolve(mine.id, sent=True, why="no")
        armed = client.sends.resend(mine.id, why="after all")
        with pytest.raises(StateConflict):
            client.sends.resolve(mine.id, sent=True, why="not in doubt")
        paused = client.transports.pause("log", why="a while")
        resumed = client.transports.resume("log")
        ways = client.transports.all().data
        with pytest.raises(StateConflict, match="2 wait"):
            client.transports.remove("log")
        client.sends.cancel(mine.id)
        client.sends.cancel(theirs.id)
        client.transports.remove("log")
        left = client.transports.all().data
        listed = client.suppressions.add("bob@example.com", why="he asked")
        found = client.suppressions.find("Bob@example.com")
        everybody = [each.address for each in client.suppressions.list()]
        client.suppressions.remove(listed.id)
        with pytest.raises(NotFound):
            client.suppressions.find("bob@example.com")

    assert (seen, left) == ([mine.id], [])
    assert (off.state, armed.state) == ("cancelled", "pending")
    assert (paused.state, resumed.state, [each.name for each in ways]) == (
        "paused", "working", ["log"],
    )  # fmt: skip
    assert (found.id, everybody) == (listed.id, ["bob@example.com"])
