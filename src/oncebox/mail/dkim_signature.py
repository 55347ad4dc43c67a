"""One DKIM-Signature field: its tags, read as RFC 6376 spells them and RFC 8301 limits them."""

import base64
import binascii
import re

import msgspec
from dkim.canonicalization import CanonicalizationPolicy, InvalidCanonicalizationPolicyError
from dkim.util import InvalidTagValueList, parse_tag_value

from oncebox.mail.dkim_message import Field
from oncebox.mail.names import ascii_name

#: bytes of one field, and header names it may list
_MOST_FIELD = 16 * 1024
_MOST_NAMES = 500
#: the expression that finds b= takes its time over long empty stretches
_LONGEST_GAP = re.compile(rb"\s{256}")

_ALGORITHMS = {b"rsa-sha256": "rsa", b"ed25519-sha256": "ed25519"}
_NUMBER = re.compile(rb"[0-9]{1,12}")
_SPACE = re.compile(rb"\s+")


class Unusable(Exception):
    """A signature or its key cannot count; ``code`` says why."""

    def __init__(self, code: str) -> None:
        """Take a code of the verdict's details."""
        super().__init__(code)
        self.code = code


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What one signature says about itself."""

    #: the field it stands in
    field: Field
    domain: str
    selector: str
    #: the part of i= behind the @
    identity: str
    #: rsa or ed25519
    algorithm: str
    #: the forms in which header and body are signed
    policy: CanonicalizationPolicy
    relaxed_body: bool
    #: the signed fields, in lower case, in order
    names: tuple[bytes, ...]
    body_hash: bytes
    signature: bytes
    #: how much of the body is signed; None is all
    length: int | None
    #: seconds since 1970
    signed_at: int | None
    expires_at: int | None


def read_place(field: Field) -> tuple[str, str]:
    """Return domain and selector of a signature, empty where they cannot be read."""
    try:
        tags = _tags(field)
    except Unusable:
        return "", ""
    return _name(tags.get(b"d", b"")), _name(tags.get(b"s", b""))


def read_signature(field: Field) -> Signature:
    """Return what the field says.

    Raises: Unusable.
    """
    tags = _tags(field)
    if tags.get(b"v") != b"1" or tags.get(b"q", b"dns/txt") != b"dns/txt":
        raise Unusable("dkim_invalid")
    domain, selector = _name(tags.get(b"d", b"")), _name(tags.get(b"s", b""))
    identity = _identity(tags, domain)
    if not domain or not selector or not (identity == domain or identity.endswith(f".{domain}")):
        raise Unusable("dkim_invalid")
    policy = _policy(tags)
    return Signature(
        field=field,
        domain=domain,
        selector=selector,
        identity=identity,
        algorithm=_algorithm(tags),
        policy=policy,
        relaxed_body=policy.body_algorithm.name == b"relaxed",
        names=_names(tags),
        body_hash=_decoded(tags, b"bh"),
        signature=_decoded(tags, b"b"),
        length=_number(tags, b"l"),
        signed_at=_number(tags, b"t"),
        expires_at=_number(tags, b"x"),
    )


def _tags(field: Field) -> dict[bytes, bytes]:
    value = field[1]
    if len(value) > _MOST_FIELD or _LONGEST_GAP.search(value):
        raise Unusable("dkim_invalid")
    try:
        found: dict[bytes, bytes] = parse_tag_value(value)
    except InvalidTagValueList as error:
        raise Unusable("dkim_invalid") from error
    return found


def _name(text: bytes) -> str:
    try:
        return ascii_name(text.decode("utf-8"))
    except UnicodeDecodeError:
        return ""


def _identity(tags: dict[bytes, bytes], domain: str) -> str:
    if b"i" not in tags:
        return domain
    return _name(tags[b"i"].rpartition(b"@")[2])


def _algorithm(tags: dict[bytes, bytes]) -> str:
    named = tags.get(b"a", b"").lower()
    if named == b"rsa-sha1":
        raise Unusable("dkim_weak_algorithm")
    if named not in _ALGORITHMS:
        raise Unusable("dkim_invalid")
    return _ALGORITHMS[named]


def _policy(tags: dict[bytes, bytes]) -> CanonicalizationPolicy:
    try:
        return CanonicalizationPolicy.from_c_value(tags.get(b"c", b"simple/simple").lower())
    except InvalidCanonicalizationPolicyError as error:
        raise Unusable("dkim_invalid") from error


def _names(tags: dict[bytes, bytes]) -> tuple[bytes, ...]:
    names = tuple(name.strip().lower() for name in tags.get(b"h", b"").split(b":"))
    if not all(names) or len(names) > _MOST_NAMES:
        raise Unusable("dkim_invalid")
    if b"from" not in names:
        raise Unusable("dkim_from_unsigned")
    return names


def _decoded(tags: dict[bytes, bytes], tag: bytes) -> bytes:
    try:
        return base64.b64decode(_SPACE.sub(b"", tags[tag]), validate=True)
    except (KeyError, binascii.Error) as error:
        raise Unusable("dkim_invalid") from error


def _number(tags: dict[bytes, bytes], tag: bytes) -> int | None:
    if tag not in tags:
        return None
    if not _NUMBER.fullmatch(tags[tag]):
        raise Unusable("dkim_invalid")
    return int(tags[tag])
