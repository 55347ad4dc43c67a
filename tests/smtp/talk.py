"""A session without a socket: a small world answers what it wants, and keeps what it took."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncebox.config import SmtpSettings
from oncebox.edge.smtp import replies
from oncebox.edge.smtp.rules import Rules
from oncebox.edge.smtp.session import Session, Want
from oncebox.model.envelope import Envelope
from tests.support.mail import Listed

LIMITS = SmtpSettings(size=2_000, line=1_500, command=120, recipients=3, errors=5, junk=8)


@dataclass
class World:
    """What surrounds a session."""

    settings: SmtpSettings = LIMITS
    starttls: bool = True
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
        rules = Rules.of(self.settings, "mx.oncebox.test", starttls=self.starttls)
        self.session = Session(rules, self._directory.glance, "192.0.2.1")

    def hear(self, chunks: Iterable[bytes]) -> str:
        """Feed everything; return the whole transcript."""
        for chunk in chunks:
            self._settle(self.session.feed(chunk))
        self._settle(self.session.want)
        return self.transcript

    @property
    def transcript(self) -> str:
        self.said += self.session.said
        self.session.said = []
        return b"".join(self.said).decode()

    def _settle(self, want: Want) -> None:
        while want not in {Want.BYTES, Want.END}:
            want = self._give(want)
        self.is_over = want is Want.END

    def _give(self, want: Want) -> Want:
        session = self.session
        if want is Want.TLS:
            return session.secured("TLSv1.3")
        if want is Want.STORED:
            if self.is_broken:
                return session.stored(replies.TROUBLE)
            assert session.content is not None
            self.mails.append((session.envelope, b"".join(session.content.pieces)))
            return session.stored(replies.STORED)
        local, _ = session.address
        if local in self.down:
            return session.found(None)
        self._directory.unknown_at_first.discard(local)
        return session.found(self._directory.glance(*session.address))


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
