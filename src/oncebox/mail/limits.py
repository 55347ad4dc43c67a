"""Limits: how much of a mail is read, so that no mail costs more than its size."""

import msgspec


class ParseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What is read at most; what is beyond makes a mail ``limited``."""

    #: multiparts inside each other
    depth: int = 20
    #: parts in all
    parts: int = 200
    #: bytes of the header of a mail, of one field, and the number of fields
    headers: int = 256 * 1024
    field: int = 64 * 1024
    fields: int = 1_000
    #: addresses in one kind of field
    addresses: int = 1_000
    #: bytes of the text parts, after transfer decoding
    text: int = 2 * 1024 * 1024
    #: HTML tags, and elements inside each other
    tags: int = 50_000
    nesting: int = 500
