"""`ScriptedSmtp`: a mail server that fails as scripted and lists what it really accepted.

    with ScriptedSmtp() as server:
        server.script("accept_then_drop", "451@rcpt")
        ...  # send to server.host, server.port
        assert server.count("<id@example.com>") == 1

In a synchronous block it runs in a thread of its own, in an asynchronous one in the running loop.
``python -m oncebox.testing.smtp`` runs it in a terminal and prints each accepted mail.
"""

import asyncio
import base64
import binascii
import re
import ssl
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from enum import StrEnum
from typing import Self

import msgspec

from oncebox.testing.loopback import FaultScript, LoopbackServer


class SmtpStep(StrEnum):
    """Steps of an SMTP session, in this order."""

    CONNECT = "connect"
    HELLO = "hello"
    STARTTLS = "starttls"
    LOGIN = "login"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"
    #: the first line of the mail was received, the final dot was not
    BODY = "body"
    #: the whole mail was received
    DOT = "dot"


class SmtpFaultAction(StrEnum):
    """What the server does instead of the normal step."""

    #: nothing else
    PROCEED = "proceed"
    REPLY = "reply"
    #: the connection is reset
    DROP = "drop"
    #: the connection is closed properly
    HANG_UP = "hang_up"
    #: no answer ever; the connection stays open
    SILENCE = "silence"


class SmtpFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, at one step."""

    step: SmtpStep
    action: SmtpFaultAction = SmtpFaultAction.PROCEED
    #: the reply, such as 451
    code: int = 0
    #: seconds before the action
    delay: float = 0.0
    #: at the dot: whether the mail is accepted first
    accepts_mail: bool = False

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the fault of a name.

        ``ok`` · ``drop@STEP`` · ``hang_up@STEP`` · ``silence@STEP`` · ``sleep=SECONDS@STEP`` ·
        ``451@STEP`` (any reply), and after accepting the mail: ``accept_then_drop``,
        ``accept_then_hang_up``, ``accept_then_silence``, ``accept_then_sleep=SECONDS``,
        ``accept_then_451``.

        Raises: ValueError.
        """
        if name == "ok":
            return cls(step=SmtpStep.DOT)
        form = _FAULT_NAME.fullmatch(name)
        if form is None or (form["takes"] is None) != (form["step"] in list(SmtpStep)):
            raise ValueError(
                f"there is no fault {name!r}; write one such as drop@dot, 451@rcpt, sleep=2@mail"
            )
        return cls(
            step=SmtpStep(form["step"] or "dot"),
            action=SmtpFaultAction.REPLY
            if form["code"]
            else SmtpFaultAction(form["act"] or "proceed"),
            code=int(form["code"] or 0),
            delay=float(form["seconds"] or 0),
            accepts_mail=form["takes"] is not None,
        )


_ACTION_PATTERN = (
    r"(?P<act>drop|hang_up|silence)|sleep=(?P<seconds>[0-9.]+)|(?P<code>[2-5][0-9]{2})"
)
_FAULT_NAME = re.compile(rf"(?P<takes>accept_then_)?(?:{_ACTION_PATTERN})(?:@(?P<step>[a-z]+))?")


