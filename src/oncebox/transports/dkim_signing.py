"""DKIM signing transport: signs each mail, then hands it to another transport."""

from collections.abc import Sequence

import msgspec

from oncebox.core import clock
from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import SigningInvalid
from oncebox.mail.auth.dkim_sign import SigningKey, sign_dkim
from oncebox.model.inboxes.addresses import domain_key
from oncebox.model.sends.transports import NotSent, SendOutcome, SendPhase, SendRejected
from oncebox.transports.transport import (
    Capability,
    HandoverMarker,
    MailTransport,
    OutgoingMail,
)


class DkimSigner(msgspec.Struct, frozen=True, kw_only=True):
    """A signing key and where its public key is published."""

    domain: str
    selector: str
    key: SigningKey

    def __repr__(self) -> str:
        """Omit the key."""
        return f"DkimSigner({self.selector}._domainkey.{self.domain})"

    def signs_for(self, domain: str) -> bool:
        """Tell whether this signer signs mail of a domain: its own or a subdomain."""
        own = domain_key(self.domain)
        return domain == own or domain.endswith(f".{own}")


class DkimSigningTransport:
    """Signs with all keys of the sender's domain; mail of other domains stays unsigned.

    Message-ID, Date and body stay as stored, so a repeat is the same mail.
    """

    def __init__(
        self,
        transport: MailTransport,
        signers: Sequence[DkimSigner],
        now: clock.Clock = clock.system,
    ) -> None:
        """Wrap a transport.

        Raises: ConfigInvalid.
        """
        self._transport = transport
        self._signers = tuple(signers)
        self._now = now
        for each in self._signers:
            _check_signer(each)

    @property
    def capability(self) -> Capability:
        """The wrapped transport's capability."""
        return self._transport.capability

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Sign and hand over; see `MailTransport.send`."""
        domain = _sender_domain(mail.sender)
        try:
            fields = [self._sign(mail.message, each, domain) for each in self._signers]
        except SigningInvalid:
            return SendRejected(code="signing_invalid", phase=SendPhase.CONNECT)
        message = b"".join((*fields, mail.message))
        signed = msgspec.structs.replace(mail, message=message)
        return await self._transport.send(signed, before_point_of_no_return)

    async def probe(self, deadline: float) -> NotSent | None:
        """Probe the wrapped transport; the keys were checked at the start."""
        return await self._transport.probe(deadline)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()

    def _sign(self, message: bytes, signer: DkimSigner, domain: str) -> bytes:
        if not signer.signs_for(domain):
            return b""
        now = self._now()
        return sign_dkim(
            message, domain=signer.domain, selector=signer.selector, key=signer.key, now=now
        )


_SAMPLE_MESSAGE = b"From: a@example.com\r\n\r\n"


def _check_signer(signer: DkimSigner) -> None:
    """Check that a signature can be made."""
    try:
        sign_dkim(
            _SAMPLE_MESSAGE, domain=signer.domain, selector=signer.selector, key=signer.key, now=0
        )
    except SigningInvalid as error:
        raise ConfigInvalid(str(error)) from error


def _sender_domain(address: str) -> str:
    try:
        return domain_key(address.rpartition("@")[2])
    except AddressInvalid:
        return ""
