"""The IMAP reader's connection: waiting, TLS, logins, tokens; and its configuration."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.access_tokens import TokenCommand
from oncebox.mailboxes.imap_config import ImapConfig, check_imap_config, imap_config
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.reader import MailboxFailure
from oncebox.testing.imap import CAPABILITIES, ImapStep, ScriptedImap
from tests.mailboxes.imap_box import (
    IMPATIENT,
    LIMITS,
    config,
    failure_of,
    mail,
    opened,
    read_all,
    sends,
)
from tests.support import certificates
from tests.support.http import until

# waiting


async def test_idle_wakes_for_new_mail_and_the_connection_is_kept(imap: ScriptedImap) -> None:
    async with opened(imap) as reader:
        _, page = await read_all(reader)
        waiting = asyncio.ensure_future(reader.wait(60))
        await until(lambda: "IDLE" in imap.commands)
        imap.add(mail(1))
        woken = await waiting
        mails, _ = await read_all(reader, page.cursor)

    assert (woken, len(mails), imap.connections) == (True, 1, 1)


async def test_idle_is_renewed_and_ends_in_time(imap: ScriptedImap) -> None:
    async with opened(imap, idle_for=0.05) as reader:
        await read_all(reader)
        assert await reader.wait(0.3) is False

    assert imap.commands.count("IDLE") > 2


async def test_a_mail_that_came_between_fetch_and_wait_is_seen(imap: ScriptedImap) -> None:
    async with opened(imap) as reader:
        _, page = await read_all(reader)
        imap.add(mail(1))

        assert await reader.wait(60) is True
        assert len((await reader.fetch(page.cursor, LIMITS)).mails) == 1


async def test_without_idle_the_folder_is_polled_on_the_same_connection() -> None:
    capabilities = [each for each in CAPABILITIES if each != "IDLE"]
    async with (
        ScriptedImap(capabilities=capabilities) as server,
        opened(server, poll_every=0.05) as reader,
    ):
        await read_all(reader)
        waiting = asyncio.ensure_future(reader.wait(60))
        await until(lambda: "NOOP" in server.commands)
        server.add(mail(1))

        assert await waiting is True
    assert server.connections == 1
    assert "IDLE" not in server.commands


async def test_a_server_that_refuses_idle_is_polled(imap: ScriptedImap) -> None:
    imap.always("no@idle")
    async with opened(imap, poll_every=0.05, idle_for=0.05) as reader:
        await read_all(reader)

        assert await reader.wait(0.3) is False
    assert "NOOP" in imap.commands


async def test_mail_in_the_other_folders_is_seen_too(imap: ScriptedImap) -> None:
    imap.folder("Work")
    async with opened(imap, folders=("INBOX", "Work"), poll_every=0.05) as reader:
        _, page = await read_all(reader)
        waiting = asyncio.ensure_future(reader.wait(60))
        await until(lambda: "IDLE" in imap.commands)
        imap.add(mail(1), "Work")
        woken = await waiting
        mails, _ = await read_all(reader, page.cursor)

    assert (woken, len(mails)) == (True, 1)


async def test_a_silent_drop_in_idle_is_noticed(imap: ScriptedImap) -> None:
    async with opened(imap, idle_for=0.05) as reader:
        await reader.fetch(None, IMPATIENT)
        imap.script("silence@done")
        with pytest.raises(MailboxFailure) as failed:
            await reader.wait(60)

    assert failed.value.code == "timed_out"


async def test_a_connection_lost_soon_is_a_failure_and_one_that_lasted_is_replaced(
    imap: ScriptedImap,
) -> None:
    async with opened(imap) as reader:
        await read_all(reader)
        imap.script("drop@idle")
        with pytest.raises(MailboxFailure) as failed:
            await reader.wait(60)
    async with opened(imap, lasting=0.0) as reader:
        await read_all(reader)
        imap.script("drop@idle")
        waiting = asyncio.ensure_future(reader.wait(60))
        await until(lambda: imap.script_is_over and imap.connections == 3)
        imap.add(mail(1))

        assert await waiting is True
    assert failed.value.code == "server_closed"


async def test_mail_that_is_announced_and_never_there_costs_no_busy_loop(
    imap: ScriptedImap,
) -> None:
    searched = 0
    async with opened(imap) as reader:
        _, page = await read_all(reader)
        give_up = asyncio.get_running_loop().time() + 1.5
        while asyncio.get_running_loop().time() < give_up:
            imap.announce()
            imap.folder().modseq += 1
            await reader.wait(10)
            page = await reader.fetch(page.cursor, LIMITS)
            searched += 1

    assert searched < 6
    assert page.mails == ()


async def test_a_call_that_is_cancelled_leaves_no_answer_for_the_next_one(
    imap: ScriptedImap,
) -> None:
    imap.add(mail(1))
    imap.script("sleep=5@body")
    async with opened(imap) as reader:
        call = asyncio.ensure_future(reader.fetch(None, LIMITS))
        await until(lambda: imap.script_is_over)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

        assert len((await reader.fetch(None, LIMITS)).mails) == 1


# login and TLS


async def test_passwords_of_any_characters_are_sent_whole_by_every_way() -> None:
    password = 'pässwörd "\\ 日本 {5}'
    for capabilities in (("IMAP4REV1",), ("IMAP4REV1", "LITERAL-"), CAPABILITIES, ("AUTH=PLAIN",)):
        users = {"ann": password, 'b"ob': "plain \\ password"}
        async with ScriptedImap(users=users, capabilities=capabilities) as server:
            for user, secret in users.items():
                async with opened(server, username=user, password=secret) as reader:
                    await read_all(reader)
            assert not any(password in each for each in server.commands)


async def test_starttls_is_required_and_what_was_said_before_it_does_not_count(
    tmp_path: Path,
) -> None:
    server_tls, client_tls = certificates.make(tmp_path)
    async with ScriptedImap(tls=server_tls) as server:
        async with opened(server, security=ImapSecurity.STARTTLS, tls=client_tls) as reader:
            await read_all(reader)
        injected = b"%TAG% OK go\r\n* CAPABILITY IMAP4REV1 AUTH=PLAIN\r\n"
        server.script(sends(ImapStep.STARTTLS, injected))
        async with opened(server, security=ImapSecurity.STARTTLS, tls=client_tls) as reader:
            failed = await failure_of(reader, IMPATIENT)
        server.script(sends(ImapStep.CONNECT, b"* PREAUTH welcome\r\n"))
        async with opened(server, security=ImapSecurity.STARTTLS, tls=client_tls) as reader:
            preauth = await failure_of(reader)
    async with ScriptedImap() as plain, opened(plain, security=ImapSecurity.STARTTLS) as reader:
        missing = await failure_of(reader)

    assert failed.code == "answer_invalid"
    assert (missing.code, missing.needs_operator) == ("starttls_missing", True)
    assert preauth.code == "starttls_missing"
    assert "LOGIN" not in plain.commands


async def test_implicit_tls_is_verified(tmp_path: Path) -> None:
    server_tls, client_tls = certificates.make(tmp_path)
    async with ScriptedImap(tls=server_tls, implicit_tls=True) as server:
        async with opened(server, security=ImapSecurity.TLS, tls=client_tls) as reader:
            await read_all(reader)
        async with opened(server, security=ImapSecurity.TLS) as reader:
            failed = await failure_of(reader)
    async with ScriptedImap() as plain, opened(plain, security=ImapSecurity.TLS) as reader:
        no_tls = await failure_of(reader, IMPATIENT)

    assert (failed.code, failed.needs_operator) == ("certificate_refused", True)
    assert no_tls.code in {"tls_failed", "server_closed", "connect_failed"}


def printing(tmp_path: Path, token: str) -> TokenCommand:
    file = tmp_path / "token"
    file.write_text(token)
    return TokenCommand(words=("cat", str(file)))


async def test_a_token_that_expires_in_idle_is_replaced_by_a_new_login(tmp_path: Path) -> None:
    command = printing(tmp_path, "token-1")
    async with (
        ScriptedImap(tokens=["token-1"], capabilities=("IMAP4REV1", "IDLE")) as server,
        opened(server, password="", token=command, lasting=0.0) as reader,
    ):
        _, page = await read_all(reader)
        waiting = asyncio.ensure_future(reader.wait(60))
        await until(lambda: "IDLE" in server.commands)
        printing(tmp_path, "token-2")
        server.accept_tokens("token-2")
        server.end_sessions()
        await until(lambda: server.commands.count("IDLE") == 2)
        server.add(mail(1))

        assert await waiting is True
        assert len((await reader.fetch(page.cursor, LIMITS)).mails) == 1
    # the first login, one with the old token, one with the new
    assert server.commands.count("AUTHENTICATE") == 3


async def test_a_token_that_is_refused_twice_needs_the_operator(tmp_path: Path) -> None:
    command = printing(tmp_path, "stale-token")
    async with (
        ScriptedImap(tokens=["other"]) as server,
        opened(server, password="", token=command) as reader,
    ):
        failed = await failure_of(reader)
        given = config(server, password="", token=command)
        shown = f"{failed!r} {reader!r} {command!r} {given!r}"

    assert (failed.code, failed.needs_operator) == ("login_refused", True)
    assert server.commands.count("AUTHENTICATE") == 2
    assert "stale-token" not in shown


# configuration


def test_a_url_names_server_user_and_folder() -> None:
    found = imap_config("imaps://ann%40example.com@imap.example.com/Work", password="x", since=3)

    assert (found.host, found.listening_port, found.security) == (
        "imap.example.com", 993, ImapSecurity.TLS,
    )  # fmt: skip
    assert (found.username, found.folders, found.since) == ("ann@example.com", ("Work",), 3)
    assert imap_config("imap://ann@h.example", password="x").security is ImapSecurity.STARTTLS


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("http://ann@h.example", {}), ("imaps://ann:pass@h.example", {}), ("imaps://", {}),
        ("imaps://ann@h.example:99999", {}), ("imaps://ann@h.example?x=1", {}),
        ("imaps://ann@h.example", {"since": "yesterday"}), ("imaps://ann@h.example", {"since": -1}),
        ("imaps://ann@h.example", {"password": ""}), ("imaps://h.example", {}),
        ("imap://ann@h.example", {"security": "none"}), ("imaps://ann@h.example", {"folders": []}),
        ("imaps://ann@h.example", {"folders": ["a\r\nb"]}),
        ("imaps://ann@h.example", {"folders": ["a", "a"]}),
        ("imaps://ann@h.example", {"ca": "no certificate"}),
        ("imaps://ann@h.example", {"password": "two\r\nlines"}),
        ("imaps://ann@h.example", {"idle_for": 1800}), ("imaps://ann@h.example", {"unknown": 1}),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_work_is_refused_with_a_remedy(
    url: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        imap_config(url, **{"password": "hunter2", **fields})

    assert "hunter2" not in str(refused.value)
    assert "pass@" not in str(refused.value)


def test_cleartext_is_for_this_machine_only() -> None:
    check_imap_config(
        ImapConfig(host="localhost", security=ImapSecurity.NONE, username="a", password="b")
    )
