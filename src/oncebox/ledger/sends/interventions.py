"""Interventions: what a person does about a send, on record with who and why."""

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.office import audit
from oncebox.ledger.sends import notices, sends, sweep
from oncebox.model.send import Send, SendState
from oncebox.store.database import Transaction, Value
from oncebox.store.queries import load

_sql = load(__package__, "interventions.sql")


def resolve(
    tx: Transaction, id_: str, deed: audit.Deed, *, sent: bool, provider_id: str = ""
) -> Send:
    """Record a person's word on a send in doubt: it was sent, or it was not.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": deed.tenant, "id": id_, "now": deed.at}
    # A late word of the provider is known by the try that it is about.
    sweep.write_down(tx, deed.tenant, id_, deed.at)
    if sent:
        changed = tx.run(_sql.resolve_sent, **where, provider_id=provider_id)
    else:
        changed = tx.run(_sql.resolve_not_sent, **where)
    if not changed:
        raise _refused(tx, deed.tenant, id_, "only one in doubt can be resolved")
    return _done(tx, id_, deed, "send resolve", "sent" if sent else "not_sent")


def cancel(tx: Transaction, id_: str, deed: audit.Deed, *, owner: str | None = None) -> Send:
    """Call a send off, as long as nothing of it was on the wire.

    Raises: NotFound, StateConflict.
    """
    if not tx.run(_sql.cancel, tenant=deed.tenant, id=id_, owner=owner, now=deed.at):
        sends.get(tx, deed.tenant, id_, owner=owner)
        raise _refused(tx, deed.tenant, id_, "only what is not on the wire can be called off")
    return _done(tx, id_, deed, "send cancel")


def resend(tx: Transaction, id_: str, deed: audit.Deed) -> Send:
    """Let a send that is proven not sent be tried again, or one in doubt be repeated once.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": deed.tenant, "id": id_, "now": deed.at}
    if not (tx.run(_sql.rearm, **where) or tx.run(_sql.repeat, **where)):
        raise _refused(tx, deed.tenant, id_, "what was sent, or is under way, is not sent again")
    return _done(tx, id_, deed, "send resend")


def _done(tx: Transaction, id_: str, deed: audit.Deed, action: str, detail: str = "") -> Send:
    send = sends.get(tx, deed.tenant, id_)
    audit.record(tx, deed, action, f"send:{id_}", detail)
    notices.record(tx, [send], deed.at)
    return send


def _refused(tx: Transaction, tenant: str, id_: str, rule: str) -> NotFound | StateConflict:
    try:
        send = sends.get(tx, tenant, id_)
    except NotFound as error:
        return error
    if send.purged_at is not None and send.state is SendState.UNKNOWN:
        return StateConflict("what this send says is no longer kept; resolve it, and ask anew")
    if send.purged_at is not None and send.state is not SendState.SENT:
        return StateConflict("what this send says is no longer kept; ask for it anew")
    return StateConflict(f"this send is {send.state}; {rule}")
