"""Ids: a prefix and a UUIDv7 in Crockford base32, so that text order is time order."""

from collections.abc import Callable

import uuid_utils

NewId = Callable[[str], str]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_SHIFTS = range(120, -1, -10)


def new(prefix: str) -> str:
    """Return a fresh id such as ``dlv_01jx9m…``, later than every one before it."""
    number = uuid_utils.uuid7().int
    return f"{prefix}_" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
