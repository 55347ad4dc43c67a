"""Problem bodies (RFC 9457), and the service's health, readiness and version."""

from typing import Literal

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


class Health(msgspec.Struct, frozen=True):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The service can do its work."""

    status: Literal["ready"] = "ready"


class Version(msgspec.Struct, frozen=True):
    """Which Oncebox this is."""

    version: str


class ProblemKind(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of problem means."""

    code: str
    title: str
    status: int
    retry_safe: bool
