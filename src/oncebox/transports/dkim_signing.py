"""DKIM signing transport: signs each mail, then sends it by another transport."""

from collections.abc import Sequence

import msgspec

from oncebox.core import clock
from oncebox.errors import ConfigInvalid
from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import SigningInvalid
from oncebox.mail.auth.dkim_sign import SigningKey, read_signing_key, sign_dkim
from oncebox.model.inboxes.addresses import domain_key
from oncebox.model.sends.transports import NotSent, SendOutcome, SendPhase, SendRejected
from oncebox.transports.transport import HandoverMarker, MailTransport, OutgoingMail


class DkimKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key that signs mail of a domain and its subdomains."""

    domain: str
    selector: str
    #: PEM without a password, or the base64 of an Ed25519 seed
    key: str

    def __repr__(self) -> str:
        return f"DkimKey({self.selector}._domainkey.{self.domain})"


class DkimSigningTransport:
    """Signs with all keys of the sender's domain; mail of other domains stays unsigned.

    Message-ID, Date and body stay as stored, so a repeat is the same mail.
    """

    def __init__(
        self, transport: MailTransport, keys: Sequence[DkimKey], now: clock.Clock = clock.system
    ) -> None:
        """Wrap a transport; its capability stays the same."""
        self._transport = transport
        self.capability = transport.capability
        self._keys = [(each, read_signing_key(each.key.encode())) for each in keys]
        self._now = now
        for key, private in self._keys:
            try:
                _sign(b"From: a@example.com\r\n\r\n", key, private, 0)
            except SigningInvalid as error:
                raise ConfigInvalid(str(error)) from error

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Sign and send; see `MailTransport.send`."""
        domain = _sender_domain(mail.sender)
        keys = [each for each in self._keys if _is_within(domain, domain_key(each[0].domain))]
        try:
            fields = [_sign(mail.message, *each, self._now()) for each in keys]
        except SigningInvalid:
            return SendRejected(code="signing_invalid", phase=SendPhase.CONNECT)
        message = b"".join((*fields, mail.message))
        signed = msgspec.structs.replace(mail, message=message)
        return await self._transport.send(signed, before_point_of_no_return)

    async def probe(self, deadline: float) -> NotSent | None:
        """Probe the wrapped transport; see `MailTransport.probe`."""
        return await self._transport.probe(deadline)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()


def _sign(message: bytes, key: DkimKey, private: SigningKey, now: int) -> bytes:
    return sign_dkim(message, domain=key.domain, selector=key.selector, key=private, now=now)


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _sender_domain(address: str) -> str:
    try:
        return domain_key(address.rpartition("@")[2])
    except AddressInvalid:
        return ""
