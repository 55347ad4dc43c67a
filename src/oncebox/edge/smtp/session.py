"""A session: the conversation with one client, without a socket, a clock or a database.

Bytes go in by ``feed``; replies gather in ``said``. Where something must be done in the world
the session wants it, stands still and keeps what comes in meanwhile; ``found``, ``stored`` and
``secured`` tell it how that went. However the bytes are cut into pieces, the replies are the
same and in the order of the commands.
"""

import re
from collections.abc import Callable
from enum import IntEnum, auto
from typing import ClassVar

from oncebox import faults
from oncebox.edge.smtp import grammar, replies
from oncebox.edge.smtp.content import Content
from oncebox.edge.smtp.grammar import Refused
from oncebox.edge.smtp.rules import Rules
from oncebox.ledger.inboxes.directory import Place, Standing
from oncebox.model.envelope import Envelope, Recipient

#: looks an address up in memory; None: the database must be asked
Glance = Callable[[str, str], Place | None]

_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]")
_NAME = re.compile(rb"[!-~]{1,255}")
#: commands of other servers
_KNOWN = (b"AUTH", b"BDAT", b"BURL", b"ETRN", b"EXPN", b"TURN")
#: words that no mail client begins a line with, but browsers and proxies do
_STRANGE = (b"CONNECT", b"DELETE", b"GET", b"HEAD", b"OPTIONS", b"POST", b"PROXY", b"PUT")
_REFUSALS = {
    Standing.UNKNOWN: replies.UNKNOWN_INBOX,
    Standing.CLOSED: replies.CLOSED_INBOX,
    Standing.NOT_OURS: replies.NOT_OURS,
}


class Want(IntEnum):
    """What the session needs before it goes on."""

    #: more bytes
    BYTES = auto()
    #: to know whether mail for ``address`` is taken: answer with ``found``
    PLACE = auto()
    #: ``envelope`` and the rest of ``content`` on disk: answer with ``stored``
    STORED = auto()
    #: TLS, from the very next byte: answer with ``secured``
    TLS = auto()
    #: nothing more; say what is said and hang up
    END = auto()


# By names of our own: an enum's members are slow to look up, and this is on every command's way.
_BYTES, _PLACE, _STORED, _TLS, _END = Want
_OPEN = Standing.OPEN


