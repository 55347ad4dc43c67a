"""The servers that mailboxes are on: Dovecot, a scripted IMAP server, an API of timestamps."""

import imaplib
import random
import re
import smtplib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Self

import msgspec

from oncebox.mailboxes.api_reader import Position
from oncebox.mailboxes.imap_config import ImapConfig
from oncebox.mailboxes.imap_connection import ImapSecurity
from oncebox.mailboxes.imap_page import CURSOR_DECODER
from oncebox.mailboxes.inbox_apis import RestConfig
from oncebox.mailboxes.mailbox_config import MailboxConfig
from oncebox.mailboxes.overlap import Overlap, take
from oncebox.mailboxes.rest import RestAt
from oncebox.testing.imap import ScriptedImap
from oncebox.testing.inbox_apis import INBOX, FakeMailSlurp
from oncebox.testing.mailbox_server import MailboxServer
from tests.support.dovecot import PASSWORD, Dovecot

#: seconds by which the API shows a mail later than its time says, at most
LATE = 0.9
#: seconds; less than it takes to run, so that mail is passed over that must have been read
_OVERLAP = 20.0
#: mails that a changed UIDVALIDITY gives again
_NEWEST = 60
#: what the scripted server does instead of an answer
FAULTS = ("drop@body", "no=UNAVAILABLE@search", "hang_up@fetch", "bye@idle", "drop@done")


class MailboxServers:
    """Servers for as long as the block lasts; mail arrives by ``deliver``, from any thread."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._dovecot = Dovecot()
        self.scripted = ScriptedImap()
        self.api = MailboxServer(FakeMailSlurp())
        self._lmtp: smtplib.LMTP | None = None
        #: mails on Dovecot by user and uid, as far as they were looked at
        self._seen: dict[str, dict[int, bytes]] = {"ann": {}, "bob": {}}
        self._validity = int(time.time())
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Start all of them."""
        for each in (self._dovecot, self.scripted, self.api):
            self._stack.enter_context(each)
        self._stack.callback(self._hang_up)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop all of them."""
        self._stack.close()

    def configs(self) -> dict[str, MailboxConfig]:
        """Return the configuration of each mailbox."""
        imap = ImapConfig(
            host="127.0.0.1",
            port=self._dovecot.port,
            security=ImapSecurity.NONE,
            username="ann",
            password=PASSWORD,
            since="all",
            newest=_NEWEST,
        )
        change = msgspec.structs.replace
        scripted = change(imap, port=self.scripted.port, password="secret")
        api = RestConfig(
            api="mailslurp", url=self.api.url, inbox=INBOX, key="key", since="all",
            overlap=_OVERLAP,
        )  # fmt: skip
        readers: dict[str, ImapConfig | RestConfig] = {
            "ann": imap, "bob": change(imap, username="bob"), "scripted": scripted, "since": api,
        }  # fmt: skip
        return {name: MailboxConfig(reader=reader) for name, reader in readers.items()}

    def deliver(self, mailbox: str, raw: bytes, dice: random.Random) -> None:
        """Let a mail arrive in a mailbox."""
        with self._lock:
            if mailbox == "scripted":
                self.scripted.add(raw, received_at=datetime.now(UTC))
            elif mailbox == "since":
                now = time.time_ns() // 1_000_000
                self.api.api.deliver(raw, at=now - dice.randint(0, int(LATE * 1000)))
            else:
                self._line().sendmail("sender@example.com", [mailbox], raw)

    def change_uidvalidity(self, mailbox: str) -> None:
        """Change the UIDVALIDITY of a mailbox on an IMAP server."""
        with self._lock:
            self._validity += 1
            if mailbox == "scripted":
                self.scripted.rebuild()
            else:
                words = ("-u", mailbox, "--uid-validity", str(self._validity), "INBOX")
                self._dovecot.doveadm("mailbox", "update", *words)

    def mails(self, mailbox: str, cursor: str | None = None) -> list[bytes]:
        """Return the mails of a mailbox; with a cursor, those that it says were read."""
        if mailbox == "since":
            return list(self._listed(cursor))
        stored = self._scripted() if mailbox == "scripted" else self._on_dovecot(mailbox)
        if cursor is None:
            return list(stored[1].values())
        position = CURSOR_DECODER.decode(cursor).folders.get("INBOX")
        if position is None or position.uidvalidity != stored[0]:
            return []  # it was changed since; what is new is read again
        return [raw for uid, raw in stored[1].items() if uid <= position.uid]

    def _scripted(self) -> tuple[int, dict[int, bytes]]:
        with self._lock:
            folder = self.scripted.folder()
            return folder.uidvalidity, {uid: mail.raw for uid, mail in folder.mails.items()}

    def _on_dovecot(self, user: str) -> tuple[int, dict[int, bytes]]:
        """Return the UIDVALIDITY and the mails; only what is new is fetched."""
        seen = self._seen[user]
        line = imaplib.IMAP4("127.0.0.1", self._dovecot.port)
        try:
            line.login(user, PASSWORD)
            line.select("INBOX", readonly=True)
            validity = line.response("UIDVALIDITY")[1][0]
            # A set that ends in * has the last mail, also if its uid is lower.
            answers = line.uid("FETCH", f"{max(seen, default=0) + 1}:*", "(UID BODY.PEEK[])")[1]
        finally:
            line.logout()
        for each in answers:
            if isinstance(each, tuple) and (found := re.search(rb"UID ([0-9]+)", each[0])):
                seen[int(found[1])] = each[1]
        return int(validity or 0), seen

    def _listed(self, cursor: str | None) -> Iterator[bytes]:
        with self._lock:
            stored = list(self.api.api.mails.values())
        at = None if cursor is None else msgspec.json.decode(cursor, type=Position[RestAt])
        for mail in stored:
            if at is None or _is_read(at, mail.id, mail.at):
                yield mail.raw

    def _line(self) -> smtplib.LMTP:
        if self._lmtp is None:
            self._lmtp = smtplib.LMTP("127.0.0.1", self._dovecot.lmtp_port, timeout=30)
        return self._lmtp

    def _hang_up(self) -> None:
        if self._lmtp is not None:
            self._lmtp.close()


def _is_read(position: Position[RestAt], id_: str, at: int) -> bool:
    """Tell whether a position is beyond a mail."""
    overlap = position.at.overlap
    later = {each.id for each in (*position.pending, *(late.mail for late in position.late))}
    if overlap is None or id_ in later:
        return False
    (key,) = (each.key for each in take(Overlap(), [(id_, at)], at, 1)[1].found)
    return at < overlap.since or key in {each.key for each in (*overlap.seen, *overlap.found)}
