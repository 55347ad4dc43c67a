"""Explanation of a failed verification: common mistakes are undone one by one and retried."""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from oncebox.errors import ConfigInvalid, KeyFetchRequired, SignatureInvalid
from oncebox.webhooks import registry
from oncebox.webhooks.formats import DIGEST_ENCODERS
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import (
    NO_OPTIONS,
    NO_PUBLIC_KEYS,
    PublicKeys,
    Scheme,
    SchemeOptions,
    VerificationContext,
)
from oncebox.webhooks.signing import SECRET_PREFIX
from oncebox.webhooks.verification import (
    REASONS,
    Freshness,
    apply_options,
    match_signature,
    verify,
    window_seconds,
)

_MAX_BODY_BYTES = 1024 * 1024
#: fewer members than these are sorted by chance
_MIN_SORTED_MEMBERS = 3
_BOM = b"\xef\xbb\xbf"
_PORTS = {"https": ":443", "http": ":80"}


def _corrected(context: VerificationContext) -> Iterator[tuple[str, VerificationContext]]:
    """Yield every known mistake, and the context without it."""
    for sentence, correct in _SECRET_CORRECTIONS.items():
        secrets = [correct(secret) for secret in context.secrets]
        if secrets != list(context.secrets):
            yield sentence, replace(context, secrets=secrets)
    for sentence, changes in _scheme_corrections(context.scheme):
        yield sentence, replace(context, scheme=replace(context.scheme, **changes))
    for sentence, url in _url_corrections(context):
        request = replace(context.request, url=url)
        yield (
            sentence,
            replace(context, request=request, options=replace(context.options, public_url="")),
        )
    if len(context.request.body) <= _MAX_BODY_BYTES:
        for sentence, body in _body_corrections(context.request.body):
            yield sentence, replace(context, request=replace(context.request, body=body))


_SECRET_CORRECTIONS: dict[str, Callable[[str], str]] = {
    "the secret has white space or a line end around it; take it away": str.strip,
    "the secret has quotation marks around it; take them away": lambda text: text.strip("\"'"),
    f"{SECRET_PREFIX} was cut off the secret, but it is part of the key; give the secret whole": (
        lambda text: SECRET_PREFIX + text
    ),
    f"{SECRET_PREFIX} is no part of the key here; give the secret without it": (
        lambda text: text.removeprefix(SECRET_PREFIX)
    ),
}


_KEY_SENTENCES = {
    "utf8": "the secret was taken as it is written",
    "whsec": "the secret was decoded as base64 first",
    "hex": "the secret was decoded as hexadecimal first",
}


