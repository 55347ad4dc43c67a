"""Encryption of stored fields: MailCipher, ArtifactCipher, SendCipher; HMAC fingerprints.

Each ciphertext is bound to its tenant, row and column. Fingerprints are keyed: a code has only a
million values, which could all be tried on a plain hash.
See docs/decisions/0009-use-field-encryption-for-mail-codes-and-links.md.
"""

import hmac
from collections.abc import Sequence
from typing import Literal

import msgspec

from oncebox.core.encryption import PREFIX, MasterKey
from oncebox.errors import DataKeyUnknown, MasterKeyWrong
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.model.inboxes.artifact import ArtifactValue
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.sends.email import SendEnvelope
from oncebox.model.sends.send import ClaimedSend

#: starts mail that was encrypted before data keys had generations; older mail is not encrypted
_PREFIX_1 = b"\0sealed:1\0"
#: bytes from which encryption is done in a thread
LARGE = 256 * 1024
#: purposes of encryption keys
MAIL, ARTIFACT, SEND, MAILBOX = "mail", "artifact", "send", "mailbox"
ENDPOINT = "endpoint"


def mail_aad(tenant: str, payload_id: str) -> bytes:
    """Return what the raw bytes of a mail are bound to."""
    return f"oncebox_payloads.body\0{tenant}\0{payload_id}".encode()


def document_aad(tenant: str, message_id: str) -> bytes:
    """Return what the document of a message is bound to."""
    return f"oncebox_messages.document\0{tenant}\0{message_id}".encode()


def without_first_prefix(stored: bytes) -> bytes | memoryview:
    """Return encrypted mail without the prefix of the first version, which no other value had."""
    return memoryview(stored)[len(_PREFIX_1) :] if stored.startswith(_PREFIX_1) else stored


class MailCipher:
    """Encrypts and decrypts received mail; thread-safe."""

    def __init__(self, key: MasterKey) -> None:
        self._master_key = key
        self._mail_key = key.derive("mail mark")
        self._provider_key = key.derive("provider mail mark")
        self._message_hmac = _keyed_hmac(key, "message identity")

    def fingerprint(self, mail: bytes) -> bytes:
        """Return the fingerprint of a mail."""
        return hmac.digest(self._mail_key, mail, "sha256")

    def provider_fingerprint(self, source: str, provider_id: str) -> bytes:
        """Return the fingerprint of a mail that a source names by its provider's id."""
        text = f"{source}\0{provider_id}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._provider_key, text, "sha256")

    def message_fingerprint(self, said: bytes) -> bytes:
        """Return the fingerprint of a message from the hash of its content; empty for empty."""
        return _hmac_of_few_bytes(self._message_hmac, said) if said else b""

    def encrypt(self, plain: bytes, place: bytes) -> bytes:
        """Return the ciphertext, bound to a place."""
        return self._master_key.encrypt(plain, bound_to=place, purpose=MAIL)

    def decrypt(self, stored: bytes, place: bytes) -> bytes:
        """Return what was stored in a place, encrypted or not.

        Raises: MailDecryptionFailed.
        """
        if not stored.startswith((PREFIX, _PREFIX_1)):
            return stored
        sealed = without_first_prefix(stored)
        try:
            return self._master_key.decrypt(sealed, bound_to=place, purpose=MAIL)
        except DataKeyUnknown:  # not for ever
            raise
        except MasterKeyWrong as error:
            raise MailDecryptionFailed(
                "this mail is damaged, or was encrypted with another master key or for another "
                "row; restore it from a backup"
            ) from error


SendField = Literal["message", "envelope", "config", "suppression"]
_value_decoder = msgspec.json.Decoder(ArtifactValue)


