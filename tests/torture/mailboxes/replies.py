"""Answers lost between PostgreSQL and a reader: a page without an answer to COMMIT counts once."""

import random
from collections.abc import Iterator

from tests.torture.checks import Violation
from tests.torture.ledger.nursery import Nursery
from tests.torture.mail.offices import open_office
from tests.torture.mail.post_books import count_open, read_post_books
from tests.torture.mailboxes.books import Row, add_mailboxes, read_keys, read_rows
from tests.torture.mailboxes.crashes import SERVICE
from tests.torture.mailboxes.mails import MAILBOXES, Channel, Mail, draw
from tests.torture.mailboxes.promises import judge_messages, missing
from tests.torture.mailboxes.servers import MailboxServers
from tests.torture.processes import until
from tests.torture.proxy import FaultProxy, Moment
from tests.torture.scenario import Outcome, Plan

#: mails for each answer that is lost; a page holds up to five
_MAILS = 8
_PAGE = 5
#: the share of commits that is hit
_SHARE = 0.4
_PATIENCE = 300.0


def replies(plan: Plan) -> Outcome:
    """Lose the answers to commits of a process that does nothing but read mailboxes."""
    outcome = Outcome()
    with (
        open_office(plan.database, plan.folder) as office,
        MailboxServers() as servers,
        Nursery(plan.folder, programs=(SERVICE,)) as nursery,
    ):
        url, dice = office.fresh(), plan.chance("replies")
        inbox_ids = add_mailboxes(url, servers.configs(), office.inboxes)
        drawn = draw(str(plan.seed), 3 * _MAILS * plan.trials, office.inboxes)
        mails = [each for each in drawn if each.mailbox]
        with FaultProxy(url) as proxy:
            proxy.lose_commit_replies(times=plan.trials, probability=_SHARE, seed=plan.seed)
            words = (proxy.url(url), str(plan.folder / "reader"), "--role=reader", "--lease=3")
            reader = nursery.start(SERVICE, *words, f"--page={_PAGE}")
            _deliver(servers, mails, proxy, plan.trials, dice)
            proxy.heal()
            keys = {each.key: each for each in mails}
            for _ in until(_PATIENCE):
                stored = read_keys(url)
                if not any(
                    missing(name, servers.mails(name), keys, stored, inbox_ids)
                    for name in MAILBOXES
                ):
                    break
            outcome.trials = proxy.struck(Moment.COMMIT_REPLY)
            reader.terminate()
            if reader.wait(timeout=_PATIENCE) != 0:
                outcome.violations.append(Violation("crashed", "reader", reader.text()))
        outcome.violations += list(_judge_rows(read_rows(url), mails))
        parser = nursery.start(SERVICE, url, str(plan.folder / "parser"), "--role=worker")
        for _ in until(_PATIENCE):
            if not count_open(url):
                break
        parser.terminate()
        parser.wait(timeout=_PATIENCE)
        books, rows = read_post_books(url), read_rows(url)
    messages = ((each.sender, each.inbox) for each in books.messages)
    outcome.violations += judge_messages(mails, messages)
    if len(books.deliveries) != sum(len(each.recipients) for each in mails):
        how = f"{len(books.deliveries)} deliveries of {len(mails)} mails"
        outcome.violations.append(Violation("doubled", "deliveries", how))
    outcome.note = f"{len(mails)} mails in {sum(row.cursor_version for row in rows)} pages"
    outcome.require(trials=plan.trials)
    return outcome


def _deliver(
    servers: MailboxServers,
    mails: list[Mail],
    proxy: FaultProxy,
    trials: int,
    dice: random.Random,
) -> None:
    """Let mail arrive until enough answers were lost, and then the rest."""
    for number, mail in enumerate(mails):
        servers.deliver(mail.mailbox, mail.by(Channel.MAILBOX), dice)
        wanted = (number + 1) * trials // len(mails)
        for _ in until(_PATIENCE):
            if proxy.struck(Moment.COMMIT_REPLY) >= wanted:
                break


def _judge_rows(rows: list[Row], mails: list[Mail]) -> Iterator[Violation]:
    """Find mailboxes that count a mail twice, or that read one again."""
    for row in rows:
        expected = sum(each.mailbox == row.name for each in mails)
        if (row.messages, row.duplicates, row.replays) != (expected, 0, 0):
            how = (
                f"{row.messages} of {expected} mails, {row.duplicates} duplicates, "
                f"{row.replays} replays"
            )
            yield Violation("doubled", row.name, how)
