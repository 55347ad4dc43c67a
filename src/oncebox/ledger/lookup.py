"""Ids that a person types: a unique beginning of an id stands for the id."""

from enum import StrEnum

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import InputRefused

_sql = load(__package__, "lookup.sql")

#: how many ids an error lists
_MOST_SHOWN = 10
#: sorts after every character of an id
_AFTER_ALL = "~"


class IdKind(StrEnum):
    """What an id may belong to; the value is the prefix of its ids."""

    DELIVERY = "dlv"
    REQUEST = "rej"
    INBOX = "inb"
    MESSAGE = "msg"
    ARTIFACT = "art"
    SEND = "snd"
    KEY = "key"
    SECRET = "sec"  # noqa: S105 - a prefix


def find_id(tx: Transaction, kind: IdKind, tenant: str, typed: str) -> str:
    """Return the only id that begins with what was typed; what was typed if none does.

    Raises: InputRefused, if several begin with it.
    """
    if not typed.startswith(f"{kind}_"):
        return typed
    query = getattr(_sql, kind.name.lower())
    rows = tx.all(query, tenant=tenant, low=typed, high=typed + _AFTER_ALL, most=_MOST_SHOWN + 1)
    found = [str(id_) for (id_,) in rows]
    if len(found) < 2 or typed in found:  # noqa: PLR2004 - the only one, or the very one
        return typed if not found or typed in found else found[0]
    more = " and more" if len(found) > _MOST_SHOWN else ""
    shown = ", ".join(found[:_MOST_SHOWN])
    raise InputRefused(f"{typed} is ambiguous; type more of the id: {shown}{more}")
