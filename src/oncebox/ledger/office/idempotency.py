"""Idempotency: a request under a key creates once, and every repeat gets the first answer.

``begin`` in a transaction of its own, then the creation and ``finish`` together in one. So a
request that is still running has created nothing, and may be taken over when its process is
lost; and one that lost its hold cannot commit what it created.
"""

import hmac

import msgspec

from oncebox import ids
from oncebox.errors import LeaseLost
from oncebox.model.idempotency import Answer, Asked, Found, Fresh, Mismatch, Replay, Running
from oncebox.seal import MasterKey
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "idempotency.sql")

#: milliseconds for which an answer is given again
KEPT_FOR = 24 * 60 * 60 * 1000
#: milliseconds after which a request that is still running counts as lost
LOST_AFTER = 60_000
_ROUNDS = 3


def begin(
    tx: Transaction,
    master_key: MasterKey,
    asked: Asked,
    now: int,
    *,
    new_id: ids.NewId = ids.new,
) -> Found:
    """Take a request, or say what is known of it."""
    holder = new_id("idk")
    name = _name(asked)
    for _ in range(_ROUNDS):  # what is known may vanish before it is read
        if tx.run(_sql.begin, **name, body_hash=asked.body_hash, holder=holder, now=now):
            return Fresh(asked, holder)
        row = tx.one(_sql.known, **name)
        if row is None:
            continue
        body_hash, seen, started_at, answer = row
        gone = started_at <= now - KEPT_FOR
        if not gone and not hmac.compare_digest(bytes(body_hash), asked.body_hash):
            return Mismatch()
        if not gone and answer is not None:
            return Replay(_opened(master_key, asked, answer))
        taken = tx.run(
            _sql.take_over,
            **name,
            body_hash=asked.body_hash,
            holder=holder,
            seen=seen,
            now=now,
            forgotten=now - KEPT_FOR,
            lost=now - LOST_AFTER,
        )
        return Fresh(asked, holder) if taken else Running(max(1, started_at + LOST_AFTER - now))
    return Running(LOST_AFTER)


def finish(tx: Transaction, master_key: MasterKey, fresh: Fresh, answer: Answer, now: int) -> None:
    """Keep the answer, in the transaction that created what it tells of.

    Raises: LeaseLost, when somebody took the request over; nothing must be committed then.
    """
    sealed = master_key.seal(msgspec.msgpack.encode(answer), bound_to=_bound(fresh.asked))
    name = _name(fresh.asked)
    if not tx.run(_sql.finish, **name, holder=fresh.holder, answer=sealed, now=now):
        message = "somebody else answers this request now; send it again with the same key"
        raise LeaseLost(message)


def abandon(tx: Transaction, fresh: Fresh) -> None:
    """Forget a request that was refused and created nothing, so that it may be sent again."""
    tx.run(_sql.abandon, **_name(fresh.asked), holder=fresh.holder)


def forget(tx: Transaction, now: int, most: int = 1_000) -> int:
    """Forget requests whose time has passed, at most so many; return how many there were."""
    return tx.run(_sql.forget, before=now - KEPT_FOR, most=most)


def _name(asked: Asked) -> dict[str, str]:
    return {"tenant": asked.tenant, "route": asked.route, "key": asked.key}


def _bound(asked: Asked) -> bytes:
    """Bind an answer to its row, so that it opens for no other."""
    return msgspec.msgpack.encode(("idempotency", asked.tenant, asked.route, asked.key))


def _opened(master_key: MasterKey, asked: Asked, sealed: bytes) -> Answer:
    plain = master_key.open(bytes(sealed), bound_to=_bound(asked))
    return msgspec.msgpack.decode(plain, type=Answer)
