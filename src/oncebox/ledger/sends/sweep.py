"""The sweep: what became of sends whose worker was lost, or whose time is over?"""

from collections.abc import Sequence
from typing import NamedTuple

from oncebox.ledger.sends import notices, sends
from oncebox.model.send import SendState
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "sweep.sql")


class Swept(NamedTuple):
    """What one sweep brought, of all tenants."""

    #: may be claimed again: nothing was on the wire
    given_back: int
    #: in doubt from now on
    doubtful: int
    #: too late
    expired: int
    #: in doubt, and no longer repeated
    lapsed: int
    #: there may be more
    has_more: bool


def sweep(tx: Transaction, now: int, *, tries: int = 8, most: int = 100) -> Swept:
    """Take the next step with sends whose lease or time is over, at most so many of each kind.

    Who was lost before anything was on the wire has cost a lease, and after ``tries`` the send;
    who was lost after it leaves doubt.
    """
    lost = tx.all(_sql.lost, now=now, most=most)
    tx.run_many(_sql.record_lost, sorted(row[:3] for row in lost), now=now)
    claimed = sorted(row[:3] for row in lost if row[3] == SendState.CLAIMED)
    sending = sorted(row[:3] for row in lost if row[3] == SendState.SENDING)
    back = {row[0] for row in tx.many(_sql.give_back, claimed, now=now, tries=tries)}
    doubtful = {row[0] for row in tx.many(_sql.doubt, sending, now=now, tries=tries)}
    late = sorted(tx.all(_sql.late, now=now, most=most))
    expired = {row[0] for row in tx.many(_sql.expire, late, now=now)}
    over = sorted(tx.all(_sql.lapsed, now=now, most=most))
    lapsed = {row[0] for row in tx.many(_sql.lapse, over, now=now)}
    _tell(tx, [*lost, *late, *over], back | doubtful | expired | lapsed, now)
    full = most in {len(lost), len(late), len(over)}
    return Swept(len(back), len(doubtful), len(expired), len(lapsed), full)


def write_down(tx: Transaction, tenant: str, id_: str, now: int) -> None:
    """Write down the try at one send whose lease ran out, for who settles it before the sweep."""
    found = sends.by_ids(tx, [(tenant, id_)]).values()
    tx.run_many(_sql.record_lost, [(tenant, id_, send.fence) for send in found], now=now)


def _tell(tx: Transaction, found: Sequence[Row], changed: set[str], now: int) -> None:
    places = [(row[0], row[1]) for row in found if row[1] in changed]
    if places:
        notices.record(tx, sends.by_ids(tx, places).values(), now)
