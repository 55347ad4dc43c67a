"""Inboxes of tests: made for one, named after it, closed after it."""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from oncebox.client.call import Call, Plan, path
from oncebox.client.failures import CallFailed
from oncebox.client.inbox import Inbox
from oncebox.client.room import Carrier
from oncebox.client.sync import Client, Courier
from oncebox.client.tail import Tail
from oncebox.wire.waits import Waited, WaitFor, WaitReport

#: how much of a test's name an address and an attempt hold
_NAME, _ATTEMPT = 40, 180
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_CONTROLS = re.compile(r"[^ -~]")
#: a message with this number never comes, so that who waits for it claims nothing
_NEVER = 2**53
#: seconds that mail which was taken has to be read, and between two looks
_READ_WITHIN, _GLANCE = 30.0, 0.02


class Threads:
    """Carries out in threads what is awaited, so that the loop of a test goes on meanwhile.

    It can do what an inbox asks for, and no more.
    """

    def __init__(self, courier: Courier) -> None:
        """Have it carried out by this courier."""
        self._courier = courier

    def carry(self, what: Call[Any] | Plan[Any]) -> Awaitable[Any]:
        """Return something to await."""
        return asyncio.to_thread(self._courier.carry, what)

    async def tail(self, tail: Tail[Any, Any]) -> AsyncIterator[Any]:
        """Go through a list that grows."""
        while (page := await asyncio.to_thread(self._courier.drive, tail.next())) is not None:
            for each in page.data:
                yield each


@contextmanager
def opened(client: Client, nodeid: str, name: str, *, later: bool) -> Iterator[Inbox[Any]]:
    """Make an inbox for a test, and close it; ``later``: what it does is awaited."""
    inbox = _made(client, nodeid, name)
    try:
        yield _later(client, inbox) if later else inbox
    finally:
        with suppress(CallFailed):  # whoever could not be reached has told the test already
            inbox.close(drain=0)


def _later(client: Client, inbox: Inbox[Any]) -> Inbox[Any]:
    """Return the same inbox, but what it does is awaited."""
    carrier = Threads(client._courier)  # noqa: SLF001 - shared on purpose
    return Inbox(cast("Carrier", carrier), inbox.told)


def _made(client: Client, nodeid: str, name: str) -> Inbox[Any]:
    """Make an inbox under a name that no other run has."""
    once = secrets.token_hex(5)
    attempt = f"{_CONTROLS.sub('?', nodeid)[-_ATTEMPT:]}#{once}"
    plain = _NOT_PLAIN.sub("-", name.lower()).strip("-")[:_NAME].strip("-")
    return client.inboxes.create(attempt_id=attempt, local=f"{plain or 'test'}-{once}")


def silence(client: Client, inbox: Inbox[Any], *, later: bool) -> Callable[..., Any]:
    """Return what fails a test if mail has come to its inbox; ``later``: it is awaited."""

    def assert_no_mail(within: float = 0.0, *, after: int = 0) -> None:
        """Fail if mail came after the message with number ``after``, or comes ``within`` seconds.

        Mail that was handed over before is seen without waiting: a 250 means that it is on disk.
        """
        __tracebackhide__ = True
        report = _seen(client, inbox.id, after)
        if within and report.cursor <= after:
            follow = client.inboxes.messages(inbox.id, follow=True, idle=within)
            next((each for each in follow if each.sequence > after), None)
            report = _seen(client, inbox.id, after)
        # What nobody has read in all that time is no silence either.
        came = max(0, report.cursor - after) or report.unread
        if came > 0:
            numbers = ", ".join(f"{m.message_id} (number {m.sequence})" for m in report.seen)
            message = f"{came} mails came to {inbox.email}: {numbers or 'not read yet'}"
            raise AssertionError(message)

    async def awaited(within: float = 0.0, *, after: int = 0) -> None:
        __tracebackhide__ = True
        await asyncio.to_thread(assert_no_mail, within, after=after)

    return awaited if later else assert_no_mail


def _seen(client: Client, inbox_id: str, after: int) -> WaitReport:
    """Return what is known of an inbox.

    A mail that is not read yet may be a copy of one that is; where that matters, it is awaited.
    """
    until = time.monotonic() + _READ_WITHIN
    report = look(client, inbox_id)
    while after and report.unread and report.cursor <= after and time.monotonic() < until:
        time.sleep(_GLANCE)
        report = look(client, inbox_id)
    return report


def told(client: Client, inbox: Inbox[Any]) -> str:
    """Say how an inbox stands."""
    report = look(client, inbox.id)
    unread = f", {report.unread} more not read yet" if report.unread else ""
    return f"{inbox.id} {inbox.email} ({report.state}): {report.cursor} messages{unread}"


def look(client: Client, inbox_id: str) -> WaitReport:
    """Return the report of an inbox without claiming anything of it."""
    call = Call(
        method="POST",
        path=path("inboxes", inbox_id, "wait"),
        answer=Waited,
        body=WaitFor(kind="code", after=_NEVER),
        repeatable=True,
    )
    return client._courier.carry(call).reports[0]  # noqa: SLF001 - a call that users do not make
