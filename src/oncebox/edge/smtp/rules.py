"""Rules: limits and constant replies, the same for all sessions of a server."""

import msgspec

from oncebox.config import SmtpSettings
from oncebox.edge.smtp import replies


class Rules(msgspec.Struct, frozen=True):
    """What is the same for all sessions."""

    settings: SmtpSettings
    greeting: bytes
    hello: bytes
    #: the answer to EHLO, without and with TLS in use
    offers: bytes
    offers_inside: bytes
    starttls: bool

    @classmethod
    def of(cls, settings: SmtpSettings, hostname: str, *, starttls: bool) -> "Rules":
        """Put the constant replies together."""
        size = settings.size
        return cls(
            settings=settings,
            greeting=replies.greeting(hostname),
            hello=replies.hello(hostname),
            offers=replies.extended_hello(hostname, size=size, starttls=starttls),
            offers_inside=replies.extended_hello(hostname, size=size, starttls=False),
            starttls=starttls,
        )
