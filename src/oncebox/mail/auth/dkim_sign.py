"""DKIM signing (RFC 6376, RFC 8463) of outgoing mail, and its keys.

Each field that a mail program shows is listed once more than it occurs, so a second From or
Subject that is added later breaks the signature.
"""

import base64
import binascii
import hashlib
import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from oncebox.errors.mail import AddressInvalid
from oncebox.errors.sends import SigningInvalid
from oncebox.mail.auth.dkim_message import (
    AmbiguousHeader,
    SignedMail,
    canonical_field,
    canonical_fields,
)
from oncebox.mail.auth.dkim_verify import dkim_key_name
from oncebox.model.inboxes.addresses import domain_key

SigningKey = RSAPrivateKey | Ed25519PrivateKey

#: in the order of the h= tag
_SIGNED_FIELDS = (
    b"from", b"to", b"cc", b"reply-to", b"subject", b"date", b"message-id", b"in-reply-to",
    b"references", b"auto-submitted", b"list-unsubscribe", b"list-unsubscribe-post",
    b"mime-version", b"content-type", b"content-transfer-encoding",
)  # fmt: skip
_FIELD_NAME = b"DKIM-Signature"
_FOLD = "\r\n "
_WIDTH = 70
_FEWEST_BITS, _MOST_BITS = 1_024, 8_192
_SEED_BYTES = 32
_SELECTOR = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9-]{1,63})*")


def sign_dkim(message: bytes, *, domain: str, selector: str, key: SigningKey, now: int) -> bytes:
    """Return the signature field to prepend to a message; ``now`` is in milliseconds.

    Raises: SigningInvalid.
    """
    place = _location_tags(domain, selector)
    try:
        mail = SignedMail(message)
    except AmbiguousHeader as error:
        raise SigningInvalid("the message has a header that programs read differently") from error
    present = [name.lower() for name, _ in mail.fields]
    if present.count(b"from") != 1:
        raise SigningInvalid("the message has no From, or several")
    names = [name for name in _SIGNED_FIELDS for _ in range(present.count(name) + 1)]
    algorithm = "rsa" if isinstance(key, RSAPrivateKey) else "ed25519"
    tags = (
        f" v=1; a={algorithm}-sha256; c=relaxed/relaxed; {place};{_FOLD}t={now // 1000};"
        f"{_FOLD}h={_folded_names(names)};"
        f"{_FOLD}bh={_base64(mail.body_digest(relaxed=True, length=None))};{_FOLD}b="
    )
    digest = hashlib.sha256(canonical_fields(mail.fields, names, relaxed=True))
    digest.update(canonical_field((_FIELD_NAME, tags.encode("ascii")), relaxed=True).rstrip())
    written = _base64(_signature(key, digest.digest()))
    lines = [written[at : at + _WIDTH] for at in range(0, len(written), _WIDTH)]
    return b"%s:%s%s\r\n" % (_FIELD_NAME, tags.encode("ascii"), _FOLD.join(lines).encode("ascii"))


def read_signing_key(text: bytes) -> SigningKey:
    """Return a private key: PEM without a password, or the base64 of an Ed25519 seed.

    Raises: SigningInvalid.
    """
    if b"-----BEGIN" not in text:
        return _ed25519_from_seed(text)
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The message of the cause may quote the key.
        raise SigningInvalid(f"the key cannot be read; {_REMEDY}") from None
    if isinstance(key, RSAPrivateKey) and _FEWEST_BITS <= key.key_size <= _MOST_BITS:
        return key
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise SigningInvalid(f"DKIM has no such keys; {_REMEDY}")


def _ed25519_from_seed(text: bytes) -> SigningKey:
    try:
        seed = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        seed = b""
    if len(seed) != _SEED_BYTES:
        raise SigningInvalid(f"the key cannot be read; {_REMEDY}")
    return Ed25519PrivateKey.from_private_bytes(seed)


def _location_tags(domain: str, selector: str) -> str:
    try:
        name = domain_key(domain)
    except AddressInvalid as error:
        raise SigningInvalid("that is no domain to sign for") from error
    if not _SELECTOR.fullmatch(selector.lower()) or not dkim_key_name(name, selector):
        raise SigningInvalid("a selector is a name such as mail2026, in letters, digits and -")
    return f"d={name};{_FOLD}s={selector.lower()}"


def _folded_names(names: list[bytes]) -> str:
    """Return the names of the signed fields, folded to lines of limited width."""
    listed = ""
    width = 0
    for name in names:
        written = name.decode("ascii")
        width += len(written) + 1
        if width > _WIDTH:
            listed += f":{_FOLD}{written}"
            width = len(written) + 1
        else:
            listed += f":{written}"
    return listed.removeprefix(":")


def _signature(key: SigningKey, digest: bytes) -> bytes:
    if isinstance(key, RSAPrivateKey):
        return key.sign(digest, PKCS1v15(), Prehashed(SHA256()))
    return key.sign(digest)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


_REMEDY = "make one with: openssl genpkey -algorithm ed25519, or rsa with 2048 bits"
