"""The strongbox: what artifacts say, sealed, and the marks by which they are known again."""

import hmac

import msgspec

from oncebox.model.artifact import ArtifactValue
from oncebox.model.candidate import Kind
from oncebox.seal import MasterKey

_SEPARATOR = "\0"
_value = msgspec.json.Decoder(ArtifactValue)


class Strongbox:
    """Seals and opens what artifacts say; makes marks that tell nothing without the key.

    A code has a million forms at most, so a plain hash of it would be as good as the code.
    """

    def __init__(self, master_key: MasterKey) -> None:
        """Use this key and others derived from it."""
        self._master_key = master_key
        self._values = master_key.derive("artifact value mark")
        self._claims = master_key.derive("artifact claim mark")

    def seal(self, tenant: str, artifact_id: str, value: ArtifactValue) -> bytes:
        """Return a value that can only be opened for this artifact."""
        encoded = msgspec.json.encode(value)
        return self._master_key.seal(encoded, bound_to=_bound_to(tenant, artifact_id))

    def open(self, tenant: str, artifact_id: str, sealed: bytes) -> ArtifactValue:
        """Return the value that was sealed for this artifact.

        Raises: MasterKeyWrong.
        """
        opened = self._master_key.open(sealed, bound_to=_bound_to(tenant, artifact_id))
        return _value.decode(opened)

    def mark(self, tenant: str, inbox_id: str, kind: Kind, value: str) -> bytes:
        """Return what makes two artifacts of one inbox the same."""
        return _digest(self._values, tenant, inbox_id, kind.value, value)

    def claim_mark(self, tenant: str, key_id: str, claim_key: str) -> bytes:
        """Return what makes two claims the same: the API key and the claim key."""
        return _digest(self._claims, tenant, key_id, claim_key)


def _digest(key: bytes, *parts: str) -> bytes:
    # As JSON, so that no two lists of parts are written alike.
    return hmac.digest(key, msgspec.json.encode(parts), "sha256")


def _bound_to(tenant: str, artifact_id: str) -> bytes:
    return _SEPARATOR.join(("artifact", tenant, artifact_id, "sealed")).encode()
