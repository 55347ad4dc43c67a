"""Ids: a prefix and a UUIDv7 in Crockford base32, so that text order is time order."""

from collections.abc import Callable

import uuid_utils

NewId = Callable[[str], str]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_HALF = (1 << 60) - 1


def new(prefix: str) -> str:
    """Return a fresh id such as ``dlv_01jx9m…``, later than every one before it."""
    number = uuid_utils.uuid7().int
    # Written out, because every arrival waits for one: 70 bits, then 60, ten at a time.
    high, low, pair = number >> 60, number & _HALF, _PAIRS
    return (
        f"{prefix}_{pair[high >> 60]}{pair[high >> 50 & 1023]}{pair[high >> 40 & 1023]}"
        f"{pair[high >> 30 & 1023]}{pair[high >> 20 & 1023]}{pair[high >> 10 & 1023]}"
        f"{pair[high & 1023]}{pair[low >> 50]}{pair[low >> 40 & 1023]}{pair[low >> 30 & 1023]}"
        f"{pair[low >> 20 & 1023]}{pair[low >> 10 & 1023]}{pair[low & 1023]}"
    )


def lowest(prefix: str, milliseconds: int) -> str:
    """Return what sorts before every id that is made from a time on, and after all before."""
    number = milliseconds << 80
    return f"{prefix}_{''.join(_ALPHABET[number >> bits & 31] for bits in range(125, -1, -5))}"
