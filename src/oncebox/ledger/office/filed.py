"""Sources of the settings file, in the form the database keeps its own."""

from collections.abc import Mapping
from typing import Any

import msgspec

from oncebox.errors import ConfigInvalid
from oncebox.ledger.office import secrets
from oncebox.ledger.office.sources import KeptSecret, KeptSource
from oncebox.model import source_table
from oncebox.model.source_checks import Refusal, is_segment
from oncebox.model.tenant import DEFAULT
from oncebox.seal import MasterKey

Tables = Mapping[str, Mapping[str, Any]]


def read(tables: Tables, tenant: str, master_key: MasterKey) -> list[KeptSource]:
    """Return the ``[sources.NAME]`` tables as sources of one tenant, checked.

    Raises: ConfigInvalid, naming the field and the remedy.
    """
    found: dict[str, KeptSource] = {}
    for name, table in sorted(tables.items()):
        kept = _source(name, dict(table), tenant, master_key)
        if kept.public_id in found:
            remedy = f"source {found[kept.public_id].name!r} has it too; choose another"
            raise Refusal(name)("public_id", remedy)
        found[kept.public_id] = kept
    return list(found.values())


def _source(name: str, table: dict[str, Any], tenant: str, master_key: MasterKey) -> KeptSource:
    refuse = Refusal(name)
    texts = _texts(refuse, table.pop("secrets", ()))
    public_id = _public_id(refuse, table.pop("public_id", None), tenant, name)
    parsed = source_table.parse(table, tenant=tenant, name=name, public_id=public_id)
    return KeptSource(
        tenant,
        name,
        public_id,
        source_table.render(parsed),
        parsed.paused,
        0,
        0,
        tuple(
            _secret(refuse, number, text, tenant, master_key)
            for number, text in enumerate(texts, 1)
        ),
    )


def _texts(refuse: Refusal, value: object) -> list[str]:
    try:
        return [value] if isinstance(value, str) else msgspec.convert(value, list[str])
    except msgspec.ValidationError:
        # Its words are not passed on: they might quote a secret one day.
        remedy = 'write a list of references, such as ["env:STRIPE_SECRET"]'
        raise refuse("secrets", remedy) from None


def _public_id(refuse: Refusal, value: object, tenant: str, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is not None:
        raise refuse("public_id", "write a text")
    if tenant != DEFAULT or not is_segment(name):
        remedy = "write one that nobody guesses; make it with: openssl rand -hex 16"
        raise refuse("public_id", remedy)
    return name


def _secret(
    refuse: Refusal, number: int, text: str, tenant: str, master_key: MasterKey
) -> KeptSecret:
    """Name a secret by its place in the file, and keep its value sealed in memory too."""
    try:
        return secrets.sealed(
            master_key, tenant=tenant, id_=f"sec_file_{number}", text=text, created_at=0
        )
    except ConfigInvalid as error:
        raise refuse(f"secrets[{number - 1}]", str(error)) from error
