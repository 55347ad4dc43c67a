"""EndpointService: add endpoints and rotate their secrets, which are stored encrypted."""

import base64
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid
from oncebox.ledger.admin import tenants
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.ciphers import EndpointCipher
from oncebox.ledger.endpoints import endpoints
from oncebox.model.endpoints import Endpoint, EndpointFields, check_fields, check_secrets
from oncebox.model.public_internet import AllowedHosts

_SECRET_BYTES = 24
_HTTP = 80
#: secrets that sign at the same time while receivers change to the new one
_MOST_OVERLAPPING = 2


class IssuedSecret(NamedTuple):
    """An endpoint, and its newest secret, which is shown once."""

    endpoint: Endpoint
    secret: str


class EndpointService:
    """Changes of endpoints by operators."""

    def __init__(
        self,
        cipher: EndpointCipher,
        allowed: AllowedHosts,
        *,
        new_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Accept plain HTTP for ``allowed`` hosts only."""
        self._cipher = cipher
        self._allowed = allowed
        self._new_bytes = new_bytes

    def add(
        self,
        tx: Transaction,
        fields: EndpointFields,
        entry: AuditEntry,
        given: Sequence[str] = (),
    ) -> IssuedSecret:
        """Store a new endpoint; without ``given`` secrets it gets a new one.

        Raises: ConfigInvalid, NotFound, StateConflict.
        """
        checked = check_fields(fields)
        self._check_plain(checked.url)
        signing = check_secrets(given or (self._new_secret(),))
        tenants.require(tx, entry.tenant)
        encrypted = self._cipher.encrypt(entry.tenant, checked.name, signing)
        return IssuedSecret(endpoints.add(tx, checked, encrypted, entry), signing[0])

    def rotate(
        self,
        tx: Transaction,
        name: str,
        entry: AuditEntry,
        given: str = "",
        *,
        overlap: bool = True,
    ) -> IssuedSecret:
        """Sign with a new secret, and with ``overlap`` with the one before it as well.

        Raises: ConfigInvalid, NotFound, StateConflict, MasterKeyWrong.
        """
        seen = endpoints.get(tx, entry.tenant, name)
        before = self._cipher.decrypt(seen.tenant, seen.name, seen.secrets)
        (new,) = check_secrets((given or self._new_secret(),))
        kept = [each for each in before if each != new] if overlap else []
        signing = check_secrets([new, *kept][:_MOST_OVERLAPPING])
        encrypted = self._cipher.encrypt(seen.tenant, seen.name, signing)
        return IssuedSecret(endpoints.replace_secrets(tx, seen, encrypted, entry), new)

    def _check_plain(self, url: str) -> None:
        """Refuse plain HTTP to a host that the settings do not name.

        Raises: ConfigInvalid.
        """
        parts = urlsplit(url)
        if parts.scheme == "http" and not self._allowed.names(
            parts.hostname or "", parts.port or _HTTP
        ):
            raise ConfigInvalid(
                "plain http needs the host in the setting egress.allow, such as "
                "ONCEBOX_EGRESS__ALLOW=127.0.0.1; or use https"
            )

    def _new_secret(self) -> str:
        return "whsec_" + base64.b64encode(self._new_bytes(_SECRET_BYTES)).decode()
