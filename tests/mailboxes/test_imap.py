"""The IMAP reader and servers that fail, lie and change: nothing lost, nothing twice, no loop."""

from datetime import UTC, datetime, timedelta

import pytest

from oncebox.mailboxes.imap import ImapReader
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.reader import (
    FetchedMail,
    MailboxFailure,
    MailboxPage,
    PageLimits,
    ResyncReason,
    SkippedMail,
)
from oncebox.testing.imap import CAPABILITIES, RECEIVED_AT, ImapStep, ScriptedImap
from tests.mailboxes.imap_box import (
    DAY,
    IMPATIENT,
    LIMITS,
    NOW,
    failure_of,
    mail,
    opened,
    read_all,
    sends,
)
from tests.support.ports import free_port

# pages


async def test_a_mail_is_not_older_than_the_second_that_the_server_names(
    imap: ScriptedImap,
) -> None:
    """A mail of the second in which its inbox was made would be from before it."""
    imap.add(mail(1), received_at=RECEIVED_AT)
    async with opened(imap) as reader:
        page = await reader.fetch(None, LIMITS)

    second = int(RECEIVED_AT.timestamp() * 1000)
    assert [each.received_at for each in page.mails] == [second + 999]


async def test_pages_are_bounded_in_uid_order_and_each_mail_is_in_one(imap: ScriptedImap) -> None:
    for number in range(23):
        imap.add(mail(number))
    async with opened(imap) as reader:
        first = await reader.fetch(None, PageLimits(mails=5))
        rest, _ = await read_all(reader, first.cursor, PageLimits(mails=5))

    mails = [*first.mails, *rest]
    assert len(first.mails) == 5
    assert (first.has_more, first.remaining) == (True, 18)
    assert [each.raw for each in mails] == [mail(number) for number in range(23)]
    assert [each.provider_id for each in mails] == [f"imap:INBOX:1:{n}" for n in range(1, 24)]
    assert imap.connections == 1


async def test_the_same_cursor_gives_the_same_mails_to_any_reader(imap: ScriptedImap) -> None:
    for number in range(6):
        imap.add(mail(number))
    async with opened(imap) as reader, opened(imap) as other:
        first = await reader.fetch(None, PageLimits(mails=2))
        second = await reader.fetch(first.cursor, PageLimits(mails=2))

        assert await reader.fetch(first.cursor, PageLimits(mails=2)) == second
        assert await other.fetch(first.cursor, PageLimits(mails=2)) == second


async def test_a_page_holds_so_many_bytes_and_a_larger_mail_comes_alone(imap: ScriptedImap) -> None:
    for size in (400, 400, 5000, 10):
        imap.add(mail(size, size))
    async with opened(imap) as reader:
        limits = PageLimits(page_bytes=1000)
        sizes, cursor = [], None
        for _ in range(4):
            page = await reader.fetch(cursor, limits)
            sizes.append(len(page.mails))
            cursor = page.cursor

    assert sizes == [2, 1, 1, 0]


async def test_the_last_mail_is_not_read_again_though_a_search_returns_it(
    imap: ScriptedImap,
) -> None:
    imap.add(mail(1))
    async with opened(imap) as reader:
        _, page = await read_all(reader)
        imap.folder().modseq += 1
        again = await reader.fetch(page.cursor, LIMITS)

    assert "SEARCH UID 2:*" in imap.commands
    assert (again.mails, again.has_more) == ((), False)