class ArtifactCipher:
    """Encrypts and decrypts codes and links; thread-safe. Decryption raises MasterKeyWrong."""

    def __init__(self, master_key: MasterKey) -> None:
        self._master_key = master_key
        self._value_key = master_key.derive("artifact value mark")
        self._claim_key = master_key.derive("artifact claim mark")

    def encrypt(self, tenant: str, artifact_id: str, value: ArtifactValue) -> bytes:
        """Return the ciphertext of a value, bound to its artifact."""
        aad = artifact_aad(tenant, artifact_id)
        return self._master_key.encrypt(msgspec.json.encode(value), bound_to=aad, purpose=ARTIFACT)

    def decrypt(self, tenant: str, artifact_id: str, stored: bytes) -> ArtifactValue:
        """Return the value of an artifact."""
        aad = artifact_aad(tenant, artifact_id)
        return _value_decoder.decode(
            self._master_key.decrypt(stored, bound_to=aad, purpose=ARTIFACT)
        )

    def value_fingerprint(
        self, tenant: str, inbox_id: str, kind: ArtifactKind, value: str
    ) -> bytes:
        """Return what makes two artifacts of one inbox the same."""
        return _artifact_hmac(
            self._value_key, tenant, inbox_id, kind.value, _comparable_value(kind, value)
        )

    def unscoped_fingerprint(self, tenant: str, kind: ArtifactKind, value: str) -> bytes:
        """Return the key of ``attempt_fingerprint``; it is not stored."""
        return _artifact_hmac(self._value_key, tenant, kind.value, _comparable_value(kind, value))

    def claim_fingerprint(self, tenant: str, key_id: str, claim_key: str) -> bytes:
        """Return what makes two claims the same: the API key and the claim key."""
        return _artifact_hmac(self._claim_key, tenant, key_id, claim_key)


def attempt_fingerprint(unscoped: bytes, attempt_id: str) -> bytes:
    """Return what makes two artifacts of one attempt the same."""
    return hmac.digest(unscoped, attempt_id.encode(), "sha256")


def _comparable_value(kind: ArtifactKind, value: str) -> str:
    """Return a code without hyphens and case, in which two mails with one code may differ."""
    return value.replace("-", "").lower() if kind is ArtifactKind.CODE else value


def _artifact_hmac(key: bytes, *parts: str) -> bytes:
    # As JSON, so that no two lists of parts have the same encoding.
    return hmac.digest(key, msgspec.json.encode(parts), "sha256")


def artifact_aad(tenant: str, artifact_id: str) -> bytes:
    """Return what the value of an artifact is bound to."""
    return f"artifact\0{tenant}\0{artifact_id}\0sealed".encode()


def mailbox_aad(tenant: str, name: str) -> bytes:
    """Return what the configuration of a mailbox is bound to."""
    return f"oncebox_mailboxes.config\0{tenant}\0{name}".encode()


class MailboxCipher:
    """Encrypts and decrypts the configurations of mailboxes.

    Decryption raises MasterKeyWrong.
    """

    def __init__(self, key: MasterKey) -> None:
        self._master_key = key

    def encrypt(self, tenant: str, name: str, plain: bytes) -> bytes:
        """Return a configuration, encrypted for its row."""
        aad = mailbox_aad(tenant, name)
        return self._master_key.encrypt(plain, bound_to=aad, purpose=MAILBOX)

    def decrypt(self, tenant: str, name: str, stored: bytes) -> bytes:
        """Return the configuration of a row."""
        aad = mailbox_aad(tenant, name)
        return self._master_key.decrypt(stored, bound_to=aad, purpose=MAILBOX)


def endpoint_aad(tenant: str, name: str) -> bytes:
    """Return what the secrets of an endpoint are bound to."""
    return f"oncebox_endpoints.secrets\0{tenant}\0{name}".encode()


class EndpointCipher:
    """Encrypts and decrypts the secrets that sign what is sent to endpoints.

    Decryption raises MasterKeyWrong.
    """

    def __init__(self, key: MasterKey) -> None:
        self._master_key = key

    def encrypt(self, tenant: str, name: str, secrets: Sequence[str]) -> bytes:
        """Return secrets, the newest first, encrypted for their row."""
        aad = endpoint_aad(tenant, name)
        return self._master_key.encrypt(
            msgspec.json.encode(secrets), bound_to=aad, purpose=ENDPOINT
        )

    def decrypt(self, tenant: str, name: str, stored: bytes) -> tuple[str, ...]:
        """Return the secrets of a row."""
        aad = endpoint_aad(tenant, name)
        plain = self._master_key.decrypt(stored, bound_to=aad, purpose=ENDPOINT)
        return msgspec.json.decode(plain, type=tuple[str, ...])


