"""SMTP session without I/O: command parsing, DATA content, replies.

Only CR LF ends a line, and only a dot between two of them ends a mail. Other servers may see
another end at a bare CR or LF, so a mail with one is refused at its true end and ends the session.

``feed`` takes bytes; replies are collected in ``output``. The session stops where it needs
something, and keeps the bytes that arrive meanwhile; ``recipient_found``, ``mail_stored`` and
``tls_started`` continue it. The replies do not depend on how the bytes are split into pieces.
See docs/decisions/0023-use-a-sans-io-smtp-session-with-strict-line-endings.md.
"""

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable
from enum import IntEnum, auto
from functools import partial
from typing import ClassVar

from oncebox.core import faults
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.model.inboxes import addresses
from oncebox.model.inboxes.received_mail import Envelope, EnvelopeRecipient
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.mail_limits import MailLimits
from oncebox.server.smtp.smtp_replies import SessionRules

_PARAMETERS = rb"((?: +[^ =<>]+(?:=[^ =<>]*)?)*) *"
# Many clients put a space after the colon, and servers accept it.
_FROM = re.compile(rb"FROM: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_TO = re.compile(rb"TO: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_NUMBER = re.compile(rb"[0-9]{1,20}")
#: a parameter of MAIL that servers with AUTH accept; its value is ignored
_AUTH_PARAMETER = re.compile(rb" +AUTH=[!-~]+(?= |$)", re.IGNORECASE)


class CommandRefused(Exception):
    """A command is refused with ``reply``."""

    def __init__(self, reply: bytes) -> None:
        super().__init__()
        self.reply = reply


def parse_mail_from(argument: bytes, *, extended: bool) -> tuple[str, int, bool]:
    """Return address, announced size (0 if unknown) and SMTPUTF8 of MAIL; after EHLO or HELO.

    Raises: CommandRefused.
    """
    found = _FROM.fullmatch(argument)
    if found is None:
        raise CommandRefused(smtp_replies.PATH_WRONG)
    path, rest = found.groups()
    size, utf8 = _parse_parameters(rest, extended=extended) if rest else (0, False)
    address = _decode_path(path, utf8=utf8, wrong=smtp_replies.PATH_WRONG)
    if not addresses.is_sender_path(address):
        raise CommandRefused(smtp_replies.PATH_WRONG)
    return address, size, utf8


def parse_rcpt_to(argument: bytes, *, utf8: bool) -> tuple[str, str]:
    """Return local part and domain of RCPT.

    Raises: CommandRefused.
    """
    found = _TO.fullmatch(argument)
    if found is None:
        raise CommandRefused(smtp_replies.RECIPIENT_WRONG)
    path, rest = found.groups()
    if rest:
        raise CommandRefused(smtp_replies.PARAMETER_UNKNOWN)
    parts = addresses.split_recipient(
        _decode_path(path, utf8=utf8, wrong=smtp_replies.RECIPIENT_WRONG)
    )
    if parts is None:
        raise CommandRefused(smtp_replies.RECIPIENT_WRONG)
    return parts


def _decode_path(path: bytes, *, utf8: bool, wrong: bytes) -> str:
    if not path.isascii() and not utf8:
        raise CommandRefused(smtp_replies.UTF8_NEEDED)
    try:
        return path.decode()
    except UnicodeDecodeError:
        raise CommandRefused(wrong) from None


def _parse_parameters(text: bytes, *, extended: bool) -> tuple[int, bool]:
    words = [word.partition(b"=") for word in text.upper().split()]
    given = {name: value if equals else None for name, equals, value in words}
    if not extended or not given.keys() <= {b"SIZE", b"BODY", b"SMTPUTF8"}:
        raise CommandRefused(smtp_replies.PARAMETER_UNKNOWN)
    size = given.get(b"SIZE", b"0")
    if len(given) < len(words) or size is None or not _NUMBER.fullmatch(size):
        raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
    if given.get(b"BODY", b"7BIT") not in {b"7BIT", b"8BITMIME"}:
        raise CommandRefused(smtp_replies.PARAMETER_UNKNOWN)
    if given.get(b"SMTPUTF8") is not None:
        raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
    return int(size), b"SMTPUTF8" in given


_MAIL_END = b"\r\n.\r\n"
_LINE_END = b"\r\n"
_DOT = b"\r\n."
# With as many CR as LF, a bare LF never occurs without a bare CR.
_BARE_CR = re.compile(rb"\r(?:[^\n]|\Z)")
#: a bare CR, or one whose line end is followed by a dot or by nothing
_SPECIAL_CR = re.compile(rb"\r(?!\n[^.])")
#: possible beginnings of the end of a mail at the end of a piece, the longest first
_PARTIAL_ENDS = (b"\r\n.\r", b"\r\n.", b"\r\n", b"\r")
#: bytes beyond the size limit that are still read, and discarded
SLACK = 64 * 1024


class MailContent:
    """The mail of one transaction."""

    __slots__ = (
        "_bare", "_carry", "_limit", "_line", "_longest", "_skip", "_too_long", "held", "pieces",
        "refusal", "size",
    )  # fmt: skip

    def __init__(self, *, size: int, line: int) -> None:
        self._limit = size
        self._longest = line
        #: bytes that may begin the end of the mail; it starts as if after a line end
        self._carry = _LINE_END
        #: bytes of the first piece that are not part of the mail
        self._skip = len(_LINE_END)
        #: bytes of the current line
        self._line = 0
        self._bare = False
        self._too_long = False
        #: the part of the mail that is not spooled, and its bytes
        self.pieces: list[bytes] = []
        self.held = 0
        #: bytes of the whole mail
        self.size = 0
        #: the reply if it cannot be spooled
        self.refusal: bytes | None = None

    @property
    def exceeds_slack(self) -> bool:
        """Whether it exceeds the limit by so much that the session ends at once."""
        return self.size > self._limit + SLACK

    @property
    def error_reply(self) -> bytes | None:
        """The reply that refuses the mail, if it must be refused."""
        if self._bare:
            return smtp_replies.BARE_IN_MAIL
        if self.size > self._limit:
            return smtp_replies.TOO_LARGE
        return smtp_replies.MAIL_LINE_TOO_LONG if self._too_long else self.refusal

    def feed(self, data: bytes) -> bytes | None:
        """Add bytes; return the bytes after the mail, or None if it is not complete."""
        faults.point("smtp.after-354")
        data = self._carry + data
        # In most mails the first CR that is special begins the end of the mail.
        special = _SPECIAL_CR.search(data)
        first = len(data) if special is None else special.start()
        dot = data.find(_DOT, first)
        end = dot if dot < 0 or data.startswith(_MAIL_END, dot) else data.find(_MAIL_END, dot)
        if end >= 0:
            content = data[: end + len(_LINE_END)]
            self._take(content, is_stuffed=dot < end, may_be_bare=first < end)
            return data[end + len(_MAIL_END) :]
        half = next((half for half in _PARTIAL_ENDS if data.endswith(half)), b"")
        self._carry = half
        length = len(data) - len(half)
        if length:
            self._take(data[:length], is_stuffed=dot >= 0, may_be_bare=first < length)
        return None

    def release(self) -> list[bytes]:
        """Return the pieces, and keep none."""
        pieces, self.pieces, self.held = self.pieces, [], 0
        return pieces

    def refuse(self, reply: bytes) -> None:
        """Drop the mail, and refuse it at its end."""
        self.refusal = reply
        self.release()

    def _take(self, data: bytes, *, is_stuffed: bool, may_be_bare: bool) -> None:
        """Add bytes that do not end inside a line end; perhaps with a bare CR."""
        if data.count(b"\r") != data.count(b"\n") or (may_be_bare and _BARE_CR.search(data)):
            self._bare = True
        self._measure(data)
        if is_stuffed:
            data = data.replace(_DOT, _LINE_END)
        if self._skip:
            data = data[self._skip :]
            self._skip = 0
        self.size += len(data)
        if self._bare or self._too_long or self.refusal or self.size > self._limit:
            self.release()
        else:
            self.pieces.append(data)
            self.held += len(data)

    def _measure(self, data: bytes) -> None:
        """Check the length of lines; most pieces are shorter than the limit."""
        if self._line + len(data) > self._longest:
            first, *others = data.split(_LINE_END)
            if self._line + len(first) > self._longest or any(
                len(line) > self._longest for line in others
            ):
                self._too_long = True
        last = data.rfind(_LINE_END)
        if last < 0:
            self._line += len(data)
        else:
            self._line = len(data) - last - len(_LINE_END)


#: looks an address up in memory; None: it must be looked up in the database
CachedLookup = Callable[[str, str], RecipientRoute | None]

_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")
_NAME = re.compile(rb"[!-~]{1,255}")
#: bytes of one line of AUTH (RFC 4954)
_AUTH_LINE = 12_288
#: mechanisms of AUTH: what the client is asked for, in base64, and the form of an answer
_MECHANISMS = {
    b"PLAIN": ((b"",), re.compile(rb"[^\0]*\0[^\0]*\0[^\0]*")),
    b"LOGIN": ((b"VXNlcm5hbWU6", b"UGFzc3dvcmQ6"), re.compile(rb"[\s\S]*")),
}
#: commands that are not supported
_UNSUPPORTED_COMMANDS = (b"BDAT", b"BURL", b"ETRN", b"EXPN", b"TURN")
#: commands of browsers and proxies
_HTTP_COMMANDS = (b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PROXY", b"PUT")
_REPLY_BY_STATUS = {
    RecipientStatus.UNKNOWN: smtp_replies.UNKNOWN_INBOX,
    RecipientStatus.CLOSED: smtp_replies.CLOSED_INBOX,
    RecipientStatus.NOT_OURS: smtp_replies.NOT_OURS,
    RecipientStatus.FULL: smtp_replies.INBOX_FULL,
}


class Need(IntEnum):
    """What the session needs to continue."""

    #: more bytes: ``feed``
    BYTES = auto()
    #: the route of ``address``: ``recipient_found``
    RECIPIENT = auto()
    #: the mail in ``envelope`` and ``content`` stored: ``mail_stored``
    STORED = auto()
    #: TLS, from the next byte on: ``tls_started``
    TLS = auto()
    #: the last replies sent and the connection closed
    END = auto()


# Module names, because the members of an enum are slow to look up for every command.
_BYTES, _RECIPIENT, _STORED, _TLS, _END = Need
_OPEN = RecipientStatus.OPEN


class SmtpSession:
    """The session of one client."""

    def __init__(
        self,
        rules: SessionRules,
        cached_lookup: CachedLookup,
        client: str,
        mail_limits: MailLimits | None = None,
    ) -> None:
        self._rules = rules
        self._limits = rules.settings
        self._mail_limits = mail_limits or MailLimits(rules.settings, rates=False)
        self._cached_lookup = cached_lookup
        self._client = client
        self._tls = ""
        #: received bytes; those from ``_at`` on are unread
        self._buffer = b""
        self._at = 0
        #: discarded bytes of a line that is too long
        self._skipped = 0
        self._errors = 0
        self._commands_without_mail = 0
        #: None before EHLO or HELO
        self._helo: str | None = None
        self._extended = self._is_logged_in = False
        #: what AUTH still asks the client for, and the form of an answer
        self._prompts: tuple[bytes, ...] = ()
        self._answer_form = _CONTROLS
        #: the current mail; None before MAIL
        self._sender: str | None = None
        self._utf8 = False
        self._recipients: dict[str, EnvelopeRecipient] = {}
        self.content: MailContent | None = None
        #: whether the client said QUIT
        self.client_quit = False
        #: what the session needs, and for which recipient or envelope
        self.need = _BYTES
        self.address = ("", "")
        self.envelope: Envelope
        #: replies to send, and the codes of refusals among them
        self.output = [rules.greeting]
        self.refusal_codes: list[bytes] = []

    @property
    def waiting(self) -> int:
        """The number of unread bytes."""
        return len(self._buffer) - self._at

    @property
    def is_idle(self) -> bool:
        """Whether no mail is in progress."""
        return self._sender is None and self.need is _BYTES

    def feed(self, data: bytes) -> Need:
        """Add bytes and process them; return what the session needs."""
        if self._at == len(self._buffer):
            self._buffer = data
        else:
            self._buffer = self._buffer[self._at :] + data
        self._at = 0
        if self.need is _TLS or self.need is _END:
            self._buffer = b""  # unencrypted bytes must not be read as part of the TLS session
        return self._proceed()

    def recipient_found(self, route: RecipientRoute | None) -> Need:
        """Continue with the route of ``address``; None if the lookup failed."""
        self.need = _BYTES
        self._add_recipient(route)
        return self._proceed()

    def mail_stored(self, reply: bytes) -> Need:
        """Continue after a mail, with the reply to it."""
        self.need = _BYTES
        if reply is smtp_replies.STORED:
            self.output.append(reply)
            self._errors = self._commands_without_mail = 0
        else:
            self._add_refusal(reply)
        self._reset_mail()
        return self._proceed()

    def tls_started(self, version: str) -> Need:
        """Start over inside TLS."""
        self.need = _BYTES
        self._tls = version
        return self.need

    def end(self, reply: bytes) -> Need:
        """End the session, with a last reply unless it is empty."""
        if reply:
            self._add_refusal(reply)
        self.need = _END
        return self.need

    def _proceed(self) -> Need:
        while self.need is _BYTES and self._at < len(self._buffer):
            if self.content is None:
                line = self._line()
                if line is None:
                    break
                self._run_command(line)
            elif not self._read_content(self.content):
                break
        return self.need

    def _read_content(self, content: MailContent) -> bool:
        """Read the mail; say whether it is complete."""
        rest = content.feed(self._buffer[self._at :] if self._at else self._buffer)
        self._buffer, self._at = rest or b"", 0
        if content.exceeds_slack:
            self.end(smtp_replies.TOO_LARGE)
        elif rest is not None:
            faults.point("smtp.dot-seen")
            self._finish_content(content)
        return rest is not None

    def _finish_content(self, content: MailContent) -> None:
        error = content.error_reply or self._mail_limits.refuse_size(content.size)
        if error is None:
            inboxes = [each.inbox_id for each in self._recipients.values()]
            self._mail_limits.count(self._client, inboxes, content.size)
            self.need = _STORED
            self.envelope = Envelope(
                client=self._client,
                helo=self._helo or "",
                sender=self._sender or "",
                recipients=tuple(self._recipients.values()),
                tls=self._tls,
                utf8=self._utf8,
            )
        elif error is smtp_replies.BARE_IN_MAIL:
            # Another server may have seen another end, so the next bytes may be smuggled commands.
            self.end(error)
        else:
            self._add_refusal(error)
            self._reset_mail()

    def _line(self) -> bytes | None:
        """Return the next line with its end; None if it is not complete, b"" if it was too long."""
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", at)
        length = (len(buffer) if end < 0 else end) - at + self._skipped
        if length > self._limits.line:
            self.end(smtp_replies.LINE_TOO_LONG)
            return None
        most = self._limits.command
        if self._rules.auth and self._is_auth_line():
            most = max(most, _AUTH_LINE)
        if end < 0:
            if length > most:
                self._skipped, self._buffer, self._at = length, b"", 0
            return None
        line = buffer[at : end + 1]
        self._at = end + 1
        if length >= most:
            self._skipped = 0
            return b""
        return line

    def _is_auth_line(self) -> bool:
        """Say whether the next line is AUTH or an answer to it, from its beginning."""
        begin = self._buffer[self._at : self._at + 5]
        return not self._skipped and (bool(self._prompts) or begin.upper() == b"AUTH ")

    def _run_command(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            self._reject_command(smtp_replies.BARE_LINE_END if line else smtp_replies.LINE_TOO_LONG)
            return
        if _CONTROLS.search(line, 0, len(line) - 2):
            self._reject_command(smtp_replies.NOT_PRINTABLE)
            return
        word, _, argument = line[:-2].partition(b" ")
        run = self._COMMANDS.get(word.upper()) or self._COMMANDS[b""]
        try:
            if self._prompts:
                self._take_auth_answer(line[:-2])
            else:
                run(self, argument)
        except CommandRefused as refused:
            self._reject_command(refused.reply)

    def _greet(self, argument: bytes, *, extended: bool) -> None:
        name = argument.strip(b" ")
        if not _NAME.fullmatch(name):
            raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
        self._reset_mail()
        self._helo, self._extended = name.decode(), extended
        offers = self._rules.ehlo_inside_tls if self._tls else self._rules.ehlo
        self._answer(argument, offers if extended else self._rules.hello)

    def _mail(self, argument: bytes) -> None:
        if self._helo is None:
            raise CommandRefused(smtp_replies.HELLO_FIRST)
        if self._sender is not None:
            raise CommandRefused(smtp_replies.MAIL_TWICE)
        if self._rules.auth:
            argument = _AUTH_PARAMETER.sub(b"", argument, 1)
        address, size, utf8 = parse_mail_from(argument, extended=self._extended)
        if size > self._limits.size:
            raise CommandRefused(smtp_replies.TOO_LARGE)
        if reply := self._mail_limits.refuse_size(size):
            self._add_refusal(reply)
            return
        self._sender, self._utf8 = address, utf8
        self.output.append(smtp_replies.SENDER_OK)

    def _rcpt(self, argument: bytes) -> None:
        if self._sender is None:
            raise CommandRefused(smtp_replies.MAIL_FIRST)
        if len(self._recipients) >= self._limits.recipients:
            self._add_refusal(smtp_replies.TOO_MANY_RECIPIENTS)
            return
        self.address = parse_rcpt_to(argument, utf8=self._utf8)
        route = self._cached_lookup(*self.address)
        if route is None:
            self.need = _RECIPIENT
        else:
            self._add_recipient(route)

    def _add_recipient(self, route: RecipientRoute | None) -> None:
        if route is None:
            self._add_refusal(smtp_replies.TRY_LATER)
        elif route.status is _OPEN:
            refusal = self._mail_limits.refuse_recipient(self._client, route.inbox_id)
            if refusal is not None:
                self._add_refusal(refusal)
                return
            address = "@".join(self.address)
            self._recipients[address] = EnvelopeRecipient(
                inbox_id=route.inbox_id, tenant=route.tenant, address=address
            )
            self.output.append(smtp_replies.RECIPIENT_OK)
        else:
            self._add_refusal(_REPLY_BY_STATUS[route.status])
            self._count_command_without_mail()

    def _data(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        if self._sender is None:
            raise CommandRefused(smtp_replies.MAIL_FIRST)
        if not self._recipients:
            raise CommandRefused(smtp_replies.NO_RECIPIENTS)
        self.content = MailContent(size=self._limits.size, line=self._limits.line)
        self.output.append(smtp_replies.GO_AHEAD)

    def _rset(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        self._reset_mail()
        self._answer(argument, smtp_replies.OK)

    def _starttls(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        if self._tls:
            raise CommandRefused(smtp_replies.TLS_TWICE)
        if not self._rules.starttls:
            raise CommandRefused(smtp_replies.NOT_OFFERED)
        # Bytes injected after it, and the state before it, are dropped (RFC 3207).
        self._buffer, self._at, self._helo = b"", 0, None
        self._is_logged_in = False
        self._reset_mail()
        self.output.append(smtp_replies.READY_FOR_TLS)
        self.need = _TLS

    def _auth(self, argument: bytes) -> None:
        """Log in; test mode accepts all credentials, and keeps none."""
        if not self._rules.auth:
            raise CommandRefused(smtp_replies.NOT_OFFERED)
        if self._helo is None or not self._extended:
            raise CommandRefused(smtp_replies.HELLO_FIRST)
        if self._sender is not None:
            raise CommandRefused(smtp_replies.AUTH_INSIDE_MAIL)
        if self._is_logged_in:
            raise CommandRefused(smtp_replies.AUTH_TWICE)
        name, _, first = argument.strip(b" ").partition(b" ")
        mechanism = _MECHANISMS.get(name.upper())
        if mechanism is None:
            raise CommandRefused(smtp_replies.MECHANISM_UNKNOWN)
        self._prompts, self._answer_form = mechanism
        if first:
            self._take_auth_answer(b"" if first == b"=" else first)
        else:
            self._ask_for_auth()

    def _ask_for_auth(self) -> None:
        self.output.append(b"334 " + self._prompts[0] + b"\r\n")

    def _take_auth_answer(self, answer: bytes) -> None:
        """Check the form of an answer; its content is not looked at, and not kept."""
        if answer == b"*":
            raise CommandRefused(smtp_replies.AUTH_CANCELLED)
        try:
            is_well_formed = self._answer_form.fullmatch(a2b_base64(answer, strict_mode=True))
        except NotBase64:
            is_well_formed = None
        if is_well_formed is None:
            raise CommandRefused(smtp_replies.AUTH_ANSWER_WRONG)
        self._prompts = self._prompts[1:]
        if self._prompts:
            self._ask_for_auth()
        else:
            self._is_logged_in = True
            self.output.append(smtp_replies.LOGGED_IN)

    def _quit(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        self.output.append(smtp_replies.BYE)
        self.client_quit = True
        self.need = _END

    def _answer(self, _argument: bytes, reply: bytes) -> None:
        self.output.append(reply)
        self._count_command_without_mail()

    def _refuse(self, _argument: bytes, reply: bytes) -> None:
        raise CommandRefused(reply)

    def _not_smtp(self, _argument: bytes) -> None:
        """End the session of a client that does not speak SMTP."""
        self._add_refusal(smtp_replies.UNKNOWN_COMMAND)
        self.need = _END

    def _require_no_argument(self, argument: bytes) -> None:
        if argument.strip(b" "):
            raise CommandRefused(smtp_replies.ARGUMENT_WRONG)

    def _reset_mail(self) -> None:
        self._sender = self.content = None
        self._utf8 = False
        self._recipients = {}

    def _add_refusal(self, reply: bytes) -> None:
        self.output.append(reply)
        self.refusal_codes.append(reply[:3])

    def _reject_command(self, reply: bytes) -> None:
        """Refuse a command, which ends AUTH; end the session after too many of them."""
        self._prompts = ()
        self._add_refusal(reply)
        self._errors += 1
        if self._errors >= self._limits.errors:
            self.end(smtp_replies.TOO_MANY_ERRORS)

    def _count_command_without_mail(self) -> None:
        """End the session after too many commands without a mail."""
        self._commands_without_mail += 1
        if self._commands_without_mail >= self._limits.junk:
            self.end(smtp_replies.TOO_MUCH_JUNK)

    _COMMANDS: ClassVar[dict[bytes, Callable[["SmtpSession", bytes], None]]] = {
        b"EHLO": partial(_greet, extended=True),
        b"HELO": partial(_greet, extended=False),
        b"MAIL": _mail,
        b"RCPT": _rcpt,
        b"DATA": _data,
        b"RSET": _rset,
        b"NOOP": partial(_answer, reply=smtp_replies.OK),
        b"QUIT": _quit,
        b"VRFY": partial(_answer, reply=smtp_replies.VRFY_NOT_DISCLOSED),
        b"HELP": partial(_answer, reply=smtp_replies.HELP),
        b"STARTTLS": _starttls,
        b"AUTH": _auth,
        **dict.fromkeys(_UNSUPPORTED_COMMANDS, partial(_refuse, reply=smtp_replies.NOT_OFFERED)),
        **dict.fromkeys(_HTTP_COMMANDS, _not_smtp),
        b"": partial(_refuse, reply=smtp_replies.UNKNOWN_COMMAND),
    }
