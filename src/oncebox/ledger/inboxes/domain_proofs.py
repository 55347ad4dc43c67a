"""DomainProofs: a tenant proves by a DNS record that a domain is its own.

The token in the record is derived from the tenant and the domain, so that nothing is stored. A
tenant without a proof gets the same answer whether another tenant has the domain or not.
See docs/decisions/0024-use-canonical-addresses-and-a-positive-cache-for-recipients.md.
"""

import base64
import hmac
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from oncebox.core.encryption import MasterKey
from oncebox.errors.mail import DnsRecordNotFound, DomainUnproven
from oncebox.model.inboxes.addresses import DnsRecord, domain_key, is_reserved_domain, proof_record

#: returns the TXT records of a name; raises ResolverError
FindTxt = Callable[[str], Awaitable[list[bytes]]]
_TOKEN_BYTES = 20


class DomainProofs:
    """Checks the proofs of one installation."""

    def __init__(self, master_key: MasterKey, find_txt: FindTxt) -> None:
        """Derive the tokens from the master key."""
        self._key = master_key.derive("domain proof")
        self._find_txt = find_txt

    def record(self, tenant: str, name: str) -> DnsRecord:
        """Return the record that proves a domain to be a tenant's.

        Raises: AddressInvalid.
        """
        key = domain_key(name)
        mark = hmac.digest(self._key, msgspec.json.encode([tenant, key]), "sha256")
        token = base64.b32encode(mark[:_TOKEN_BYTES]).decode().lower()
        return proof_record(key, token)

    async def check(self, tenant: str, name: str) -> None:
        """Refuse a domain whose DNS does not have the record.

        Raises: AddressInvalid, DomainUnproven, ResolverUnavailable.
        """
        record, found = self.record(tenant, name), []
        if not is_reserved_domain(domain_key(name)):
            with suppress(DnsRecordNotFound):
                found = await self._find_txt(record.name)
        if record.value.strip('"').encode() not in found:
            raise self.unproven(tenant, name)

    def unproven(self, tenant: str, name: str) -> DomainUnproven:
        """Return the refusal, which is the same for a domain that another tenant has."""
        record = self.record(tenant, name)
        return DomainUnproven(
            f"publish the DNS record {record.name} {record.type} {record.value} and send the "
            "request again; if it is published, ask the operator to run: oncebox domain add"
        )