class Session:
    """One client's conversation."""

    def __init__(self, rules: Rules, glance: Glance, client: str) -> None:
        """Greet the client."""
        self._rules = rules
        self._limits = rules.settings
        self._glance = glance
        self._client = client
        self._tls = ""
        #: what has come and is not read yet, from the place ``_at`` on
        self._buffer = b""
        self._at = 0
        #: bytes of a line that is too long and thrown away
        self._skipped = 0
        self._errors = 0
        self._junk = 0
        #: what the client calls itself; none until it said so
        self._helo: str | None = None
        self._extended = False
        #: the mail under way; no sender, no mail
        self._sender: str | None = None
        self._utf8 = False
        self._recipients: dict[str, Recipient] = {}
        self.content: Content | None = None
        #: whether the client itself asked for the end
        self.is_polite = False
        #: what is wanted, and what it is about
        self.want = _BYTES
        self.address = ("", "")
        #: replies that have not been sent yet, and the codes of those that refused something
        self.said = [rules.greeting]
        self.refusals: list[bytes] = []

    @property
    def waiting(self) -> int:
        """How many bytes have come and are not read yet."""
        return len(self._buffer) - self._at

    @property
    def is_idle(self) -> bool:
        """Whether there is no mail under way."""
        return self._sender is None and self.want is _BYTES

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

    def feed(self, data: bytes) -> Want:
        """Take bytes and go as far as they lead."""
        if self._at == len(self._buffer):
            self._buffer = data
        else:
            self._buffer = self._buffer[self._at :] + data
        self._at = 0
        if self.want is _TLS or self.want is _END:
            self._buffer = b""  # what was sent in the clear is no part of what follows
        return self._proceed()

    def found(self, place: Place | None) -> Want:
        """Go on, knowing what an address leads to; None: nobody can tell now."""
        self.want = _BYTES
        self._answer(place)
        return self._proceed()

    def stored(self, reply: bytes) -> Want:
        """Go on after a mail, with the reply it deserves."""
        self.want = _BYTES
        if reply is replies.STORED:
            self.said.append(reply)
            self._errors = self._junk = 0
        else:
            self._refuse(reply)
        self._forget()
        return self._proceed()

    def secured(self, version: str) -> Want:
        """Begin anew inside TLS."""
        self.want = _BYTES
        self._tls = version
        return self.want

    def end(self, reply: bytes) -> Want:
        """Say a last word, if there is one."""
        if reply:
            self._refuse(reply)
        self.want = _END
        return self.want

    # bytes

    def _proceed(self) -> Want:
        while self.want is _BYTES:
            if self.content is None:
                line = self._line()
                if line is None:
                    break
                self._obey(line)
            elif not self._read_content(self.content):
                break
        return self.want

    def _read_content(self, content: Content) -> bool:
        """Read on in the mail; say whether there is more to do."""
        if self._at == len(self._buffer):
            return False
        rest = content.feed(self._buffer[self._at :] if self._at else self._buffer)
        self._buffer, self._at = rest or b"", 0
        if content.is_endless:
            self.end(replies.TOO_LARGE)
        elif rest is not None:
            faults.point("smtp.dot-seen")
            self._judge(content)
        return rest is not None

    def _judge(self, content: Content) -> None:
        """Have a mail stored, or say why not."""
        fault = content.fault
        if fault is None:
            self.want = _STORED
        elif fault is replies.BARE_IN_MAIL:
            # Another server may have seen another end; what follows is not the client's to say.
            self.end(fault)
        else:
            self._refuse(fault)
            self._forget()

    def _line(self) -> bytes | None:
        """Return the next line with its end, or None if it has not come yet."""
        end = self._buffer.find(b"\n", self._at)
        length = (len(self._buffer) if end < 0 else end) - self._at + self._skipped
        if length > self._limits.line:
            self.end(replies.LINE_TOO_LONG)
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

    def _obey(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            self._err(replies.BARE_LINE_END if line else replies.LINE_TOO_LONG)
            return
        if _CONTROLS.search(line, 0, len(line) - 2):
            self._err(replies.NOT_PRINTABLE)
            return
        word, _, argument = line[:-2].partition(b" ")
        try:
            self._VERBS.get(word.upper(), Session._unknown)(self, argument)
        except Refused as refused:
            self._err(refused.reply)

    def _ehlo(self, argument: bytes) -> None:
        self._greet(argument, extended=True)

    def _old_hello(self, argument: bytes) -> None:
        self._greet(argument, extended=False)

    def _greet(self, argument: bytes, *, extended: bool) -> None:
        name = argument.strip(b" ")
        if not _NAME.fullmatch(name):
            raise Refused(replies.ARGUMENT_WRONG)
        self._forget()
        self._helo, self._extended = name.decode(), extended
        offers = self._rules.offers_inside if self._tls else self._rules.offers
        self.said.append(offers if extended else self._rules.hello)
        self._count_junk()

    def _mail(self, argument: bytes) -> None:
        if self._helo is None:
            raise Refused(replies.HELLO_FIRST)
        if self._sender is not None:
            raise Refused(replies.MAIL_TWICE)
        address, size, utf8 = grammar.sender(argument, extended=self._extended)
        if size > self._limits.size:
            raise Refused(replies.TOO_LARGE)
        self._sender, self._utf8 = address, utf8
        self.said.append(replies.SENDER_OK)

    def _rcpt(self, argument: bytes) -> None:
        if self._sender is None:
            raise Refused(replies.MAIL_FIRST)
        if len(self._recipients) >= self._limits.recipients:
            self._refuse(replies.TOO_MANY_RECIPIENTS)
            return
        self.address = grammar.recipient(argument, utf8=self._utf8)
        place = self._glance(*self.address)
        if place is None:
            self.want = _PLACE
        else:
            self._answer(place)

    def _answer(self, place: Place | None) -> None:
        """Say whether mail for the address that was asked about is taken."""
        if place is None:
            self._refuse(replies.TROUBLE)
        elif place.standing is _OPEN:
            address = "@".join(self.address)
            self._recipients[address] = Recipient(
                inbox_id=place.inbox_id, tenant=place.tenant, address=address
            )
            self.said.append(replies.RECIPIENT_OK)
        else:
            self._refuse(_REFUSALS[place.standing])
            self._count_junk()

    def _data(self, argument: bytes) -> None:
        self._alone(argument)
        if self._sender is None:
            raise Refused(replies.MAIL_FIRST)
        if not self._recipients:
            raise Refused(replies.NO_RECIPIENTS)
        self.content = Content(size=self._limits.size, line=self._limits.line)
        self.said.append(replies.GO_AHEAD)

    def _rset(self, argument: bytes) -> None:
        self._alone(argument)
        self._forget()
        self.said.append(replies.OK)
        self._count_junk()

    def _starttls(self, argument: bytes) -> None:
        self._alone(argument)
        if self._tls:
            raise Refused(replies.TLS_TWICE)
        if not self._rules.starttls:
            raise Refused(replies.NOT_OFFERED)
        # Whatever anybody slipped in behind it, or said before it, is forgotten (RFC 3207).
        self._buffer, self._at, self._helo = b"", 0, None
        self._forget()
        self.said.append(replies.READY_FOR_TLS)
        self.want = _TLS

    def _quit(self, argument: bytes) -> None:
        self._alone(argument)
        self.said.append(replies.BYE)
        self.is_polite = True
        self.want = _END

    def _noop(self, _argument: bytes) -> None:
        self.said.append(replies.OK)
        self._count_junk()

    def _vrfy(self, _argument: bytes) -> None:
        self.said.append(replies.NOT_TOLD)
        self._count_junk()

    def _help(self, _argument: bytes) -> None:
        self.said.append(replies.HELP)
        self._count_junk()

    def _not_offered(self, _argument: bytes) -> None:
        raise Refused(replies.NOT_OFFERED)

    def _strange(self, _argument: bytes) -> None:
        """End the conversation with what is no mail client."""
        self._refuse(replies.UNKNOWN_COMMAND)
        self.want = _END

    def _unknown(self, _argument: bytes) -> None:
        raise Refused(replies.UNKNOWN_COMMAND)

    # what they share

    def _alone(self, argument: bytes) -> None:
        if argument.strip(b" "):
            raise Refused(replies.ARGUMENT_WRONG)

    def _forget(self) -> None:
        """Let go of the mail under way."""
        self._sender = self.content = None
        self._utf8 = False
        self._recipients = {}

    def _refuse(self, reply: bytes) -> None:
        self.said.append(reply)
        self.refusals.append(reply[:3])

    def _err(self, reply: bytes) -> None:
        """Refuse a command, and the client after too many of them."""
        self._refuse(reply)
        self._errors += 1
        if self._errors >= self._limits.errors:
            self.end(replies.TOO_MANY_ERRORS)

    def _count_junk(self) -> None:
        """Let a client go that is busy with everything but mail."""
        self._junk += 1
        if self._junk >= self._limits.junk:
            self.end(replies.TOO_MUCH_JUNK)

    _VERBS: ClassVar[dict[bytes, Callable[["Session", bytes], None]]] = {
        b"EHLO": _ehlo,
        b"HELO": _old_hello,
        b"MAIL": _mail,
        b"RCPT": _rcpt,
        b"DATA": _data,
        b"RSET": _rset,
        b"NOOP": _noop,
        b"QUIT": _quit,
        b"VRFY": _vrfy,
        b"HELP": _help,
        b"STARTTLS": _starttls,
        **dict.fromkeys(_KNOWN, _not_offered),
        **dict.fromkeys(_STRANGE, _strange),
    }
