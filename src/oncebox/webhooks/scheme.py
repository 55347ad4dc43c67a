"""`Scheme`: one provider's signature format as a table; verifier and handshake types."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Protocol

import msgspec

from oncebox.webhooks.http_request import WebhookRequest


class FieldPath(msgspec.Struct, frozen=True):
    """The path of an id or a type, and whether the signature covers it.

    ``$.id`` is in the JSON of the event, ``^.object`` in that of the whole request, ``form:token``
    in a form, ``header:x-id`` in a header, ``standard:id`` in the family of headers that was
    verified, ``=inbound`` is a constant. ``+`` joins several, ``?`` marks optional ones.
    """

    path: str
    signed: bool


def signed(path: str) -> FieldPath:
    """Return a path that the signature covers."""
    return FieldPath(path, signed=True)


def unsigned(path: str) -> FieldPath:
    """Return a path that the signature does not cover."""
    return FieldPath(path, signed=False)


class SchemeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a source for its scheme."""

    #: seconds a signature stays fresh, both ways; 0 is for ever
    window: Annotated[int, msgspec.Meta(ge=0)] | None = None
    #: the address as the sender knows it, for schemes that sign it; the query is the request's
    public_url: str = ""
    #: allowed SNS topics
    topics: tuple[str, ...] = ()
    #: S3 buckets that mail is fetched from
    buckets: tuple[str, ...] = ()
    #: their AWS region; that of the topic unless set
    region: str = ""
    #: where mail is fetched; the provider's own address unless set
    api_url: str = ""
    #: what Meta sends back at registration
    verify_token: str = ""
    #: the header that holds the signature or the token
    header: str = ""
    #: ``sha1``, ``sha256``, ``sha384`` or ``sha512``
    algorithm: str = ""
    #: ``hex``, ``HEX``, ``base64`` or ``base64url``
    encoding: str = ""
    #: prefix of the signature, such as ``sha256=``; the default prefix is optional
    prefix: str | None = None
    #: separator of several signatures
    separator: str = ""
    #: what is signed, such as ``{timestamp}.{body}``
    content: str = ""
    #: the header that holds the timestamp
    timestamp: str = ""
    #: ``s``, ``ms`` or ``iso``
    unit: str = ""
    #: path of the id, such as ``$.id`` or ``header:x-delivery``
    id: str = ""
    #: path of the type
    type: str = ""
    #: path of the list of events, such as ``$.events[*]``
    batch: str = ""
    #: members that change from one attempt to the next, such as ``$.attempt``
    volatile: tuple[str, ...] = ()
    #: accept unsigned requests
    allow_unsigned: bool = False


NO_OPTIONS = SchemeOptions()


class PublicKeys(Protocol):
    """Public keys that were fetched before: certificates by address, JWKs by id."""

    def get(self, name: str, /) -> str | None:
        """Return a key, or None if it is not here."""


NO_PUBLIC_KEYS: PublicKeys = dict[str, str]()


