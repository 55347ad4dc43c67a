"""A mail to hand over, the marker it asks, and the way to a server."""

from dataclasses import dataclass
from typing import Any

from oncebox.core import clock
from oncebox.model.sends.email import Email
from oncebox.testing.provider import ScriptedProvider
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import SmtpTransport
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from oncebox.transports.transport import OutgoingMail

MESSAGE = b"Message-ID: <one@example.com>\r\nSubject: x\r\n\r\n.\r\nhello\r\n..\r\n"
EMAIL = Email(
    sender="Ann <ann@example.com>", to="bob@example.net", subject="x", text=".\nhello\n..\n"
)


def parcel(within: float = 20.0, **changed: Any) -> OutgoingMail:
    """Return a small mail that must be handed over within so many seconds."""
    given: dict[str, Any] = {
        "send_id": "snd_1",
        "provider_key": "k",
        "sender": "ann@example.com",
        "recipients": ("bob@example.net",),
        "message": MESSAGE,
        "message_id": "<one@example.com>",
        "email": EMAIL,
        "deadline": clock.steady() + within,
    }
    return OutgoingMail(**{**given, **changed})


@dataclass
class Marks:
    """The marker: counts how often it is asked, and says what it is told to say."""

    answer: bool = True
    asked: int = 0
    #: what the server had taken and heard when it was asked
    server: ScriptedSmtp | ScriptedProvider | None = None
    taken: int = -1

    async def __call__(self) -> bool:
        """Commit, as the ledger would."""
        self.asked += 1
        if self.server is not None:
            self.taken = len(self.server.accepted)
        return self.answer


def to(server: ScriptedSmtp, **knobs: Any) -> SmtpTransport:
    """Return the way to a server, in the clear."""
    return SmtpTransport(
        Relay(host=server.host, port=server.port, security=RelaySecurity.NONE), **knobs
    )
