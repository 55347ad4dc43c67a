"""Tenants: whose data it is."""

import re

import msgspec

from oncebox.errors import KeyInvalid

#: the tenant that is always there
DEFAULT = "default"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class Tenant(msgspec.Struct, frozen=True):
    """One of several parties that share an installation and see nothing of each other."""

    name: str
    created_at: int


def check_tenant(name: str) -> None:
    """Refuse what is no name of a tenant.

    Raises: KeyInvalid.
    """
    if not _NAME.fullmatch(name):
        message = (
            "a tenant is a name of 1 to 63 small letters, digits and . _ -, such as acme; "
            "it begins with a letter or digit"
        )
        raise KeyInvalid(message)