class VerificationContext(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a verifier."""

    scheme: "Scheme"
    request: WebhookRequest
    secrets: Sequence[str]
    #: the receive clock in milliseconds; None judges no time
    now: int | None
    options: SchemeOptions = NO_OPTIONS
    keys: PublicKeys = NO_PUBLIC_KEYS

    def __repr__(self) -> str:  # without the secrets
        return f"VerificationContext({self.scheme.name})"


class SignatureMatch(msgspec.Struct, frozen=True):
    """The matching secret, and when the request was signed."""

    #: its index among the secrets; -1 for a fetched key, or for none at all
    secret_index: int
    #: milliseconds, where the signature covers a time
    signed_at: int | None = None


class HandshakeReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a handshake."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class SubscriptionConfirmation(msgspec.Struct, frozen=True):
    """A subscription that is confirmed by fetching an address of its provider."""

    url: str


Verifier = Callable[[VerificationContext], SignatureMatch]
#: answers a registration request, or None if it is none; the second argument verifies it
HandshakeHandler = Callable[
    [VerificationContext, Callable[[], object]], HandshakeReply | SubscriptionConfirmation | None
]


class Scheme(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """How one provider signs, and where the parts of its requests are."""

    name: str
    title: str
    #: the header that holds the signature
    header: str = ""
    #: further headers that may hold one, such as during a rotation
    extra_headers: tuple[str, ...] = ()
    #: prefix of the whole list
    header_prefix: str = ""
    #: separator of several entries; empty: there is one
    separator: str = ""
    #: prefixes of signatures, and the hash for each
    signature_prefixes: tuple[tuple[str, str], ...] = (("", "sha256"),)
    #: prefix of the entry with the time
    timestamp_prefix: str = ""
    #: path of the time otherwise: ``header:…``, or ``$.…`` in the body
    timestamp: str = ""
    unit: str = "s"
    #: what is signed
    content: str = "{body}"
    #: a keyed hash; ``False``: a plain one, with the secret in the content
    keyed: bool = True
    encoding: str = "hex"
    #: how the key comes out of the secret: ``utf8``, ``whsec`` or ``whsec-or-utf8``
    key: str = "utf8"
    #: the name of the algorithm, where ``signature_prefixes`` do not tell it
    algorithm: str = ""
    #: other spellings of the address that the sender may have signed
    url_variants: Callable[[str], Sequence[str]] | None = None
    #: seconds, both ways; None is for ever
    window: int | None = None
    #: the default for valid signatures outside the window: ``hold`` or ``run``
    late: str = "hold"
    #: what the signature covers, in words
    covers: tuple[str, ...] = ("body",)
    id: tuple[FieldPath, ...] = ()
    type: tuple[FieldPath, ...] = ()
    batch: str = ""
    #: members that change from one attempt to the next; no part of the fingerprint
    volatile: tuple[str, ...] = ()
    #: several spellings of a body have the same signature, which is then the fingerprint
    malleable: bool = False
    #: the body may come compressed
    gzip: bool = False
    #: options beyond those that every scheme takes
    accepted_options: tuple[str, ...] = ()
    #: whether it works without a secret, because keys are fetched or nothing is checked
    keyless: bool = False
    #: whether the header holds the secret itself; such values are never stored
    sends_secret: bool = False
    #: for providers that no table can describe
    verifier: Verifier | None = None
    handshake: HandshakeHandler | None = None
    #: the headers that the signature of this very request covers
    signed_headers: Callable[[WebhookRequest], frozenset[str]] | None = None
    #: a hint or a warning
    note: str = ""

    @cached_property
    def id_signed(self) -> bool:
        """Whether every place an id is taken from is covered by the signature."""
        return bool(self.id) and all(place.signed for place in self.id)

    @cached_property
    def type_signed(self) -> bool:
        """Whether every place a type is taken from is covered by the signature."""
        return bool(self.type) and all(place.signed for place in self.type)

    @cached_property
    def header_names(self) -> tuple[str, ...]:
        """The headers that may hold a signature, in lower case."""
        return tuple(name.lower() for name in (self.header, *self.extra_headers) if name)

    @cached_property
    def algorithm_label(self) -> str:
        """The algorithm as shown to users."""
        if self.algorithm:
            return self.algorithm
        names = dict.fromkeys(
            f"SHA-{name.removeprefix('sha')}" for _, name in self.signature_prefixes
        )
        return f"{'HMAC-' if self.keyed else ''}{' or '.join(names)}"

    def covers_path(self, path: str) -> bool:
        """Return whether the signature covers a path."""
        return all(self._covers_part(part) for part in path.split("+"))

    def _covers_part(self, part: str) -> bool:
        root, _, name = part.rstrip("?").partition(":")
        if root == "header":
            return f"{{header:{name.lower()}}}" in self.content.lower()
        return root == "standard" or part.startswith("=") or "body" in self.covers
