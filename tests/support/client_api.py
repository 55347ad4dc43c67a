"""The resources of the clients, found as a user finds them."""

from functools import cached_property
from typing import Any

from oncebox.client import AsyncClient, Client


def resources(kind: type[Client | AsyncClient] = Client) -> dict[str, type[Any]]:
    """Return the class of every resource by its name, such as ``deliveries.effects``."""
    client = kind("http://127.0.0.1:1", "obx_x")
    found = {name: type(getattr(client, name)) for name in _resource_names(kind)}
    for name, resource in list(found.items()):
        for inner in _resource_names(resource):
            found[f"{name}.{inner}"] = type(getattr(getattr(client, name), inner))
    return found


def _resource_names(kind: type) -> list[str]:
    return [name for name, value in vars(kind).items() if isinstance(value, cached_property)]
