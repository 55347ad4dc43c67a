"""What the service says about itself."""

from typing import Literal

import msgspec


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
