"""IMAP reader: folders in UID order over one kept connection; nothing changes on the server.

A folder is opened by EXAMINE and mail is fetched by BODY.PEEK, so no mail is marked as seen. A
changed UIDVALIDITY is a bounded resync: from the moment the mailbox was added, the newest mails
and all that arrived since the newest one that was read.
See docs/decisions/0053-use-an-own-asyncio-connection-for-imap.md.
"""

import asyncio
import ssl
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice, takewhile
from typing import Any

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.mailboxes.access_tokens import AccessTokens, KeepRefreshToken, keep_nothing
from oncebox.mailboxes.imap_config import ImapConfig, check_imap_config, trusted_certificates
from oncebox.mailboxes.imap_connection import (
    CommandRefused,
    ImapConnection,
    ImapLogin,
    log_in,
    modseq_of,
    network_failure,
    open_connection,
)
from oncebox.mailboxes.imap_page import (
    CURSOR_DECODER,
    OBJECT_ID_ITEMS,
    FolderPosition,
    FolderStatus,
    ImapCursor,
    MailFacts,
    PageDraft,
    UidsAhead,
    add_mail,
    facts_of,
    is_wanted,
    uid_of,
    within_bytes,
)
from oncebox.mailboxes.imap_responses import (
    MAX_UID,
    AnswerInvalid,
    AnswerTooLarge,
    ImapResponse,
    decode_folder,
    encode_folder,
    fetch_items,
    search_date,
    search_uids,
    to_number,
    to_text,
    uid_set,
)
from oncebox.mailboxes.reader import (
    MailboxFailure,
    MailboxPage,
    MailboxProbe,
    PageLimits,
    ResyncReason,
)

#: uids of one search, so that its answer has a limit; doubled while nothing is found
_SEARCH_WINDOW = 100_000
#: seconds the clocks of server and service may differ
_CLOCK_SKEW_MS = 300_000
_DAY_MS = 86_400_000
_MAX_FOLDERS = 1000
#: resyncs of a folder that was not read to its end once
_MAX_RESYNCS = 5
#: refusals of one mail until it is skipped: about half an hour of tries
_MAX_REFUSALS = 12
#: signs of new mail in a row that no mail followed; later ones are delayed
_TRUSTED_SIGNS = 3
_MAX_SIGN_DELAY = 60.0


class _BodyEmpty(Exception):
    """The server gave nothing for a mail that has a size."""


