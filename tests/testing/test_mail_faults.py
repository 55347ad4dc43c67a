"""The faults of mail and the fixtures of tests, on a real service in test mode, by real SMTP."""

import asyncio
import re
import smtplib
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from oncebox.client import AsyncInbox, Inbox
from oncebox.client.sync import Client
from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import LinkRefused
from oncebox.testing import fixtures
from oncebox.testing.fixtures import MailFaults
from oncebox.testing.shared_server import OnceboxServer
from tests.support.scripted import answer, scripted

SENDER = "no-reply@acme.example"


def send(server: OnceboxServer, to: str, code: str) -> None:
    lines = [
        f"From: Acme <{SENDER}>", f"To: {to}", "Subject: Your code",
        f"Message-ID: <{code}.{to}>", "", f"Your verification code is {code}.", "",
    ]  # fmt: skip
    with smtplib.SMTP(server.smtp_host, server.smtp_port, timeout=60) as client:
        client.sendmail(SENDER, to, "\r\n".join(lines).encode())


def send_link(server: OnceboxServer, to: str, link: str) -> None:
    lines = [
        f"From: Acme <{SENDER}>", f"To: {to}", "Subject: Verify your address",
        f"Message-ID: <link.{to}>", "", f"Verify your address: {link}", "",
    ]  # fmt: skip
    with smtplib.SMTP(server.smtp_host, server.smtp_port, timeout=60) as client:
        client.sendmail(SENDER, to, "\r\n".join(lines).encode())


# test mode


def test_an_address_of_nobody_leads_to_the_catch_all_inbox(
    oncebox_server: OnceboxServer, oncebox_client: Client
) -> None:
    for number, to in enumerate(("ada@nobody.example", "bob@localhost", "eve@oncebox.test")):
        send(oncebox_server, to, f"41020{number}")
    wait = oncebox_client.inboxes.wait_for_code
    ada = wait(oncebox_server.catch_all, recipient="ada@nobody.example", claim_key="a", within=60)
    eve = wait(oncebox_server.catch_all, recipient="eve@oncebox.test", claim_key="e", within=60)

    assert (ada.value, eve.value) == ("410200", "410202")


def test_an_address_of_an_inbox_leads_there_and_nowhere_else(
    oncebox_server: OnceboxServer, oncebox_client: Client, inbox: Inbox
) -> None:
    send(oncebox_server, inbox.email, "410210")
    assert inbox.wait_for_code(within=60).value == "410210"

    caught = oncebox_client.inboxes.messages(oncebox_server.catch_all)
    assert inbox.email not in [each.recipient for each in caught]


def test_an_inbox_that_has_ended_stays_ended(oncebox_server: OnceboxServer, inbox: Inbox) -> None:
    inbox.close(drain=0)

    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(oncebox_server, inbox.email, "410220")


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "http://127.0.0.1:8123", "https://app.localhost", "http://[::1]:9"],
)
def test_links_to_this_machine_are_let_out(
    oncebox_server: OnceboxServer, inbox: Inbox, origin: str
) -> None:
    link = f"{origin}/verify?token=a8f7d6s5a4f3d2s1a0f9d8s7"
    send_link(oncebox_server, inbox.email, link)

    assert inbox.wait_for_link(within=60).value == link


def test_only_operators_ask_for_faults(
    oncebox_server: OnceboxServer, oncebox_client: Client, inbox: Inbox
) -> None:
    agent = oncebox_client.keys.make(["agent"], name="agent")
    path = f"{oncebox_server.url}/v1/test/faults/{inbox.id}"
    statuses = [
        httpx2.put(path, json={"rules": []}, headers=headers).status_code
        for headers in ({}, {"authorization": f"Bearer {agent.key}"})
    ]

    assert statuses == [401, 403]


# faults


def test_a_copy_is_one_message_and_is_counted(
    oncebox_server: OnceboxServer,
    oncebox_client: Client,
    inbox: Inbox,
    mail_faults: MailFaults,
    assert_no_mail: Callable[..., None],
) -> None:
    mail_faults.add("duplicate", copies=2)
    send(oncebox_server, inbox.email, "410300")
    grant = inbox.wait_for_code(within=60)
    assert_no_mail(after=grant.sequence)

    assert grant.value == "410300"
    assert oncebox_client.inboxes.stats(inbox.id).duplicates == 2


def test_mail_that_is_late_comes_after_its_sender_was_told(
    oncebox_server: OnceboxServer,
    inbox: Inbox,
    mail_faults: MailFaults,
    assert_no_mail: Callable[..., None],
) -> None:
    mail_faults.add("delay", seconds=3600)
    send(oncebox_server, inbox.email, "410310")
    assert_no_mail()
    mail_faults.clear()  # lets it go

    assert inbox.wait_for_code(within=60).value == "410310"