def _scheme_corrections(scheme: Scheme) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield other key derivations, encodings and hashes."""
    for key, sentence in _KEY_SENTENCES.items():
        if key != scheme.key:
            yield f"{sentence} by the signer; the scheme {scheme.name} does not", {"key": key}
    if scheme.verifier is not None:
        return
    for encoding in DIGEST_ENCODERS:
        if encoding != scheme.encoding:
            yield (
                f"the signature is written in {encoding}; {scheme.name} writes {scheme.encoding}",
                {"encoding": encoding},
            )
    for algorithm in ("sha1", "sha256", "sha512"):
        marks = tuple(dict.fromkeys((mark, algorithm) for mark, _ in scheme.signature_prefixes))
        yield (
            f"the signature was made with {algorithm}, which {scheme.name} does not use",
            {"signature_prefixes": marks},
        )


def _url_corrections(context: VerificationContext) -> Iterator[tuple[str, str]]:
    """Yield the addresses that the sender may have called in front of a proxy."""
    if "address" not in context.scheme.covers:
        return
    url = context.options.public_url or context.request.url
    try:
        parts = urlsplit(url)
        hosts = _candidate_hosts(context, parts.netloc)
    except ValueError:
        return
    paths = dict.fromkeys((parts.path, f"{parts.path}/", parts.path.rstrip("/")))
    seen = {url}
    for host in hosts:
        for scheme in ("https", "http"):
            for path in paths:
                for query in dict.fromkeys((parts.query, "")):
                    spelled = urlunsplit((scheme, host, path, query, ""))
                    if spelled not in seen:
                        seen.add(spelled)
                        shown = re.sub(r"//[^/@]*@", "//…@", spelled)
                        yield (
                            f"the sender signed the address {shown}; set the public URL to it",
                            spelled,
                        )


def _candidate_hosts(context: VerificationContext, netloc: str) -> list[str]:
    table = context.request.headers_by_name
    named = (table.get(name, "") for name in ("x-forwarded-host", "host"))
    hosts = [
        netloc,
        *(name.strip() for name in named if re.fullmatch(r"[\w.:\[\]-]+", name.strip())),
    ]
    bare = [re.sub(r":[0-9]+$", "", host) for host in hosts]
    ported = [host + port for host in bare for port in _PORTS.values()]
    return list(dict.fromkeys((*hosts, *bare, *ported)))


def _body_corrections(body: bytes) -> Iterator[tuple[str, bytes]]:
    unix_body = body.replace(b"\r\n", b"\n")
    for sentence, changed in (
        ("a line end was added to the body", body.removesuffix(b"\n")),
        ("a line end was added to the body", body.removesuffix(b"\r\n")),
        ("the line end at the end of the body was lost", body + b"\n"),
        ("the line end at the end of the body was lost", body + b"\r\n"),
        ("white space around the body was added", body.strip()),
        ("the line ends in the body were changed to CR LF", unix_body),
        ("the line ends in the body were changed to LF", unix_body.replace(b"\n", b"\r\n")),
        ("a byte order mark was put before the body", body.removeprefix(_BOM)),
        ("the byte order mark before the body was lost", _BOM + body),
        ("the body must be unpacked first", _gunzipped(body)),
    ):
        if changed != body:
            yield f"{sentence}; pass on the raw bytes", changed
    for changed in _json_spellings(body):
        if changed != body:
            yield (
                "the body was read as JSON and written again; sign and verify the raw bytes",
                changed,
            )


def _gunzipped(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(body, _MAX_BODY_BYTES)
    except zlib.error:
        return body


def _json_spellings(body: bytes) -> Iterator[bytes]:
    """Yield the same JSON as the usual libraries would write it."""
    try:
        value = json.loads(body)
        for ascii_ in (True, False):
            for sorted_ in (False, True):
                for shape in _JSON_LAYOUTS:
                    text = json.dumps(value, ensure_ascii=ascii_, sort_keys=sorted_, **shape)
                    yield from _escape_variants(text)
    except (ValueError, RecursionError, TypeError):
        return


def _looks_sorted(body: bytes) -> bool:
    """Say whether the members are sorted: their original order is lost then."""
    try:
        value = json.loads(body) if len(body) <= _MAX_BODY_BYTES else None
        if not isinstance(value, dict) or len(value) < _MIN_SORTED_MEMBERS:
            return False
        return list(value) == sorted(value)
    except (ValueError, RecursionError):
        return False


#: compact, as Python, and with an indent of two spaces, four spaces or a tab
_JSON_LAYOUTS: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
)


def _escape_variants(text: str) -> Iterator[bytes]:
    for spelled in dict.fromkeys(
        (
            text,
            f"{text}\n",
            text.replace("/", "\\/"),
            re.sub(r"\\u([0-9a-f]{4})", lambda found: f"\\u{found[1].upper()}", text),
        )
    ):
        yield spelled.encode("utf-8", "surrogatepass")


#: prefixes of the secrets of a scheme
_SECRET_PREFIXES = {
    "paddle": "pdl_",
    "resend": "whsec_",
    "standard-webhooks": "whsec_",
    "stripe": "whsec_",
    "svix": "whsec_",
}
_MAX_SENTENCES = 3


def explain(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: SchemeOptions = NO_OPTIONS,
    keys: PublicKeys = NO_PUBLIC_KEYS,
) -> list[str]:
    """Return sentences that state the problem and the remedy, without secrets."""
    try:
        scheme = apply_options(scheme, options)
    except ConfigInvalid as error:
        return [str(error)]
    context = VerificationContext(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )
    try:
        verdict = verify(scheme, request, secrets, now=now, options=options, keys=keys)
    except KeyFetchRequired:
        return ["The public key of the sender must be fetched first; give it as the secret."]
    except SignatureInvalid as error:
        return [f"{error.reason}: {REASONS[error.reason]}.", *_details(context, error.reason)]
    if verdict.freshness is Freshness.LATE:
        return [f"stale: {REASONS['stale']}.", *_explain_time(context)]
    if len(secrets) <= 1:
        return ["The signature holds."]
    return [f"The signature holds. It was made with secret number {verdict.secret_index + 1}."]


def _details(context: VerificationContext, reason: str) -> list[str]:
    if reason in {"future", "stale"}:
        return _explain_time(context)
    said = [_REMEDIES[reason]] if reason in _REMEDIES else []
    if reason == "malformed_timestamp":
        said = [f"The time must be written in {_UNITS[context.scheme.unit]}."]
    if reason in {"missing_header", "malformed_signature"}:
        said = _explain_headers(context)
    if reason in {"missing_secret", "unusable_secret", "signature_mismatch"}:
        said = _explain_secrets(context)
    unexplained = reason in {"signature_mismatch", "body_hash_mismatch"}
    return [*said, *_explain_mistakes(context, quiet=not unexplained)]


_REMEDIES = {
    "body_not_covered": "Give the whole address: bodySHA256 in its query covers what is no form.",
    "duplicate_header": "Something on the way adds the header a second time.",
    "no_matching_version": "A whsec_ secret is for v1 signatures, a whpk_ key for v1a.",
    "topic_not_allowed": "Add the topic to the topics of the source, if it is yours.",
    "untrusted_certificate": "A genuine message names a certificate of sns.REGION.amazonaws.com.",
}
_UNITS = {"s": "seconds since 1970", "ms": "milliseconds since 1970", "iso": "RFC 3339"}


def _explain_time(context: VerificationContext) -> list[str]:
    try:
        found = match_signature(context)
    except (SignatureInvalid, KeyFetchRequired):
        return []
    if found.signed_at is None or context.now is None:
        return []
    seconds = (context.now - found.signed_at) / 1000
    side = "before" if seconds > 0 else "after"
    return [
        (
            f"The signature itself holds, but it is dated {abs(seconds):.0f} s {side} the receive "
            f"clock, and the window is {window_seconds(context)} s."
        ),
        (
            "If the request is fresh, one of the two clocks is wrong; if it is a recording, say "
            "when it came with --now."
        ),
    ]


def _explain_headers(context: VerificationContext) -> list[str]:
    """Explain which header is missing, and which other scheme's header is there."""
    scheme, table = context.scheme, context.request.headers_by_name
    if not scheme.header:
        return []
    said = []
    if scheme.header_names[0] not in table:
        said.append(f"There is no header {scheme.header}.")
    elif (offered := table[scheme.header_names[0]].strip()) and not _has_known_prefix(
        scheme, offered
    ):
        marks = " or ".join(dict.fromkeys(mark for mark, _ in scheme.signature_prefixes if mark))
        said.append(f"An entry of {scheme.header} begins with {marks or scheme.header_prefix}.")
    others = [
        f"{other.header} (scheme {other.name})"
        for other in registry.BUILT_IN_SCHEMES.values()
        if other.header_names
        and other.header_names[0] in table
        and other.header_names[0] not in scheme.header_names
    ]
    if others:
        said.append(f"But there is {', '.join(others[:_MAX_SENTENCES])}.")
    return said


