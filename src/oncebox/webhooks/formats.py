"""Text formats of digests (hex, base64) and timestamps (Unix, ISO 8601), parsed strictly."""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeVar

from oncebox.errors import SignatureInvalid
from oncebox.webhooks.http_request import header_bytes

T = TypeVar("T")

#: encodings of a digest, by the name used in tables and options
DIGEST_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "hex": binascii.hexlify,
    "HEX": lambda digest: binascii.hexlify(digest).upper(),
    "base64": base64.b64encode,
    "base64url": base64.urlsafe_b64encode,
}


def decode_hex(text: str) -> bytes:
    """Return the bytes of lower-case hexadecimal digits."""
    return _decode_strictly(text, bytes.fromhex, bytes.hex)


def decode_base64(text: str) -> bytes:
    """Return the bytes of padded base64."""
    return _decode_strictly(header_bytes(text), base64.b64decode, base64.b64encode)


def decode_base64url(text: str) -> bytes:
    """Return the bytes of unpadded base64 in the alphabet of URLs, as in a JWT."""
    return _decode_strictly(
        header_bytes(text),
        lambda raw: base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)),
        lambda decoded: base64.urlsafe_b64encode(decoded).rstrip(b"="),
    )


def _decode_strictly(
    encoded: T, decode: Callable[[T], bytes], encode: Callable[[bytes], T]
) -> bytes:
    """Decode; refuse every other spelling of the same bytes, also in bits that do not count."""
    try:
        decoded = decode(encoded)
    except ValueError as error:
        raise SignatureInvalid("malformed_signature") from error
    if encode(decoded) != encoded:
        raise SignatureInvalid("malformed_signature")
    return decoded


_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str, unit: str) -> int:
    """Return a timestamp in milliseconds, if it is spelled as the unit requires."""
    return TIMESTAMP_PARSERS[unit](text)


def _parse_number(text: str, most_digits: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= most_digits):
        raise SignatureInvalid("malformed_timestamp")
    return int(text)


def _parse_iso(text: str) -> int:
    found = _ISO.fullmatch(text)
    if found is None:
        raise SignatureInvalid("malformed_timestamp")
    when, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime.fromisoformat(when).replace(tzinfo=zone)
        whole = moment - _EPOCH
    except (ValueError, OverflowError) as error:  # month 13, offset 99:00, year 1 in the far east
        raise SignatureInvalid("malformed_timestamp") from error
    return whole // timedelta(milliseconds=1) + int(f"{fraction or '0':0<9}"[:3])


#: parsers by unit: seconds, milliseconds, or a date and time
TIMESTAMP_PARSERS: dict[str, Callable[[str], int]] = {
    # Eleven digits of seconds reach the year 5138; thirteen would be milliseconds.
    "s": lambda text: _parse_number(text, 11) * 1000,
    "ms": lambda text: _parse_number(text, 14),
    "iso": _parse_iso,
}
