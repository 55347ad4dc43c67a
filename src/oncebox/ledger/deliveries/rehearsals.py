"""Interventions with a look at what they lead to, so that they can be tried out and undone."""

from collections.abc import Callable

from oncebox.errors import EffectInDoubt
from oncebox.ledger.deliveries import effects, inspections, interventions
from oncebox.ledger.deliveries.interventions import Words
from oncebox.ledger.office.audit import Deed
from oncebox.model.inspection import Inspection, in_doubt
from oncebox.store.database import Transaction


def replay(tx: Transaction, id_: str, deed: Deed, words: Words) -> Inspection:
    """Run a done or dead delivery again; return how it stands then.

    Raises: NotFound, StateConflict, EffectInDoubt.
    """
    return _change(tx, id_, deed, words, interventions.replay)


def release(tx: Transaction, id_: str, deed: Deed, words: Words) -> Inspection:
    """Let a held delivery run; return how it stands then.

    Raises: NotFound, StateConflict, EffectInDoubt.
    """
    return _change(tx, id_, deed, words, interventions.release)


def hold(tx: Transaction, id_: str, deed: Deed) -> Inspection:
    """Keep a waiting delivery from running; return how it stands then.

    Raises: NotFound, StateConflict.
    """
    interventions.hold(tx, id_, deed)
    return inspections.inspect(tx, deed.tenant, id_, deed.at)


def _change(
    tx: Transaction,
    id_: str,
    deed: Deed,
    words: Words,
    change: Callable[[Transaction, str, Deed, Words], None],
) -> Inspection:
    inspections.read_facts(tx, deed.tenant, id_)
    for effect in in_doubt(effects.of_delivery(tx, deed.tenant, id_)):
        if effect.name not in words:
            message = (
                f"effect {effect.name!r} may or may not have happened; look there, then say in "
                "effects whether it is done or not_done"
            )
            raise EffectInDoubt(message)
    change(tx, id_, deed, words)
    return inspections.inspect(tx, deed.tenant, id_, deed.at)