def test_mail_is_overtaken_by_the_next(
    oncebox_server: OnceboxServer,
    oncebox_client: Client,
    inbox: Inbox,
    mail_faults: MailFaults,
) -> None:
    mail_faults.add("reorder", times=1, seconds=3600)
    local, _, domain = inbox.email.partition("@")
    for number, tag in enumerate(("first", "second")):
        send(oncebox_server, f"{local}+{tag}@{domain}", f"41032{number}")

    arrived = {}
    for message in oncebox_client.inboxes.messages(inbox.id, follow=True, idle=60):
        arrived[str(message.recipient)] = message.received_at
        if len(arrived) == 2:
            break
    assert arrived[f"{local}+second@{domain}"] < arrived[f"{local}+first@{domain}"]


def test_a_sender_that_is_told_421_has_delivered_nothing(
    oncebox_server: OnceboxServer,
    inbox: Inbox,
    mail_faults: MailFaults,
    assert_no_mail: Callable[..., None],
) -> None:
    mail_faults.add("421", times=1)
    with pytest.raises(smtplib.SMTPResponseException) as refused:
        send(oncebox_server, inbox.email, "410330")
    assert_no_mail()
    send(oncebox_server, inbox.email, "410330")

    assert refused.value.smtp_code == 421
    assert inbox.wait_for_code(within=60).value == "410330"


def test_a_mail_whose_250_is_lost_is_there(
    oncebox_server: OnceboxServer,
    oncebox_client: Client,
    inbox: Inbox,
    mail_faults: MailFaults,
) -> None:
    mail_faults.add("drop_after_accept", times=1)
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(oncebox_server, inbox.email, "410340")
    grant = inbox.wait_for_code(within=60)
    send(oncebox_server, inbox.email, "410340")  # as a mail server does

    assert grant.value == "410340"
    assert [each.fault for each in mail_faults.happened] == ["drop_after_accept"]
    assert oncebox_client.inboxes.stats(inbox.id).messages == 1


def test_a_large_mail_meets_faults_too(
    oncebox_server: OnceboxServer, inbox: Inbox, mail_faults: MailFaults
) -> None:
    mail_faults.add("421", times=1)
    mail_faults.add("drop_after_accept", times=1)
    lines = [f"To: {inbox.email}", "Subject: Your code", "", "Your code is 410350.", "x" * 900]
    data = "\r\n".join([*lines[:4], *([lines[4]] * 400), ""]).encode()
    errors: list[type[Exception]] = []
    for _ in range(2):
        with smtplib.SMTP(oncebox_server.smtp_host, oncebox_server.smtp_port, timeout=60) as line:
            try:
                line.sendmail(SENDER, inbox.email, data)
            except smtplib.SMTPException as error:
                errors.append(type(error))

    assert errors == [smtplib.SMTPDataError, smtplib.SMTPServerDisconnected]
    assert inbox.wait_for_code(within=60).value == "410350"


def test_faults_of_one_inbox_are_not_those_of_another(
    oncebox_server: OnceboxServer,
    oncebox_client: Client,
    inbox: Inbox,
    mail_faults: MailFaults,
) -> None:
    other = oncebox_client.inboxes.create()
    mail_faults.add("421")
    send(oncebox_server, other.email, "410360")

    assert other.wait_for_code(within=60).value == "410360"
    assert mail_faults.happened == []


def test_the_same_seed_gives_the_same_faults_to_the_same_mails(
    oncebox_server: OnceboxServer, inbox: Inbox, mail_faults: MailFaults
) -> None:
    def played() -> list[int]:
        mail_faults.seed = 4
        mail_faults.add("421", chance=0.5)
        for number in range(8):
            try:
                send(oncebox_server, inbox.email, f"41037{number}")
            except smtplib.SMTPResponseException:
                continue
        struck = [each.arrival for each in mail_faults.happened]
        mail_faults.clear()
        return struck

    assert played() == played() != []


def test_what_is_no_fault_is_refused_with_what_helps(mail_faults: MailFaults) -> None:
    with pytest.raises(ConfigInvalid, match="faults of mail are duplicate, delay"):
        mail_faults.add("explode")


# fixtures


def test_an_inbox_is_named_after_its_test(inbox: Inbox) -> None:
    assert inbox.email.startswith("test-an-inbox-is-named-after-its-test-")
    assert "::test_an_inbox_is_named_after_its_test#" in str(inbox.attempt_id)


def test_mail_that_came_is_no_silence(
    oncebox_server: OnceboxServer, inbox: Inbox, assert_no_mail: Callable[..., None]
) -> None:
    assert_no_mail()
    send(oncebox_server, inbox.email, "410400")

    with pytest.raises(AssertionError, match="1 mail came to test-mail-that-came-is-no"):
        assert_no_mail()  # whether it is read by now or not


