"""The keys that signers publish in DNS."""

import base64
import binascii
import re
from collections.abc import Sequence

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key
from dkim.crypto import UnparsableKeyError, parse_public_key
from dkim.util import InvalidTagValueList, parse_tag_value

from oncebox.mail.dkim_signature import Signature, Unusable

#: bytes of one record; bits of an RSA key (RFC 8301, and what can be checked in no time)
_MOST_RECORD = 4_096
_FEWEST_BITS = 1_024
_MOST_BITS = 8_192

_SPACE = re.compile(rb"\s+")


class Key(msgspec.Struct, frozen=True):
    """A key and what its owner says about it."""

    public: RSAPublicKey | Ed25519PublicKey
    #: the owner only tests
    testing: bool

    def fits(self, signature: bytes, digest: bytes) -> bool:
        """Say whether the signature is this key's, over this digest."""
        try:
            if isinstance(self.public, RSAPublicKey):
                self.public.verify(signature, digest, PKCS1v15(), Prehashed(SHA256()))
            else:
                self.public.verify(signature, digest)
        except InvalidSignature:
            return False
        return True


def read_key(records: Sequence[bytes], signature: Signature) -> Key:
    """Return the key that shall have made the signature.

    Raises: Unusable.
    """
    tags = _tags(records)
    if not tags.get(b"p"):
        raise Unusable("dkim_no_key")
    flags = _list(tags, b"t")
    algorithm = tags.get(b"k", b"rsa").lower().decode("ascii", "replace")
    good = (
        tags.get(b"v", b"DKIM1") == b"DKIM1"
        and algorithm == signature.algorithm
        and b"sha256" in (_list(tags, b"h") or [b"sha256"])
        and bool({b"*", b"email"} & set(_list(tags, b"s") or [b"*"]))
        and (b"s" not in flags or signature.identity == signature.domain)
    )
    if not good:
        raise Unusable("dkim_key_invalid")
    try:
        encoded = base64.b64decode(_SPACE.sub(b"", tags[b"p"]), validate=True)
    except binascii.Error as error:
        raise Unusable("dkim_key_invalid") from error
    return Key(_rsa(encoded) if algorithm == "rsa" else _ed25519(encoded), b"y" in flags)


def _tags(records: Sequence[bytes]) -> dict[bytes, bytes]:
    likely = [record for record in records if b"p=" in _SPACE.sub(b"", record[:_MOST_RECORD])]
    if not likely:
        raise Unusable("dkim_no_key")
    if len(likely) > 1 or len(likely[0]) > _MOST_RECORD:
        raise Unusable("dkim_key_invalid")
    try:
        found: dict[bytes, bytes] = parse_tag_value(likely[0])
    except InvalidTagValueList as error:
        raise Unusable("dkim_key_invalid") from error
    return found


def _list(tags: dict[bytes, bytes], tag: bytes) -> list[bytes]:
    return [word.strip().lower() for word in tags.get(tag, b"").split(b":") if word.strip()]


def _rsa(encoded: bytes) -> RSAPublicKey:
    # cryptography does not load a short key at all, so its size is looked at before.
    bits = _bits(encoded)
    if bits < _FEWEST_BITS:
        raise Unusable("dkim_weak_key")
    if bits > _MOST_BITS:
        raise Unusable("dkim_key_invalid")
    try:
        key = load_der_public_key(encoded)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Unusable("dkim_key_invalid") from error
    if not isinstance(key, RSAPublicKey):
        raise Unusable("dkim_key_invalid")
    return key


def _bits(encoded: bytes) -> int:
    try:
        modulus: int = parse_public_key(encoded)["modulus"]
    except (UnparsableKeyError, LookupError, TypeError, ValueError) as error:
        raise Unusable("dkim_key_invalid") from error
    return modulus.bit_length()


def _ed25519(encoded: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(encoded)
    except ValueError as error:
        raise Unusable("dkim_key_invalid") from error
