"""DKIM verification (RFC 6376): signatures of a mail checked against published keys.

Everything is linear in the size of the mail, and nothing is fetched: the caller passes the keys.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from oncebox.mail.auth.dkim_message import (
    AmbiguousHeader,
    HeaderField,
    SignedMail,
    canonical_field,
    canonical_fields,
)
from oncebox.mail.mime.addresses import ascii_domain
from oncebox.model.inboxes.received_mail import AuthResult, DkimResult

#: limits of a signature field: bytes, signed header names, white space in a row
_MOST_FIELD = 16 * 1024
_MOST_NAMES = 500
_LONGEST_GAP = re.compile(rb"\s{256}")
#: the b= tag with its value, and the line end behind it
_SIGNATURE_TAG = re.compile(rb"([;\s]b\s*+=)(?:\s*+[a-zA-Z0-9+/=])*+(?:\r\n\Z)?")

#: canonical forms, and whether each is the relaxed one
_FORMS = {b"simple": False, b"relaxed": True}
_ALGORITHMS = {b"rsa-sha256": "rsa", b"ed25519-sha256": "ed25519"}
_NUMBER_VALUE = re.compile(rb"[0-9]{1,12}")
_WHITE_SPACE = re.compile(rb"\s+")


class SignatureUnusable(Exception):
    """A signature or its key is unusable; ``code`` is a key of ``VERDICT_DETAILS``."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class DkimSignature(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of one signature."""

    #: the header field of the signature
    field: HeaderField
    domain: str
    selector: str
    #: the domain of i=
    identity: str
    #: rsa or ed25519
    algorithm: str
    #: the canonical forms of header and body
    relaxed_header: bool
    relaxed_body: bool
    #: the signed fields, in lower case, in order
    names: tuple[bytes, ...]
    body_hash: bytes
    signature: bytes
    #: how many bytes of the body are signed; None: all
    length: int | None
    #: milliseconds since 1970
    signed_at: int | None
    expires_at: int | None


def read_domain_and_selector(field: HeaderField) -> tuple[str, str]:
    """Return domain and selector of a signature, empty where they cannot be read."""
    try:
        tags = _signature_tags(field)
    except SignatureUnusable:
        return "", ""
    return _domain_name(tags.get(b"d", b"")), _domain_name(tags.get(b"s", b""))


def read_signature(field: HeaderField) -> DkimSignature:
    """Return the signature in a header field.

    Raises: SignatureUnusable.
    """
    tags = _signature_tags(field)
    if tags.get(b"v") != b"1" or tags.get(b"q", b"dns/txt") != b"dns/txt":
        raise SignatureUnusable("dkim_invalid")
    domain, selector = _domain_name(tags.get(b"d", b"")), _domain_name(tags.get(b"s", b""))
    identity = _identity(tags, domain)
    if not domain or not selector or not (identity == domain or identity.endswith(f".{domain}")):
        raise SignatureUnusable("dkim_invalid")
    relaxed_header, relaxed_body = _canonical_forms(tags)
    return DkimSignature(
        field=field,
        domain=domain,
        selector=selector,
        identity=identity,
        algorithm=_algorithm(tags),
        relaxed_header=relaxed_header,
        relaxed_body=relaxed_body,
        names=_signed_names(tags),
        body_hash=_decoded_tag(tags, b"bh", "dkim_invalid"),
        signature=_decoded_tag(tags, b"b", "dkim_invalid"),
        length=_number_tag(tags, b"l"),
        signed_at=_time_tag(tags, b"t"),
        expires_at=_time_tag(tags, b"x"),
    )


def _signature_tags(field: HeaderField) -> dict[bytes, bytes]:
    value = field[1]
    if len(value) > _MOST_FIELD or _LONGEST_GAP.search(value):
        raise SignatureUnusable("dkim_invalid")
    return parse_tags(value, "dkim_invalid")


def parse_tags(text: bytes, code: str) -> dict[bytes, bytes]:
    """Return a tag list (RFC 6376, 3.2) by tag.

    Raises: SignatureUnusable, with ``code``, if it is malformed or has a tag twice.
    """
    found: dict[bytes, bytes] = {}
    parts = text.strip().split(b";")
    if not parts[-1]:
        parts.pop()  # a semicolon may end the list
    for part in parts:
        tag, equals, value = part.partition(b"=")
        tag = tag.strip()
        if not equals or not tag[:1].isalpha() or tag in found:
            raise SignatureUnusable(code)
        found[tag] = value.strip()
    return found


