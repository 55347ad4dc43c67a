"""Idempotency keys of API requests: create once, repeat the stored answer.

``begin`` runs in a transaction of its own, then the creation and ``finish`` together in one. So
a running request has created nothing and may be taken over if its process is lost, and a request
that was taken over cannot commit.
See docs/decisions/0014-use-stored-responses-for-idempotent-requests.md.
"""

import hmac
from collections.abc import Awaitable, Callable

import msgspec

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, OnceboxError
from oncebox.errors.http import IdempotencyKeyReused, RequestInProgress
from oncebox.ledger.transactions import Ledger
from oncebox.model.admin.idempotency import (
    BodyMismatch,
    FreshRequest,
    IdempotencyResult,
    IdempotentRequest,
    ReplayedResponse,
    RunningRequest,
    StoredResponse,
)

_sql = load(__package__, "idempotency.sql")

#: milliseconds for which a response is repeated
KEPT_FOR = 24 * 60 * 60 * 1000
#: milliseconds after which a running request counts as lost
LOST_AFTER = 60_000
_MOST_ROUNDS = 3
#: the purpose of the key that encrypts responses
ANSWER = "idempotency"


async def create_once(
    ledger: Ledger,
    master_key: MasterKey,
    request: IdempotentRequest,
    create: Callable[[Transaction], StoredResponse],
    check: Callable[[], Awaitable[None]] | None = None,
) -> tuple[StoredResponse, bool]:
    """Create what was requested, once; return the response, and whether it is a repeated one.

    The creation and its response are one commit. A refused request may be repeated. ``check`` is
    called before a creation, outside its transaction, and may refuse it.

    Raises: RequestInProgress, IdempotencyKeyReused, and what ``create`` and ``check`` raise.
    """

    def create_and_record(tx: Transaction, fresh: FreshRequest) -> StoredResponse:
        response = create(tx)
        finish(tx, master_key, fresh, response, ledger.clock())
        return response

    found = await ledger.write(begin, master_key, request, ledger.clock())
    if isinstance(found, ReplayedResponse):
        return found.response, True
    if isinstance(found, BodyMismatch):
        raise IdempotencyKeyReused("this Idempotency-Key was used with another body; use a new one")
    if not isinstance(found, FreshRequest):
        raise RequestInProgress
    try:
        if check is not None:
            await check()
        return await ledger.write(create_and_record, found), False
    except LeaseLost as error:
        raise RequestInProgress from error
    except OnceboxError:
        await ledger.write(abandon, found)
        raise


def begin(
    tx: Transaction,
    master_key: MasterKey,
    asked: IdempotentRequest,
    now: int,
    *,
    new_id: ids.NewId = ids.new,
) -> IdempotencyResult:
    """Begin a request, or return the state of the one under this key."""
    holder = new_id("idk")
    name = _params(asked)
    for _ in range(_MOST_ROUNDS):  # the row may be deleted before it is read
        if tx.run(_sql.begin, **name, body_hash=asked.body_hash, holder=holder, now=now):
            return FreshRequest(asked, holder)
        row = tx.one(_sql.known, **name)
        if row is None:
            continue
        body_hash, seen, started_at, answer = row
        gone = started_at <= now - KEPT_FOR
        if not gone and not hmac.compare_digest(bytes(body_hash), asked.body_hash):
            return BodyMismatch()
        if not gone and answer is not None:
            return ReplayedResponse(_decrypted(master_key, asked, answer))
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
        return (
            FreshRequest(asked, holder)
            if taken
            else RunningRequest(max(1, started_at + LOST_AFTER - now))
        )
    return RunningRequest(LOST_AFTER)


def finish(
    tx: Transaction, master_key: MasterKey, fresh: FreshRequest, answer: StoredResponse, now: int
) -> None:
    """Store the response, in the transaction that created the object.

    Raises: LeaseLost, if the request was taken over; nothing must be committed then.
    """
    name = _params(fresh.request)
    sealed = master_key.encrypt(
        msgspec.msgpack.encode(answer), bound_to=answer_aad(**name), purpose=ANSWER
    )
    if not tx.run(_sql.finish, **name, holder=fresh.holder, answer=sealed, now=now):
        raise LeaseLost("another process handles this request now; send it again with the same key")


def abandon(tx: Transaction, fresh: FreshRequest) -> None:
    """Delete a refused request, so that it may be sent again."""
    tx.run(_sql.abandon, **_params(fresh.request), holder=fresh.holder)


def forget(tx: Transaction, now: int, most: int = 1_000) -> int:
    """Delete expired requests, at most so many; return how many."""
    return tx.run(_sql.forget, before=now - KEPT_FOR, most=most)


def _params(asked: IdempotentRequest) -> dict[str, str]:
    return {"tenant": asked.tenant, "route": asked.route, "key": asked.key}


def answer_aad(tenant: str, route: str, key: str) -> bytes:
    """Bind a response to its row, so that it cannot be decrypted for another."""
    return msgspec.msgpack.encode(("idempotency", tenant, route, key))


def _decrypted(master_key: MasterKey, asked: IdempotentRequest, sealed: bytes) -> StoredResponse:
    aad = answer_aad(**_params(asked))
    plain = master_key.decrypt(bytes(sealed), bound_to=aad, purpose=ANSWER)
    return msgspec.msgpack.decode(plain, type=StoredResponse)
