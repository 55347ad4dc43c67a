"""Signing: a way out that puts DKIM signatures before the frozen bytes, anew with every try."""

from collections.abc import Sequence

import msgspec

from oncebox import clock
from oncebox.errors import ConfigInvalid
from oncebox.mail.dkim_sign import SigningKey, sign
from oncebox.mail_errors import AddressInvalid
from oncebox.model.domain import domain_key
from oncebox.model.outcome import NotSent, Outcome, Phase, Rejected
from oncebox.send_errors import SigningInvalid
from oncebox.transport.email.capability import Capability
from oncebox.transport.email.parcel import Marker, Parcel, Transport
from oncebox.transport.email.probe import probe


class Signer(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs, and where the public half of the key is found."""

    domain: str
    selector: str
    key: SigningKey

    def __repr__(self) -> str:
        """Leave out the key."""
        return f"Signer({self.selector}._domainkey.{self.domain})"

    def signs_for(self, domain: str) -> bool:
        """Say whether mail of a domain is this signer's to sign: of its own, or of one below."""
        own = domain_key(self.domain)
        return domain == own or domain.endswith(f".{own}")


class Signed:
    """Signs by all keys of the sender's domain; mail from elsewhere goes out unsigned.

    Message-ID, Date and body stay as they were frozen, so a repeat is the same mail.
    """

    def __init__(
        self, way: Transport, signers: Sequence[Signer], now: clock.Clock = clock.system
    ) -> None:
        """Sign what goes this way.

        Raises: ConfigInvalid.
        """
        self._way = way
        self._signers = tuple(signers)
        self._now = now
        for each in self._signers:
            _check(each)

    @property
    def capability(self) -> Capability:
        """What the way promises."""
        return self._way.capability

    async def send(self, parcel: Parcel, before_point_of_no_return: Marker) -> Outcome:
        """Sign, and hand over; see `Transport.send`."""
        domain = _domain(parcel.sender)
        try:
            fields = [self._sign(parcel.message, each, domain) for each in self._signers]
        except SigningInvalid:
            return Rejected(code="signing_invalid", phase=Phase.CONNECT)
        message = b"".join((*fields, parcel.message))
        signed = msgspec.structs.replace(parcel, message=message)
        return await self._way.send(signed, before_point_of_no_return)

    async def probe(self, deadline: float) -> NotSent | None:
        """Try the way without a mail; that a signature can be made was seen at the start."""
        return await probe(self._way, deadline)

    async def close(self) -> None:
        """Close the way."""
        await self._way.close()

    def _sign(self, message: bytes, by: Signer, domain: str) -> bytes:
        if not by.signs_for(domain):
            return b""
        now = self._now()
        return sign(message, domain=by.domain, selector=by.selector, key=by.key, now=now)


_SPECIMEN = b"From: a@example.com\r\n\r\n"


def _check(signer: Signer) -> None:
    """See that a signature can be made at all."""
    try:
        sign(_SPECIMEN, domain=signer.domain, selector=signer.selector, key=signer.key, now=0)
    except SigningInvalid as error:
        raise ConfigInvalid(str(error)) from error


def _domain(address: str) -> str:
    try:
        return domain_key(address.rpartition("@")[2])
    except AddressInvalid:
        return ""
