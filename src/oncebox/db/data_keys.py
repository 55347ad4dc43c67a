"""Data keys of an installation: read the wrapped ones, and give them to the master key."""

from collections.abc import Sequence
from typing import NamedTuple

from oncebox.core.encryption import MasterKey
from oncebox.db.database import Transaction
from oncebox.db.queries import load

_sql = load(__package__, "data_keys.sql")


class WrappedKey(NamedTuple):
    """A data key as it is stored for one master key."""

    generation: int
    wrapped: bytes
    #: milliseconds since 1970
    active_from: int


def read(tx: Transaction, master_key_id: str) -> list[WrappedKey]:
    """Return the data keys of a master key, oldest first; none before its first rotation."""
    rows = tx.all(_sql.of_master_key, master_key_id=master_key_id)
    return [WrappedKey(int(generation), bytes(key), int(at)) for generation, key, at in rows]


def use(
    key: MasterKey, wrapped: Sequence[WrappedKey], now: int, wrapper: MasterKey | None = None
) -> None:
    """Let a master key decrypt with these data keys, and encrypt with the newest active one.

    They are wrapped for the key itself, or for another ``wrapper``.

    Raises: MasterKeyWrong.
    """
    unwrap = (wrapper or key).unwrap
    data_keys = [unwrap(each.generation, each.wrapped) for each in wrapped]
    key.use(data_keys, current=newest_active(wrapped, now))


def newest_active(wrapped: Sequence[WrappedKey], now: int) -> int:
    """Return the generation that encrypts at this time."""
    active = [each.generation for each in wrapped if each.active_from <= now]
    return max(active, default=wrapped[0].generation)
