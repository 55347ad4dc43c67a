"""How a source is told: as a line, as an outline, as JSON; its secrets never."""

from collections.abc import Iterator, Sequence
from typing import Any

from oncebox.cli.escape import to_json
from oncebox.cli.words import moment
from oncebox.ledger.office.sources import KeptSecret
from oncebox.model import source_table
from oncebox.model.source import Entry

COLUMNS = ("source", "state", "scheme", "address", "written in", "note")


def record(entry: Entry, secrets: Sequence[KeptSecret] | None = None) -> dict[str, Any]:
    """Return a source for JSON; ``settings`` is the table as it stands in ``oncebox.toml``."""
    source = entry.source
    found: dict[str, Any] = {
        "name": source.name,
        "tenant": source.tenant,
        "state": entry.state,
        "scheme": source.scheme,
        "public_id": source.public_id,
        "path": f"/in/{source.public_id}",
        "origin": entry.origin,
        "troubles": entry.troubles,
        "settings": source_table.render(source),
    }
    if secrets is not None:
        found["secrets"] = [secret_record(each) for each in secrets]
    return found


def secret_record(secret: KeptSecret) -> dict[str, Any]:
    """Return a secret for JSON: which one it is and where it is kept."""
    return {
        "id": secret.id,
        "kept": secret.reference or "sealed",
        "created_at": secret.created_at or None,
        "retired_at": secret.retired_at,
    }


def told(entry: Entry) -> tuple[object, ...]:
    """Return a source as the cells of a line."""
    source = entry.source
    address = f"/in/{source.public_id}"
    return (source.name, entry.state, source.scheme, address, entry.origin, entry.note)


def lines(entry: Entry, secrets: Sequence[KeptSecret]) -> Iterator[tuple[object, ...]]:
    """Tell a source line by line, each beginning with what it is about."""
    source = entry.source
    yield ("source", source.name)
    yield ("tenant", source.tenant)
    yield ("state", entry.state)
    for trouble in entry.troubles:
        yield ("trouble", trouble.code, trouble.message, trouble.secret)
    yield ("address", f"/in/{source.public_id}")
    yield ("written in", entry.origin)
    for field, value in source_table.render(source).items():
        yield (field, value if isinstance(value, str) else to_json(value))
    for secret in secrets:
        id_, kept, added, retired = secret_told(secret)
        since = f"retired {retired}" if retired else added and f"added {added}"
        yield ("secret", id_, kept, since)


def secret_told(secret: KeptSecret) -> tuple[str, str, str, str]:
    """Return a secret as the cells of a line."""
    return (
        secret.id,
        secret.reference or "sealed",
        moment(secret.created_at) if secret.created_at else "",
        "" if secret.retired_at is None else moment(secret.retired_at),
    )