def _domain_name(text: bytes) -> str:
    try:
        return ascii_domain(text.decode("utf-8"))
    except UnicodeDecodeError:
        return ""


def _identity(tags: dict[bytes, bytes], domain: str) -> str:
    if b"i" not in tags:
        return domain
    return _domain_name(tags[b"i"].rpartition(b"@")[2])


def _algorithm(tags: dict[bytes, bytes]) -> str:
    named = tags.get(b"a", b"").lower()
    if named == b"rsa-sha1":
        raise SignatureUnusable("dkim_weak_algorithm")
    if named not in _ALGORITHMS:
        raise SignatureUnusable("dkim_invalid")
    return _ALGORITHMS[named]


def _canonical_forms(tags: dict[bytes, bytes]) -> tuple[bool, bool]:
    """Return whether the relaxed form is used, for header and body."""
    header, slash, body = tags.get(b"c", b"simple").lower().partition(b"/")
    try:
        return _FORMS[header], _FORMS[body if slash else b"simple"]
    except KeyError as error:
        raise SignatureUnusable("dkim_invalid") from error


def _signed_names(tags: dict[bytes, bytes]) -> tuple[bytes, ...]:
    names = tuple(name.strip().lower() for name in tags.get(b"h", b"").split(b":"))
    if not all(names) or len(names) > _MOST_NAMES:
        raise SignatureUnusable("dkim_invalid")
    if b"from" not in names:
        raise SignatureUnusable("dkim_from_unsigned")
    return names


def _decoded_tag(tags: dict[bytes, bytes], tag: bytes, code: str) -> bytes:
    try:
        return base64.b64decode(_WHITE_SPACE.sub(b"", tags[tag]), validate=True)
    except (KeyError, binascii.Error) as error:
        raise SignatureUnusable(code) from error


def _number_tag(tags: dict[bytes, bytes], tag: bytes) -> int | None:
    if tag not in tags:
        return None
    if not _NUMBER_VALUE.fullmatch(tags[tag]):
        raise SignatureUnusable("dkim_invalid")
    return int(tags[tag])


def _time_tag(tags: dict[bytes, bytes], tag: bytes) -> int | None:
    seconds = _number_tag(tags, tag)
    return None if seconds is None else seconds * 1000


#: limits of a key: bytes of its record, bits of an RSA key (RFC 8301; larger ones are slow)
_MOST_RECORD = 4_096
_FEWEST_BITS = 1_024
_MOST_BITS = 8_192
#: DER (X.690): tags, and the flag of a length of several bytes
_INTEGER, _BIT_STRING, _SEQUENCE = b"\x02", b"\x03", b"\x30"
_LONG_LENGTH = 0x80


class PublishedKey(msgspec.Struct, frozen=True):
    """A public key and the flags of its record."""

    public: RSAPublicKey | Ed25519PublicKey
    #: the owner only tests DKIM (t=y)
    testing: bool

    def fits(self, signature: bytes, digest: bytes) -> bool:
        """Say whether this key made the signature of a digest."""
        try:
            if isinstance(self.public, RSAPublicKey):
                self.public.verify(signature, digest, PKCS1v15(), Prehashed(SHA256()))
            else:
                self.public.verify(signature, digest)
        except InvalidSignature:
            return False
        return True


def read_published_key(records: Sequence[bytes], signature: DkimSignature) -> PublishedKey:
    """Return the published key of a signature.

    Raises: SignatureUnusable.
    """
    tags = _key_tags(records)
    if not tags.get(b"p"):
        raise SignatureUnusable("dkim_no_key")
    flags = _list_tag(tags, b"t")
    algorithm = tags.get(b"k", b"rsa").lower().decode("ascii", "replace")
    good = (
        tags.get(b"v", b"DKIM1") == b"DKIM1"
        and algorithm == signature.algorithm
        and b"sha256" in (_list_tag(tags, b"h") or [b"sha256"])
        and bool({b"*", b"email"} & set(_list_tag(tags, b"s") or [b"*"]))
        and (b"s" not in flags or signature.identity == signature.domain)
    )
    if not good:
        raise SignatureUnusable("dkim_key_invalid")
    encoded = _decoded_tag(tags, b"p", "dkim_key_invalid")
    try:
        key = (
            _rsa_key(encoded) if algorithm == "rsa" else Ed25519PublicKey.from_public_bytes(encoded)
        )
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SignatureUnusable("dkim_key_invalid") from error
    return PublishedKey(key, b"y" in flags)


