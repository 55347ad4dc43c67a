"""SMTP session without I/O: command parsing, DATA content, replies.

A line ends with CR LF and nothing else does; the mail ends with a dot between two of them and
nothing else does. Where a bare CR or LF is found, other servers may see another end than we do,
so such a mail is refused at its true end, and nothing that follows it is heard.

Bytes go in by ``feed``; replies gather in ``said``. Where something must be done in the world
the session wants it, stands still and keeps what comes in meanwhile; ``found``, ``stored`` and
``secured`` tell it how that went. However the bytes are cut into pieces, the replies are the
same and in the order of the commands.
"""

import re
from collections.abc import Callable
from enum import IntEnum, auto
from typing import ClassVar, NamedTuple

from oncebox.core import faults
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.model.inboxes import addresses
from oncebox.model.inboxes.received_mail import Envelope, EnvelopeRecipient
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.smtp_replies import SessionRules

_PARAMETERS = rb"((?: +[^ =<>]+(?:=[^ =<>]*)?)*) *"
# Many clients put a space after the colon, and no server minds.
_FROM = re.compile(rb"FROM: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_TO = re.compile(rb"TO: *<([^<>]*)>" + _PARAMETERS, re.IGNORECASE)
_NUMBER = re.compile(rb"[0-9]{1,20}")
_BODIES = (b"7BIT", b"8BITMIME")


class CommandRefused(Exception):
    """A command cannot be taken; ``reply`` says why."""

    def __init__(self, reply: bytes) -> None:
        """Take what is to be said."""
        super().__init__()
        self.reply = reply


class MailFrom(NamedTuple):
    """What MAIL says."""

    address: str
    #: bytes the mail will have; 0 if that is not told
    size: int
    utf8: bool


def parse_mail_from(argument: bytes, *, extended: bool) -> MailFrom:
    """Read the argument of MAIL; parameters are for those who said EHLO.

    Raises: Refused.
    """
    found = _FROM.fullmatch(argument)
    if found is None:
        raise CommandRefused(smtp_replies.PATH_WRONG)
    path, rest = found.groups()
    size, utf8 = _parse_parameters(rest, extended=extended) if rest else (0, False)
    address = _decode_path(path, utf8=utf8, wrong=smtp_replies.PATH_WRONG)
    if not addresses.is_sender_path(address):
        raise CommandRefused(smtp_replies.PATH_WRONG)
    return MailFrom(address, size, utf8)


def parse_rcpt_to(argument: bytes, *, utf8: bool) -> tuple[str, str]:
    """Read the argument of RCPT; return local part and domain.

    Raises: Refused.
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
    """Return the size and whether the mail is in UTF-8."""
    words = [word.partition(b"=") for word in text.upper().split()]
    said = {name: value if equals else None for name, equals, value in words}
    if not extended or not said.keys() <= {b"SIZE", b"BODY", b"SMTPUTF8"}:
        raise CommandRefused(smtp_replies.PARAMETER_UNKNOWN)
    size = said.get(b"SIZE", b"0")
    if len(said) < len(words) or size is None or not _NUMBER.fullmatch(size):
        raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
    if said.get(b"BODY", _BODIES[0]) not in _BODIES:
        raise CommandRefused(smtp_replies.PARAMETER_UNKNOWN)
    if said.get(b"SMTPUTF8") is not None:
        raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
    return int(size), b"SMTPUTF8" in said


_MAIL_END = b"\r\n.\r\n"
_LINE_END = b"\r\n"
_DOT = b"\r\n."
# With as many CR as LF, a bare LF never comes without a bare CR.
_BARE_CR = re.compile(rb"\r(?:[^\n]|\Z)")
#: what the rest of a piece may be the beginning of, the longest first
_PARTIAL_ENDS = (b"\r\n.\r", b"\r\n.", b"\r\n", b"\r")
#: bytes that are still read, and thrown away, beyond the largest mail
SLACK = 64 * 1024


class MailContent:
    """The mail of one transaction."""

    __slots__ = (
        "_bare", "_carry", "_limit", "_line", "_longest", "_skip", "_too_long", "held", "pieces",
        "refusal", "size",
    )  # fmt: skip

    def __init__(self, *, size: int, line: int) -> None:
        """Take mails up to a size, with lines up to another."""
        self._limit = size
        self._longest = line
        #: bytes that may be the beginning of the end; the mail begins as if after a line
        self._carry = _LINE_END
        #: bytes of the first piece that are no part of the mail
        self._skip = len(_LINE_END)
        #: bytes of the line that is not over yet
        self._line = 0
        self._bare = False
        self._too_long = False
        #: the mail so far, as far as nobody has taken it away
        self.pieces: list[bytes] = []
        self.held = 0
        #: bytes of the mail, taken away or not
        self.size = 0
        #: why it cannot be kept, whatever else is wrong with it
        self.refusal: bytes | None = None

    @property
    def exceeds_slack(self) -> bool:
        """Whether it is so far beyond the limit that its end is not waited for."""
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
        """Take the next bytes; return what follows the mail, or None if it is not over."""
        faults.point("smtp.after-354")
        data = self._carry + data
        # In most mails the first dot at the beginning of a line is the last.
        dot = data.find(_DOT)
        end = dot if dot < 0 or data.startswith(_MAIL_END, dot) else data.find(_MAIL_END, dot)
        if end >= 0:
            self._take(data[: end + len(_LINE_END)], is_stuffed=dot < end)
            return data[end + len(_MAIL_END) :]
        half = next((half for half in _PARTIAL_ENDS if data.endswith(half)), b"")
        self._carry = half
        if len(half) < len(data):
            self._take(data[: len(data) - len(half)], is_stuffed=dot >= 0)
        return None

    def release(self) -> list[bytes]:
        """Hand over what is held."""
        pieces, self.pieces, self.held = self.pieces, [], 0
        return pieces

    def refuse(self, reply: bytes) -> None:
        """Keep nothing, and say why at the end."""
        self.refusal = reply
        self.release()

    def _take(self, data: bytes, *, is_stuffed: bool) -> None:
        """Take bytes that have no part of a line end without the rest of it."""
        if data.count(b"\r") != data.count(b"\n") or _BARE_CR.search(data):
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
        """See that no line is too long; most pieces are shorter than a line may be."""
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


#: looks an address up in memory; None: the database must be asked
CachedLookup = Callable[[str, str], RecipientRoute | None]

_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")
_NAME = re.compile(rb"[!-~]{1,255}")
#: commands of other servers
_UNSUPPORTED_COMMANDS = (b"AUTH", b"BDAT", b"BURL", b"ETRN", b"EXPN", b"TURN")
#: words that no mail client begins a line with, but browsers and proxies do
_HTTP_COMMANDS = (b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PROXY", b"PUT")
_REPLY_BY_STATUS = {
    RecipientStatus.UNKNOWN: smtp_replies.UNKNOWN_INBOX,
    RecipientStatus.CLOSED: smtp_replies.CLOSED_INBOX,
    RecipientStatus.NOT_OURS: smtp_replies.NOT_OURS,
}


class Need(IntEnum):
    """What the session needs before it goes on."""

    #: more bytes
    BYTES = auto()
    #: to know whether mail for ``address`` is taken: answer with ``found``
    RECIPIENT = auto()
    #: ``envelope`` and the rest of ``content`` on disk: answer with ``stored``
    STORED = auto()
    #: TLS, from the very next byte: answer with ``secured``
    TLS = auto()
    #: nothing more; say what is said and hang up
    END = auto()


# By names of our own: an enum's members are slow to look up, and this is on every command's way.
_BYTES, _PLACE, _STORED, _TLS, _END = Need
_OPEN = RecipientStatus.OPEN


class SmtpSession:
    """One client's conversation."""

    def __init__(self, rules: SessionRules, glance: CachedLookup, client: str) -> None:
        """Greet the client."""
        self._rules = rules
        self._limits = rules.settings
        self._cached_lookup = glance
        self._client = client
        self._tls = ""
        #: what has come and is not read yet, from the place ``_at`` on
        self._buffer = b""
        self._at = 0
        #: bytes of a line that is too long and thrown away
        self._skipped = 0
        self._errors = 0
        self._commands_without_mail = 0
        #: what the client calls itself; none until it said so
        self._helo: str | None = None
        self._extended = False
        #: the mail under way; no sender, no mail
        self._sender: str | None = None
        self._utf8 = False
        self._recipients: dict[str, EnvelopeRecipient] = {}
        self.content: MailContent | None = None
        #: whether the client itself asked for the end
        self.client_quit = False
        #: what is wanted, and what it is about
        self.need = _BYTES
        self.address = ("", "")
        #: replies that have not been sent yet, and the codes of those that refused something
        self.output = [rules.greeting]
        self.refusal_codes: list[bytes] = []

    @property
    def waiting(self) -> int:
        """How many bytes have come and are not read yet."""
        return len(self._buffer) - self._at

    @property
    def is_idle(self) -> bool:
        """Whether there is no mail under way."""
        return self._sender is None and self.need is _BYTES

    @property
    def envelope(self) -> Envelope:
        """The envelope of the mail under way."""
        return Envelope(
            client=self._client,
            helo=self._helo or "",
            sender=self._sender or "",
            recipients=tuple(self._recipients.values()),
            tls=self._tls,
            utf8=self._utf8,
        )

    # what happens to it

    def feed(self, data: bytes) -> Need:
        """Take bytes and go as far as they lead."""
        if self._at == len(self._buffer):
            self._buffer = data
        else:
            self._buffer = self._buffer[self._at :] + data
        self._at = 0
        if self.need is _TLS or self.need is _END:
            self._buffer = b""  # what was sent in the clear is no part of what follows
        return self._proceed()

    def recipient_found(self, place: RecipientRoute | None) -> Need:
        """Go on, knowing what an address leads to; None: nobody can tell now."""
        self.need = _BYTES
        self._add_recipient(place)
        return self._proceed()

    def mail_stored(self, reply: bytes) -> Need:
        """Go on after a mail, with the reply it deserves."""
        self.need = _BYTES
        if reply is smtp_replies.STORED:
            self.output.append(reply)
            self._errors = self._commands_without_mail = 0
        else:
            self._add_refusal(reply)
        self._reset_mail()
        return self._proceed()

    def tls_started(self, version: str) -> Need:
        """Begin anew inside TLS."""
        self.need = _BYTES
        self._tls = version
        return self.need

    def end(self, reply: bytes) -> Need:
        """Say a last word, if there is one."""
        if reply:
            self._add_refusal(reply)
        self.need = _END
        return self.need

    # bytes

    def _proceed(self) -> Need:
        while self.need is _BYTES:
            if self.content is None:
                line = self._line()
                if line is None:
                    break
                self._run_command(line)
            elif not self._read_content(self.content):
                break
        return self.need

    def _read_content(self, content: MailContent) -> bool:
        """Read on in the mail; say whether there is more to do."""
        if self._at == len(self._buffer):
            return False
        rest = content.feed(self._buffer[self._at :] if self._at else self._buffer)
        self._buffer, self._at = rest or b"", 0
        if content.exceeds_slack:
            self.end(smtp_replies.TOO_LARGE)
        elif rest is not None:
            faults.point("smtp.dot-seen")
            self._finish_content(content)
        return rest is not None

    def _finish_content(self, content: MailContent) -> None:
        """Have a mail stored, or say why not."""
        fault = content.error_reply
        if fault is None:
            self.need = _STORED
        elif fault is smtp_replies.BARE_IN_MAIL:
            # Another server may have seen another end; what follows is not the client's to say.
            self.end(fault)
        else:
            self._add_refusal(fault)
            self._reset_mail()

    def _line(self) -> bytes | None:
        """Return the next line with its end, or None if it has not come yet."""
        end = self._buffer.find(b"\n", self._at)
        length = (len(self._buffer) if end < 0 else end) - self._at + self._skipped
        if length > self._limits.line:
            self.end(smtp_replies.LINE_TOO_LONG)
            return None
        if end < 0:
            if length > self._limits.command:
                self._skipped, self._buffer, self._at = length, b"", 0
            return None
        line = self._buffer[self._at : end + 1]
        self._at = end + 1
        if length >= self._limits.command:
            self._skipped = 0
            return b""
        return line

    # commands

    def _run_command(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            self._reject_command(smtp_replies.BARE_LINE_END if line else smtp_replies.LINE_TOO_LONG)
            return
        if _CONTROLS.search(line, 0, len(line) - 2):
            self._reject_command(smtp_replies.NOT_PRINTABLE)
            return
        word, _, argument = line[:-2].partition(b" ")
        try:
            self._COMMANDS.get(word.upper(), SmtpSession._unknown)(self, argument)
        except CommandRefused as refused:
            self._reject_command(refused.reply)

    def _ehlo_command(self, argument: bytes) -> None:
        self._greet(argument, extended=True)

    def _helo_command(self, argument: bytes) -> None:
        self._greet(argument, extended=False)

    def _greet(self, argument: bytes, *, extended: bool) -> None:
        name = argument.strip(b" ")
        if not _NAME.fullmatch(name):
            raise CommandRefused(smtp_replies.ARGUMENT_WRONG)
        self._reset_mail()
        self._helo, self._extended = name.decode(), extended
        offers = self._rules.ehlo_inside_tls if self._tls else self._rules.ehlo
        self.output.append(offers if extended else self._rules.hello)
        self._count_command_without_mail()

    def _mail(self, argument: bytes) -> None:
        if self._helo is None:
            raise CommandRefused(smtp_replies.HELLO_FIRST)
        if self._sender is not None:
            raise CommandRefused(smtp_replies.MAIL_TWICE)
        address, size, utf8 = parse_mail_from(argument, extended=self._extended)
        if size > self._limits.size:
            raise CommandRefused(smtp_replies.TOO_LARGE)
        self._sender, self._utf8 = address, utf8
        self.output.append(smtp_replies.SENDER_OK)

    def _rcpt(self, argument: bytes) -> None:
        if self._sender is None:
            raise CommandRefused(smtp_replies.MAIL_FIRST)
        if len(self._recipients) >= self._limits.recipients:
            self._add_refusal(smtp_replies.TOO_MANY_RECIPIENTS)
            return
        self.address = parse_rcpt_to(argument, utf8=self._utf8)
        place = self._cached_lookup(*self.address)
        if place is None:
            self.need = _PLACE
        else:
            self._add_recipient(place)

    def _add_recipient(self, place: RecipientRoute | None) -> None:
        """Say whether mail for the address that was asked about is taken."""
        if place is None:
            self._add_refusal(smtp_replies.TRY_LATER)
        elif place.status is _OPEN:
            address = "@".join(self.address)
            self._recipients[address] = EnvelopeRecipient(
                inbox_id=place.inbox_id, tenant=place.tenant, address=address
            )
            self.output.append(smtp_replies.RECIPIENT_OK)
        else:
            self._add_refusal(_REPLY_BY_STATUS[place.status])
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
        self.output.append(smtp_replies.OK)
        self._count_command_without_mail()

    def _starttls(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        if self._tls:
            raise CommandRefused(smtp_replies.TLS_TWICE)
        if not self._rules.starttls:
            raise CommandRefused(smtp_replies.NOT_OFFERED)
        # Whatever anybody slipped in behind it, or said before it, is forgotten (RFC 3207).
        self._buffer, self._at, self._helo = b"", 0, None
        self._reset_mail()
        self.output.append(smtp_replies.READY_FOR_TLS)
        self.need = _TLS

    def _quit(self, argument: bytes) -> None:
        self._require_no_argument(argument)
        self.output.append(smtp_replies.BYE)
        self.client_quit = True
        self.need = _END

    def _noop(self, _argument: bytes) -> None:
        self.output.append(smtp_replies.OK)
        self._count_command_without_mail()

    def _vrfy(self, _argument: bytes) -> None:
        self.output.append(smtp_replies.VRFY_NOT_DISCLOSED)
        self._count_command_without_mail()

    def _help(self, _argument: bytes) -> None:
        self.output.append(smtp_replies.HELP)
        self._count_command_without_mail()

    def _not_offered(self, _argument: bytes) -> None:
        raise CommandRefused(smtp_replies.NOT_OFFERED)

    def _not_smtp(self, _argument: bytes) -> None:
        """End the conversation with what is no mail client."""
        self._add_refusal(smtp_replies.UNKNOWN_COMMAND)
        self.need = _END

    def _unknown(self, _argument: bytes) -> None:
        raise CommandRefused(smtp_replies.UNKNOWN_COMMAND)

    # what they share

    def _require_no_argument(self, argument: bytes) -> None:
        if argument.strip(b" "):
            raise CommandRefused(smtp_replies.ARGUMENT_WRONG)

    def _reset_mail(self) -> None:
        """Let go of the mail under way."""
        self._sender = self.content = None
        self._utf8 = False
        self._recipients = {}

    def _add_refusal(self, reply: bytes) -> None:
        self.output.append(reply)
        self.refusal_codes.append(reply[:3])

    def _reject_command(self, reply: bytes) -> None:
        """Refuse a command, and the client after too many of them."""
        self._add_refusal(reply)
        self._errors += 1
        if self._errors >= self._limits.errors:
            self.end(smtp_replies.TOO_MANY_ERRORS)

    def _count_command_without_mail(self) -> None:
        """Let a client go that is busy with everything but mail."""
        self._commands_without_mail += 1
        if self._commands_without_mail >= self._limits.junk:
            self.end(smtp_replies.TOO_MUCH_JUNK)

    _COMMANDS: ClassVar[dict[bytes, Callable[["SmtpSession", bytes], None]]] = {
        b"EHLO": _ehlo_command,
        b"HELO": _helo_command,
        b"MAIL": _mail,
        b"RCPT": _rcpt,
        b"DATA": _data,
        b"RSET": _rset,
        b"NOOP": _noop,
        b"QUIT": _quit,
        b"VRFY": _vrfy,
        b"HELP": _help,
        b"STARTTLS": _starttls,
        **dict.fromkeys(_UNSUPPORTED_COMMANDS, _not_offered),
        **dict.fromkeys(_HTTP_COMMANDS, _not_smtp),
    }
