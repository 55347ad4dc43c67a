"""`MailTransport` protocol: outgoing mail, capabilities, and failures all transports share."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

import msgspec

from oncebox.core import clock
from oncebox.core.connecting import NETWORK_ERROR_CODES, ErrorCodes
from oncebox.model.sends.email import Email
from oncebox.model.sends.transports import NotSent, SendOutcome, SendPhase

_DAY = 86_400_000


class Idempotency(StrEnum):
    """What the provider does with an idempotency key it has seen before."""

    #: it repeats its first answer
    REPLAY = "replay"
    #: it rejects the repeat, so a rejection means: accepted before, id unknown
    REJECT = "reject"
    #: it ignores keys
    NONE = "none"


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """What a transport guarantees, and its limits."""

    name: str
    idempotency: Idempotency = Idempotency.NONE
    #: how long a key is remembered, in milliseconds
    window_ms: int = 0
    #: regular expression of a whole key; empty without keys
    key_pattern: str = ""
    max_key_length: int = 0
    #: whether errors are repeated under the same key
    caches_errors: bool = False
    #: whether different content under a known key is rejected
    compares_body: bool = False
    #: whether our Message-ID reaches the recipient
    keeps_message_id: bool = False
    #: per mail
    max_recipients: int
    #: whether an accepted mail is delivered to anyone
    delivers: bool = True


CAPABILITIES: Mapping[str, Capability] = MappingProxyType({
    each.name: each
    for each in (
        Capability(name="log", keeps_message_id=True, max_recipients=1000, delivers=False),
        # RFC 5321, 4.5.3.1.8: every server accepts 100 recipients.
        Capability(name="smtp", keeps_message_id=True, max_recipients=100),
        # https://resend.com/docs/dashboard/emails/idempotency-keys; Resend sends by Amazon SES,
        # which replaces Message-ID and Date. Rejections are not cached.
        Capability(
            name="resend",
            idempotency=Idempotency.REPLAY,
            window_ms=_DAY,
            key_pattern=r"[!-~]{1,256}",
            max_key_length=256,
            compares_body=True,
            max_recipients=50,
        ),
    )
})  # fmt: skip


#: commits that the mail may be accepted from now on; False: it must not be transmitted
HandoverMarker = Callable[[], Awaitable[bool]]


class OutgoingMail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail with its envelope; it is accepted as a whole or not at all."""

    send_id: str
    #: idempotency key for the provider; empty if it ignores keys
    provider_key: str
    #: envelope sender; empty: bounces go nowhere
    sender: str
    recipients: tuple[str, ...]
    #: the stored bytes, with CR LF
    message: bytes
    message_id: str
    #: the content the bytes were composed from, for providers with a JSON API
    email: Email
    #: latest moment of the transmission on the steady clock; the reply may come later
    deadline: float

    def __repr__(self) -> str:
        return f"OutgoingMail(send_id={self.send_id!r})"


class MailTransport(Protocol):
    """Sends mail. It reports network failures as outcomes and never retries."""

    @property
    def capability(self) -> Capability:
        """What this transport guarantees."""
        ...

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Transmit a mail once; the marker is called once, at the last moment without effect.

        An exception of the marker is passed on; nothing was transmitted then.
        """
        ...

    async def probe(self, deadline: float) -> NotSent | None:
        """Connect and log in without sending mail; return what would fail, None if nothing."""
        ...

    async def close(self) -> None:
        """Close open connections."""
        ...


DEADLINE_PASSED = "deadline_passed"
CONNECT_ERROR_CODES: ErrorCodes = (*NETWORK_ERROR_CODES, (TimeoutError, DEADLINE_PASSED))
#: failures that last until somebody changes a configuration
_LASTING_FAILURES = frozenset({"address_refused", "certificate_refused"})


def deadline_timeout(deadline: float) -> asyncio.Timeout:
    """Return a timeout that ends at a moment of the steady clock."""
    return asyncio.timeout(max(0.0, deadline - clock.steady()))


def connect_failure(
    causes: Iterable[BaseException], phase: SendPhase, codes: ErrorCodes = CONNECT_ERROR_CODES
) -> NotSent:
    """Return the outcome of a mail that failed before it was transmitted."""
    chain = list(causes)
    for kind, code in codes:
        if any(isinstance(each, kind) for each in chain):
            return NotSent(code=code, phase=phase, opens_circuit=code in _LASTING_FAILURES)
    return NotSent(code="connect_failed", phase=phase)


def error_chain(
    error: BaseException | None, *, with_context: bool = False
) -> Iterator[BaseException]:
    """Yield an error and its causes; ``with_context`` also those that were not named as such."""
    while error is not None:
        yield error
        error = error.__cause__ or (error.__context__ if with_context else None)
