"""Waits of the clients: one deadline, one grant, whatever happens to the connections meanwhile."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.core import calls, inbox_plans
from oncebox.client.errors import (
    InboxClosed,
    ServiceUnreachable,
    WaitContested,
    WaitEnded,
    WaitInFlight,
    WaitTimedOut,
)
from oncebox.client.sync import Client
from oncebox.errors import ConfigInvalid, NotFound
from oncebox.errors.mail import AlreadyClaimed, ArtifactConflict, ArtifactUsed, InboxInvalid
from oncebox.model.inboxes.inbox import InboxState
from oncebox.schemas.artifacts import InspectedMessage, WaitReport
from oncebox.schemas.inboxes import Policy
from tests.client.conftest import Speaker
from tests.support.finds import code
from tests.support.lossy import lossy
from tests.support.running import Running
from tests.support.scripted import answer, cut, late, nobody, problem, reset, scripted, silence
from tests.support.waits import Arrivals

GRANT: dict[str, Any] = {
    "id": "art_1", "inbox_id": "inb_1", "message_id": "msg_1", "sequence": 3, "kind": "code",
    "state": "claimed", "confidence": 0.9, "tied": False, "matched": True,
    "sender": {"domain": "shop.example", "verdict": "pass"}, "purposes": ["login"],
    "received_at": 1, "duplicates": 0, "warnings": [], "superseded_by": None,
    "claimed": {"at": 2, "mine": True}, "purged": False, "value": "123456", "link": None,
    "repeated": False,
}  # fmt: skip
REPORT: dict[str, Any] = {
    "inbox_id": "inb_1", "attempt_id": "signup-42", "state": "active", "cursor": 7,
    "messages_inspected": 2, "smtp_saw": True, "unread": 0,
    "seen": [
        {"message_id": "msg_1", "sequence": 6, "why": "sender_not_allowed"},
        {"message_id": "msg_2", "sequence": 7, "why": "no_code"},
    ],
}  # fmt: skip
GRANTED = answer({"status": "granted", "grant": GRANT, "waited": 0.0, "reports": []})
RESUME = "w1_" + "a" * 40
EMPTY = answer({"status": "timeout", "resume": RESUME, "waited": 1.0, "reports": [REPORT]})


def code_by(script_url: str, speaker: Speaker, **rest: Any) -> Any:
    """Wait for a code at a script."""
    return speaker.ask(script_url, lambda c: c.inboxes.wait_for_code("inb_1", **rest))


def test_a_wait_that_timed_out_goes_on_by_its_token(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut) as ended:
        code_by(script.url, speaker, within=0.2)
    with scripted(GRANTED) as script:
        grant = code_by(script.url, speaker, within=5, resume=ended.value.resume)

    assert (ended.value.resume, grant.value) == (RESUME, "123456")
    assert [each.json["resume"] for each in script.heard] == [RESUME]


def test_an_answer_may_take_its_grace_and_nothing_else_is_waited_for(speaker: Speaker) -> None:
    with scripted(late(0.4, EMPTY)) as script, pytest.raises(WaitTimedOut) as ended:
        code_by(script.url, speaker, within=0.1, grace=20)

    assert ended.value.resume == RESUME
    assert [each.json["wait"] <= 0.1 for each in script.heard] == [True]


# before anything is asked


@pytest.mark.parametrize("grace", [-1, float("nan"), float("inf")])
def test_a_grace_without_an_end_is_refused(speaker: Speaker, grace: float) -> None:
    with scripted(EMPTY) as script, pytest.raises(ConfigInvalid, match="grace"):
        code_by(script.url, speaker, within=0.2, grace=grace)

    assert script.heard == []


@pytest.mark.parametrize("within", [0, -1, float("nan"), float("inf")])
def test_a_wait_without_an_end_is_refused(speaker: Speaker, within: float) -> None:
    """A deadline that is no number would never pass."""
    with scripted(EMPTY) as script, pytest.raises(ConfigInvalid, match="within"):
        code_by(script.url, speaker, within=within)

    assert script.heard == []


def test_a_wait_without_an_inbox_is_refused(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(InboxInvalid, match="at least one"):
        speaker.ask(script.url, lambda c: c.inboxes.wait_for_link([], within=1))

    assert script.heard == []


# against a script


def test_a_grant_has_its_value_and_shows_it_to_nobody(speaker: Speaker) -> None:
    with scripted(GRANTED) as script:
        grant = code_by(script.url, speaker, sender="shop.example", subject="*code*", within=30)

    assert (grant.value, grant.sequence) == ("123456", 3)
    assert "123456" not in repr(grant)
    (heard,) = script.heard
    assert (heard.method, heard.path) == ("POST", "/v1/inboxes/inb_1/wait")
    assert heard.json["wait"] == inbox_plans._LONGEST_POLL
    assert heard.json["request_key"].startswith("clm_")
    poll = {"wait", "request_key"}
    assert {n: v for n, v in heard.json.items() if v is not None and n not in poll} == {
        "kind": "code", "sender": "shop.example", "subject": "*code*", "purpose": "any",
        "after": 0, "last": False,
    }  # fmt: skip


def test_all_polls_of_a_wait_have_one_request_key_and_one_of_them_is_the_last(
    speaker: Speaker,
) -> None:
    """Another may say so too: it was to take all the time that was left, and came back early."""
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut):
        code_by(script.url, speaker, within=1)
    with scripted(GRANTED) as another:
        code_by(another.url, speaker)
    *polls, last = script.heard

    assert len({each.json["request_key"] for each in script.heard}) == 1
    assert another.heard[0].json["request_key"] != last.json["request_key"]
    assert polls[0].json["last"] is False
    assert last.json["last"] is True


def test_a_code_that_another_worker_holds_is_waited_for_and_said_to_be(speaker: Speaker) -> None:
    held = {"artifact_id": "art_1", "inbox_id": "inb_1", "seconds_left": 12.0}
    told = {"status": "in_flight", "in_flight": held, "resume": RESUME, "reports": [REPORT]}
    with scripted(answer(told)) as script, pytest.raises(WaitInFlight) as ended:
        code_by(script.url, speaker, within=0.5)
    with scripted(answer(told), GRANTED) as patient:
        grant = code_by(patient.url, speaker, within=5)

    assert len(script.heard) > 1
    assert (ended.value.artifact_id, ended.value.retry_after) == ("art_1", 12.0)
    assert isinstance(ended.value, WaitTimedOut)
    assert "do not request another one" in str(ended.value)
    assert grant.value == "123456"


def test_several_inboxes_are_one_wait(speaker: Speaker) -> None:
    with scripted(GRANTED) as script:
        speaker.ask(script.url, lambda c: c.inboxes.wait_for_code(["inb_1", "inb_2", "inb_1"]))

    assert script.heard[0].path == "/v1/inboxes/wait"
    assert script.heard[0].json["inboxes"] == ["inb_1", "inb_2"]


def test_the_whole_wait_has_one_deadline(speaker: Speaker) -> None:
    began = time.monotonic()
    with scripted(late(0.4, EMPTY)) as script, pytest.raises(WaitTimedOut):
        code_by(script.url, speaker, within=2)

    assert 1 < time.monotonic() - began < 4
    # A request that the deadline cut off has no body.
    whole = [each for each in script.heard if each.body]
    assert all(each.json["wait"] <= 2 for each in whole)
    assert {each.json["resume"] for each in whole} == {None, RESUME}


def test_a_timeout_tells_plainly_what_was_seen(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut) as ended:
        code_by(script.url, speaker, within=0.2)

    assert ended.value.report is not None
    assert ended.value.report.cursor == 7
    assert ended.value.retry_safe
    assert str(ended.value).splitlines() == [
        "no matching code arrived within 0.2 s",
        (
            "inb_1 (active, attempt signup-42): 2 messages inspected, last number 7; "
            "mail arrived for it"
        ),
        "  msg_1 (number 6): sender_not_allowed",
        "  msg_2 (number 7): no_code",
    ]


def test_a_timeout_names_what_was_waited_for(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut) as ended:
        code_by(script.url, speaker, within=0.2, sender="acme.com", purpose="login", token="T-1")

    assert ended.value.criteria == "purpose login, token given, sender acme.com"
    assert str(ended.value).splitlines()[0] == (
        "no matching code arrived within 0.2 s (purpose login, token given, sender acme.com)"
    )


def test_a_long_report_is_told_in_short() -> None:
    seen = [InspectedMessage(message_id=f"m{n}", sequence=n, why="no_code") for n in range(15)]
    report = WaitReport(
        inbox_id="inb_1", attempt_id=None, state=InboxState.CLOSED, cursor=15,
        messages_inspected=15, seen=seen, smtp_saw=True, unread=2,
    )  # fmt: skip
    lines = str(InboxClosed([report])).splitlines()

    assert len(lines) == 13
    assert "5 earlier ones" in lines[2]
    assert "2 mails were accepted and are not processed yet" in lines[1]


@pytest.mark.parametrize(
    "trouble",
    [cut(), reset(), problem("commit_unknown", 503, retry_safe=True)],
    ids=["cut", "reset", "commit-unknown"],
)
def test_an_answer_that_was_lost_is_asked_for_again(speaker: Speaker, trouble: Any) -> None:
    with scripted(EMPTY, trouble, GRANTED) as script:
        grant = code_by(script.url, speaker)

    assert grant.value == "123456"
    assert [each.json["resume"] for each in script.heard] == [None, RESUME, RESUME]


def test_where_long_polls_are_cut_short_ones_take_over_with_longer_rests(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_plans, "_LONGEST_POLL", 8.0)
    with scripted(cut(), cut(), cut(), EMPTY, EMPTY, EMPTY, GRANTED) as script:
        code_by(script.url, speaker)

    assert [each.json["wait"] for each in script.heard] == [8.0, 4.0, 2.0, 0.0, 0.0, 0.0, 0.0]


def test_a_poll_that_is_kept_back_is_given_up_and_the_service_asked_at_once(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_plans, "_LONGEST_POLL", 0.5)
    monkeypatch.setattr(calls, "_SHORTEST_POLL", 0.1)
    monkeypatch.setattr(inbox_plans, "_ANSWER_TIMEOUT", 0.3)
    with scripted(silence(), GRANTED) as script:
        code_by(script.url, speaker, within=20)

    assert [each.json["wait"] for each in script.heard] == [0.5, 0.0]


def test_a_long_poll_is_tried_again_after_a_while(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_plans, "_LONG_POLL_RETRY", 0.5)
    with scripted(cut(), late(0.6, EMPTY), GRANTED) as script:
        code_by(script.url, speaker)

    assert [each.json["wait"] for each in script.heard] == [20.0, 10.0, 20.0]


def test_the_service_is_left_alone_for_as_long_as_it_asks(speaker: Speaker) -> None:
    busy = problem("too_many_requests", 429, retry_safe=True, **{"retry-after": "1"})
    with scripted(busy, GRANTED) as script:
        code_by(script.url, speaker)

    assert script.pauses[0] >= 1


def test_a_service_that_stops_is_not_rushed_at(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut):
        code_by(script.url, speaker, within=1.5)

    assert len(script.heard) < 30


def test_a_service_that_was_never_heard_is_not_said_to_have_no_mail(speaker: Speaker) -> None:
    with nobody() as url, pytest.raises(ServiceUnreachable):
        code_by(url, speaker, within=0.5)


@pytest.mark.parametrize(
    ("code_", "status", "kind"),
    [("already_claimed", 409, AlreadyClaimed), ("not_found", 404, NotFound)],
)
def test_what_will_not_pass_ends_the_wait(
    speaker: Speaker, code_: str, status: int, kind: type[Exception]
) -> None:
    with scripted(problem(code_, status)) as script, pytest.raises(kind):
        code_by(script.url, speaker)

    assert len(script.heard) == 1


def test_a_conflict_names_those_that_are_meant_equally(speaker: Speaker) -> None:
    conflict = {"inbox_id": "inb_1", "why": "senders_differ", "artifact_ids": ["art_1", "art_2"]}
    told = {"status": "conflict", "conflict": conflict, "waited": 0, "reports": [REPORT]}
    with scripted(answer(told)) as script, pytest.raises(ArtifactConflict) as ended:
        code_by(script.url, speaker)

    assert isinstance(ended.value, WaitContested)
    assert ended.value.conflict.artifact_ids == ["art_1", "art_2"]
    assert "senders_differ" in str(ended.value)
    assert not ended.value.retry_safe


def test_a_closed_inbox_ends_the_wait(speaker: Speaker) -> None:
    told = {"status": "inbox_closed", "waited": 0, "reports": [REPORT | {"state": "closed"}]}
    with scripted(answer(told)) as script, pytest.raises(InboxClosed) as ended:
        code_by(script.url, speaker)

    assert isinstance(ended.value, WaitEnded)
    assert "closed" in str(ended.value)


# against a real service


def ask(service: Running, speaker: Speaker, question: Callable[[Any], Any]) -> Any:
    """Ask the service."""
    return speaker.ask(service.url, question, key=service.key)


def bring(service: Running, inbox: str, *codes: str, **rest: Any) -> None:
    """Let codes come, each in a mail of its own."""
    letters = [code(each, **rest) for each in codes]
    service.call(Arrivals(service.box).bring(inbox, *letters))


def soon(deed: Callable[[], object], seconds: float = 0.5) -> threading.Timer:
    """Do something in a moment."""
    timer = threading.Timer(seconds, deed)
    timer.start()
    return timer


def test_an_inbox_in_the_hand_has_its_fields_and_its_verbs(service: Running) -> None:
    policy = Policy(senders=["shop.example"], authenticated=False)
    with Client(service.url, service.key) as client:
        inbox = client.inboxes.create(attempt_id="signup-42", policy=policy, metadata={"a": "b"})
        again = client.inboxes.create(attempt_id="signup-42", policy=policy, metadata={"a": "b"})
        soon(lambda: bring(service, inbox.id, "123456"))
        grant = inbox.wait_for_code(sender="shop.example", within=30)
        repeat = again.wait_for_code(sender=("bank.example", "shop.example"), within=5)
        (message,) = inbox.messages()
        closed = inbox.close(drain=0)
        with pytest.raises(InboxClosed):
            inbox.wait_for_code(within=20, after=grant.sequence)

    assert (inbox.created, again.created, inbox.id == again.id) == (True, False, True)
    assert (inbox.email.endswith("@oncebox.test"), inbox.label, inbox.cursor) == (True, "", 0)
    assert (inbox.attempt_id, inbox.policy, inbox.metadata) == ("signup-42", policy, {"a": "b"})
    assert inbox.warnings == ["authentication_off"]
    assert (inbox.state, inbox.ended_at, inbox.rotated_to) == ("active", None, None)
    assert inbox.active_until is not None
    assert inbox != again
    assert hash(inbox) == hash(again)
    assert inbox.id in repr(inbox)
    assert (grant.value, repeat.value, repeat.repeated) == ("123456", "123456", True)
    assert (message.id, closed.state) == (grant.message_id, "closed")


async def test_the_async_twin_does_the_same(service: Running) -> None:
    async with AsyncClient(service.url, service.key) as client:
        inbox = await client.inboxes.create(attempt_id="signup-42")
        soon(lambda: bring(service, inbox.id, "123456"))
        grant = await inbox.wait_for_code(within=30)
        messages = [each.id async for each in inbox.messages()]
        with pytest.raises(WaitTimedOut) as ended:
            await inbox.wait_for_link(host="shop.example", within=2)
        closed = await inbox.close(drain=0)

    assert grant.value == "123456"
    assert messages == [grant.message_id]
    assert [each.why for each in ended.value.reports[0].seen] == ["no_link"]
    assert closed.state == "closed"


async def test_a_task_that_is_cancelled_waits_no_more(service: Running) -> None:
    async with AsyncClient(service.url, service.key) as client:
        inbox = await client.inboxes.create()
        wait = asyncio.create_task(inbox.wait_for_code(within=60))
        lobby = service.box.components.longpoll
        async with asyncio.timeout(10):
            while not lobby.waiters:  # noqa: ASYNC110 - no bell rings
                await asyncio.sleep(0.02)
        wait.cancel()
        async with asyncio.timeout(10):
            while lobby.waiters:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.02)

    assert wait.cancelled() or wait.done()


def test_a_wait_survives_a_restart_of_the_service(service: Running, speaker: Speaker) -> None:
    inbox = ask(service, speaker, lambda c: c.inboxes.create(attempt_id="a")).id

    def restart() -> None:
        service.stop()
        time.sleep(0.5)
        service.start()
        bring(service, inbox, "123456")

    timer = soon(restart)
    grant = ask(service, speaker, lambda c: c.inboxes.wait_for_code(inbox, within=60))
    timer.join()

    assert grant.value == "123456"


def test_a_grant_whose_answer_was_lost_is_granted_again(service: Running, speaker: Speaker) -> None:
    inbox = ask(service, speaker, lambda c: c.inboxes.create(attempt_id="a")).id
    bring(service, inbox, "123456")
    with lossy(service.url, lambda number, _heard: number < 2) as proxy:
        grant = speaker.ask(
            proxy.url, lambda c: c.inboxes.wait_for_code(inbox, within=60), key=service.key
        )

    assert (grant.value, grant.repeated) == ("123456", True)
    assert len(proxy.lost) == 2


def test_after_a_code_was_used_no_worker_gets_it(service: Running, speaker: Speaker) -> None:
    inbox = ask(service, speaker, lambda c: c.inboxes.create(attempt_id="a")).id
    bring(service, inbox, "123456")
    grant = ask(service, speaker, lambda c: c.inboxes.wait_for_code(inbox))
    used = [ask(service, speaker, lambda c: c.artifacts.used(grant.id)) for _ in range(2)]
    with pytest.raises(ArtifactUsed) as refused:
        ask(service, speaker, lambda c: c.inboxes.wait_for_code(inbox))

    assert used[0] == used[1]
    assert "123456" not in str(refused.value)


async def test_a_grant_says_itself_that_it_was_used(service: Running) -> None:
    async with AsyncClient(service.url, service.key) as client:
        inbox = await client.inboxes.create(attempt_id="a")
        await asyncio.to_thread(bring, service, inbox.id, "123456")
        grant = await inbox.wait_for_code()
        used = await grant.used()
    with Client(service.url, service.key) as blocking:
        again = blocking.inboxes.create(attempt_id="b")
        bring(service, again.id, "123456")
        attempt, other = blocking.attempt("b"), again.wait_for_code()
        attempt.do("verify", lambda: "ok", uses=other)
        with pytest.raises(ArtifactUsed):
            again.wait_for_code()
        repeated = other.used()

    assert (used.id, used.claimed is not None and used.claimed.used_at) != (grant.id, None)
    assert repeated.claimed is not None
    assert repeated.claimed.used_at is not None
    assert "123456" not in repr(grant) + repr(other)


def test_a_second_agent_gets_already_claimed(service: Running, speaker: Speaker) -> None:
    inbox = ask(service, speaker, lambda c: c.inboxes.create(attempt_id="a")).id
    bring(service, inbox, "123456")
    ask(service, speaker, lambda c: c.inboxes.wait_for_code(inbox, claim_key="one"))
    with pytest.raises(AlreadyClaimed) as refused:
        ask(service, speaker, lambda c: c.inboxes.wait_for_code(inbox, claim_key="two"))

    assert "123456" not in str(refused.value)


# messages


def arrival(subject: str) -> bytes:
    """Return a mail without a code, in HTML and with an attachment."""
    return (
        f"From: News <news@shop.example>\r\nSubject: {subject}\r\nMessage-ID: <{subject}@x>\r\n"
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\nContent-Type: text/html\r\n\r\n<p>It is <b>open</b>.</p>\r\n"
        "--b\r\nContent-Type: text/csv\r\n"
        "Content-Disposition: attachment; filename=list.csv\r\n\r\na,b\r\n--b--\r\n"
    ).encode()


def test_an_operator_waits_for_a_message_and_reads_all_of_it(
    service: Running, speaker: Speaker
) -> None:
    inbox = ask(service, speaker, lambda c: c.inboxes.create())
    service.call(Arrivals(service.box).file(inbox.id, arrival("Locked"), arrival("Unlocked")))

    def wait(client: Any) -> Any:
        return client.inboxes.wait_for_message(
            inbox.id, subject="Unlock*", has_attachment=True, within=20
        )

    found = ask(service, speaker, wait)
    (attached,) = found.attachments

    assert (found.subject, found.sender_address) == ("Unlocked", "news@shop.example")
    assert (found.text.strip(), found.html.strip()) == (
        "It is open.",
        "<p>It is <b>open</b>.</p>",
    )
    assert (attached.number, attached.name, found.links) == (1, "list.csv", [])
    assert "open" not in repr(found)


def test_a_wait_for_a_message_that_timed_out_says_what_was_awaited(speaker: Speaker) -> None:
    with scripted(EMPTY) as script, pytest.raises(WaitTimedOut) as ended:
        speaker.ask(
            script.url,
            lambda c: c.inboxes.wait_for_message(
                "inb_1", subject="*unlocked*", has_attachment=False, within=0.2
            ),
        )

    assert "no matching message arrived within 0.2 s" in str(ended.value)
    assert "(subject *unlocked*, has_attachment False)" in str(ended.value)