_MAIL_PATH = re.compile(r"(?:FROM|TO):<([^<>]*)>(?: (.*))?", re.IGNORECASE)
_MESSAGE_ID = re.compile(rb"^Message-ID:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_OK = b"250 2.0.0 ok"
#: the server closes the connection after this reply
_SERVICE_CLOSING = 421
_CHUNK_BYTES = 65_536


class SmtpMail(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted mail."""

    sender: str
    recipients: tuple[str, ...]
    #: without dot-stuffing
    message: bytes
    #: parameters of MAIL, such as BODY=8BITMIME
    options: tuple[str, ...]
    #: empty without a login
    user: str
    is_secured: bool

    @property
    def message_id(self) -> str:
        """The Message-ID of its header; empty without one."""
        found = _MESSAGE_ID.search(self.message.partition(b"\r\n\r\n")[0])
        return found[1].decode(errors="replace") if found else ""

    def __repr__(self) -> str:
        return f"SmtpMail({len(self.recipients)} recipients, {len(self.message)} bytes)"


@dataclass(slots=True)
class SmtpServerState:
    """State shared by all sessions of a server."""

    script: FaultScript[SmtpFault]
    extensions: tuple[str, ...]
    users: Mapping[str, str]
    tls: ssl.SSLContext | None
    accepted: list[SmtpMail] = field(default_factory=list)
    #: every command, without credentials
    commands: list[str] = field(default_factory=list)
    #: replies to RCPT for single addresses
    refused: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    #: called with every accepted mail
    on_accept: Callable[[SmtpMail], object] = bool

    def accept(self, mail: SmtpMail) -> None:
        """Accept a mail, whatever reply the client gets."""
        self.accepted.append(mail)
        self.on_accept(mail)


class _SessionOver(Exception):
    """The session is over."""


class ScriptedSmtpSession:
    """Serves one client until it disconnects, or until the script ends it."""

    def __init__(
        self, state: SmtpServerState, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._state = state
        self._reader = reader
        self._writer = writer
        self._user = ""
        self._sender: str | None = None
        self._options: tuple[str, ...] = ()
        self._recipients: list[str] = []
        self._handlers: dict[str, Callable[[str], Awaitable[None]]] = {
            "EHLO": self._hello,
            "HELO": self._hello,
            "STARTTLS": self._starttls,
            "AUTH": self._login,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._reset,
            "NOOP": lambda _: self._send(_OK),
            "QUIT": self._quit,
        }

    async def run(self) -> None:
        """Serve until the end."""
        self._state.connections += 1
        try:
            if await self._step_succeeds(SmtpStep.CONNECT):
                await self._send(b"220 scripted.oncebox.test ESMTP")
            while True:
                verb, _, rest = (await self._line()).partition(" ")
                shown = rest.partition(" ")[0] if verb.upper() == "AUTH" else rest
                self._state.commands.append(f"{verb.upper()} {shown}".strip())
                await self._handlers.get(verb.upper(), self._unknown)(rest)
        except (_SessionOver, OSError, EOFError, asyncio.LimitOverrunError):
            pass
        finally:
            self._writer.close()

    async def _hello(self, _rest: str) -> None:
        if not await self._step_succeeds(SmtpStep.HELLO):
            return
        offers = ["scripted.oncebox.test", *self._state.extensions]
        if self._state.tls is not None and not self._is_secured():
            offers.append("STARTTLS")
        if self._state.users:
            offers.append("AUTH PLAIN LOGIN")
        lines = [f"250-{each}\r\n" for each in offers[:-1]] + [f"250 {offers[-1]}"]
        await self._send("".join(lines).encode())

    async def _starttls(self, _rest: str) -> None:
        if self._state.tls is None or self._is_secured():
            await self._send(b"502 5.5.1 no TLS here")
        elif await self._step_succeeds(SmtpStep.STARTTLS):
            await self._send(b"220 2.0.0 go ahead")
            await self._writer.start_tls(self._state.tls)

    async def _login(self, rest: str) -> None:
        if not await self._step_succeeds(SmtpStep.LOGIN):
            return
        method, _, initial = rest.partition(" ")
        try:
            name, password = await self._credentials(method.upper(), initial)
        except (ValueError, binascii.Error):
            await self._send(b"501 5.5.2 cannot be read")
            return
        if self._state.users.get(name) != password:
            await self._send(b"535 5.7.8 wrong")
            return
        self._user = name
        await self._send(b"235 2.7.0 ok")

    async def _credentials(self, method: str, initial: str) -> tuple[str, str]:
        if method == "PLAIN":
            login = base64.b64decode(initial or await self._challenge(""))
            _, user, secret = login.split(b"\0")
            return user.decode(), secret.decode()
        name = initial or await self._challenge("VXNlcm5hbWU6")
        password = await self._challenge("UGFzc3dvcmQ6")
        return base64.b64decode(name).decode(), base64.b64decode(password).decode()

    async def _challenge(self, text: str) -> str:
        await self._send(f"334 {text}".encode())
        return await self._line()

    async def _mail(self, rest: str) -> None:
        path = _MAIL_PATH.fullmatch(rest)
        if path is None:
            await self._send(b"501 5.5.4 MAIL FROM:<address>")
        elif self._state.users and not self._user:
            await self._send(b"530 5.7.0 log in first")
        elif await self._step_succeeds(SmtpStep.MAIL):
            self._sender, self._recipients = path[1], []
            self._options = tuple((path[2] or "").split())
            await self._send(_OK)

    async def _rcpt(self, rest: str) -> None:
        path = _MAIL_PATH.fullmatch(rest)
        if path is None or self._sender is None:
            await self._send(b"503 5.5.1 MAIL first, then RCPT TO:<address>")
        elif code := self._state.refused.get(path[1]):
            await self._send(b"%d no" % code)
        elif await self._step_succeeds(SmtpStep.RCPT):
            self._recipients.append(path[1])
            await self._send(_OK)

    async def _data(self, _rest: str) -> None:
        if not self._recipients:
            await self._send(b"503 5.5.1 RCPT first")
        elif await self._step_succeeds(SmtpStep.DATA):
            await self._send(b"354 end with a dot")
            await self._receive()

    async def _receive(self) -> None:
        pieces: list[bytes] = []
        is_first = True
        while (line := await self._reader.readuntil(b"\r\n")) != b".\r\n":
            if is_first and not await self._step_succeeds(SmtpStep.BODY):
                await self._until_disconnected()
            is_first = False
            pieces.append(line.removeprefix(b"."))
        mail = self._finish_mail(b"".join(pieces))
        fault = self._next_fault(SmtpStep.DOT)
        if fault is not None and fault.accepts_mail:
            self._state.accept(mail)
        if fault is not None and not await self._apply_fault(fault):
            return
        if fault is None or not fault.accepts_mail:
            self._state.accept(mail)
        await self._send(b"250 2.0.0 ok: queued as %010X" % len(self._state.accepted))

    def _finish_mail(self, message: bytes) -> SmtpMail:
        mail = SmtpMail(
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
        await self._send(_OK)

    async def _quit(self, _rest: str) -> None:
        await self._send(b"221 2.0.0 bye")
        raise _SessionOver

    async def _unknown(self, _rest: str) -> None:
        await self._send(b"500 5.5.2 no such command")

    def _next_fault(self, step: SmtpStep) -> SmtpFault | None:
        return self._state.script.take(lambda fault: fault.step is step)

    async def _step_succeeds(self, step: SmtpStep) -> bool:
        fault = self._next_fault(step)
        return fault is None or await self._apply_fault(fault)

    async def _apply_fault(self, fault: SmtpFault) -> bool:
        """Apply a fault; return whether the normal step follows."""
        await asyncio.sleep(fault.delay)
        if fault.action is SmtpFaultAction.PROCEED:
            return True
        if fault.action is SmtpFaultAction.REPLY:
            await self._send(b"%d as the script says" % fault.code)
            if fault.code != _SERVICE_CLOSING:
                return False
        elif fault.action is SmtpFaultAction.SILENCE:
            await self._until_disconnected()
        elif fault.action is SmtpFaultAction.DROP:
            self._writer.transport.abort()
        raise _SessionOver

    async def _until_disconnected(self) -> None:
        while await self._reader.read(_CHUNK_BYTES):
            pass
        raise _SessionOver

    async def _line(self) -> str:
        return (await self._reader.readuntil(b"\r\n"))[:-2].decode(errors="replace")

    async def _send(self, reply: bytes) -> None:
        self._writer.write(reply + b"\r\n")
        await self._writer.drain()

    def _is_secured(self) -> bool:
        return self._writer.get_extra_info("ssl_object") is not None


EXTENSIONS = ("SIZE 52428800", "8BITMIME", "SMTPUTF8")


class ScriptedSmtp(LoopbackServer):
    """A mail server on this machine. Its lists may be read from any thread."""

    def __init__(  # noqa: PLR0913 - options of a server
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        implicit_tls: bool = False,
        users: Mapping[str, str] | None = None,
        extensions: Iterable[str] = EXTENSIONS,
        tell: Callable[[SmtpMail], object] = bool,
    ) -> None:
        """Prepare; port 0 chooses a free port. With ``tls`` it offers STARTTLS or implicit TLS.

        With ``users`` (names and passwords) mail is accepted only after a login. ``tell`` is called
        with every accepted mail.
        """
        super().__init__(host, port, tls if implicit_tls else None)
        self._script = FaultScript(SmtpFault.parse)
        self._state = SmtpServerState(
            self._script, tuple(extensions), dict(users or {}), tls, on_accept=tell
        )

    def script(self, *faults: SmtpFault | str) -> None:
        """Let these happen next, one after the other; see ``SmtpFault.parse`` for their names."""
        self._script.add(*faults)

    def always(self, *faults: SmtpFault | str) -> None:
        """Let these happen every time; none: no fault any more."""
        self._script.always(*faults)

    def refuse(self, address: str, code: int = 550) -> None:
        """Refuse one address at RCPT."""
        self._state.refused[address] = code

    @property
    def accepted(self) -> list[SmtpMail]:
        """Every accepted mail, whatever reply the client got."""
        return list(self._state.accepted)

    def count(self, message_id: str) -> int:
        """Return how often a mail was accepted."""
        return sum(mail.message_id == message_id for mail in self.accepted)

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
        """Serve SMTP to one client."""
        await ScriptedSmtpSession(self._state, reader, writer).run()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve in a terminal until ^C; print one line for each accepted mail."""
    parser = ArgumentParser(prog="python -m oncebox.testing.smtp", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=2526)
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        help="fault to inject, once, such as accept_then_drop or 451@rcpt; repeatable",
    )
    typed = parser.parse_args(arguments)
    server = ScriptedSmtp(host=typed.host, port=typed.port, tell=_print_mail)
    try:
        server.script(*typed.fault)
        with server:
            _print_line(f"listening at {server.host}:{server.port}; nothing is delivered")
            threading.Event().wait()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        pass


def _print_mail(mail: SmtpMail) -> None:
    header = message_from_bytes(mail.message.partition(b"\r\n\r\n")[0], policy=policy.default)
    _print_line(
        f"taken: {mail.message_id} for {', '.join(mail.recipients)}: {header['Subject'] or ''}"
    )


def _print_line(text: str) -> None:
    """Print one line without control characters."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
