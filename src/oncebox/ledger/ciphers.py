"""Encryption of stored fields: MailCipher, ArtifactCipher, SendCipher; HMAC fingerprints.

A sealed value opens only in its own place: for its tenant, in its row, in its column. What was
stored before there was a vault bears no mark and is read as it is.

By what mail is known again is made with the key too: a code has a million forms, and who knows
the rest of a mail would try them all on a plain hash.
"""

import hmac

import msgspec

from oncebox.core.encryption import MasterKey
from oncebox.errors import MasterKeyWrong
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.model.inboxes.artifact import ArtifactValue
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.sends.email import SendEnvelope
from oncebox.model.sends.send import ClaimedSend

#: how sealed values begin, with the version of how they are sealed
_PREFIX = b"\0sealed:1\0"
_PREFIX_LENGTH = len(_PREFIX)
#: bytes from which something is better sealed or opened in a thread
LARGE = 256 * 1024


def mail_aad(tenant: str, payload_id: str) -> bytes:
    """Return the place of a mail's raw bytes."""
    return f"oncebox_payloads.body\0{tenant}\0{payload_id}".encode()


def document_aad(tenant: str, message_id: str) -> bytes:
    """Return the place of what was read of a message."""
    return f"oncebox_messages.document\0{tenant}\0{message_id}".encode()


class MailCipher:
    """Seals and opens with the master key."""

    def __init__(self, key: MasterKey) -> None:
        """Serve any number of threads at the same time."""
        self._master_key = key
        self._mail_key = key.derive("mail mark")
        self._message_key = key.derive("message identity")

    def fingerprint(self, mail: bytes) -> bytes:
        """Return by what a mail is known again; it tells nothing without the key."""
        return hmac.digest(self._mail_key, mail, "sha256")

    def message_fingerprint(self, said: bytes) -> bytes:
        """Return by what a message is known again, from the hash of what it says; none of none."""
        return hmac.digest(self._message_key, said, "sha256") if said else b""

    def encrypt(self, plain: bytes, place: bytes) -> bytes:
        """Return what may be stored in a place, and nowhere else."""
        return self._master_key.encrypt(plain, bound_to=place, mark=_PREFIX)

    def decrypt(self, stored: bytes, place: bytes) -> bytes:
        """Return what was stored in a place, sealed or not.

        Raises: MailDecryptionFailed.
        """
        if not stored.startswith(_PREFIX):
            return stored
        try:
            return self._master_key.decrypt(memoryview(stored)[_PREFIX_LENGTH:], bound_to=place)
        except MasterKeyWrong as error:
            raise MailDecryptionFailed(
                "this mail is damaged, or was sealed with another master key or for another row; "
                "restore it from a backup"
            ) from error


_SEPARATOR = "\0"
_value_decoder = msgspec.json.Decoder(ArtifactValue)


class ArtifactCipher:
    """Seals and opens what artifacts say; makes marks that tell nothing without the key.

    A code has a million forms at most, so a plain hash of it would be as good as the code.
    """

    def __init__(self, master_key: MasterKey) -> None:
        """Use this key and others derived from it."""
        self._master_key = master_key
        self._value_key = master_key.derive("artifact value mark")
        self._claim_key = master_key.derive("artifact claim mark")

    def encrypt(self, tenant: str, artifact_id: str, value: ArtifactValue) -> bytes:
        """Return a value that can only be opened for this artifact."""
        encoded = msgspec.json.encode(value)
        return self._master_key.encrypt(encoded, bound_to=_artifact_aad(tenant, artifact_id))

    def decrypt(self, tenant: str, artifact_id: str, sealed: bytes) -> ArtifactValue:
        """Return the value that was sealed for this artifact.

        Raises: MasterKeyWrong.
        """
        opened = self._master_key.decrypt(sealed, bound_to=_artifact_aad(tenant, artifact_id))
        return _value_decoder.decode(opened)

    def value_fingerprint(
        self, tenant: str, inbox_id: str, kind: ArtifactKind, value: str
    ) -> bytes:
        """Return what makes two artifacts of one inbox the same."""
        return _artifact_hmac(self._value_key, tenant, inbox_id, kind.value, value)

    def claim_fingerprint(self, tenant: str, key_id: str, claim_key: str) -> bytes:
        """Return what makes two claims the same: the API key and the claim key."""
        return _artifact_hmac(self._claim_key, tenant, key_id, claim_key)


def _artifact_hmac(key: bytes, *parts: str) -> bytes:
    # As JSON, so that no two lists of parts are written alike.
    return hmac.digest(key, msgspec.json.encode(parts), "sha256")


def _artifact_aad(tenant: str, artifact_id: str) -> bytes:
    return _SEPARATOR.join(("artifact", tenant, artifact_id, "sealed")).encode()


