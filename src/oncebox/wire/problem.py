"""A problem: how the service says no (RFC 9457)."""

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field of a request."""

    #: a JSON pointer into the body, or the name of a header or parameter
    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer that is not the one asked for."""

    #: where this kind of problem is described, on the same service
    type: str
    #: what kind of problem it is, the same text every time
    title: str
    status: int
    #: what happened and what helps
    detail: str
    #: names this very occurrence
    instance: str
    #: stable; programs decide by this
    code: str
    #: whether sending the same request again is safe and may help
    retry_safe: bool
    request_id: str
    errors: list[FieldError] = []
