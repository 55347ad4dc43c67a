"""`ScriptedImap`: an IMAP server, read-only, that fails and lies as scripted.

    with ScriptedImap() as server:
        server.add(MAIL)
        server.script("drop@body", "no=UNAVAILABLE@login")
        ...  # read from server.host, server.port as ann with the password secret

In a synchronous block it runs in a thread of its own, in an asynchronous one in the running loop.
"""

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self

import msgspec

from oncebox.testing.loopback import FaultScript, LoopbackServer


class ImapStep(StrEnum):
    """Steps of an IMAP session."""

    CONNECT = "connect"
    CAPABILITY = "capability"
    STARTTLS = "starttls"
    LOGIN = "login"
    LIST = "list"
    EXAMINE = "examine"
    SEARCH = "search"
    #: FETCH of sizes, dates and uids
    FETCH = "fetch"
    #: FETCH of whole mails
    BODY = "body"
    IDLE = "idle"
    DONE = "done"
    NOOP = "noop"


class ImapFaultAction(StrEnum):
    """What the server does instead of the normal step."""

    #: nothing else
    PROCEED = "proceed"
    #: the command is answered NO or BAD
    REFUSE = "refuse"
    #: some bytes, and nothing else
    SEND = "send"
    #: a BYE, and the connection is closed
    BYE = "bye"
    #: the connection is reset
    DROP = "drop"
    #: the connection is closed properly
    HANG_UP = "hang_up"
    #: no answer ever; the connection stays open
    SILENCE = "silence"
    #: a literal that never ends
    FLOOD = "flood"


class ImapFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, at one step."""

    step: ImapStep
    action: ImapFaultAction = ImapFaultAction.PROCEED
    #: seconds before the action
    delay: float = 0.0
    #: the response code of a refusal, such as ``UNAVAILABLE``
    code: str = ""
    #: what is sent; ``%TAG%`` stands for the tag of the command
    data: bytes = b""

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok@STEP`` · ``no@STEP`` · ``no=CODE@STEP`` · ``bye@STEP`` · ``drop@STEP`` ·
        ``hang_up@STEP`` · ``silence@STEP`` · ``flood@STEP`` · ``sleep=SECONDS@STEP``.

        Raises: ValueError.
        """
        form = _FAULT_NAME.fullmatch(name)
        if form is None or form["step"] not in list(ImapStep):
            raise ValueError(
                f"there is no fault {name!r}; write one such as drop@body, no=UNAVAILABLE@login"
            )
        step = ImapStep(form["step"])
        if form["act"]:
            return cls(step=step, action=ImapFaultAction(form["act"]))
        if form["no"]:
            return cls(step=step, action=ImapFaultAction.REFUSE, code=form["code"] or "")
        return cls(step=step, delay=float(form["seconds"] or 0))


_FAULT_NAME = re.compile(
    r"(?:(?P<act>bye|drop|hang_up|silence|flood)|(?P<no>no)(?:=(?P<code>[A-Z]+))?"
    r"|sleep=(?P<seconds>[0-9.]+)|ok)@(?P<step>[a-z]+)"
)
_CHUNK = b"x" * 65_536
_FLOOD_SIZE = 2**31
_SEARCH = re.compile(
    r"UID (?P<set>[0-9:*,]+)(?: OR UID (?P<above>[0-9]+):\* SINCE (?P<or>\S+)| SINCE (?P<day>\S+)|)"
)
_LITERAL = re.compile(rb"\{([0-9]+)(\+?)\}\r\n\Z")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_SECRET_COMMANDS = frozenset({"LOGIN", "AUTHENTICATE"})
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CAPABILITIES = ("IMAP4REV1", "IDLE", "LITERAL-", "SASL-IR", "AUTH=PLAIN", "CONDSTORE", "ID")
RECEIVED_AT = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)


@dataclass(slots=True)
class ImapStoredMail:
    """A mail in a folder, and what the server says of it."""

    raw: bytes
    received_at: datetime
    #: what RFC822.SIZE says
    size: int
    #: what EMAILID and X-GM-MSGID say
    object_id: str
    modseq: int


