"""A deed: what is done in the very transaction that ends a try well."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec


class Deed(msgspec.Struct, frozen=True):
    """What is to be done in the very transaction that ends a try well, if its fence counts."""

    #: a verb of the ledger: a transaction, what the deeds of one kind are about, and the time;
    #: it returns what came of each
    verb: Callable[[Any, Sequence[Any], int], Sequence[Any]]
    #: what this one is about
    what: Any
    #: told after the commit what came of it; not if the reply to the commit was lost
    after: Callable[[Any], None] | None = None