def _key_tags(records: Sequence[bytes]) -> dict[bytes, bytes]:
    likely = [record for record in records if b"p=" in _WHITE_SPACE.sub(b"", record[:_MOST_RECORD])]
    if not likely:
        raise SignatureUnusable("dkim_no_key")
    if len(likely) > 1 or len(likely[0]) > _MOST_RECORD:
        raise SignatureUnusable("dkim_key_invalid")
    return parse_tags(likely[0], "dkim_key_invalid")


def _list_tag(tags: dict[bytes, bytes], tag: bytes) -> list[bytes]:
    return [word.strip().lower() for word in tags.get(tag, b"").split(b":") if word.strip()]


def _rsa_key(encoded: bytes) -> RSAPublicKey:
    # cryptography refuses to load a short key, so its size is read before.
    bits = rsa_bits(encoded)
    if bits < _FEWEST_BITS:
        raise SignatureUnusable("dkim_weak_key")
    key = load_der_public_key(encoded) if bits <= _MOST_BITS else None
    if not isinstance(key, RSAPublicKey):
        raise SignatureUnusable("dkim_key_invalid")
    return key


def rsa_bits(encoded: bytes) -> int:
    """Return the size of an RSA key in DER: SubjectPublicKeyInfo, or RSAPublicKey alone.

    Raises: SignatureUnusable.
    """
    key, _ = _der_value(encoded, _SEQUENCE)
    if key[:1] == _SEQUENCE:
        _, rest = _der_value(key, _SEQUENCE)
        bits, _ = _der_value(rest, _BIT_STRING)
        key, _ = _der_value(bits[1:], _SEQUENCE)
    modulus, _ = _der_value(key, _INTEGER)
    return int.from_bytes(modulus).bit_length()


def _der_value(data: bytes, tag: bytes) -> tuple[bytes, bytes]:
    """Return the value of the DER element at the beginning of data, and the rest of data."""
    start, length = 2, data[1] if len(data) > 1 else 0
    if length & _LONG_LENGTH:
        start += length & ~_LONG_LENGTH
        length = int.from_bytes(data[2:start])
    if data[:1] != tag or len(data) < start + length:
        raise SignatureUnusable("dkim_key_invalid")
    return data[start : start + length], data[start + length :]


#: signatures of a mail that are checked; real mail has one to three
MOST_SIGNATURES = 5

_SIGNATURE_FIELD = b"dkim-signature"
_REPORTED_FIELDS = (b"cc", b"date", b"from", b"subject", b"to")
#: fields that a mail has once (RFC 5322, RFC 2045); mail programs show the topmost of several
_SINGLETON_FIELDS = frozenset({
    b"bcc", b"cc", b"content-description", b"content-disposition", b"content-id",
    b"content-transfer-encoding", b"content-type", b"date", b"from", b"in-reply-to",
    b"message-id", b"mime-version", b"references", b"reply-to", b"sender", b"subject", b"to",
})  # fmt: skip
#: the result for a code; for every other code it is a permanent error
_RESULT_BY_CODE = {
    "dkim_body_changed": AuthResult.FAIL,
    "dkim_mismatch": AuthResult.FAIL,
    "dkim_key_unreachable": AuthResult.TEMPERROR,
}
_INVALID_RESULT = DkimResult(result=AuthResult.PERMERROR, flags=("dkim_invalid",))


def dkim_key_name(domain: str, selector: str) -> str:
    """Return the DNS name of a key; empty if domain or selector is not valid."""
    parts = (ascii_domain(selector), "_domainkey", ascii_domain(domain))
    return ascii_domain(".".join(parts)) if all(parts) else ""