async def test_a_folder_that_has_not_changed_is_not_searched(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    async with opened(imap) as reader:
        _, page = await read_all(reader)
        before = imap.commands.count("SEARCH UID 2:*")
        await reader.fetch(page.cursor, LIMITS)

    assert imap.commands.count("SEARCH UID 2:*") == before


async def test_gaps_of_millions_of_uids_are_crossed_in_a_few_searches(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    imap.folder().uidnext = 3_000_000_000
    imap.add(mail(2))
    async with opened(imap) as reader:
        mails, _ = await read_all(reader)

    assert [each.raw for each in mails] == [mail(1), mail(2)]
    assert sum(each.startswith("SEARCH") for each in imap.commands) < 15


async def test_a_mail_that_vanishes_between_search_and_fetch_is_gone(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    imap.folder().found_too = (5, 7)
    async with opened(imap) as reader:
        page = await reader.fetch(None, LIMITS)

    assert [each.raw for each in page.mails] == [mail(1)]
    assert [each.code for each in page.skipped] == ["gone", "gone"]
    assert not page.has_more


# the beginning


async def test_without_a_choice_only_mail_from_now_on_is_read(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    async with opened(imap, since="now") as reader:
        first = await reader.fetch(None, LIMITS)
        imap.add(mail(2))
        mails, _ = await read_all(reader, first.cursor)

    assert (first.mails, first.resync) == ((), ResyncReason.FIRST)
    assert [each.raw for each in mails] == [mail(2)]


async def test_a_server_that_does_not_say_uidnext_begins_now_too(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    imap.folder().says_uidnext = False
    async with opened(imap, since="now") as reader:
        first = await reader.fetch(None, LIMITS)
        imap.add(mail(2))
        mails, _ = await read_all(reader, first.cursor)

    assert [each.raw for each in mails] == [mail(2)]


async def test_mail_of_some_days_is_read_by_the_minute(imap: ScriptedImap) -> None:
    moments = [RECEIVED_AT - 3 * DAY, RECEIVED_AT - DAY - timedelta(hours=2), RECEIVED_AT - DAY / 2]
    for number, moment in enumerate(moments):
        imap.add(mail(number), received_at=moment)
    async with opened(imap, since=1) as reader:
        mails, page = await read_all(reader)
        imap.add(mail(9), received_at=RECEIVED_AT - 30 * DAY)
        moved, _ = await read_all(reader, page.cursor)

    assert [each.raw for each in mails] == [mail(2)]
    # One that was moved into the folder later is new here, however old it is.
    assert [each.raw for each in moved] == [mail(9)]


async def test_a_cursor_of_another_kind_is_a_resync_and_no_error(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    async with opened(imap) as reader:
        page = await reader.fetch("history:12", LIMITS)

    assert (page.resync, len(page.mails)) == (ResyncReason.EXPIRED, 1)


# UIDVALIDITY


async def test_a_changed_uidvalidity_is_a_bounded_resync_and_nothing_is_lost(
    imap: ScriptedImap,
) -> None:
    for number in range(20):
        imap.add(mail(number), received_at=RECEIVED_AT - 10 * DAY)
    async with opened(imap, newest=4, now=NOW) as reader:
        _, page = await read_all(reader)
        # More arrive than are read again, before the folder is made anew.
        for number in range(20, 30):
            imap.add(mail(number))
        imap.rebuild()
        again = await reader.fetch(page.cursor, LIMITS)

    assert again.resync is ResyncReason.UIDVALIDITY
    assert [each.raw for each in again.mails][-10:] == [mail(number) for number in range(20, 30)]
    assert {each.provider_id.split(":")[2] for each in again.mails} == {"2"}


async def test_a_resync_reads_the_newest_mails_only(imap: ScriptedImap) -> None:
    for number in range(50):
        imap.add(mail(number), received_at=RECEIVED_AT - (50 - number) * DAY)
    async with opened(imap, newest=5) as reader:
        _, page = await read_all(reader)
        imap.rebuild()
        mails, _ = await read_all(reader, page.cursor)

    assert [each.raw for each in mails] == [mail(number) for number in range(45, 50)]


async def test_a_resync_does_not_bring_mail_from_before_the_mailbox_was_added(
    imap: ScriptedImap,
) -> None:
    imap.add(mail(1), received_at=RECEIVED_AT)
    async with opened(imap, since="now") as reader:
        first = await reader.fetch(None, LIMITS)
        imap.add(mail(2), received_at=datetime.fromtimestamp(NOW / 1000, UTC))
        imap.rebuild()
        mails, _ = await read_all(reader, first.cursor)

    assert [each.raw for each in mails] == [mail(2)]


async def test_a_uidvalidity_that_never_lasts_needs_the_operator(imap: ScriptedImap) -> None:
    for number in range(10):
        imap.add(mail(number))

    async def read_while_it_changes() -> None:
        cursor = None
        for _ in range(20):
            cursor = (await reader.fetch(cursor, PageLimits(mails=2))).cursor
            imap.rebuild()
            reader._drop()

    async with opened(imap) as reader:
        with pytest.raises(MailboxFailure) as failed:
            await read_while_it_changes()

    assert (failed.value.code, failed.value.needs_operator) == ("uidvalidity_unstable", True)


# sizes


async def test_a_mail_above_the_limit_is_skipped_unread(imap: ScriptedImap) -> None:
    for size in (10, 9000, 20):
        imap.add(mail(size, size))
    async with opened(imap) as reader:
        page = await reader.fetch(None, PageLimits(mail_bytes=1000))

    assert [each.raw for each in page.mails] == [mail(10, 10), mail(20, 20)]
    assert [(each.provider_id, each.code) for each in page.skipped] == [
        ("imap:INBOX:1:2", "too_large")
    ]
    assert "FETCH 1,3 (UID BODY.PEEK[])" in imap.commands


async def test_a_size_that_is_a_lie_costs_one_mail_and_no_loop(imap: ScriptedImap) -> None:
    for number, size in enumerate((10, 90_000, 20)):
        imap.add(mail(number, size), size=10)
    async with opened(imap) as reader:
        mails: list[FetchedMail] = []
        skipped: list[SkippedMail] = []
        page: MailboxPage | None = None
        for _ in range(4):
            page = await reader.fetch(page.cursor if page else None, PageLimits(mail_bytes=1000))
            mails += page.mails
            skipped += page.skipped

    assert [each.raw for each in mails] == [mail(0, 10), mail(2, 20)]
    assert [each.code for each in skipped] == ["too_large"]


async def test_a_literal_of_two_gigabytes_is_not_read(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    imap.add(mail(2))
    imap.script("flood@body", "flood@body")
    async with opened(imap) as reader:
        mails, _ = await read_all(reader)

    assert [each.raw for each in mails] == [mail(2)]
    assert imap.script_is_over


async def test_many_mails_that_are_larger_than_said_do_not_grow_a_page(imap: ScriptedImap) -> None:
    for number in range(20):
        imap.add(mail(number, 900), size=1)
    async with opened(imap) as reader:
        limits = PageLimits(mail_bytes=1000, page_bytes=2000)
        first = await reader.fetch(None, limits)
        mails, _ = await read_all(reader, first.cursor, limits)

    assert 0 < len(first.mails) < 5
    assert len(first.mails) + len(mails) == 20


@pytest.mark.parametrize(
    "data",
    [
        b"* 1 EXISTS\r\n" * 300_000, b"* SEARCH " + b"1 " * 2_000_000,
        b"* SEARCH 1 2\r\n" * 700_000,
    ],
    ids=["responses", "line", "bytes"],
)  # fmt: skip
async def test_an_answer_without_end_is_refused(imap: ScriptedImap, data: bytes) -> None:
    imap.script(sends(ImapStep.SEARCH, data))
    async with opened(imap) as reader:
        failed = await failure_of(reader)

    assert failed.code == "answer_too_large"


async def test_a_search_may_claim_every_uid_there_can_be(imap: ScriptedImap) -> None:
    answer = b'* ESEARCH (TAG "%TAG%") UID ALL 1:4294967295\r\n%TAG% OK done\r\n'
    imap.add(mail(1))
    imap.script(sends(ImapStep.SEARCH, answer))
    async with opened(imap) as reader:
        page = await reader.fetch(None, PageLimits(mails=10))

    assert [each.raw for each in page.mails] == [mail(1)]
    assert len(page.skipped) == 9
    assert page.has_more


# faults


@pytest.mark.parametrize(
    ("fault", "code", "needs_operator"),
    [
        ("drop@connect", "server_closed", False), ("hang_up@connect", "server_closed", False),
        ("bye@connect", "server_closed", False), ("no@login", "login_refused", True),
        ("no=UNAVAILABLE@login", "server_unavailable", False),
        ("no=LIMIT@login", "throttled", False), ("no=EXPIRED@login", "login_refused", True),
        ("drop@login", "server_closed", False), ("drop@examine", "server_closed", False),
        ("no@examine", "folder_refused", False), ("no=INUSE@examine", "server_unavailable", False),
        ("no@search", "server_refused", False), ("drop@fetch", "server_closed", False),
        ("drop@body", "server_closed", False), ("no=LIMIT@body", "throttled", False),
        ("silence@connect", "timed_out", False), ("silence@body", "timed_out", False),
        ("silence@login", "timed_out", False), ("flood@fetch", "answer_too_large", False),
    ],
)  # fmt: skip
async def test_a_fault_is_a_failure_with_a_code_and_the_next_call_reads(
    imap: ScriptedImap, fault: str, code: str, needs_operator: bool
) -> None:
    imap.add(mail(1))
    imap.script(fault)
    async with opened(imap) as reader:
        failed = await failure_of(reader, IMPATIENT)
        mails, _ = await read_all(reader)

    assert (failed.code, failed.needs_operator) == (code, needs_operator)
    assert len(mails) == 1
    assert imap.script_is_over


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html></html>",
        b"<!doctype html>\r\n", b"220 smtp.example.com ESMTP\r\n",
        b"A1 OK hello\r\n", b"+ hello\r\n",
        b"* 5 EXISTS\r\n", b"\0\0\0\n",
    ],
)  # fmt: skip
async def test_a_server_that_speaks_something_else_is_told_apart(
    imap: ScriptedImap, data: bytes
) -> None:
    imap.script(sends(ImapStep.CONNECT, data))
    async with opened(imap) as reader:
        failed = await failure_of(reader)

    assert failed.code == "answer_invalid"


@pytest.mark.parametrize(
    "data",
    [
        b"* 1 FETCH (UID x RFC822.SIZE 5)\r\n", b"* 1 FETCH (UID)\r\n", b"* 1 FETCH UID\r\n",
        b"* 1 FETCH ((((\r\n", b"A999 OK other\r\n", b"+ go\r\n", b"* 1 FETCH\r\n",
        b"* 1 FETCH (UID 1 RFC822.SIZE (1 2))\r\n", b"* 1 FETCH (NIL NIL)\r\n",
    ],
)  # fmt: skip
async def test_an_answer_that_cannot_be_understood_is_a_failure(
    imap: ScriptedImap, data: bytes
) -> None:
    imap.add(mail(1))
    imap.script(sends(ImapStep.FETCH, data))
    async with opened(imap) as reader:
        failed = await failure_of(reader)

    assert failed.code == "answer_invalid"


async def test_a_mail_the_server_cannot_read_is_tried_again_and_then_skipped(
    imap: ScriptedImap,
) -> None:
    for number in range(3):
        imap.add(mail(number))
    refusals = [f"no@{ImapStep.BODY}"] * 2
    codes = []
    async with opened(imap, refused_before=9) as reader:
        for _ in range(2):
            imap.script(*refusals)
            codes.append((await failure_of(reader)).code)
        imap.script(*refusals)
        mails, _ = await read_all(reader)

    assert codes == ["mail_refused", "mail_refused"]
    assert [each.raw for each in mails] == [mail(1), mail(2)]


@pytest.mark.parametrize("body", [b'""', b"{0}\r\n"])
async def test_an_empty_body_of_a_mail_that_has_a_size_is_tried_again_and_then_skipped(
    imap: ScriptedImap, body: bytes
) -> None:
    for number in range(2):
        imap.add(mail(number, 500))
    empty = b"* 1 FETCH (UID 1 BODY[] " + body + b")\r\n%TAG% OK done\r\n"
    codes = []
    async with opened(imap, refused_before=9) as reader:
        for _ in range(2):
            imap.script(*[sends(ImapStep.BODY, empty)] * 2)
            codes.append((await failure_of(reader)).code)
        mails, _ = await read_all(reader)

    assert codes == ["mail_refused", "mail_refused"]
    assert [each.raw for each in mails] == [mail(0, 500), mail(1, 500)]


async def test_mail_before_one_whose_body_is_empty_is_read(imap: ScriptedImap) -> None:
    for number in range(3):
        imap.add(mail(number))
    whole = b"".join(
        b"* %d FETCH (UID %d BODY[] {%d}\r\n%s)\r\n" % (uid, uid, len(body), body)
        for uid, body in ((1, mail(0)), (2, b""), (3, mail(2)))
    )
    empty = b'* 2 FETCH (UID 2 BODY[] "")\r\n%TAG% OK done\r\n'
    imap.script(sends(ImapStep.BODY, whole + b"%TAG% OK done\r\n"))
    async with opened(imap) as reader:
        page = await reader.fetch(None, LIMITS)
        for _ in range(11):
            imap.script(*[sends(ImapStep.BODY, empty)] * 2)
            with pytest.raises(MailboxFailure, match="mail_refused"):
                await reader.fetch(page.cursor, LIMITS)
        imap.script(*[sends(ImapStep.BODY, empty)] * 2)
        rest = await reader.fetch(page.cursor, LIMITS)
        last, _ = await read_all(reader, rest.cursor)

    assert [each.raw for each in page.mails] == [mail(0)]
    assert [(each.provider_id, each.code) for each in rest.skipped] == [
        ("imap:INBOX:1:2", "unreadable")
    ]
    assert [each.raw for each in last] == [mail(2)]


async def test_a_mail_without_a_byte_is_empty(imap: ScriptedImap) -> None:
    imap.add(b"")
    async with opened(imap) as reader:
        mails, _ = await read_all(reader)

    assert [each.raw for each in mails] == [b""]


async def test_a_mail_that_is_refused_to_one_reader_after_another_is_skipped_in_the_end(
    imap: ScriptedImap,
) -> None:
    for number in range(3):
        imap.add(mail(number))
    refusals = [f"no@{ImapStep.BODY}"] * 2
    for before in (0, 1, 10):
        imap.script(*refusals)
        async with opened(imap, refused_before=before) as reader:
            assert (await failure_of(reader)).code == "mail_refused"
    async with opened(imap, refused_before=11) as reader:
        imap.script(*refusals)
        page = await reader.fetch(None, PageLimits(mails=1))
        imap.script(*refusals)
        with pytest.raises(MailboxFailure, match="mail_refused"):
            await reader.fetch(page.cursor, LIMITS)

    assert [each.code for each in page.skipped] == ["unreadable"]


async def test_refusals_of_a_mail_that_was_read_in_the_end_do_not_count_for_the_next(
    imap: ScriptedImap,
) -> None:
    for number in range(2):
        imap.add(mail(number))
    async with opened(imap, refused_before=11) as reader:
        page = await reader.fetch(None, PageLimits(mails=1))
        imap.script(*[f"no@{ImapStep.BODY}"] * 2)
        with pytest.raises(MailboxFailure, match="mail_refused"):
            await reader.fetch(page.cursor, LIMITS)

    assert [each.raw for each in page.mails] == [mail(0)]


async def test_a_microsoft_server_says_how_long_to_wait(imap: ScriptedImap) -> None:
    text = b"%TAG% BAD Request is throttled. Suggested Backoff Time: 2500 milliseconds\r\n"
    imap.script(sends(ImapStep.SEARCH, text))
    async with opened(imap) as reader:
        failed = await failure_of(reader)

    assert (failed.code, failed.retry_after) == ("throttled", 2.5)


async def test_a_folder_that_is_gone_needs_the_operator(imap: ScriptedImap) -> None:
    imap.add(mail(1), "Work")
    async with opened(imap, folders=("INBOX", "Work")) as reader:
        await read_all(reader)
        imap.remove_folder("Work")
        failed = await failure_of(reader)

    assert (failed.code, failed.needs_operator) == ("folder_missing", True)


async def test_where_nobody_listens_and_where_no_host_is() -> None:
    here = ImapConfig(
        host="127.0.0.1", port=free_port(), security=ImapSecurity.NONE, username="a", password="b"
    )
    nowhere = ImapConfig(host="imap.invalid", username="a", password="b")

    assert (await failure_of(ImapReader(here))).code == "connect_failed"
    assert (await failure_of(ImapReader(nowhere))).code == "host_not_found"


async def test_answers_that_nobody_asked_for_change_nothing(imap: ScriptedImap) -> None:
    imap.add(mail(1))
    unasked = (
        b"* 1 FETCH (FLAGS (\\Seen))\r\n* 9 FETCH (UID 9 BODY[] {1}\r\nx)\r\n* 1 EXPUNGE\r\n"
        b"* 1 FETCH (UID 1 BODY[] {2}\r\nab)\r\n* 1 FETCH (UID 1 BODY[] {2}\r\ncd)\r\n%TAG% OK\r\n"
    )
    imap.script(sends(ImapStep.BODY, unasked))
    async with opened(imap) as reader:
        page = await reader.fetch(None, LIMITS)

    assert [each.raw for each in page.mails] == [b"ab"]


# one mail in several folders


@pytest.mark.parametrize(
    ("capability", "mail_id"),
    [("OBJECTID", "imap:EMAILID:M77"), ("X-GM-EXT-1", "imap:X-GM-MSGID:77")],
)  # fmt: skip
async def test_a_mail_that_was_moved_keeps_its_id_where_the_server_has_one(
    capability: str, mail_id: str
) -> None:
    name = mail_id.rpartition(":")[2]
    async with ScriptedImap(capabilities=(*CAPABILITIES, capability)) as server:
        server.add(mail(1), object_id=name)
        server.add(mail(1), "Work", object_id=name)
        server.add(mail(2), "Work", object_id="M78")
        async with opened(server, folders=("INBOX", "Work")) as reader:
            page = await reader.fetch(None, LIMITS)

    assert page.mails[0].provider_id == mail_id
    assert len(page.mails) == 2