def test_silence_that_is_broken_shows_who_wrote_when_and_about_what_but_no_secret(
    oncebox_server: OnceboxServer, inbox: Inbox, assert_no_mail: Callable[..., None]
) -> None:
    subjects = (
        "Welcome to Acme",
        "918273 is your code",
        "Your code: 918-273 or 9 1 8",
        "Your verification code is KWTRMB",
        "Confirm at https://acme.example/verify?token=a8f7d6s5",
    )
    for subject in subjects:
        mail = f"From: Acme <billing@acme.example>\nSubject: {subject}\n\nSee above.\n"
        with smtplib.SMTP(oncebox_server.smtp_host, oncebox_server.smtp_port, timeout=60) as app:
            app.sendmail("bounces@acme.example", inbox.email, mail)

    with pytest.raises(AssertionError) as caught:
        assert_no_mail()
    said = str(caught.value)
    first, *lines = said.splitlines()

    assert first.startswith("5 mails came to test-silence-that-is-broken")
    assert re.fullmatch(
        r"  msg_\w+ \(number 1\), \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, "
        r"from billing@acme.example: Welcome to Acme",
        lines[0],
    )
    assert lines[1].endswith(": … is your code")
    assert lines[2].endswith(": Your code: … or … … …")
    assert lines[3].endswith(": Your verification code is …")
    assert all(secret not in said for secret in ("918", "273", "KWTRMB", "a8f7d6s5", "https:"))


def test_mail_that_comes_in_time_is_no_silence(
    oncebox_server: OnceboxServer,
    inbox: Inbox,
    mail_faults: MailFaults,
    assert_no_mail: Callable[..., None],
) -> None:
    mail_faults.add("delay", seconds=0.3)
    send(oncebox_server, inbox.email, "410410")

    with pytest.raises(AssertionError, match="1 mail came"):
        assert_no_mail(within=60)


def test_mail_that_nobody_reads_is_no_silence(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    report: dict[str, Any] = {
        "inbox_id": inbox.id, "attempt_id": None, "state": "active", "cursor": 1,
        "messages_inspected": 1, "smtp_saw": True, "unread": 1, "seen": [],
    }  # fmt: skip
    stuck = answer({"status": "timeout", "waited": 0.0, "reports": [report]})
    monkeypatch.setattr(fixtures, "_READ_TIMEOUT", 0.0)

    with (
        scripted(stuck) as script,
        Client(script.url, "obx_key") as client,
        pytest.raises(AssertionError, match="not read yet"),
    ):
        fixtures.make_assert_no_mail(client, inbox, later=False)(after=1)


def test_codes_and_links_are_waited_for_by_name(
    oncebox_server: OnceboxServer,
    inbox: Inbox,
    wait_for_code: Callable[..., Any],
    wait_for_link: Callable[..., Any],
) -> None:
    link = "http://localhost:3000/verify?token=a8f7d6s5a4f3d2s1a0f9d8s7"
    send_link(oncebox_server, inbox.email, link)
    assert wait_for_link(within=60).value == link
    send(oncebox_server, inbox.email, "410420")
    assert wait_for_code(sender="acme.example", within=60).value == "410420"


@pytest.mark.parametrize(
    ("origin", "option"),
    [
        ("http://staging.acme.internal:3000", "--link-origin http://HOST:PORT"),
        ("http://10.0.0.7:3000", "--link-origin http://HOST:PORT"),
        ("http://web:3000", "--link-origin http://HOST:PORT"),
        ("https://staging.acme.example", "--link-host HOST"),
    ],
)
def test_a_refused_link_of_a_staging_system_says_how_to_allow_it_and_then_it_is_granted(
    oncebox_server: OnceboxServer,
    oncebox_client: Client,
    inbox: Inbox,
    origin: str,
    option: str,
) -> None:
    link = f"{origin}/verify?token=a8f7d6s5a4f3d2s1a0f9d8s7"
    send_link(oncebox_server, inbox.email, link)
    with pytest.raises(LinkRefused) as caught:
        inbox.wait_for_link(within=60)
    said = str(caught.value)

    assert f"oncebox inbox change-policy {inbox.id} {option}" in said
    assert all(secret not in said for secret in ("a8f7d6s5", "staging", "10.0.0.7"))
    if "origin" in option:
        oncebox_client.inboxes.change_policy(inbox.id, link_origins=[origin])
    else:
        host = origin.partition("://")[2]
        oncebox_client.inboxes.change_policy(inbox.id, link_hosts=[host])
    assert inbox.wait_for_link(within=60).value == link


async def test_in_an_async_test_the_loop_goes_on_meanwhile(
    oncebox_server: OnceboxServer,
    inbox: AsyncInbox,
    assert_no_mail: Callable[..., Any],
) -> None:
    await assert_no_mail()
    waiting = asyncio.create_task(inbox.wait_for_code(within=60))
    await asyncio.sleep(0)
    send(oncebox_server, inbox.email, "410430")

    assert (await waiting).value == "410430"
    assert [each.sequence async for each in inbox.messages()] == [1]