def check_dkim(raw: bytes, answers: Mapping[str, list[bytes]]) -> tuple[DkimResult, ...]:
    """Return the result of each signature of a mail, the topmost first; never raises.

    ``answers`` holds the TXT records by ``dkim_key_name``: an empty list if there are none. A
    missing name could not be looked up.
    """
    try:
        return _check_signatures(raw, answers)
    except Exception:  # noqa: BLE001 - untrusted input: fail closed
        return (_INVALID_RESULT,)


def _check_signatures(raw: bytes, answers: Mapping[str, list[bytes]]) -> tuple[DkimResult, ...]:
    try:
        mail = SignedMail(raw)
    except AmbiguousHeader:
        return (DkimResult(result=AuthResult.PERMERROR, flags=("dkim_odd_lines",)),)
    signed = [field for field in mail.fields if field[0].lower() == _SIGNATURE_FIELD]
    results = [_check_signature(mail, field, answers) for field in signed[:MOST_SIGNATURES]]
    if len(signed) > MOST_SIGNATURES:
        results.append(DkimResult(result=AuthResult.NEUTRAL, flags=("dkim_many",)))
    return tuple(results)


def _check_signature(
    mail: SignedMail, field: HeaderField, answers: Mapping[str, list[bytes]]
) -> DkimResult:
    try:
        signature = read_signature(field)
        return _verify_signature(mail, signature, answers)
    except SignatureUnusable as error:
        domain, selector = read_domain_and_selector(field)
        result = _RESULT_BY_CODE.get(error.code, AuthResult.PERMERROR)
        return DkimResult(result=result, domain=domain, selector=selector, flags=(error.code,))
    except Exception:  # noqa: BLE001 - the other signatures must still be checked
        return _INVALID_RESULT


def _verify_signature(
    mail: SignedMail, signature: DkimSignature, answers: Mapping[str, list[bytes]]
) -> DkimResult:
    name = dkim_key_name(signature.domain, signature.selector)
    if name not in answers:
        raise SignatureUnusable("dkim_key_unreachable" if name else "dkim_invalid")
    key = read_published_key(answers[name], signature)
    partly = _check_body(mail, signature)
    # One more of each than was signed: a second one in the mail then breaks the signature.
    names = [*signature.names, *sorted(_SINGLETON_FIELDS.intersection(signature.names))]
    digest = header_digest(mail.fields, names, signature.field, relaxed=signature.relaxed_header)
    if not key.fits(signature.signature, digest):
        raise SignatureUnusable("dkim_mismatch")
    flags = {"dkim_testing": key.testing, "dkim_body_partly": partly}
    return DkimResult(
        # Anybody may have added the rest of the body, so a partial signature proves nothing.
        result=AuthResult.NEUTRAL if partly else AuthResult.PASS,
        domain=signature.domain,
        selector=signature.selector,
        covers=_covered_fields(mail, signature),
        flags=tuple(flag for flag, raised in flags.items() if raised),
        signed_at=signature.signed_at,
        expires_at=signature.expires_at,
    )


def _check_body(mail: SignedMail, signature: DkimSignature) -> bool:
    """Say whether only the beginning of the body is signed.

    Raises: SignatureUnusable, if the body is not the signed one.
    """
    relaxed, length = signature.relaxed_body, signature.length
    size = mail.body_size(relaxed=relaxed)
    if length is not None and length > size:
        raise SignatureUnusable("dkim_body_changed")
    if mail.body_digest(relaxed=relaxed, length=length) != signature.body_hash:
        raise SignatureUnusable("dkim_body_changed")
    return length is not None and length < size


def header_digest(
    fields: Sequence[HeaderField], names: Sequence[bytes], signature: HeaderField, *, relaxed: bool
) -> bytes:
    """Return the SHA-256 of the signed fields and of the signature field without its b= value."""
    digest = hashlib.sha256(canonical_fields(fields, names, relaxed=relaxed))
    bare = (signature[0], _SIGNATURE_TAG.sub(rb"\1", signature[1]))
    digest.update(canonical_field(bare, relaxed=relaxed).rstrip())
    return digest.digest()


def _covered_fields(mail: SignedMail, signature: DkimSignature) -> tuple[str, ...]:
    present = [name.lower() for name, _ in mail.fields]
    # Which one of two fields a mail program shows is unknown. That there is none may be signed too.
    return tuple(
        name.decode()
        for name in _REPORTED_FIELDS
        if present.count(name) <= 1 and name in signature.names
    )
