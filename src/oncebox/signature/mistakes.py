"""The classic mistakes, each as the request or the secret it would have been without it."""

import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace

from oncebox.signature.encoding import WRITTEN
from oncebox.signature.keyring import SHARED
from oncebox.signature.scheme import Attempt

_MOST_BODY = 1024 * 1024
#: fewer members than these are sorted by chance
_ENOUGH_TO_BE_SORTED = 3
_BOM = b"\xef\xbb\xbf"
_PORTS = {"https": ":443", "http": ":80"}


class Guess(msgspec.Struct, frozen=True):
    """A mistake that may have been made, and the attempt without it."""

    sentence: str
    attempt: Attempt


def guesses(attempt: Attempt) -> Iterator[Guess]:
    """Yield every known mistake, undone; each alone."""
    for sentence, secrets in _secrets(attempt.secrets):
        yield Guess(sentence, replace(attempt, secrets=secrets))
    for sentence, changes in _readings(attempt):
        yield Guess(sentence, replace(attempt, scheme=replace(attempt.scheme, **changes)))
    for sentence, url in _addresses(attempt):
        request = replace(attempt.request, url=url)
        options = replace(attempt.options, public_url="")
        yield Guess(sentence, replace(attempt, request=request, options=options))
    if len(attempt.request.body) <= _MOST_BODY:
        for sentence, body in _bodies(attempt.request.body):
            yield Guess(sentence, replace(attempt, request=replace(attempt.request, body=body)))


def _secrets(secrets: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for sentence, changed in (
        (
            "the secret has white space or a line end around it; take it away",
            [secret.strip() for secret in secrets],
        ),
        (
            "the secret has quotation marks around it; take them away",
            [secret.strip("\"'") for secret in secrets],
        ),
        (
            f"{SHARED} was cut off the secret, but it is part of the key; give the secret whole",
            [SHARED + secret for secret in secrets],
        ),
        (
            f"{SHARED} is no part of the key here; give the secret without it",
            [secret.removeprefix(SHARED) for secret in secrets],
        ),
    ):
        if changed != list(secrets):
            yield sentence, changed


_KEYS = {
    "utf8": "the secret was taken as it is written",
    "whsec": "the secret was decoded as base64 first",
    "hex": "the secret was decoded as hexadecimal first",
}


def _readings(attempt: Attempt) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield other ways to derive the key, to hash, and to write the signature."""
    scheme = attempt.scheme
    for key, sentence in _KEYS.items():
        if key != scheme.key:
            yield (
                f"{sentence} by whoever signed it; the scheme {scheme.name} does not",
                {"key": key},
            )
    if scheme.verifier is not None:
        return
    for encoding in WRITTEN:
        if encoding != scheme.encoding:
            yield (
                f"the signature is written in {encoding}; {scheme.name} writes {scheme.encoding}",
                {"encoding": encoding},
            )
    for algorithm in ("sha1", "sha256", "sha512"):
        marks = tuple(dict.fromkeys((mark, algorithm) for mark, _ in scheme.marks))
        yield (
            f"the signature was made with {algorithm}, which {scheme.name} does not use",
            {"marks": marks},
        )


def _addresses(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """Yield the addresses that the sender may have called, seen from behind a proxy."""
    if "address" not in attempt.scheme.covers:
        return
    url = attempt.options.public_url or attempt.request.url
    try:
        parts = urlsplit(url)
        hosts = _hosts(attempt, parts.netloc)
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
                        yield _address_sentence(spelled), spelled


def _hosts(attempt: Attempt, netloc: str) -> list[str]:
    table = attempt.request.table
    named = (table.get(name, "") for name in ("x-forwarded-host", "host"))
    hosts = [
        netloc,
        *(name.strip() for name in named if re.fullmatch(r"[\w.:\[\]-]+", name.strip())),
    ]
    bare = [re.sub(r":[0-9]+$", "", host) for host in hosts]
    ported = [host + port for host in bare for port in _PORTS.values()]
    return list(dict.fromkeys((*hosts, *bare, *ported)))


def _address_sentence(url: str) -> str:
    shown = re.sub(r"//[^/@]*@", "//…@", url)
    return f"the sender signed the address {shown}; set the public URL to it"


def _bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    for sentence, changed in (
        ("a line end was added to the body", body.removesuffix(b"\n")),
        ("a line end was added to the body", body.removesuffix(b"\r\n")),
        ("the line end at the end of the body was lost", body + b"\n"),
        ("the line end at the end of the body was lost", body + b"\r\n"),
        ("white space around the body was added", body.strip()),
        ("the line ends in the body were changed to CR LF", body.replace(b"\r\n", b"\n")),
        ("the line ends in the body were changed to LF", _crlf(body)),
        ("a byte order mark was put before the body", body.removeprefix(_BOM)),
        ("the byte order mark before the body was lost", _BOM + body),
        ("the body must be unpacked first", _unpacked(body)),
    ):
        if changed != body:
            yield f"{sentence}; pass on the raw bytes", changed
    for changed in _serialised(body):
        if changed != body:
            yield (
                "the body was read as JSON and written again; sign and verify the raw bytes",
                changed,
            )


def _crlf(body: bytes) -> bytes:
    return body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        return unpacker.decompress(body, _MOST_BODY)
    except zlib.error:
        return body


def _serialised(body: bytes) -> Iterator[bytes]:
    """Yield the same JSON as the usual libraries would write it."""
    try:
        value = json.loads(body)
        for ascii_ in (True, False):
            for sorted_ in (False, True):
                for shape in _SHAPES:
                    text = json.dumps(value, ensure_ascii=ascii_, sort_keys=sorted_, **shape)
                    yield from _spelled(text)
    except (ValueError, RecursionError, TypeError):
        return


def looks_sorted(body: bytes) -> bool:
    """Return whether the members are sorted: then nobody can tell how they stood before."""
    try:
        value = json.loads(body) if len(body) <= _MOST_BODY else None
        if not isinstance(value, dict) or len(value) < _ENOUGH_TO_BE_SORTED:
            return False
        return list(value) == sorted(value)
    except (ValueError, RecursionError):
        return False


#: compact, as Python, as JavaScript with an indent, and with four spaces
_SHAPES: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
)


def _spelled(text: str) -> Iterator[bytes]:
    for spelled in dict.fromkeys(
        (
            text,
            f"{text}\n",
            text.replace("/", "\\/"),
            re.sub(r"\\u([0-9a-f]{4})", lambda found: f"\\u{found[1].upper()}", text),
        )
    ):
        yield spelled.encode("utf-8", "surrogatepass")
