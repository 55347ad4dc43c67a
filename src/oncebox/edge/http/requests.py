"""Requests: bytes into typed questions; what does not fit is refused with a pointer to it."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from oncebox.edge.guard import Receive
from oncebox.errors import NotFound
from oncebox.refusals import (
    BodyNotJson,
    FieldsInvalid,
    IdempotencyKeyMissing,
    MediaUnsupported,
    RequestMalformed,
)

Headers = list[tuple[bytes, bytes]]

_IDEMPOTENCY_KEY = b"idempotency-key"
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
#: C0 and C1 controls, in what stands in a path
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f]")
_FIELD = re.compile(r"(?:unknown|required) field `([^`]*)`")
_KEY = re.compile(r"[!-~]{1,255}")
#: between quotes blanks are a part of it
_KEY_IN_QUOTES = re.compile(r"[ -~]{1,255}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


class ClientGone(Exception):
    """The client went away before it had said everything; nobody is left to answer."""


async def read_body(receive: Receive) -> bytes:
    """Return the whole body, or nothing of it.

    Raises: ClientGone.
    """
    chunks = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def check_media(headers: Headers, body: bytes) -> None:
    """Refuse a body that does not say it is JSON, or is packed.

    Raises: MediaUnsupported.
    """
    if not body:
        return
    found = dict(headers)
    if found.get(b"content-encoding", b"identity").lower() != b"identity":
        message = "send the body as it is, without Content-Encoding"
        raise MediaUnsupported(message)
    media = found.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media != b"application/json":
        message = "send the body as JSON, with Content-Type: application/json"
        raise MediaUnsupported(message)


def decode_body(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """Read a body as its type; nothing at all is an object without fields.

    Raises: BodyNotJson, FieldsInvalid.
    """
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise _refused(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BodyNotJson from error


def decode_query(kind: type[msgspec.Struct], query: bytes) -> Any:
    """Read a query as its type.

    Raises: FieldsInvalid, RequestMalformed.
    """
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
        )
    except ValueError as error:
        raise RequestMalformed from error
    values = dict(pairs)
    if len(values) < len(pairs):
        message = "a parameter comes twice; send it once"
        raise FieldsInvalid(message)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        refused = _refused(error)
        refused.pointer = refused.pointer.removeprefix("/")
        raise refused from None


def decode_path(parts: Mapping[str, str]) -> dict[str, str]:
    """Read the parts of a path; odd ones name nothing.

    Raises: NotFound.
    """
    try:
        decoded = {name: unquote_to_bytes(part).decode() for name, part in parts.items()}
    except UnicodeDecodeError as error:
        raise NotFound from error
    if any(_CONTROLS.search(part) for part in decoded.values()):
        raise NotFound
    return decoded


def given_key(headers: Headers) -> str | None:
    """Return the caller's key for this request, if it has one.

    Raises: IdempotencyKeyMissing, FieldsInvalid.
    """
    given = any(name == _IDEMPOTENCY_KEY for name, _ in headers)
    return idempotency_key(headers) if given else None


def idempotency_key(headers: Headers) -> str:
    """Return the caller's key for this request: a quoted string, or as it is.

    Raises: IdempotencyKeyMissing, FieldsInvalid.
    """
    found = [value for name, value in headers if name == _IDEMPOTENCY_KEY]
    if len(found) != 1 or not found[0].strip():
        message = (
            "send one Idempotency-Key: any text that is new for every new wish, such as a UUID"
        )
        raise IdempotencyKeyMissing(message)
    text = found[0].decode("latin-1").strip()
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else text
    if not (_KEY_IN_QUOTES if quoted else _KEY).fullmatch(key):
        message = "write 1 to 255 visible ASCII characters, or with blanks as well in quotes"
        raise FieldsInvalid(message, pointer="Idempotency-Key")
    return key


def _refused(error: msgspec.ValidationError) -> FieldsInvalid:
    """Turn msgspec's words into ours: a pointer, and a sentence that quotes no value."""
    said, _, where = str(error).partition(" - at `")
    steps = [name or number for name, number in _STEP.findall(where.rstrip("`"))]
    field = _FIELD.search(said)
    if field is not None:
        steps.append(field[1])
    pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)
    if said.startswith("Invalid enum value"):
        said = "Expected one of the allowed values"
    return FieldsInvalid(said.replace("`", "'"), pointer=pointer)
