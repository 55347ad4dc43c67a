"""Fixture code: the test's inbox, assert_no_mail, mail_faults, and failure reports."""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from msgspec import UnsetType

import oncebox
from oncebox.client.asynchronous.inboxes import AsyncInbox
from oncebox.client.asynchronous.runner import AsyncRunner
from oncebox.client.core.calls import Call, ListFollower, Plan, api_path, post_call
from oncebox.client.errors import CallFailed, WaitEnded
from oncebox.client.sync import Client
from oncebox.client.sync.inboxes import Inbox
from oncebox.client.sync.runner import SyncRunner
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.errors.mail import InboxInvalid, LinkRefused
from oncebox.mail.excerpt import one_line
from oncebox.model.inboxes.link_rules import normalize_origin
from oncebox.schemas.artifacts import WaitReport, WaitRequest, WaitResult
from oncebox.schemas.inboxes import Policy
from oncebox.schemas.messages import Message, MessageContent
from oncebox.testing.chaos import FaultPlan, FaultReport, InjectedFault, MailRule, mail_rule

#: characters of a test's name in an address and in an attempt id
_MAX_NAME, _MAX_ATTEMPT_ID = 40, 180
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_CONTROLS = re.compile(r"[^ -~]")
_DIGIT = re.compile(r"\d")
#: mails that a failure lists
_MAX_SHOWN = 10
#: no message has this number, so a wait for later ones claims nothing
_UNREACHABLE_SEQUENCE = 2**53
#: seconds for accepted mail to be processed, and between two checks
_READ_TIMEOUT, _POLL_INTERVAL = 30.0, 0.02


class ThreadedRunner:
    """Runs calls in threads, so that the event loop of a test is not blocked.

    It has only the methods of ``AsyncRunner`` that an inbox uses.
    """

    def __init__(self, runner: SyncRunner) -> None:
        self._runner = runner

    def run(self, what: Call[Any] | Plan[Any]) -> Awaitable[Any]:
        """Return the awaitable result of a call or a plan."""
        return asyncio.to_thread(self._runner.run, what)

    async def iterate(
        self, first: Call[Any], *, follow: bool, idle: float | None
    ) -> AsyncIterator[Any]:
        """Yield the items of a list."""
        follower = ListFollower(call=first, follow=follow, idle=idle)
        while (page := await self.run(follower.next())) is not None:
            for item in page.data:
                yield item


@contextmanager
def open_inbox(
    client: Client, nodeid: str, name: str, *, later: bool, link_origins: list[str]
) -> Iterator[Inbox | AsyncInbox]:
    """Create an inbox for a test, and close it; ``later``: its methods are awaitable."""
    try:
        policy = Policy(link_origins=[normalize_origin(each) for each in link_origins])
    except InboxInvalid as error:
        raise ConfigInvalid(f"oncebox_link_origins cannot be used: {error}") from error
    suffix = secrets.token_hex(5)  # no other run has it
    attempt = f"{_CONTROLS.sub('?', nodeid)[-_MAX_ATTEMPT_ID:]}#{suffix}"
    plain = _NOT_PLAIN.sub("-", name.lower()).strip("-")[:_MAX_NAME].strip("-")
    local = f"{plain or 'test'}-{suffix}"
    inbox = client.inboxes.create(attempt_id=attempt, local=local, policy=policy)
    runner = ThreadedRunner(client._runner)  # noqa: SLF001 - shared on purpose
    try:
        yield AsyncInbox(cast("AsyncRunner", runner), inbox.data) if later else inbox
    finally:
        with suppress(CallFailed):  # the test has seen that the service is unreachable
            inbox.close(drain=0)