def _has_known_prefix(scheme: Scheme, value: str) -> bool:
    if scheme.header_prefix:
        return scheme.header_prefix in value
    return any(mark in value for mark, _ in scheme.signature_prefixes)


def _explain_secrets(context: VerificationContext) -> list[str]:
    beginning = _SECRET_PREFIXES.get(context.scheme.name)
    given = [secret for secret in context.secrets if secret.strip()]
    if not given:
        return ["Give the secret that the provider shows for this very endpoint."]
    if beginning and not any(secret.strip().startswith(beginning) for secret in given):
        return [f"A secret of {context.scheme.title} begins with {beginning}; this one does not."]
    return []


def _explain_mistakes(context: VerificationContext, *, quiet: bool) -> list[str]:
    """Undo every known mistake; return those without which the signature holds."""
    timeless = replace(context, now=None)
    found = dict.fromkeys(
        sentence for sentence, corrected in _corrected(timeless) if _verifies(corrected)
    )
    said = [f"The signature holds once this is undone: {sentence}." for sentence in found]
    if said or quiet:
        return said[:_MAX_SENTENCES]
    body = context.request.body
    if not body:
        said = ["The body is empty; was it read before?"]
    elif _looks_sorted(body):
        said = ["The members of the body are sorted: was it read as JSON and written again?"]
    unexplained = (
        "None of the usual mistakes explains it: most likely the secret is another "
        "endpoint's, or the body was changed on its way."
    )
    return [*said, unexplained]


def _verifies(context: VerificationContext) -> bool:
    # The options are applied to the scheme already, except these.
    options = SchemeOptions(
        public_url=context.options.public_url,
        topics=context.options.topics,
        allow_unsigned=context.options.allow_unsigned,
    )
    try:
        match_signature(replace(context, options=options))
    except (SignatureInvalid, KeyFetchRequired):
        return False
    return True
