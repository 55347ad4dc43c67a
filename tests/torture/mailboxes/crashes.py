"""Mails by SMTP, webhook and poll at once, and readers killed at every point of theirs."""

import random
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack

from oncebox.core import faults
from tests.support.inbound import PROVIDERS
from tests.support.ports import free_port
from tests.torture.checks import Violation
from tests.torture.history import read_history
from tests.torture.ledger.books import read_books
from tests.torture.ledger.nursery import Nursery, Nursling
from tests.torture.mail.offices import Office, open_office, run_command
from tests.torture.mail.post_books import count_open, read_post_books
from tests.torture.mailboxes.books import add_mailboxes, read_keys, read_rows, resync
from tests.torture.mailboxes.mails import MAILBOXES, Mail, draw
from tests.torture.mailboxes.promises import judge, judge_cursor, missing
from tests.torture.mailboxes.senders import SOURCES, BatchSenders
from tests.torture.mailboxes.servers import FAULTS, MailboxServers
from tests.torture.processes import until
from tests.torture.scenario import Outcome, Plan

SERVICE = "tests.torture.mailboxes.service"
CLAIMER = "tests.torture.mailboxes.claimer"
#: each point, and at one of how many passes it strikes
CASES = {
    "mailboxes.fetched": 8,
    "mailboxes.cursor-written": 8,
    "mailboxes.mails-written": 8,
    "mailboxes.stored": 8,
}
#: kills of the long form, and mails for each of them: 10,000 in all
LONG = 20 * len(CASES)
_MAILS, _FEW_MAILS = 125, 12
#: mailboxes that the process reads which is killed; the other one reads the rest
_MOST_OF_VICTIM = len(MAILBOXES) - 1
#: how many victims die until the process that takes mail is killed too
_KILL_SERVICE_EVERY = 10
_PATIENCE = 120.0
_SETTLED_WITHIN = 300.0
_LOOK_EVERY = 0.2


def points() -> list[str]:
    """Return the points of a reader."""
    known = {point for point in faults.POINTS if point.startswith("mailboxes.")}
    if unknown := known ^ CASES.keys():
        raise LookupError(f"no case, or no point: {', '.join(sorted(unknown))}")
    return list(CASES)


def mails_of(plan: Plan, inboxes: Sequence[str]) -> tuple[list[Mail], int]:
    """Return the mails of a run, and how many belong to one kill."""
    each = _MAILS if plan.trials >= LONG else _FEW_MAILS
    return draw(str(plan.seed), each * plan.trials, inboxes), each


def crash_points(plan: Plan) -> Outcome:
    """Kill readers at every point in turn, while mail arrives by all channels."""
    with (
        open_office(plan.database, plan.folder) as office,
        MailboxServers() as servers,
        Nursery(plan.folder, programs=(SERVICE, CLAIMER)) as nursery,
        ExitStack() as stack,
    ):
        return _Run(plan, office, servers, nursery, stack).through()