class SendCipher:
    """Seals and opens with the master key; what it seals opens only in its own place."""

    def __init__(self, key: MasterKey) -> None:
        """Serve any number of threads at the same time."""
        self._master_key = key
        self._address_hmac = _keyed_hmac(key, "send recipient mark")
        self._content_hmac = _keyed_hmac(key, "send content mark")
        self._seed_hmac = _keyed_hmac(key, "send boundary seed")
        #: what Message-IDs are made with
        self.message_id_secret = key.derive("send message id")
        #: what the keys are made with that providers are given
        self.provider_key_secret = key.derive("send provider key")

    def encrypt_message(self, tenant: str, id_: str, message: bytes) -> bytes:
        """Return the frozen bytes of an intent as they are kept."""
        return self._master_key.encrypt(message, bound_to=_send_aad("message", tenant, id_))

    def decrypt_message(self, tenant: str, body_id: str, sealed: bytes) -> bytes:
        """Return the frozen bytes of a send.

        Raises: MasterKeyWrong.
        """
        return self._master_key.decrypt(sealed, bound_to=_send_aad("message", tenant, body_id))

    def encrypt_envelope(self, tenant: str, id_: str, envelope: bytes) -> bytes:
        """Return who an intent goes to as it is kept."""
        return self._master_key.encrypt(envelope, bound_to=_send_aad("envelope", tenant, id_))

    def decrypt_envelope(self, tenant: str, body_id: str, sealed: bytes) -> bytes:
        """Return who a send goes to.

        Raises: MasterKeyWrong.
        """
        return self._master_key.decrypt(sealed, bound_to=_send_aad("envelope", tenant, body_id))

    def encrypt(
        self, tenant: str, id_: str, message: bytes, envelope: SendEnvelope
    ) -> tuple[bytes, bytes]:
        """Return message and envelope of a new send, encrypted for its id."""
        encoded = msgspec.msgpack.encode(envelope)
        return (
            self.encrypt_message(tenant, id_, message),
            self.encrypt_envelope(tenant, id_, encoded),
        )

    def decrypt(self, claimed: ClaimedSend) -> tuple[bytes, SendEnvelope]:
        """Return the message and the envelope of a send.

        Raises: MasterKeyWrong.
        """
        send = claimed.send
        envelope = self.decrypt_envelope(send.tenant, send.body_id, claimed.envelope)
        message = self.decrypt_message(send.tenant, send.body_id, claimed.message)
        return message, msgspec.msgpack.decode(envelope, type=SendEnvelope)

    def encrypt_config(self, tenant: str, transport: str, config: bytes) -> bytes:
        """Return the configuration of a transport as it is kept."""
        return self._master_key.encrypt(config, bound_to=_send_aad("config", tenant, transport))

    def decrypt_config(self, tenant: str, transport: str, sealed: bytes) -> bytes:
        """Return the configuration of a transport.

        Raises: MasterKeyWrong.
        """
        return self._master_key.decrypt(sealed, bound_to=_send_aad("config", tenant, transport))

    def encrypt_address(self, tenant: str, address: str) -> bytes:
        """Return an address of the suppression list as it is kept."""
        mark = self.address_fingerprint(tenant, address).hex()
        return self._master_key.encrypt(
            address.encode(), bound_to=_send_aad("suppression", tenant, mark)
        )

    def decrypt_address(self, tenant: str, mark: bytes, sealed: bytes) -> str:
        """Return an address of the suppression list.

        Raises: MasterKeyWrong.
        """
        bound = _send_aad("suppression", tenant, mark.hex())
        return self._master_key.decrypt(sealed, bound_to=bound).decode()

    def address_fingerprint(self, tenant: str, address: str) -> bytes:
        """Return by what a normalised address is known again; it tells nothing without the key."""
        return _send_hmac(self._address_hmac, tenant, address.encode())

    def boundary_seed(self, tenant: str, message_id: str) -> bytes:
        """Return what the boundaries of a message are made from, always the same."""
        return _send_hmac(self._seed_hmac, tenant, message_id.encode())

    def content_fingerprint(self, tenant: str, said: bytes) -> bytes:
        """Return by what is seen that a repeat says something else."""
        return _send_hmac(self._content_hmac, tenant, said)


def _send_aad(what: str, tenant: str, name: str) -> bytes:
    return msgspec.msgpack.encode(("send", what, tenant, name))


def _keyed_hmac(key: MasterKey, purpose: str) -> hmac.HMAC:
    return hmac.new(key.derive(purpose), digestmod="sha256")


def _send_hmac(keyed: hmac.HMAC, tenant: str, said: bytes) -> bytes:
    # The one-shot function lets go of the interpreter's lock for every few bytes.
    digest = keyed.copy()
    digest.update(msgspec.msgpack.encode((tenant, said)))
    return digest.digest()
