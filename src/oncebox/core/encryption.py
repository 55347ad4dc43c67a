"""Encryption at rest: AES-256-GCM under the installation's master key.

See docs/decisions/0009-use-field-encryption-for-mail-codes-and-links.md.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from oncebox.core.files import write_private_file
from oncebox.errors import MasterKeyMissing, MasterKeyWrong

_KEY_BYTES = 32
_NONCE_BYTES = 12


class MasterKey:
    """The key that encrypts; its ``id`` distinguishes keys and reveals nothing."""

    def __init__(self, secret: bytes) -> None:
        """Take exactly 32 secret bytes."""
        if len(secret) != _KEY_BYTES:
            raise MasterKeyMissing(
                f"the master key has {len(secret)} bytes instead of {_KEY_BYTES}; "
                "make one with: openssl rand -base64 32"
            )
        self.id = hashlib.sha256(b"oncebox master key id\0" + secret).hexdigest()[:16]
        self._cipher = AESGCM(secret)
        self._root = hmac.digest(secret, b"oncebox derived keys", "sha256")

    def __repr__(self) -> str:
        """Show the id, never the key."""
        return f"MasterKey(id={self.id!r})"

    def derive(self, purpose: str) -> bytes:
        """Return 32 secret bytes for one purpose, such as an HMAC key.

        They reveal nothing about this key or about those for other purposes.
        """
        return hmac.digest(self._root, purpose.encode(), "sha256")

    def encrypt(
        self,
        plain: bytes,
        *,
        bound_to: bytes,
        mark: bytes = b"",
        random: Callable[[int], bytes] = os.urandom,
    ) -> bytes:
        """Encrypt for this key and ``bound_to`` only; the result begins with ``mark``."""
        nonce = random(_NONCE_BYTES)
        return mark + nonce + self._cipher.encrypt(nonce, plain, bound_to)

    def decrypt(self, sealed: bytes | memoryview, *, bound_to: bytes) -> bytes:
        """Decrypt a result of ``encrypt`` for the same ``bound_to``."""
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError) as error:  # altered, or too short
            raise MasterKeyWrong(
                "this value was encrypted with another master key, or for another row"
            ) from error


def master_key_from_text(text: str) -> MasterKey:
    """Read a master key from base64 text."""
    try:
        return MasterKey(base64.b64decode(text.strip(), validate=True))
    except ValueError as error:  # not base64, or not even ASCII
        raise MasterKeyMissing(
            "the master key is not base64; make one with: openssl rand -base64 32"
        ) from error


def master_key_from_file(path: Path) -> MasterKey:
    """Read a master key from a file."""
    try:
        return master_key_from_text(path.read_text("ascii"))
    except (OSError, UnicodeDecodeError) as error:
        raise MasterKeyMissing(
            f"the master key file {path} cannot be read; restore it from a backup, or name it "
            "with ONCEBOX_MASTER_KEY_FILE"
        ) from error


def load_or_create_master_key(path: Path, random: Callable[[int], bytes] = os.urandom) -> MasterKey:
    """Read or create the key file, readable by its owner only; racing processes agree."""
    if not path.exists():
        write_private_file(path, base64.b64encode(random(_KEY_BYTES)) + b"\n")
    return master_key_from_file(path)
