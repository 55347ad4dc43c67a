"""`sends.send_many`: any number of mails, each once, with progress; run again after a crash."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.core.send_plans import ManyProgress, ManyResult, send_request
from oncebox.client.sync import Client
from oncebox.errors.http import IdempotencyKeyMissing, ServerBusy, TooManyRequests
from oncebox.errors.sends import MailboxInvalid
from oncebox.model.sends.email import Email
from oncebox.schemas.sends import SendRequest
from oncebox.service import Role
from tests.client.conftest import Speaker
from tests.support.databases import fresh_sqlite
from tests.support.running import Running, running
from tests.support.scripted import answer, cut, problem, scripted
from tests.torture.processes import until


def mail(number: int, to: str = "", text: str = "Hello.") -> SendRequest:
    email = Email(
        sender="shop@example.com",
        to=to or f"user{number}@example.com",
        subject="News",
        text=text,
    )
    return send_request(email, event_type="newsletter", entity_id="2026-11")


def stored(client: Client, **wanted: str) -> int:
    return sum(1 for _ in client.sends.list(**wanted))


def test_ten_thousand_mails_go_out_once_each_with_progress(tmp_path: Path) -> None:
    seen: list[ManyProgress] = []
    count = 10_000
    with (
        running(fresh_sqlite(tmp_path), tmp_path / "data", Role.ALL) as service,
        Client(service.url, service.key) as client,
    ):
        first = [
            (each.number, each.repeated, each.error)
            for each in client.sends.send_many(map(mail, range(count)), on_progress=seen.append)
        ]
        again = ManyProgress()
        for _ in client.sends.send_many(map(mail, range(count)), on_progress=seen.append):
            again = seen[-1]
        total = stored(client)
        for _ in until(60.0):
            if stored(client, state="logged") == count:
                break

    assert first == [(number, False, None) for number in range(count)]
    assert seen[99] == ManyProgress(done=count, created=count)
    assert [each.done for each in seen[:3]] == [100, 200, 300]
    assert again == ManyProgress(done=count, repeated=count)
    assert total == count


PROGRAM = """
import sys
from oncebox.client import Client
from tests.client.test_send_many import mail

with Client(sys.argv[1], sys.argv[2]) as client:
    for each in client.sends.send_many(map(mail, range(1_000))):
        if each.number == 250:
            print("begun", flush=True)
            sys.stdin.read()
"""


def test_a_run_that_is_killed_goes_on_when_it_is_run_again(service: Running) -> None:
    command = [sys.executable, "-c", PROGRAM, service.url, service.key]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "begun\n"
        killed.kill()
    with Client(service.url, service.key) as client:
        results = list(client.sends.send_many(map(mail, range(1_000))))
        total = stored(client)

    assert total == 1_000
    assert [each.repeated for each in results] == [True] * 300 + [False] * 700
    assert [each.error for each in results] == [None] * 1_000


def test_a_mail_that_is_refused_does_not_stop_the_others(
    service: Running, speaker: Speaker
) -> None:
    """Nor one that is the same as another."""
    sends = [mail(number) for number in range(30)]
    sends[7] = mail(7, to="nobody")
    sends[20] = mail(3)
    sends[29] = msgspec.structs.replace(mail(29), entity_id="")
    results: list[ManyResult] = speaker.ask(
        service.url, lambda client: client.sends.send_many(sends), key=service.key
    )
    refused = {each.number: type(each.error) for each in results if each.error is not None}

    assert [each.number for each in results] == list(range(30))
    assert refused == {7: MailboxInvalid, 29: IdempotencyKeyMissing}
    assert results[20].repeated
    assert results[20].answer is not None
    assert results[3].answer is not None
    assert results[20].answer.id == results[3].answer.id


def answered(*numbers: int) -> dict[str, Any]:
    data = [
        {
            "id": f"snd_{number}", "status": "in_flight", "state": "pending", "created": True,
            "message_id": f"<{number}@example.com>", "transport": "log", "created_at": 1,
        }
        for number in numbers
    ]  # fmt: skip
    return {"id": "bat_1", "created": True, "data": data, "created_at": 1}


def test_a_lower_limit_of_the_service_is_learned(speaker: Speaker) -> None:
    too_many = {
        "type": "/problems/fields_invalid", "title": "", "status": 422, "detail": "sends: at most",
        "instance": "", "code": "fields_invalid", "retry_safe": False, "request_id": "req_1",
        "errors": [{"pointer": "/sends", "detail": "at most"}],
    }  # fmt: skip
    with scripted(
        answer(too_many, 422, "application/problem+json"),
        answer(answered(*range(50)), 201),
    ) as script:
        results = speaker.ask(
            script.url, lambda client: client.sends.send_many(map(mail, range(200)))
        )

    assert [each.number for each in results] == list(range(200))
    assert [len(each.json["sends"]) for each in script.heard] == [100, 50, 50, 50, 50]


def test_a_busy_service_is_asked_again_after_the_pause_that_it_names(speaker: Speaker) -> None:
    busy = problem("too_many_requests", 429, retry_safe=True, retry_after="1")
    with scripted(busy, cut(), answer(answered(0), 201)) as script:
        (only,) = speaker.ask(script.url, lambda client: client.sends.send_many([mail(0)]))

    assert only.answer.id == "snd_0"
    assert len(script.heard) == 3
    assert script.pauses[0] >= 1.0
    assert len({each.body for each in script.heard}) == 1


@pytest.mark.parametrize(
    ("code", "status", "raised"),
    [("too_many_requests", 429, TooManyRequests), ("server_busy", 503, ServerBusy)],
)
def test_patience_has_an_end(
    speaker: Speaker, code: str, status: int, raised: type[Exception]
) -> None:
    busy = problem(code, status, retry_safe=True, retry_after="3600")
    with scripted(busy) as script, pytest.raises(raised):
        speaker.ask(script.url, lambda client: client.sends.send_many([mail(0)], patience=60))
    assert len(script.heard) == 1


def test_mails_are_read_while_results_are_taken_and_large_ones_by_their_size() -> None:
    read = 0

    def letters(text: str) -> Iterator[SendRequest]:
        nonlocal read
        for number in range(1_000):
            read += 1
            yield mail(number, text=text)

    with scripted(answer(answered(*range(100)), 201)) as script, Client(script.url, "k") as client:
        next(client.sends.send_many(letters("Hello.")))
        small, read = read, 0
    with scripted(answer(answered(*range(8)), 201)) as script, Client(script.url, "k") as client:
        next(client.sends.send_many(letters("x" * 1024 * 1024)))

    assert (small, read) == (101, 9)


async def test_mails_may_come_from_an_asynchronous_source(service: Running) -> None:
    async def letters() -> AsyncIterator[SendRequest]:
        for number in range(150):
            yield mail(number)

    async with AsyncClient(service.url, service.key) as client:
        results = [each.number async for each in client.sends.send_many(letters())]

    assert results == list(range(150))