class _Run:
    """One database, and the processes that come and go."""

    def __init__(
        self,
        plan: Plan,
        office: Office,
        servers: MailboxServers,
        nursery: Nursery,
        stack: ExitStack,
    ) -> None:
        self._plan = plan
        self._servers = servers
        self._nursery = nursery
        self._stack = stack
        self._history = plan.folder / "history"
        self._smtp, self._http = free_port(), free_port()
        self._outcome = Outcome()
        self._mails, self._batch = mails_of(plan, office.inboxes)
        self._by_key = {each.key: each for each in self._mails}
        self._url = office.fresh()
        self._senders: list[BatchSenders] = []
        self._inbox_ids = add_mailboxes(self._url, servers.configs(), office.inboxes)
        for provider in SOURCES:
            _add_source(plan, self._url, provider)

    def through(self) -> Outcome:
        """Send everything past readers that die, let the rest be read, and check."""
        names = points()
        self._service = self._start_service()
        claimer = self._nursery.start(CLAIMER, self._url)
        begun = time.monotonic()
        for number in range(self._plan.trials):
            self._disturb(number, self._plan.chance(f"disturb-{number}"))
            self._kill_one(names[number % len(names)], number)
            if number % _KILL_SERVICE_EVERY == _KILL_SERVICE_EVERY - 1:
                self._service.kill()
                self._service = self._start_service()
        self._finish()
        seconds = time.monotonic() - begun
        time.sleep(2 * _LOOK_EVERY)  # the claimer looks once more
        claimer.terminate()
        claimer.wait(timeout=_PATIENCE)
        self._check(claimer, seconds)
        return self._outcome

    def _kill_one(self, point: str, number: int) -> None:
        """Let one batch arrive, and a reader die at one pass of a point."""
        dice = self._plan.chance(f"{point}-{number}")
        plan = f"{point}:{dice.randint(1, CASES[point])}:kill"
        victim = self._start("--role=reader", f"--most={_MOST_OF_VICTIM}", armed=plan)
        batch = self._mails[number * self._batch :][: self._batch]
        ports = (self._smtp, self._http)
        senders = BatchSenders(self._servers, ports, batch, self._history, dice)
        self._senders.append(self._stack.enter_context(senders))
        for _ in until(_PATIENCE):
            if not victim.running:
                self._outcome.trials += victim.wait() == -signal.SIGKILL
                break
        else:
            self._outcome.violations.append(Violation("idle", point, victim.text()[-2000:]))
            victim.kill()
        self._check_cursors(f"after kill {number}")

    def _disturb(self, number: int, dice: random.Random) -> None:
        """Change what a server says of itself, or forget how far a mailbox was read."""
        match number % 4:
            case 1:
                on_imap = [name for name in MAILBOXES if name != "since"]
                self._servers.change_uidvalidity(dice.choice(on_imap))
            case 2:
                self._servers.scripted.script(*dice.sample(FAULTS, 2))
            case 3:
                resync(self._url, dice.choice(list(MAILBOXES)))

    def _check_cursors(self, when: str) -> None:
        # The cursors are read first: what they cover must be in what is read after them.
        rows = read_rows(self._url)
        keys = read_keys(self._url)
        for row in rows:
            if row.cursor is not None:
                read = self._servers.mails(row.name, row.cursor)
                absent = missing(row.name, read, self._by_key, keys, self._inbox_ids)
                found = judge_cursor(row, absent)
                self._outcome.violations += [
                    Violation(each.rule, f"{each.subject} {when}", each.detail) for each in found
                ]

    def _finish(self) -> None:
        """Let everything arrive, be read and be parsed."""
        last = self._start("--role=reader", f"--most={len(MAILBOXES)}")
        if not all(each.finish(_PATIENCE) for each in self._senders):
            self._outcome.violations.append(Violation("stuck", "senders", "not all was taken"))
        for _ in until(_SETTLED_WITHIN):
            if not self._unread() and not count_open(self._url):
                break
            time.sleep(_LOOK_EVERY)
        else:
            how = f"{self._unread()} mails are unread\n{last.text()[-2000:]}"
            self._outcome.violations.append(Violation("stuck", "reader", how))
        for each in (last, self._service):
            each.terminate()
            # One that was only just started is ended before it listens to the signal.
            if (code := each.wait(timeout=_PATIENCE)) not in {0, -signal.SIGTERM}:
                how = f"exit code {code}\n{each.text()[-2000:]}"
                self._outcome.violations.append(Violation("crashed", "process", how))

    def _unread(self) -> int:
        keys = read_keys(self._url)
        return sum(
            len(missing(name, self._servers.mails(name), self._by_key, keys, self._inbox_ids))
            for name in MAILBOXES
        )

    def _check(self, claimer: Nursling, seconds: float) -> None:
        outcome, books = self._outcome, read_post_books(self._url)
        self._check_cursors("at the end")
        grants = [
            (words[1], words[2])
            for line in claimer.text().splitlines()
            if (words := line.split())[:1] == ["granted"]
        ]
        events = read_history(self._history)
        outcome.violations += judge(self._mails, events, books, grants, self._inbox_ids)
        outcome.violations += [
            Violation("corrupt", "database", fault) for fault in read_books(self._url).faults
        ]
        rows = read_rows(self._url)
        outcome.violations += [
            Violation("stuck", row.name, row.paused) for row in rows if row.paused is not None
        ]
        figures = ("replays", "duplicates", "resyncs", "lease_conflicts")
        counted = (f"{sum(getattr(row, name) for row in rows)} {name}" for name in figures)
        outcome.note = (
            f"{len(self._mails)} mails, {len(books.deliveries)} deliveries, "
            f"{len(books.messages)} messages, {len(grants)} grants in {seconds:.0f} s; "
            f"{', '.join(counted)}"
        )
        outcome.require(trials=self._plan.trials)

    def _start_service(self) -> Nursling:
        ports = (f"--smtp={self._smtp}", f"--http={self._http}")
        service = self._start("--role=all", "--most=1", *ports)
        service.wait_for("ready", timeout=_PATIENCE)
        return service

    def _start(self, role: str, *words: str, armed: str = "") -> Nursling:
        folder = str(self._plan.folder / role.strip("-"))
        return self._nursery.start(SERVICE, self._url, folder, role, *words, faults=armed)


def _add_source(plan: Plan, url: str, provider: str) -> None:
    """Add a source of inbound mail as an operator would."""
    known = PROVIDERS[provider]
    secret = plan.folder / f"secret-{provider}"
    secret.write_text(known.secrets[0])
    words = ("source", "add", provider, f"--scheme={known.scheme}", f"--secret=file:{secret}")
    run_command(url, plan.folder, *words)
