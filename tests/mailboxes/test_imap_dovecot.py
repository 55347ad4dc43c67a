"""Dovecot's mailboxes are read whole, once, and without a trace."""

import asyncio
from typing import Any

import pytest

from oncebox.mailboxes.imap import ImapReader
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, PageLimits, ResyncReason
from tests.support.dovecot import PASSWORD, Dovecot

LIMITS = PageLimits()


def mail(number: int, size: int = 10) -> bytes:
    return b"Message-ID: <%d@example.com>\nSubject: %d\n\n%s\n" % (number, number, b"x" * size)


def config(server: Dovecot, user: str, **fields: Any) -> ImapConfig:
    given: dict[str, Any] = {
        "host": "127.0.0.1", "port": server.tls_port, "username": user, "password": PASSWORD,
        "since": "all", **fields,
    }  # fmt: skip
    return ImapConfig(**given)


def reader(server: Dovecot, user: str, **fields: Any) -> ImapReader:
    return ImapReader(config(server, user, **fields), tls=server.tls)


async def read_all(
    box: ImapReader, cursor: str | None = None, limits: PageLimits = LIMITS
) -> tuple[list[FetchedMail], str]:
    """Read until there is no more."""
    mails: list[FetchedMail] = []
    while True:
        page = await box.fetch(cursor, limits)
        mails += page.mails
        cursor = page.cursor
        if not page.has_more:
            return mails, cursor


async def test_every_mail_is_read_once_in_order_and_none_is_marked(dovecot: Dovecot) -> None:
    for number in range(25):
        dovecot.deliver("order", mail(number))
    box = reader(dovecot, "order")

    mails, cursor = await read_all(box, limits=PageLimits(mails=7))
    again, _ = await read_all(box, cursor)
    await box.close()

    found = [each.raw.partition(b"Subject: ")[2].split()[0] for each in mails]
    assert found == [b"%d" % number for number in range(25)]
    assert again == []
    assert len({each.provider_id for each in mails}) == 25
    assert all(each.received_at for each in mails)
    assert dovecot.mail_count("order") == 25
    assert dovecot.flags("order") <= {""}


async def test_idle_wakes_on_delivery_and_the_connection_is_kept(dovecot: Dovecot) -> None:
    dovecot.deliver("idle", mail(1))
    box = reader(dovecot, "idle", since="now", idle_for=1.0)
    first = await box.fetch(None, LIMITS)
    connection = box._connection

    waiting = asyncio.ensure_future(box.wait(60))
    await asyncio.sleep(0)
    await asyncio.to_thread(dovecot.deliver, "idle", mail(2))
    woken = await waiting
    mails, _ = await read_all(box, first.cursor)

    assert (first.mails, first.resync, woken) == ((), ResyncReason.FIRST, True)
    assert [b"Subject: 2" in each.raw for each in mails] == [True]
    assert box._connection is connection
    assert await box.wait(0.2) is False
    await box.close()


@pytest.mark.parametrize("security", [ImapSecurity.STARTTLS, ImapSecurity.NONE])
async def test_starttls_and_a_plain_loopback_connection_work_too(
    dovecot: Dovecot, security: ImapSecurity
) -> None:
    dovecot.deliver("secure", mail(1))
    box = reader(dovecot, "secure", port=dovecot.port, security=security)

    mails, _ = await read_all(box)
    await box.close()

    assert mails


async def test_a_certificate_that_nobody_vouches_for_is_refused(dovecot: Dovecot) -> None:
    with pytest.raises(MailboxFailure) as failed:
        await ImapReader(config(dovecot, "tls")).fetch(None, LIMITS)

    assert (failed.value.code, failed.value.needs_operator) == ("certificate_refused", True)


async def test_a_wrong_password_needs_the_operator_and_is_never_shown(dovecot: Dovecot) -> None:
    box = reader(dovecot, "wrong", password="not-the-password")

    with pytest.raises(MailboxFailure) as failed:
        await box.fetch(None, LIMITS)

    assert (failed.value.code, failed.value.needs_operator) == ("login_refused", True)
    assert "not-the-password" not in f"{failed.value!r} {box!r} {config(dovecot, 'wrong')!r}"


async def test_several_folders_with_names_of_any_language_are_read(dovecot: Dovecot) -> None:
    folders = ("INBOX", "Entwürfe & Ablage", "日本")
    for name in folders[1:]:
        dovecot.doveadm("mailbox", "create", "-u", "many", name)
    for number in range(3):
        dovecot.deliver("many", mail(number))
    box = reader(dovecot, "many", folders=folders, poll_every=0.2)
    probed = await box.probe()
    mails, cursor = await read_all(box, limits=PageLimits(mails=2))

    dovecot.doveadm("move", "-u", "many", "日本", "mailbox", "INBOX", "header", "subject", "1")
    woken = await box.wait(30)
    moved, _ = await read_all(box, cursor)
    await box.close()

    assert set(folders) <= set(probed.folders)
    assert (probed.mails, "IDLE" in probed.capabilities) == (3, True)
    assert len(mails) == 3
    assert woken
    assert [each.provider_id.startswith("imap:日本:") for each in moved] == [True]


async def test_a_folder_that_is_gone_needs_the_operator(dovecot: Dovecot) -> None:
    with pytest.raises(MailboxFailure) as failed:
        await reader(dovecot, "gone", folders=("Nowhere",)).fetch(None, LIMITS)

    assert (failed.value.code, failed.value.needs_operator) == ("folder_missing", True)


async def test_a_folder_made_anew_is_read_again_and_nothing_is_lost(dovecot: Dovecot) -> None:
    dovecot.doveadm("mailbox", "create", "-u", "anew", "Work")
    for number in range(3):
        dovecot.deliver("anew", mail(number))
    dovecot.doveadm("copy", "-u", "anew", "Work", "mailbox", "INBOX", "all")
    box = reader(dovecot, "anew", folders=("Work",))
    _, cursor = await read_all(box)

    dovecot.doveadm("mailbox", "delete", "-u", "anew", "Work")
    # A UIDVALIDITY is a second of the clock.
    await asyncio.sleep(1.1)
    dovecot.doveadm("mailbox", "create", "-u", "anew", "Work")
    dovecot.doveadm("copy", "-u", "anew", "Work", "mailbox", "INBOX", "all")
    page = await box.fetch(cursor, LIMITS)
    await box.close()

    assert page.resync is ResyncReason.UIDVALIDITY
    assert len(page.mails) == 3


async def test_large_mails_are_skipped_and_the_others_are_read(dovecot: Dovecot) -> None:
    for size in (10, 50_000, 20):
        dovecot.deliver("large", mail(size, size))

    box = reader(dovecot, "large")
    page = await box.fetch(None, PageLimits(mail_bytes=10_000))
    await box.close()

    assert [each.raw.partition(b"Subject: ")[2].split()[0] for each in page.mails] == [b"10", b"20"]
    assert [each.code for each in page.skipped] == ["too_large"]