class SendCipher:
    """Encrypts and decrypts outgoing mail, transports and suppressed addresses; thread-safe.

    Decryption raises MasterKeyWrong.
    """

    def __init__(self, key: MasterKey) -> None:
        self._master_key = key
        self._address_hmac = _keyed_hmac(key, "send recipient mark")
        self._content_hmac = _keyed_hmac(key, "send content mark")
        self._seed_hmac = _keyed_hmac(key, "send boundary seed")
        self.message_id_secret = key.derive("send message id")
        self.provider_key_secret = key.derive("send provider key")

    def encrypt(
        self, tenant: str, id_: str, message: bytes, envelope: SendEnvelope
    ) -> tuple[bytes, bytes]:
        """Return message and envelope of a new send, encrypted for its id."""
        encoded = msgspec.msgpack.encode(envelope)
        return (
            self.encrypt_field("message", tenant, id_, message),
            self.encrypt_field("envelope", tenant, id_, encoded),
        )

    def decrypt(self, claimed: ClaimedSend) -> tuple[bytes, SendEnvelope]:
        """Return the message and the envelope of a send."""
        send = claimed.send
        envelope = self.decrypt_field("envelope", send.tenant, send.body_id, claimed.envelope)
        message = self.decrypt_field("message", send.tenant, send.body_id, claimed.message)
        return message, msgspec.msgpack.decode(envelope, type=SendEnvelope)

    def encrypt_field(self, kind: SendField, tenant: str, name: str, plain: bytes) -> bytes:
        """Return the ciphertext of a field, bound to the id of its send or transport."""
        return self._master_key.encrypt(plain, bound_to=send_aad(kind, tenant, name), purpose=SEND)

    def decrypt_field(self, kind: SendField, tenant: str, name: str, stored: bytes) -> bytes:
        """Return the content of an encrypted field."""
        return self._master_key.decrypt(stored, bound_to=send_aad(kind, tenant, name), purpose=SEND)

    def encrypt_address(self, tenant: str, address: str) -> bytes:
        """Return an address of the suppression list, encrypted."""
        fingerprint = self.address_fingerprint(tenant, address).hex()
        return self.encrypt_field("suppression", tenant, fingerprint, address.encode())

    def decrypt_address(self, tenant: str, fingerprint: bytes, stored: bytes) -> str:
        """Return an address of the suppression list."""
        return self.decrypt_field("suppression", tenant, fingerprint.hex(), stored).decode()

    def address_fingerprint(self, tenant: str, address: str) -> bytes:
        """Return the fingerprint of a normalised address."""
        return _send_hmac(self._address_hmac, tenant, address.encode())

    def boundary_seed(self, tenant: str, message_id: str) -> bytes:
        """Return the seed of a message's MIME boundaries, always the same."""
        return _send_hmac(self._seed_hmac, tenant, message_id.encode())

    def content_fingerprint(self, tenant: str, content: bytes) -> bytes:
        """Return the fingerprint by which a repeat with other content is recognised."""
        return _send_hmac(self._content_hmac, tenant, content)


def send_aad(what: SendField, tenant: str, name: str) -> bytes:
    """Return what a field of a send, transport or suppression is bound to."""
    return msgspec.msgpack.encode(("send", what, tenant, name))


def _keyed_hmac(key: MasterKey, purpose: str) -> hmac.HMAC:
    return hmac.new(key.derive(purpose), digestmod="sha256")


def _send_hmac(keyed: hmac.HMAC, tenant: str, data: bytes) -> bytes:
    return _hmac_of_few_bytes(keyed, msgspec.msgpack.encode((tenant, data)))


def _hmac_of_few_bytes(keyed: hmac.HMAC, data: bytes) -> bytes:
    # The one-shot function releases the GIL even for a few bytes.
    digest = keyed.copy()
    digest.update(data)
    return digest.digest()
