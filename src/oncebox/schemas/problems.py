"""Problem bodies (RFC 9457), and the service's health, readiness and version."""

from typing import Literal

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """An error in one field of a request."""

    #: a JSON pointer into the body, or the name of a header or parameter
    pointer: str
    detail: str


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error response (RFC 9457)."""

    #: where this service describes this kind of problem
    type: str
    #: the kind of problem; the same text every time
    title: str
    status: int
    #: what happened and what to do
    detail: str
    #: identifies this occurrence
    instance: str
    #: stable code for programs
    code: str
    #: whether repeating the same request is safe and may help
    retry_safe: bool
    request_id: str
    #: the field of the request that is wrong, such as ``sends[0].to``, or a header or parameter
    field: str = ""
    errors: list[FieldError] = []


class Health(msgspec.Struct, frozen=True):
    """The process is running."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The service can accept work."""

    status: Literal["ready"] = "ready"
    #: what is refused because little disk space is free
    free_disk: Literal["ok", "no_large_mail", "no_mail"] = "ok"
    #: bytes on the fullest disk that the service uses
    free_disk_bytes: int = 0


class Version(msgspec.Struct, frozen=True):
    """The version of Oncebox."""

    version: str


class ProblemKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of problem."""

    code: str
    title: str
    status: int
    retry_safe: bool
