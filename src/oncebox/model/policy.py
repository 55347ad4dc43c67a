"""A policy's verdict on a delivery, given after the claim and before anything runs."""

import msgspec


class Allow(msgspec.Struct, frozen=True):
    """Let it run."""


class Hold(msgspec.Struct, frozen=True):
    """Wait for a person."""

    reason: str


class Drop(msgspec.Struct, frozen=True):
    """Do nothing with it, on purpose."""

    reason: str


Ruling = Allow | Hold | Drop
