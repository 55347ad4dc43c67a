"""A session without a socket: a small world answers what it wants, and keeps what it took."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncebox.model.inboxes.received_mail import Envelope
from oncebox.server.smtp import smtp_replies
from oncebox.server.smtp.smtp_replies import SessionRules
from oncebox.server.smtp.smtp_session import Need, SmtpSession
from oncebox.settings import SmtpSettings
from tests.support.mail import Listed

LIMITS = SmtpSettings(size=2_000, line=1_500, command=120, recipients=3, errors=5, junk=8)


@dataclass
class World:
    """What surrounds a session."""

    settings: SmtpSettings = LIMITS
    starttls: bool = True
    auth: bool = False
    #: addresses that are not known at once; those that cannot be looked up now
    slow: frozenset[str] = frozenset({"b"})
    down: frozenset[str] = frozenset({"down"})
    is_broken: bool = False
    said: list[bytes] = field(default_factory=list)
    mails: list[tuple[Envelope, bytes]] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self._directory = Listed("a", "b", "c", "d")
        self._directory.unknown_at_first = {*self.slow, *self.down}
        rules = SessionRules.from_settings(
            self.settings, "mx.oncebox.test", starttls=self.starttls, auth=self.auth
        )
        self.session = SmtpSession(rules, self._directory.find_cached, "192.0.2.1")

    def hear(self, chunks: Iterable[bytes]) -> str:
        """Feed everything; return the whole transcript."""
        for chunk in chunks:
            self._settle(self.session.feed(chunk))
        self._settle(self.session.need)
        return self.transcript

    @property
    def transcript(self) -> str:
        self.said += self.session.output
        self.session.output = []
        return b"".join(self.said).decode()

    def _settle(self, want: Need) -> None:
        while want not in {Need.BYTES, Need.END}:
            want = self._give(want)
        self.is_over = want is Need.END

    def _give(self, want: Need) -> Need:
        session = self.session
        if want is Need.TLS:
            return session.tls_started("TLSv1.3")
        if want is Need.STORED:
            if self.is_broken:
                return session.mail_stored(smtp_replies.TRY_LATER)
            assert session.content is not None
            self.mails.append((session.envelope, b"".join(session.content.pieces)))
            return session.mail_stored(smtp_replies.STORED)
        local, _ = session.address
        if local in self.down:
            return session.recipient_found(None)
        self._directory.unknown_at_first.discard(local)
        return session.recipient_found(self._directory.find_cached(*session.address))


def codes(transcript: str) -> list[int]:
    """Return the codes of the replies, each once."""
    return [int(line[:3]) for line in transcript.splitlines() if line[3:4] == " "]


def talk(*lines: str | bytes, **given: object) -> tuple[list[int], World]:
    """Say lines in one piece after a hello; return the codes of the answers to them."""
    world = World(**given)  # type: ignore[arg-type]
    text = b"".join(
        (line if isinstance(line, bytes) else line.encode()) + b"\r\n" for line in lines
    )
    transcript = world.hear([b"EHLO client.example\r\n" + text])
    return codes(transcript)[2:], world