def make_assert_no_mail(
    client: Client, inbox: Inbox | AsyncInbox, *, later: bool
) -> Callable[..., Any]:
    """Return a function that fails a test if mail came to its inbox; ``later``: it is awaited."""

    def assert_no_mail(within: float = 0.0, *, after: int = 0) -> None:
        """Fail if mail came after the message with number ``after``, or comes ``within`` seconds.

        Mail that was delivered before is seen without waiting: a 250 means that it is stored.
        """
        __tracebackhide__ = True
        report = _settled_report(client, inbox.id, after)
        if within and report.cursor <= after:
            follow = client.inboxes.messages(inbox.id, follow=True, idle=within)
            next((each for each in follow if each.sequence > after), None)
            report = _settled_report(client, inbox.id, after)
        if report.cursor > after or report.unread:  # mail that is not processed yet counts too
            report = _settled_report(client, inbox.id, None)
            came = max(0, report.cursor - after)
            shown = _arrived_mails(client, inbox.id, after, came) if came else ["not read yet"]
            noun = "mail" if max(came, report.unread) == 1 else "mails"
            heading = f"{came or report.unread} {noun} came to {inbox.email}:"
            raise AssertionError("\n  ".join([heading, *shown]))

    async def awaited(within: float = 0.0, *, after: int = 0) -> None:
        __tracebackhide__ = True
        await asyncio.to_thread(assert_no_mail, within, after=after)

    return awaited if later else assert_no_mail


def _settled_report(client: Client, inbox_id: str, after: int | None) -> WaitReport:
    """Return the report of an inbox; ``after`` None: when all its mail is processed.

    Mail that is not processed yet may be a duplicate; if that matters, the report waits for it.
    """
    until = time.monotonic() + _READ_TIMEOUT
    report = inbox_report(client, inbox_id)

    def may_change() -> bool:
        return after is None or (after > 0 and report.cursor <= after)

    while report.unread and may_change() and time.monotonic() < until:
        time.sleep(_POLL_INTERVAL)
        report = inbox_report(client, inbox_id)
    return report


def _arrived_mails(client: Client, inbox_id: str, after: int, count: int) -> list[str]:
    """Return what came after a message, one line each."""
    new = (each.id for each in client.inboxes.messages(inbox_id) if each.sequence > after)
    lines = [_arrived_mail(client.messages.get(each)) for each in islice(new, _MAX_SHOWN)]
    return lines if count <= _MAX_SHOWN else [*lines, f"and {count - _MAX_SHOWN} more"]


