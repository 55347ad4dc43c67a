"""A session of the scripted mail server: correct SMTP, until its script says otherwise."""

import asyncio
import base64
import binascii
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from oncebox.testing.smtp_script import Act, Fault, Script, Step

_PATH = re.compile(r"(?:FROM|TO):<([^<>]*)>(?: (.*))?", re.IGNORECASE)
_MESSAGE_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_OK = b"250 2.0.0 ok"
#: a server that says this closes the connection
_CLOSING = 421
_LOGIN_WORDS = 3
_PIECE = 65_536


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was really taken."""

    sender: str
    recipients: tuple[str, ...]
    #: without the dots that the wire adds
    message: bytes
    #: what was said behind the sender, such as BODY=8BITMIME
    options: tuple[str, ...]
    #: who was logged in; empty: nobody
    user: str
    is_secured: bool

    @property
    def message_id(self) -> str:
        """The Message-ID as it stands in the header; empty without one."""
        found = _MESSAGE_ID.search(self.message.partition(b"\r\n\r\n")[0])
        return found[1].decode(errors="replace") if found else ""

    def __repr__(self) -> str:
        """Leave out what is written, and to whom."""
        return f"Mail({len(self.recipients)} recipients, {len(self.message)} bytes)"


@dataclass(slots=True)
class House:
    """What all sessions of a server share."""

    script: Script
    extensions: tuple[str, ...]
    users: Mapping[str, str]
    tls: ssl.SSLContext | None
    accepted: list[Mail] = field(default_factory=list)
    #: every command, without what a login says
    heard: list[str] = field(default_factory=list)
    #: replies to RCPT for single addresses
    refused: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    #: hears of every mail that is really taken
    tell: Callable[[Mail], object] = bool

    def take(self, mail: Mail) -> None:
        """Keep a mail: from here on it is taken, whatever the client is told."""
        self.accepted.append(mail)
        self.tell(mail)


class _Gone(Exception):
    """The session is over."""


class Session:
    """Talks to one client until it goes, or until the script ends it."""

    def __init__(
        self, house: House, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Greet nobody yet."""
        self._house = house
        self._reader = reader
        self._writer = writer
        self._user = ""
        self._sender: str | None = None
        self._options: tuple[str, ...] = ()
        self._recipients: list[str] = []
        self._verbs: dict[str, Callable[[str], Awaitable[None]]] = {
            "EHLO": self._hello,
            "HELO": self._hello,
            "STARTTLS": self._starttls,
            "AUTH": self._login,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._reset,
            "NOOP": self._noop,
            "QUIT": self._quit,
        }

    async def run(self) -> None:
        """Serve until the end."""
        self._house.connections += 1
        try:
            if await self._goes_well(Step.CONNECT):
                await self._say(b"220 scripted.oncebox.test ESMTP")
            while True:
                verb, _, rest = (await self._line()).partition(" ")
                shown = rest.partition(" ")[0] if verb.upper() == "AUTH" else rest
                self._house.heard.append(f"{verb.upper()} {shown}".strip())
                await self._verbs.get(verb.upper(), self._unknown)(rest)
        except (_Gone, OSError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._writer.close()

    # One step each

    async def _hello(self, _rest: str) -> None:
        if not await self._goes_well(Step.HELLO):
            return
        offers = ["scripted.oncebox.test", *self._house.extensions]
        if self._house.tls is not None and not self._is_secured():
            offers.append("STARTTLS")
        if self._house.users:
            offers.append("AUTH PLAIN LOGIN")
        lines = [f"250-{each}\r\n" for each in offers[:-1]] + [f"250 {offers[-1]}"]
        await self._say("".join(lines).encode())

    async def _starttls(self, _rest: str) -> None:
        if self._house.tls is None or self._is_secured():
            await self._say(b"502 5.5.1 no TLS here")
        elif await self._goes_well(Step.STARTTLS):
            await self._say(b"220 2.0.0 go ahead")
            await self._writer.start_tls(self._house.tls)

    async def _login(self, rest: str) -> None:
        if not await self._goes_well(Step.LOGIN):
            return
        method, _, initial = rest.partition(" ")
        try:
            name, password = await self._credentials(method.upper(), initial)
        except (ValueError, binascii.Error):
            await self._say(b"501 5.5.2 cannot be read")
            return
        if self._house.users.get(name) != password:
            await self._say(b"535 5.7.8 wrong")
            return
        self._user = name
        await self._say(b"235 2.7.0 ok")

    async def _credentials(self, method: str, initial: str) -> tuple[str, str]:
        if method == "PLAIN":
            words = base64.b64decode(initial or await self._challenge("")).split(b"\0")
            if len(words) != _LOGIN_WORDS:
                raise ValueError
            return words[1].decode(), words[2].decode()
        name = initial or await self._challenge("VXNlcm5hbWU6")
        password = await self._challenge("UGFzc3dvcmQ6")
        return base64.b64decode(name).decode(), base64.b64decode(password).decode()

    async def _challenge(self, text: str) -> str:
        await self._say(f"334 {text}".encode())
        return await self._line()

    async def _mail(self, rest: str) -> None:
        path = _PATH.fullmatch(rest)
        if path is None:
            await self._say(b"501 5.5.4 MAIL FROM:<address>")
        elif self._house.users and not self._user:
            await self._say(b"530 5.7.0 log in first")
        elif await self._goes_well(Step.MAIL):
            self._sender, self._recipients = path[1], []
            self._options = tuple((path[2] or "").split())
            await self._say(_OK)

    async def _rcpt(self, rest: str) -> None:
        path = _PATH.fullmatch(rest)
        if path is None or self._sender is None:
            await self._say(b"503 5.5.1 MAIL first, then RCPT TO:<address>")
        elif code := self._house.refused.get(path[1]):
            await self._say(b"%d no" % code)
        elif await self._goes_well(Step.RCPT):
            self._recipients.append(path[1])
            await self._say(_OK)

    async def _data(self, _rest: str) -> None:
        if not self._recipients:
            await self._say(b"503 5.5.1 RCPT first")
        elif await self._goes_well(Step.DATA):
            await self._say(b"354 end with a dot")
            await self._receive()

    async def _receive(self) -> None:
        """Read the mail; only its dot makes it one."""
        pieces: list[bytes] = []
        is_first = True
        while (line := await self._reader.readuntil(b"\r\n")) != b".\r\n":
            if is_first and not await self._goes_well(Step.BODY):
                await self._until_gone()
            is_first = False
            pieces.append(line.removeprefix(b"."))
        mail = self._taken(b"".join(pieces))
        fault = self._house.script.at(Step.DOT)
        if fault is not None and fault.takes:
            self._house.take(mail)
        if fault is not None and not await self._passes(fault):
            return
        if fault is None or not fault.takes:
            self._house.take(mail)
        await self._say(b"250 2.0.0 ok: queued as %010X" % len(self._house.accepted))

    def _taken(self, message: bytes) -> Mail:
        """Make the mail, and be ready for the next."""
        mail = Mail(
            sender=self._sender or "",
            recipients=tuple(self._recipients),
            message=message,
            options=self._options,
            user=self._user,
            is_secured=self._is_secured(),
        )
        self._sender, self._recipients = None, []
        return mail

    async def _reset(self, _rest: str) -> None:
        self._sender, self._recipients = None, []
        await self._say(_OK)

    async def _noop(self, _rest: str) -> None:
        await self._say(_OK)

    async def _quit(self, _rest: str) -> None:
        await self._say(b"221 2.0.0 bye")
        raise _Gone

    async def _unknown(self, _rest: str) -> None:
        await self._say(b"500 5.5.2 no such command")

    # The script

    async def _goes_well(self, step: Step) -> bool:
        fault = self._house.script.at(step)
        return fault is None or await self._passes(fault)

    async def _passes(self, fault: Fault) -> bool:
        """Do what the script says; return whether the step is still done as it should be."""
        await asyncio.sleep(fault.after)
        if fault.act is Act.PROCEED:
            return True
        if fault.act is Act.REPLY:
            await self._say(b"%d as the script says" % fault.code)
            if fault.code != _CLOSING:
                return False
        elif fault.act is Act.SILENCE:
            await self._until_gone()
        elif fault.act is Act.DROP:
            self._writer.transport.abort()
        raise _Gone

    async def _until_gone(self) -> None:
        """Read on, so that what was said is heard."""
        while await self._reader.read(_PIECE):
            pass
        raise _Gone

    async def _line(self) -> str:
        return (await self._reader.readuntil(b"\r\n"))[:-2].decode(errors="replace")

    async def _say(self, reply: bytes) -> None:
        self._writer.write(reply + b"\r\n")
        await self._writer.drain()

    def _is_secured(self) -> bool:
        return self._writer.get_extra_info("ssl_object") is not None
