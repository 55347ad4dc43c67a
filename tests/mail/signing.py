"""Signers: mails signed by dkimpy, with keys as they would be published."""

import base64
import hashlib
import time
from collections.abc import Mapping
from functools import cache

import dkim
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from dkim.canonicalization import CanonicalizationPolicy
from dkim.crypto import parse_pem_private_key

from oncebox.mail.auth.dkim_sign import SigningKey

DOMAIN = "example.com"
SELECTOR = "s1"
NAME = f"{SELECTOR}._domainkey.{DOMAIN}"

MAIL = (
    b"From: Ann <ann@example.com>\r\n"
    b"To: bob@oncebox.test\r\n"
    b"Subject: Your  code\r\n"
    b"Date: Mon, 16 Nov 2026 08:00:00 +0000\r\n"
    b"Message-ID: <1@example.com>\r\n"
    b"\r\n"
    b"Your code is 482913.\r\n"
    b"\r\n"
    b"Bye  \r\n"
    b"\r\n"
)
HEADERS = (b"from", b"to", b"subject", b"date", b"message-id")


def dkim_dns_record(key: SigningKey) -> str:
    """Return the TXT record that publishes the public key."""
    public = key.public_key()
    if isinstance(public, Ed25519PublicKey):
        kind, data = "ed25519", public.public_bytes_raw()
    else:
        kind, data = "rsa", public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"v=DKIM1; k={kind}; p={base64.b64encode(data).decode()}"


def rsa_key(bits: int = 2048) -> tuple[bytes, bytes]:
    """Return a private key as dkimpy takes it, and the record of its public half."""
    return _rsa_key(bits)


@cache
def _rsa_key(bits: int) -> tuple[bytes, bytes]:
    key = generate_private_key(65537, bits)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return private, b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)


@cache
def ed25519_key() -> tuple[bytes, bytes]:
    """Return the same for Ed25519."""
    key = Ed25519PrivateKey.generate()
    private = base64.b64encode(key.private_bytes_raw())
    return private, b"v=DKIM1; k=ed25519; p=" + base64.b64encode(
        key.public_key().public_bytes_raw()
    )


def signed(
    mail: bytes = MAIL,
    *,
    domain: str = DOMAIN,
    selector: str = SELECTOR,
    ed25519: bool = False,
    forms: str = "relaxed/relaxed",
    headers: tuple[bytes, ...] = HEADERS,
    length: bool = False,
    bits: int = 2048,
) -> bytes:
    """Return the mail below its signature."""
    field: bytes = dkim.sign(
        mail,
        selector.encode(),
        domain.encode(),
        ed25519_key()[0] if ed25519 else rsa_key(bits)[0],
        signature_algorithm=b"ed25519-sha256" if ed25519 else b"rsa-sha256",
        canonicalize=tuple(forms.encode().split(b"/")),
        include_headers=list(headers),
        length=length,
    )
    return field + mail


def keys(record: bytes | None = None, name: str = NAME) -> dict[str, list[bytes]]:
    """Return what DNS says about the signer."""
    return {name: [rsa_key()[1] if record is None else record]}


def crafted(changes: Mapping[str, str | None], mail: bytes = MAIL) -> bytes:
    """Return the mail below a true signature with these tags; None takes a tag away."""
    signer = dkim.DKIM(mail)
    signer.hasher = hashlib.sha1 if changes.get("a") == "rsa-sha1" else hashlib.sha256
    policy = CanonicalizationPolicy.from_c_value(b"relaxed/relaxed")
    body_hash = hashlib.sha256(policy.canonicalize_body(signer.body)).digest()
    tags: dict[str, str | None] = {
        "v": "1",
        "a": "rsa-sha256",
        "c": "relaxed/relaxed",
        "d": DOMAIN,
        "s": SELECTOR,
        "t": str(int(time.time())),
        "h": ":".join(name.decode() for name in HEADERS),
        "bh": base64.b64encode(body_hash).decode(),
        **changes,
        "b": "0" * 60,
    }
    names = [name.strip().lower().encode() for name in (tags["h"] or "").split(":")]
    fields = [(tag.encode(), value.encode()) for tag, value in tags.items() if value is not None]
    private = parse_pem_private_key(rsa_key()[0])
    value: bytes = signer.gen_header(fields, names, policy, b"DKIM-Signature", private)
    return b"DKIM-Signature: " + value + mail