def _arrived_mail(message: Message) -> str:
    """Return who sent a mail, when, and its subject, without what may be a code or a link."""
    received = datetime.fromtimestamp(message.received_at // 1000, UTC)
    content = message.content
    if isinstance(content, UnsetType):
        sender, subject = message.sender.domain or "unknown sender", f"({message.status})"
    else:
        sender, subject = one_line(content.sender.address), _without_codes(content)
    return (
        f"{message.id} (number {message.sequence}), {received:%Y-%m-%d %H:%M:%S} UTC, "
        f"from {sender}: {subject or '(no subject)'}"
    )


def _without_codes(content: MessageContent) -> str:
    """Return the subject of a mail; words with a digit, codes and links are left out."""
    from oncebox.mail.codes.code_finder import find_codes  # noqa: PLC0415 - only after a failure
    from oncebox.mail.html.layout import plain_page  # noqa: PLC0415 - as above

    found = find_codes(content.subject, [plain_page(content.text)])
    secrets_ = {_alphanumeric(each.value) for each in found.ranked}

    def shown(word: str) -> str:
        plain = _alphanumeric(word)
        is_part = len(plain) > 1 and any(plain in secret for secret in secrets_)
        return "…" if _DIGIT.search(word) or is_part else word

    return " ".join(map(shown, one_line(content.subject).split(" ")))


def _alphanumeric(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def inbox_summary(client: Client, inbox: Inbox | AsyncInbox) -> str:
    """Return the state of an inbox as text."""
    report = inbox_report(client, inbox.id)
    noun = "message" if report.cursor == 1 else "messages"
    unread = f", {report.unread} more not parsed yet" if report.unread else ""
    return f"{inbox.id} {inbox.email} ({report.state}): {report.cursor} {noun}{unread}"


def inbox_report(client: Client, inbox_id: str) -> WaitReport:
    """Return the report of an inbox without claiming anything of it."""
    body = WaitRequest(kind="code", after=_UNREACHABLE_SEQUENCE)
    call = post_call(WaitResult, body, "inboxes", inbox_id, "wait", repeatable=True)
    return client._runner.run(call).reports[0]  # noqa: SLF001 - not a user's call


class MailFaults:
    """Faults in the mail of an inbox, by rules and a seed that depends on the test's name."""

    def __init__(self, client: Client, inbox_id: str, name: str) -> None:
        #: for the rules that are added from now on
        self.seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
        self.rules: list[MailRule] = []
        self._client = client
        self._path = api_path("test", "faults", inbox_id)

    def add(self, fault: str, **fields: float | str) -> None:
        """Add a fault; the counts of all rules begin again.

        ``fault`` is ``duplicate``, ``delay``, ``reorder``, ``421`` or ``drop_after_accept``.
        The fields are those of a rule: ``chance``, ``after``, ``every``, ``times``, ``seconds``,
        ``copies``, ``to``, ``sender``.

        Raises: ConfigInvalid.
        """
        self.rules.append(mail_rule(fault, **fields))
        self._call("PUT", FaultPlan(seed=self.seed, rules=self.rules))

    def clear(self) -> None:
        """Remove all faults; mail that is held is stored at once."""
        self.rules = []
        self._call("DELETE")

    @property
    def happened(self) -> list[InjectedFault]:
        """The faults that happened since the last rule was added, in their order."""
        return self._call("GET").happened

    def summary(self) -> str:
        """Return the seed and the faults that happened as text."""
        met = ", ".join(f"{each.fault} (mail {each.arrival})" for each in self.happened) or "none"
        return f"faults by seed {self.seed}: {met}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(CallFailed):  # the test has seen that the service is unreachable
            self.clear()

    def __repr__(self) -> str:
        faults = ", ".join(rule.fault for rule in self.rules) or "none"
        return f"MailFaults({faults}; seed {self.seed})"

    def _call(self, method: str, body: FaultPlan | None = None) -> FaultReport:
        call = Call(method=method, path=self._path, answer=FaultReport, body=body, repeatable=True)
        return self._client._runner.run(call)  # noqa: SLF001 - not a user's call


_LINK_HINT = (
    "links to a system of yours are allowed in all tests by: "
    "pytest -o oncebox_link_origins=http://HOST:PORT (or oncebox_link_origins in its settings)"
)
_PACKAGE_FOLDER = Path(oncebox.__file__).parent


def trim_traceback(error: BaseException) -> None:
    """Remove frames of Oncebox from its errors: they do not help, and contain keys."""
    for each in _causes(error):
        if isinstance(each, OnceboxError):
            _drop_own_frames(each.__traceback__)
            if isinstance(each, CallFailed):  # its message has what the network error says
                each.__cause__, each.__suppress_context__ = None, True


def _drop_own_frames(traceback: TracebackType | None) -> None:
    """Remove frames of Oncebox from a traceback, except the first."""
    while traceback is not None:
        following = traceback.tb_next
        while following and _PACKAGE_FOLDER in Path(following.tb_frame.f_code.co_filename).parents:
            following = following.tb_next
        traceback.tb_next = following
        traceback = following


def failure_report(error: BaseException, facts: Iterable[Callable[[], str]]) -> str:
    """Return why each message did not match, and other facts about the mail of a test."""
    lines = [str(each) for each in _causes(error) if isinstance(each, WaitEnded | LinkRefused)]
    if any(isinstance(each, LinkRefused) for each in _causes(error)):
        lines.append(_LINK_HINT)
    for fact in facts:
        try:
            lines.append(fact())
        except OnceboxError as trouble:
            lines.append(f"the service could not be asked: {trouble.code}")
        except Exception as trouble:  # noqa: BLE001 - a report must not end the whole run
            lines.append(f"the service could not be asked: {type(trouble).__name__}")
    return "\n".join(lines)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