@dataclass(slots=True)
class ImapStoredFolder:
    """A folder, and what the server says of it."""

    uidvalidity: int = 1
    uidnext: int = 1
    modseq: int = 1
    mails: dict[int, ImapStoredMail] = field(default_factory=dict)
    #: added to EXISTS: mails that are not there
    invented: int = 0
    says_uidnext: bool = True
    #: uids that SEARCH adds to those it found
    found_too: tuple[int, ...] = ()

    @property
    def exists(self) -> int:
        """What EXISTS says."""
        return len(self.mails) + self.invented


@dataclass(slots=True)
class ImapServerState:
    """State shared by all sessions of a server."""

    script: FaultScript[ImapFault]
    capabilities: tuple[str, ...]
    users: Mapping[str, str]
    tokens: set[str]
    tls: ssl.SSLContext | None
    folders: dict[str, ImapStoredFolder] = field(default_factory=dict)
    #: every command, without credentials
    commands: list[str] = field(default_factory=list)
    connections: int = 0
    sessions: set["ScriptedImapSession"] = field(default_factory=set)


class _SessionOver(Exception):
    """The session is over."""


class ScriptedImapSession:
    """Serves one client until it disconnects, or until the script ends it."""

    def __init__(
        self, state: ImapServerState, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._is_ending = False
        self._folder: ImapStoredFolder | None = None
        self._told = 0
        self._is_logged_in = False
        self._tag = ""
        self._handlers: dict[str, Callable[[str], Awaitable[None]]] = {
            "CAPABILITY": self._capability,
            "STARTTLS": self._starttls,
            "LOGIN": self._login,
            "AUTHENTICATE": self._authenticate,
            "ID": self._id,
            "LIST": self._list,
            "EXAMINE": self._examine,
            "SEARCH": self._search,
            "FETCH": self._fetch,
            "IDLE": self._idle,
            "NOOP": self._noop,
            "LOGOUT": self._logout,
        }

    async def run(self) -> None:
        """Serve until the end."""
        self._state.connections += 1
        self._state.sessions.add(self)
        try:
            if await self._step_succeeds(ImapStep.CONNECT):
                await self._send("* OK ready")
            while True:
                await self._command()
        except (_SessionOver, OSError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._state.sessions.discard(self)
            self._writer.close()

    def wake(self, *, ends: bool = False) -> None:
        """Let an idle session look at its folder, or end; from any thread."""
        self._is_ending = self._is_ending or ends
        self._loop.call_soon_threadsafe(self._changed.set)

    async def _command(self) -> None:
        self._tag, _, rest = (await self._line()).partition(" ")
        verb, _, words = rest.partition(" ")
        if verb.upper() == "UID":
            verb, _, words = words.partition(" ")
        shown = "" if verb.upper() in _SECRET_COMMANDS else words
        self._state.commands.append(f"{verb.upper()} {shown}".strip())
        handler = self._handlers.get(verb.upper(), self._unknown)
        is_open = verb.upper() in {"CAPABILITY", "STARTTLS", "LOGOUT", *_SECRET_COMMANDS}
        await (handler if is_open or self._is_logged_in else self._unknown)(words)

    async def _capability(self, _words: str) -> None:
        if await self._step_succeeds(ImapStep.CAPABILITY):
            await self._send(f"* CAPABILITY {' '.join(self._offered())}")
            await self._ok()

    def _offered(self) -> Iterator[str]:
        yield from self._state.capabilities
        if self._state.tokens:
            yield from ("AUTH=XOAUTH2", "AUTH=OAUTHBEARER")
        if self._state.tls is not None and self._writer.get_extra_info("ssl_object") is None:
            yield from ("STARTTLS", "LOGINDISABLED")

    async def _starttls(self, _words: str) -> None:
        if self._state.tls is None:
            await self._refuse("BAD")
        elif await self._step_succeeds(ImapStep.STARTTLS):
            await self._ok()
            await self._writer.start_tls(self._state.tls)

    async def _login(self, words: str) -> None:
        name, password = (match[1] or match[2] for match in _WORD.finditer(words))
        unescaped = [re.sub(r"\\(.)", r"\1", each) for each in (name, password)]
        await self._end_login(self._state.users.get(unescaped[0]) == unescaped[1])

    async def _authenticate(self, words: str) -> None:
        method, _, initial = words.partition(" ")
        if not initial:
            await self._send("+ ")
            initial = await self._line()
        try:
            text = base64.b64decode(initial).decode()
        except (binascii.Error, UnicodeError):
            await self._refuse("BAD")
            return
        if method.upper() == "PLAIN":
            _, name, password = text.split("\0")
            await self._end_login(self._state.users.get(name) == password)
            return
        token = text.partition("auth=Bearer ")[2].partition("\x01")[0]
        if token not in self._state.tokens:
            await self._send("+ " + base64.b64encode(b'{"status":"401"}').decode())
            await self._line()
        await self._end_login(token in self._state.tokens)

    async def _end_login(self, is_right: bool) -> None:  # noqa: FBT001 - read at a glance
        if not await self._step_succeeds(ImapStep.LOGIN):
            return
        self._is_logged_in = is_right
        await (self._ok() if is_right else self._refuse("NO", "AUTHENTICATIONFAILED"))

    async def _id(self, _words: str) -> None:
        await self._send('* ID ("name" "scripted")')
        await self._ok()

    async def _list(self, words: str) -> None:
        if not await self._step_succeeds(ImapStep.LIST):
            return
        wanted = words.rpartition('"')[0].rpartition('"')[2]
        for name in self._state.folders:
            if wanted in {"*", name}:
                await self._send(f'* LIST (\\HasNoChildren) "/" "{name}"')
        await self._ok()

    async def _examine(self, words: str) -> None:
        if not await self._step_succeeds(ImapStep.EXAMINE):
            return
        found = _WORD.match(words)
        folder = self._state.folders.get(found[1] or found[2]) if found else None
        self._folder = folder
        if folder is None:
            await self._refuse("NO", "NONEXISTENT")
            return
        self._told = folder.exists
        await self._send(f"* {folder.exists} EXISTS")
        await self._send(f"* OK [UIDVALIDITY {folder.uidvalidity}] valid")
        if folder.says_uidnext:
            await self._send(f"* OK [UIDNEXT {folder.uidnext}] next")
        if "CONDSTORE" in self._state.capabilities:
            await self._send(f"* OK [HIGHESTMODSEQ {folder.modseq}] modseq")
        await self._send(f"{self._tag} OK [READ-ONLY] opened")

    async def _search(self, words: str) -> None:
        if not await self._step_succeeds(ImapStep.SEARCH) or self._folder is None:
            return
        asked = _SEARCH.fullmatch(words)
        if asked is None:
            await self._refuse("BAD")
            return
        mails = self._folder.mails
        found = [uid for uid in _members(asked["set"], mails) if _is_found(asked, uid, mails[uid])]
        await self._tell_arrivals()
        await self._send("* SEARCH " + " ".join(map(str, [*found, *self._folder.found_too])))
        await self._ok()

    async def _fetch(self, words: str) -> None:
        is_body = "BODY" in words
        step = ImapStep.BODY if is_body else ImapStep.FETCH
        if not await self._step_succeeds(step) or self._folder is None:
            return
        asked, _, items = words.partition(" ")
        mails = self._folder.mails
        numbers = dict(enumerate(sorted(mails), 1))
        if items == "(UID)":  # by sequence number
            uids = [numbers[int(asked)]] if int(asked) in numbers else []
        else:
            uids = list(_members(asked, mails))
        for number, uid in numbers.items():
            if uid in uids:
                await self._send_mail(number, uid, mails[uid], items)
        await self._ok()

    async def _send_mail(self, number: int, uid: int, mail: ImapStoredMail, items: str) -> None:
        parts = [f"UID {uid}"]
        if "RFC822.SIZE" in items:
            parts += [f"RFC822.SIZE {mail.size}", f'INTERNALDATE "{_date(mail.received_at)}"']
        if "EMAILID" in items:
            parts.append(f"EMAILID ({mail.object_id})")
        if "X-GM-MSGID" in items:
            parts.append(f"X-GM-MSGID {mail.object_id}")
        line = f"* {number} FETCH ({' '.join(parts)}".encode()
        if "BODY" in items:
            line += b" BODY[] {%d}\r\n" % len(mail.raw) + mail.raw
        self._writer.write(line + b")\r\n")
        await self._writer.drain()

    async def _idle(self, _words: str) -> None:
        if not await self._step_succeeds(ImapStep.IDLE):
            return
        await self._send("+ idling")
        done = asyncio.ensure_future(self._line())
        try:
            while not done.done():
                await self._tell_arrivals()
                self._changed.clear()
                waking = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({done, waking}, return_when=asyncio.FIRST_COMPLETED)
                waking.cancel()
                await self._end_if_told()
            await done
        finally:
            done.cancel()
        if await self._step_succeeds(ImapStep.DONE):
            await self._ok()

    async def _end_if_told(self) -> None:
        if self._is_ending:
            await self._send("* BYE session is over")
            raise _SessionOver

    async def _tell_arrivals(self) -> None:
        if self._folder is not None and self._folder.exists != self._told:
            self._told = self._folder.exists
            await self._send(f"* {self._told} EXISTS")

    async def _noop(self, _words: str) -> None:
        if await self._step_succeeds(ImapStep.NOOP):
            await self._tell_arrivals()
            await self._ok()

    async def _logout(self, _words: str) -> None:
        await self._send("* BYE goodbye")
        await self._ok()
        raise _SessionOver

    async def _unknown(self, _words: str) -> None:
        await self._refuse("BAD")

    async def _step_succeeds(self, step: ImapStep) -> bool:
        fault = self._state.script.take(lambda each: each.step is step)
        return fault is None or await self._apply_fault(fault)

    async def _apply_fault(self, fault: ImapFault) -> bool:
        """Apply a fault; return whether the normal step follows."""
        await asyncio.sleep(fault.delay)
        match fault.action:
            case ImapFaultAction.PROCEED:
                return True
            case ImapFaultAction.REFUSE:
                await self._refuse("NO", fault.code)
                return False
            case ImapFaultAction.SEND:
                self._writer.write(fault.data.replace(b"%TAG%", self._tag.encode()))
                await self._writer.drain()
                return False
        await self._end_by(fault.action)
        raise _SessionOver

    async def _end_by(self, action: ImapFaultAction) -> None:
        match action:
            case ImapFaultAction.FLOOD:
                await self._flood()
            case ImapFaultAction.BYE:
                await self._send("* BYE as the script says")
            case ImapFaultAction.DROP:
                self._writer.transport.abort()
            case ImapFaultAction.SILENCE:
                while await self._reader.read(len(_CHUNK)):
                    pass

    async def _flood(self) -> None:
        self._writer.write(b"* 1 FETCH (UID 1 BODY[] {%d}\r\n" % _FLOOD_SIZE)
        while not self._writer.is_closing():
            self._writer.write(_CHUNK)
            await self._writer.drain()

    async def _line(self) -> str:
        """Return a command line with its literals, as quoted strings."""
        line = await self._reader.readuntil(b"\r\n")
        while literal := _LITERAL.search(line):
            if not literal[2]:
                await self._send("+ go on")
            text = (await self._reader.readexactly(int(literal[1]))).replace(b"\\", b"\\\\")
            quoted = b'"' + text.replace(b'"', b'\\"') + b'"'
            line = line[: literal.start()] + quoted + await self._reader.readuntil(b"\r\n")
        return line[:-2].decode(errors="replace")

    async def _ok(self) -> None:
        await self._send(f"{self._tag} OK done")

    async def _refuse(self, kind: str, code: str = "") -> None:
        await self._send(f"{self._tag} {kind} {f'[{code}] ' if code else ''}refused")

    async def _send(self, line: str) -> None:
        self._writer.write(line.encode() + b"\r\n")
        await self._writer.drain()


def _members(text: str, mails: Mapping[int, ImapStoredMail]) -> Iterator[int]:
    """Yield the uids of a set; ``*`` is the last one, and ``9:*`` includes it if it is 6."""
    last = max(mails, default=0)
    for each in text.split(","):
        ends = [last if end == "*" else int(end) for end in each.split(":")]
        yield from (uid for uid in sorted(mails) if min(ends) <= uid <= max(ends))


def _is_found(asked: re.Match[str], uid: int, mail: ImapStoredMail) -> bool:
    day = asked["or"] or asked["day"]
    if day is None or (asked["above"] and uid >= int(asked["above"])):
        return True
    number, month, year = day.split("-")
    first = datetime(int(year), _MONTHS.index(month) + 1, int(number), tzinfo=UTC)
    return mail.received_at >= first


def _date(moment: datetime) -> str:
    month = _MONTHS[moment.month - 1]
    return f"{moment.day:02}-{month}-{moment.year} {moment:%H:%M:%S} +0000"


class ScriptedImap(LoopbackServer):
    """A mailbox server on this machine. Its methods may be called from any thread."""

    def __init__(  # noqa: PLR0913 - options of a server
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        implicit_tls: bool = False,
        users: Mapping[str, str] | None = None,
        tokens: Iterable[str] = (),
        capabilities: Iterable[str] = CAPABILITIES,
    ) -> None:
        """Prepare; port 0 chooses a free port. With ``tls`` it offers STARTTLS or implicit TLS.

        ``users`` are names and passwords, ``tokens`` the access tokens that it accepts.
        """
        super().__init__(host, port, tls if implicit_tls else None)
        self._script = FaultScript(ImapFault.parse)
        self._state = ImapServerState(
            self._script, tuple(capabilities), users or {"ann": "secret"}, set(tokens), tls
        )
        self._state.folders["INBOX"] = ImapStoredFolder()

    def script(self, *faults: ImapFault | str) -> None:
        """Let these happen next, one after the other; see ``ImapFault.parse`` for their names."""
        self._script.add(*faults)

    def always(self, *faults: ImapFault | str) -> None:
        """Let these happen every time; none: no fault any more."""
        self._script.always(*faults)

    def add(
        self,
        raw: bytes,
        folder: str = "INBOX",
        *,
        received_at: datetime = RECEIVED_AT,
        size: int | None = None,
        object_id: str = "",
    ) -> int:
        """Let a mail arrive, and return its uid; ``size`` is what the server says of it."""
        stored = self.folder(folder)
        uid, stored.uidnext = stored.uidnext, stored.uidnext + 1
        stored.modseq += 1
        stored.mails[uid] = ImapStoredMail(
            raw, received_at, len(raw) if size is None else size, object_id or f"M{uid}",
            stored.modseq,
        )  # fmt: skip
        self._wake()
        return uid

    def folder(self, name: str = "INBOX") -> ImapStoredFolder:
        """Return a folder, which may be changed; it is made where it is missing."""
        return self._state.folders.setdefault(name, ImapStoredFolder())

    def remove_folder(self, name: str) -> None:
        """Remove a folder and its mails."""
        del self._state.folders[name]

    def rebuild(self, name: str = "INBOX") -> None:
        """Give a folder a new UIDVALIDITY, and its mails new uids."""
        old = self.folder(name)
        mails = dict(enumerate(old.mails.values(), 1))
        self._state.folders[name] = ImapStoredFolder(
            uidvalidity=old.uidvalidity + 1,
            uidnext=len(mails) + 1,
            modseq=old.modseq + 1,
            mails=mails,
        )

    def announce(self, mails: int = 1, folder: str = "INBOX") -> None:
        """Announce mails that are not there."""
        self.folder(folder).invented += mails
        self._wake()

    def accept_tokens(self, *tokens: str) -> None:
        """Accept these access tokens from now on, and no others."""
        self._state.tokens.clear()
        self._state.tokens.update(tokens)

    def end_sessions(self) -> None:
        """Say BYE to every client that waits, and disconnect it."""
        self._wake(ends=True)

    def _wake(self, *, ends: bool = False) -> None:
        for session in list(self._state.sessions):
            session.wake(ends=ends)

    @property
    def commands(self) -> list[str]:
        """Every command, without credentials."""
        return list(self._state.commands)

    @property
    def connections(self) -> int:
        """The number of connections."""
        return self._state.connections

    @property
    def script_is_over(self) -> bool:
        """Whether everything in the script has happened."""
        return self._script.is_over

    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve IMAP to one client."""
        await ScriptedImapSession(self._state, reader, writer).run()
