"""The strongbox of sends: what they say is sealed before it is written; addresses become marks."""

import hmac

import msgspec

from oncebox.seal import MasterKey


class SendBox:
    """Seals and opens with the master key; what it seals opens only in its own place."""

    def __init__(self, key: MasterKey) -> None:
        """Serve any number of threads at the same time."""
        self._key = key
        self._addresses = _hmac(key, "send recipient mark")
        self._contents = _hmac(key, "send content mark")
        self._seeds = _hmac(key, "send boundary seed")
        #: what Message-IDs are made with
        self.message_ids = key.derive("send message id")
        #: what the keys are made with that providers are given
        self.provider_keys = key.derive("send provider key")

    def seal_message(self, tenant: str, id_: str, message: bytes) -> bytes:
        """Return the frozen bytes of an intent as they are kept."""
        return self._key.seal(message, bound_to=_place("message", tenant, id_))

    def open_message(self, tenant: str, body_id: str, sealed: bytes) -> bytes:
        """Return the frozen bytes of a send.

        Raises: MasterKeyWrong.
        """
        return self._key.open(sealed, bound_to=_place("message", tenant, body_id))

    def seal_envelope(self, tenant: str, id_: str, envelope: bytes) -> bytes:
        """Return who an intent goes to as it is kept."""
        return self._key.seal(envelope, bound_to=_place("envelope", tenant, id_))

    def open_envelope(self, tenant: str, body_id: str, sealed: bytes) -> bytes:
        """Return who a send goes to.

        Raises: MasterKeyWrong.
        """
        return self._key.open(sealed, bound_to=_place("envelope", tenant, body_id))

    def seal_config(self, tenant: str, transport: str, config: bytes) -> bytes:
        """Return the configuration of a transport as it is kept."""
        return self._key.seal(config, bound_to=_place("config", tenant, transport))

    def open_config(self, tenant: str, transport: str, sealed: bytes) -> bytes:
        """Return the configuration of a transport.

        Raises: MasterKeyWrong.
        """
        return self._key.open(sealed, bound_to=_place("config", tenant, transport))

    def seal_address(self, tenant: str, address: str) -> bytes:
        """Return an address of the suppression list as it is kept."""
        mark = self.mark(tenant, address).hex()
        return self._key.seal(address.encode(), bound_to=_place("suppression", tenant, mark))

    def open_address(self, tenant: str, mark: bytes, sealed: bytes) -> str:
        """Return an address of the suppression list.

        Raises: MasterKeyWrong.
        """
        bound = _place("suppression", tenant, mark.hex())
        return self._key.open(sealed, bound_to=bound).decode()

    def mark(self, tenant: str, address: str) -> bytes:
        """Return by what a normalised address is known again; it tells nothing without the key."""
        return _digest(self._addresses, tenant, address.encode())

    def seed(self, tenant: str, message_id: str) -> bytes:
        """Return what the boundaries of a message are made from, always the same."""
        return _digest(self._seeds, tenant, message_id.encode())

    def content(self, tenant: str, said: bytes) -> bytes:
        """Return by what is seen that a repeat says something else."""
        return _digest(self._contents, tenant, said)


def _place(what: str, tenant: str, name: str) -> bytes:
    return msgspec.msgpack.encode(("send", what, tenant, name))


def _hmac(key: MasterKey, purpose: str) -> hmac.HMAC:
    return hmac.new(key.derive(purpose), digestmod="sha256")


def _digest(keyed: hmac.HMAC, tenant: str, said: bytes) -> bytes:
    # The one-shot function lets go of the interpreter's lock for every few bytes.
    digest = keyed.copy()
    digest.update(msgspec.msgpack.encode((tenant, said)))
    return digest.digest()
