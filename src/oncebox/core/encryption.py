"""Encryption at rest: AES-256-GCM under data keys, which the installation's master key wraps.

See docs/decisions/0009-use-field-encryption-for-mail-codes-and-links.md.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from oncebox.core.files import write_private_file
from oncebox.errors import DataKeyUnknown, MasterKeyMissing, MasterKeyWrong

_KEY_BYTES = 32
_NONCE_BYTES = 12
_GENERATION_BYTES = 4
#: starts an encrypted value, with the version of the format; the generation of its key follows.
#: A value without it has version 1, in which the first master key itself encrypts.
PREFIX: Final = b"\0sealed:2\0"
#: bytes before the nonce of an encrypted value
HEADER_BYTES = len(PREFIX) + _GENERATION_BYTES
_WRONG = "this value was encrypted with another master key, or for another row"


class DataKey:
    """One generation of the secret behind all values; each purpose has a key derived from it.

    Generation 0 is the first master key of the installation.
    """

    def __init__(self, generation: int, secret: bytes) -> None:
        """Take exactly 32 secret bytes."""
        self.generation = generation
        self.header = PREFIX + generation.to_bytes(_GENERATION_BYTES, "big")
        self.secret = secret
        self._root = hmac.digest(secret, b"oncebox derived keys", "sha256")
        self._ciphers: dict[str, AESGCM] = {}

    def __repr__(self) -> str:
        """Show the generation, never the key."""
        return f"DataKey(generation={self.generation})"

    def derive(self, purpose: str) -> bytes:
        """Return 32 secret bytes for one purpose; they reveal nothing about others."""
        return hmac.digest(self._root, purpose.encode(), "sha256")

    def cipher(self, purpose: str) -> AESGCM:
        """Return the cipher for values of one purpose."""
        found = self._ciphers.get(purpose)
        if found is None:
            found = self._ciphers[purpose] = AESGCM(self.derive(f"encrypt {purpose}"))
        return found

    @cached_property
    def version_1(self) -> AESGCM:
        """The cipher of values without a header."""
        return AESGCM(self.secret)


class MasterKey:
    """Wraps the data keys, and encrypts with them; ``id`` distinguishes keys, reveals nothing.

    Until the first rotation the key itself is the only data key. ``use`` may be called at any
    time and from any thread: whoever encrypts afterwards uses the newest data key.
    """

    def __init__(self, secret: bytes) -> None:
        """Take exactly 32 secret bytes."""
        if len(secret) != _KEY_BYTES:
            raise MasterKeyMissing(
                f"the master key has {len(secret)} bytes instead of {_KEY_BYTES}; "
                "make one with: openssl rand -base64 32"
            )
        self.id = hashlib.sha256(b"oncebox master key id\0" + secret).hexdigest()[:16]
        self._secret = secret
        own = self.as_data_key()
        self._wrapper = AESGCM(own.derive("wrap data keys"))
        self._data_keys = {0: own}
        self._current = self._oldest = own

    def __repr__(self) -> str:
        """Show the id, never the key."""
        return f"MasterKey(id={self.id!r})"

    # data keys

    def as_data_key(self) -> DataKey:
        """Return this key as the data key of an installation that never rotated it."""
        return DataKey(0, self._secret)

    def use(self, data_keys: Sequence[DataKey], current: int) -> None:
        """Decrypt with these data keys, and encrypt with the generation ``current``."""
        known = {each.generation: each for each in data_keys}
        self._oldest = known[min(known)]
        self._data_keys = known
        self._current = known[current]

    @property
    def generation(self) -> int:
        """The generation of the data key that encrypts."""
        return self._current.generation

    @property
    def header(self) -> bytes:
        """What starts a value that is encrypted now; its data key decides it."""
        return self._current.header

    def wrap(self, data_key: DataKey, random: Callable[[int], bytes] = os.urandom) -> bytes:
        """Return a data key, encrypted for this master key and its generation."""
        nonce = random(_NONCE_BYTES)
        return nonce + self._wrapper.encrypt(nonce, data_key.secret, data_key.header)

    def unwrap(self, generation: int, wrapped: bytes) -> DataKey:
        """Return a data key that ``wrap`` encrypted.

        Raises: MasterKeyWrong.
        """
        bound_to = PREFIX + generation.to_bytes(_GENERATION_BYTES, "big")
        return DataKey(generation, _decrypt(self._wrapper, wrapped, bound_to))

    # values

    def derive(self, purpose: str) -> bytes:
        """Return 32 secret bytes for one purpose, such as an HMAC key; the same for ever.

        They reveal nothing about this key or about those for other purposes.
        """
        return self._oldest.derive(purpose)

    def encrypt(
        self,
        plain: bytes,
        *,
        bound_to: bytes,
        purpose: str = "value",
        random: Callable[[int], bytes] = os.urandom,
    ) -> bytes:
        """Encrypt for this key, purpose and ``bound_to`` only."""
        key, nonce = self._current, random(_NONCE_BYTES)
        return key.header + nonce + key.cipher(purpose).encrypt(nonce, plain, bound_to)

    def decrypt(
        self, sealed: bytes | memoryview, *, bound_to: bytes, purpose: str = "value"
    ) -> bytes:
        """Decrypt a result of ``encrypt`` for the same purpose and ``bound_to``.

        Raises: MasterKeyWrong; DataKeyUnknown, if another process rotates the key just now.
        """
        data_keys = self._data_keys
        if sealed[: len(PREFIX)] != PREFIX:
            if 0 not in data_keys:
                raise MasterKeyWrong(_WRONG)
            return _decrypt(data_keys[0].version_1, sealed, bound_to)
        generation = int.from_bytes(sealed[len(PREFIX) : HEADER_BYTES], "big")
        if generation not in data_keys:
            raise DataKeyUnknown(
                "this value was encrypted with a data key that this process has not read yet; "
                "try again in a few seconds"
            )
        return _decrypt(data_keys[generation].cipher(purpose), sealed[HEADER_BYTES:], bound_to)


def _decrypt(cipher: AESGCM, sealed: bytes | memoryview, bound_to: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError) as error:  # altered, or too short
        raise MasterKeyWrong(_WRONG) from error


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
            f"the master key file {path} cannot be read; put your copy of it back (a backup has "
            "it only with --with-key), or name it with ONCEBOX_MASTER_KEY_FILE"
        ) from error


def load_or_create_master_key(path: Path, random: Callable[[int], bytes] = os.urandom) -> MasterKey:
    """Read or create the key file, readable by its owner only; racing processes agree."""
    if not path.exists():
        write_private_file(path, base64.b64encode(random(_KEY_BYTES)) + b"\n")
    return master_key_from_file(path)
