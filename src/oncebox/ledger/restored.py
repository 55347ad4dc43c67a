"""A ledger that was put back to an earlier time: what must not happen twice unseen."""

from oncebox import ids
from oncebox.ledger.office.audit import Deed
from oncebox.ledger.sends import transports
from oncebox.model.transport import Transport
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "restored.sql")

#: more fences than anything gets between a backup and its return
_JUMP = 1_000_000


def settle_in(tx: Transaction, *, now: int, who: str, why: str) -> list[Transport]:
    """Pause every way by which mail leaves, and void every lease; return what was paused now.

    What the ledger means to send may have been sent since the backup, and a worker may still
    hold a lease that was given since then, under a fence that would be given again.
    """
    for void in (_sql.void_deliveries, _sql.void_sends, _sql.void_actions, _sql.void_duties):
        tx.run(void, jump=_JUMP)
    return [
        transports.pause(tx, each.name, _deed(each.tenant, now, who, why))
        for each in transports.every(tx)
        if not each.paused
    ]


def _deed(tenant: str, now: int, who: str, why: str) -> Deed:
    return Deed(id=ids.new("aud"), tenant=tenant, at=now, who=who, why=why)