class ImapReader:
    """Reads the folders of a mailbox; see `MailboxReader`."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        config: ImapConfig,
        *,
        tokens: AccessTokens | None = None,
        tls: ssl.SSLContext | None = None,
        now: Clock = clock.system,
        lasting: float = 60.0,
        on_new_refresh_token: KeepRefreshToken = keep_nothing,
        refused_before: int = 0,
    ) -> None:
        """Configure only; ``tls`` replaces the trusted certificates.

        A connection that was lost after ``lasting`` seconds of waiting is replaced without a
        failure; an earlier loss is one, so that a server that drops everybody is not hammered.
        ``refused_before``: how often the next mail was refused to the readers before this one.

        Raises: ConfigInvalid.
        """
        check_imap_config(config)
        self._config = config
        self._tls = tls or trusted_certificates(config.ca)
        self._own_tokens = None
        if config.token is not None and tokens is None:
            self._own_tokens = AccessTokens(config.token, on_new_refresh_token=on_new_refresh_token)
        self._tokens = tokens or self._own_tokens
        self._now = now
        self._lasting = lasting
        self._connection: ImapConnection | None = None
        self._opened_at = 0.0
        self._within = PageLimits().within
        self._ahead: UidsAhead | None = None
        #: each folder as it was when it was last read
        self._read: dict[str, tuple[int, int]] = {}
        self._resyncs: Counter[str] = Counter()
        self._refusals: Counter[tuple[str, int, int]] = Counter()
        self._refused_before = refused_before
        self._empty_signs = 0

    def __repr__(self) -> str:
        return f"ImapReader({self._config!r})"

    # MailboxReader

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        """Return the mails after a cursor; see `MailboxReader.fetch`."""
        self._within = limits.within
        known, reason = self._decode(cursor)
        page = PageDraft(limits, known.since, resync=reason)
        folders = dict(known.folders)
        async with self._guarded():
            for name in self._config.folders:
                if page.is_full:
                    page.has_more, page.remaining = True, None
                    break
                folders[name] = await self._read_folder(name, folders.get(name), page)
        self._refused_before = 0
        if page.mails or page.skipped:
            self._empty_signs = 0
        kept = {name: folders[name] for name in self._config.folders if name in folders}
        return MailboxPage(
            mails=tuple(page.mails.values()),
            skipped=tuple(page.skipped),
            cursor=msgspec.json.encode(ImapCursor(kept, known.since)).decode(),
            has_more=page.has_more,
            resync=page.resync,
            remaining=page.remaining,
        )

    async def wait(self, seconds: float) -> bool:
        """Wait for news of the server; see `MailboxReader.wait`."""
        until = clock.steady() + seconds
        delay = self._sign_delay(seconds)
        while True:
            async with self._guarded():
                try:
                    found = await self._watch(until)
                except (MailboxFailure, TimeoutError) as error:
                    if not self._is_replaceable(error):
                        raise
                    self._drop()
                    continue
            if found:
                # A server that announces what is not there costs one search at a time.
                await asyncio.sleep(max(0.0, delay - (clock.steady() - until + seconds)))
                self._empty_signs += 1
                return True
            if clock.steady() >= until:
                return False

    async def probe(self) -> MailboxProbe:
        """Connect, log in, list folders and count mails; see `MailboxReader.probe`."""
        listed: list[str] = []
        async with self._guarded():
            connection = await self._connected()
            await connection.command(b'LIST "" "*"', wanted={"LIST"}, take=_folder_taker(listed))
            counts = [(await self._examine(name)).exists for name in self._config.folders]
        return MailboxProbe(
            capabilities=tuple(sorted(connection.capabilities)),
            folders=tuple(sorted(listed)),
            mails=sum(counts),
        )

    async def close(self) -> None:
        """Say LOGOUT and close."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.log_out()
        if self._own_tokens is not None:
            await self._own_tokens.close()

    # connection

    @asynccontextmanager
    async def _guarded(self) -> AsyncIterator[None]:
        """Drop the connection after any error: the next answer might belong to another command."""
        try:
            yield
        except BaseException as error:
            self._drop()
            if isinstance(error, OSError):
                raise network_failure(error) from None
            raise

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._connection = self._ahead = None

    async def _connected(self) -> ImapConnection:
        if self._connection is not None and self._connection.is_over:
            self._drop()
        if self._connection is None:
            self._connection = await self._open()
            self._opened_at = clock.steady()
        self._connection.within = self._within
        return self._connection

    async def _open(self) -> ImapConnection:
        """Connect and log in; a token that is refused is replaced once."""
        try:
            return await self._open_once()
        except MailboxFailure as failure:
            if failure.code != "login_refused" or self._tokens is None:
                raise
        return await self._open_once()

    async def _open_once(self) -> ImapConnection:
        token = await self._tokens.get() if self._tokens else ""
        config = self._config
        connection, is_logged_in = await open_connection(
            config.host, config.listening_port, config.security, self._tls, self._within
        )
        login = ImapLogin(username=config.username, password=config.password, token=token)
        try:
            if not is_logged_in:
                await log_in(connection, login, config.host, config.listening_port)
        except BaseException as error:
            connection.abort()
            if self._tokens and isinstance(error, MailboxFailure):
                self._tokens.discard(token)
            raise
        return connection

    # folders

    async def _examine(self, folder: str) -> FolderStatus:
        """Open a folder for reading."""
        connection = await self._connected()
        told: dict[str, int] = {}

        def take(response: ImapResponse) -> None:
            if response.code in {"UIDVALIDITY", "UIDNEXT"}:
                told[response.code] = to_number(response.code_text)
            elif response.code == "HIGHESTMODSEQ":
                told[response.code] = modseq_of(response)

        words = [b"EXAMINE", encode_folder(folder)]
        if "CONDSTORE" in connection.capabilities:
            words.append(b"(CONDSTORE)")
        connection.selected, connection.exists = "", 0
        try:
            await connection.command(
                *words, wanted={"UIDVALIDITY", "UIDNEXT", "HIGHESTMODSEQ"}, take=take
            )
        except CommandRefused as refusal:
            raise await self._folder_failure(connection, folder, refusal) from None
        if not told.get("UIDVALIDITY"):
            # Such a server has no lasting uids (RFC 3501, 6.3.1).
            raise MailboxFailure("uidvalidity_missing", needs_operator=True)
        connection.selected = folder
        connection.clear_news()
        return FolderStatus(
            told["UIDVALIDITY"],
            told.get("UIDNEXT", 0),
            connection.exists,
            told.get("HIGHESTMODSEQ", 0),
        )

    async def _folder_failure(
        self, connection: ImapConnection, folder: str, refusal: CommandRefused
    ) -> MailboxFailure:
        """Tell a folder that is missing from a server that cannot open it now."""
        if refusal.is_temporary:
            return refusal
        listed: list[str] = []
        await connection.command(
            b'LIST ""', encode_folder(folder), wanted={"LIST"}, take=_folder_taker(listed)
        )
        if folder in listed or (folder.upper() == "INBOX" and "INBOX" in map(str.upper, listed)):
            return MailboxFailure("folder_refused")
        return MailboxFailure("folder_missing", needs_operator=True)

    # pages

    def _decode(self, cursor: str | None) -> tuple[ImapCursor, ResyncReason | None]:
        if cursor is not None:
            try:
                return CURSOR_DECODER.decode(cursor), None
            except (msgspec.MsgspecError, UnicodeError):
                pass
        since = self._config.since
        start = 0 if since == "all" else self._now() - _CLOCK_SKEW_MS
        if isinstance(since, int):
            start = self._now() - since * _DAY_MS
        reason = ResyncReason.FIRST if cursor is None else ResyncReason.EXPIRED
        return ImapCursor({}, max(0, start)), reason

    async def _read_folder(
        self, folder: str, position: FolderPosition | None, page: PageDraft
    ) -> FolderPosition:
        """Add the next mails of a folder to a page; return its new position."""
        ahead = self._ahead
        connection = await self._connected()
        known = ahead is not None and (ahead.folder, ahead.position) == (folder, position)
        if ahead is None or not known or connection.selected != folder:
            ahead = await self._look_ahead(folder, position, page)
        uid, newest = await self._take(ahead, page)
        rest = ahead.uids[bisect_right(ahead.uids, uid) :]
        is_done = ahead.is_all and not rest
        position = FolderPosition(
            ahead.status.uidvalidity,
            uid,
            ahead.status.modseq if is_done else 0,
            max(ahead.position.newest, min(newest, self._now())),
            ahead.position.until,
        )
        following = UidsAhead(folder, position, ahead.status, rest, ahead.is_all)
        self._ahead = following if rest else None
        if is_done:
            del self._resyncs[folder]
            self._read[folder] = ahead.status.arrivals
        page.has_more |= not is_done
        counted = page.remaining is not None and ahead.is_all
        page.remaining = (page.remaining or 0) + len(rest) if counted else None
        return position

    async def _look_ahead(
        self, folder: str, position: FolderPosition | None, page: PageDraft
    ) -> UidsAhead:
        """Open a folder and search for uids after a position."""
        status = await self._examine(folder)
        if position is None or position.uidvalidity != status.uidvalidity:
            position = await self._begin(folder, status, position, page)
        elif position.modseq and position.modseq == status.modseq:
            return UidsAhead(folder, position, status, [], is_all=True)
        criteria = b""
        if page.since and position.uid < position.until:
            criteria = b"OR UID %d:* SINCE %s" % (
                min(position.until + 1, MAX_UID),
                search_date(page.since),
            )
        uids, is_all = await self._search(position.uid, status, criteria)
        return UidsAhead(folder, position, status, uids, is_all)

    async def _begin(
        self, folder: str, status: FolderStatus, old: FolderPosition | None, page: PageDraft
    ) -> FolderPosition:
        """Return where a folder is read from that has no valid position."""
        last = status.uidnext - 1 if status.uidnext else await self._last_uid()
        if old is None:
            uid = last if self._config.since == "now" else 0
            page.resync = page.resync or ResyncReason.FIRST
            return FolderPosition(status.uidvalidity, uid, until=last)
        self._resyncs[folder] += 1
        if self._resyncs[folder] > _MAX_RESYNCS:
            # It would be the same first page for ever.
            raise MailboxFailure("uidvalidity_unstable", needs_operator=True)
        page.resync = ResyncReason.UIDVALIDITY
        uid = await self._resync_start(status, old)
        return FolderPosition(status.uidvalidity, uid, newest=old.newest, until=last)

    async def _resync_start(self, status: FolderStatus, old: FolderPosition) -> int:
        """Return the uid before the newest mails and before all that came after the last one."""
        if status.exists <= self._config.newest:
            return 0
        found: list[int] = []
        number = b"%d" % (status.exists - self._config.newest + 1)
        connection = await self._connected()
        await connection.command(
            b"FETCH", number, b"(UID)", wanted={"FETCH"},
            take=lambda each: found.append(to_number(fetch_items(each).get("UID"))),
        )  # fmt: skip
        if not found or not old.newest:
            return 0
        # INTERNALDATE need not ascend with the uids; a day of overlap covers the usual disorder.
        criteria = b"SINCE " + search_date(old.newest)
        later, _ = await self._search(0, status, criteria)
        return max(0, min(*found, *later, MAX_UID) - 1)

    async def _last_uid(self) -> int:
        """Return the highest uid, for servers that do not say UIDNEXT."""
        found = await self._search_once(b"*", b"", 1, MAX_UID)
        return max(found, default=0)

    async def _search(
        self, after: int, status: FolderStatus, criteria: bytes
    ) -> tuple[list[int], bool]:
        """Return uids after another in ascending order, and whether these are all."""
        lowest, width = after + 1, _SEARCH_WINDOW
        while True:
            highest = lowest + width - 1
            is_last = not status.uidnext or highest >= min(status.uidnext - 1, MAX_UID)
            # `n:*` includes the last mail even if it is below n.
            words = b"%d:*" % lowest if is_last else b"%d:%d" % (lowest, highest)
            bound = MAX_UID if is_last else highest
            found = await self._search_once(words, criteria, lowest, bound)
            if found or is_last:
                return sorted(found), is_last and len(found) <= _SEARCH_WINDOW
            lowest, width = highest + 1, width * 4

    async def _search_once(
        self, uids: bytes, criteria: bytes, lowest: int, highest: int
    ) -> set[int]:
        found: set[int] = set()

        def take(response: ImapResponse) -> None:
            room = _SEARCH_WINDOW + 1 - len(found)
            found.update(islice(search_uids(response, lowest, highest), room))

        connection = await self._connected()
        words = (b"UID SEARCH UID", uids, criteria) if criteria else (b"UID SEARCH UID", uids)
        await connection.command(*words, wanted={"SEARCH", "ESEARCH"}, take=take)
        return found

    # mails

    async def _take(self, ahead: UidsAhead, page: PageDraft) -> tuple[int, int]:
        """Add mails to a page; return the last uid that is covered, and the newest date."""
        limits = page.limits
        batch = ahead.uids[: max(1, limits.mails - page.looked_at)]
        if not batch:
            return ahead.position.uid, 0
        facts = await self._facts(batch)
        wanted = [uid for uid in batch if is_wanted(uid, facts.get(uid), ahead, page)]
        chosen = within_bytes(wanted, facts, limits.page_bytes - page.size)
        bodies: Mapping[int, bytes | str] = {}
        if chosen:
            bodies = await self._bodies(ahead, chosen, facts, limits)
        left = set(wanted) - set(bodies)
        covered = list(takewhile(lambda uid: uid not in left, batch))
        newest = 0
        for uid in covered:
            fact = facts.get(uid)
            newest = max(newest, fact.received_at or 0 if fact else 0)
            add_mail(page, ahead, uid, fact, bodies.get(uid))
        page.looked_at += len(covered)
        return covered[-1] if covered else ahead.position.uid, newest

    async def _facts(self, uids: Sequence[int]) -> dict[int, MailFacts]:
        """Return what is known of mails; those without are gone."""
        connection = await self._connected()
        object_item = next(
            (item for name, item in OBJECT_ID_ITEMS.items() if name in connection.capabilities), ""
        )
        asked = set(uids)
        found: dict[int, MailFacts] = {}

        def take(response: ImapResponse) -> None:
            items = fetch_items(response)
            uid = uid_of(items)
            if uid in asked and "RFC822.SIZE" in items:
                found.setdefault(uid, facts_of(items, object_item))

        names = f"(UID RFC822.SIZE INTERNALDATE {object_item}".strip() + ")"
        await connection.command(
            b"UID FETCH", uid_set(uids), names.encode(), wanted={"FETCH"}, take=take
        )
        return found

    async def _bodies(
        self,
        ahead: UidsAhead,
        uids: Sequence[int],
        facts: Mapping[int, MailFacts],
        limits: PageLimits,
    ) -> dict[int, bytes | str]:
        """Return the bodies of some first uids, at least of one; a text is why one is missing."""
        found: dict[int, bytes | str] = {}
        try:
            await self._fetch_bodies(uids, limits, found)
            _check_bodies(found, facts)
        except _BodyEmpty:
            code = "unreadable"
        except AnswerTooLarge:
            # The rest of the answer is unread, so the connection is of no use.
            self._drop()
            code = "too_large"
        except CommandRefused as refusal:
            code = _skip_code(refusal)
        else:
            return {uid: found.get(uid, "gone") for uid in uids}
        complete = {uid: found[uid] for uid in takewhile(found.__contains__, uids)}
        if complete:
            return complete
        if self._connection is None and await self._reopen(ahead) != ahead.status.uidvalidity:
            raise MailboxFailure("server_closed")
        if len(uids) > 1:
            return await self._bodies(ahead, uids[:1], facts, limits)
        return {uids[0]: self._refused(ahead, uids[0], code)}

    def _refused(self, ahead: UidsAhead, uid: int, code: str) -> str:
        """Return why a mail is skipped; a refusal without a reason is tried again first."""
        mail = (ahead.folder, ahead.status.uidvalidity, uid)
        self._refusals[mail] += 1
        tries = self._refused_before + self._refusals[mail]
        if code == "unreadable" and tries < _MAX_REFUSALS:
            raise MailboxFailure("mail_refused")
        del self._refusals[mail]
        self._refused_before = 0
        return code

    async def _reopen(self, ahead: UidsAhead) -> int:
        return (await self._examine(ahead.folder)).uidvalidity

    async def _fetch_bodies(
        self, uids: Sequence[int], limits: PageLimits, found: dict[int, bytes | str]
    ) -> None:
        asked = set(uids)

        def take(response: ImapResponse) -> None:
            items = fetch_items(response)
            uid = uid_of(items)
            if uid in asked and uid not in found and "BODY[]" in items:
                body = items["BODY[]"]
                found[uid] = body if isinstance(body, bytes) else "unreadable"

        connection = await self._connected()
        await connection.command(
            b"UID FETCH", uid_set(uids), b"(UID BODY.PEEK[])", wanted={"FETCH"}, take=take,
            most=limits.page_bytes + limits.mail_bytes, literal=limits.mail_bytes,
        )  # fmt: skip

    # waiting

    def _sign_delay(self, seconds: float) -> float:
        wrong = self._empty_signs - _TRUSTED_SIGNS
        return 0.0 if wrong < 0 else min(2.0**wrong, _MAX_SIGN_DELAY, seconds)

    def _is_replaceable(self, error: Exception) -> bool:
        """Tell whether a lost connection is no failure: it lasted as long as a token may."""
        is_lost = isinstance(error, TimeoutError) or str(error) == "server_closed"
        has_lasted = clock.steady() - self._opened_at >= self._lasting
        return is_lost and has_lasted and self._connection is not None

    async def _watch(self, until: float) -> bool:
        """Wait until news, the end of a turn or the end; tell whether there is news."""
        first, *others = self._config.folders
        connection = await self._connected()
        if connection.selected != first and await self._has_changed(first):
            return True
        turn = min(until - clock.steady(), self._config.idle_for)
        if others or "IDLE" not in connection.capabilities:
            turn = min(turn, self._config.poll_every)
        if await self._listen(connection, turn):
            return True
        for each in others:
            if await self._has_changed(each):
                return True
        return False

    @staticmethod
    async def _listen(connection: ImapConnection, seconds: float) -> bool:
        """Wait by IDLE, or else for what the server says by itself and to NOOP."""
        if "IDLE" in connection.capabilities:
            try:
                return await connection.idle(seconds)
            except CommandRefused as refusal:
                if refusal.is_temporary:
                    raise
                connection.capabilities -= {"IDLE"}
                return False
        if not await connection.listen(seconds):
            await connection.command(b"NOOP")
        return connection.has_news

    async def _has_changed(self, folder: str) -> bool:
        """Open a folder and compare it with how it was when it was read."""
        return (await self._examine(folder)).arrivals != self._read.get(folder)


def _skip_code(refusal: CommandRefused) -> str:
    """Return why the body of a mail is missing.

    Raises: CommandRefused, if the server may give it later.
    """
    if refusal.is_temporary:
        raise refusal
    return "gone" if refusal.answer.code == "EXPUNGEISSUED" else "unreadable"


def _check_bodies(found: dict[int, bytes | str], facts: Mapping[int, MailFacts]) -> None:
    """Take away bodies that are empty though their mail has a size: those are not the mail.

    Raises: _BodyEmpty.
    """
    empty = [uid for uid, body in found.items() if body == b"" and facts[uid].size]
    for uid in empty:
        del found[uid]
    if empty:
        raise _BodyEmpty


def _folder_taker(listed: list[str]) -> Any:
    """Return a function that collects the names of folders that can be opened."""

    def take(response: ImapResponse) -> None:
        values = response.values()
        if len(values) < 3 or not isinstance(values[0], list):  # noqa: PLR2004
            raise AnswerInvalid
        flags = {to_text(each).lower() for each in values[0]}
        if not flags & {"\\noselect", "\\nonexistent"} and len(listed) < _MAX_FOLDERS:
            name = values[2]
            listed.append(decode_folder(name) if isinstance(name, bytes) else "NIL")

    return take
