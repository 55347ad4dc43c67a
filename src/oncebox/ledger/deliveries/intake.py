"""Intake: checks arriving requests and accepts them through group commit."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Required, TypedDict, Unpack

import msgspec

from oncebox.core import faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.db.group_commit import GroupCommit
from oncebox.errors import InputRefused, OnceboxError, StoreFailed
from oncebox.ledger.deliveries.deduplication import accept, accept_new
from oncebox.ledger.notifications import DUE
from oncebox.model import validation
from oncebox.model.deliveries.delivery import (
    Accepted,
    ArrivalKind,
    LaneOrder,
    LaneRules,
    NewDelivery,
    encode_headers,
    lane_order,
)
from oncebox.settings import LimitSettings

_DEFAULT_LANE_RULES = LaneRules()
#: arrivals that somebody should look at
_ALARMING = {ArrivalKind.CONFLICT, ArrivalKind.SUSPICIOUS_REPLAY}

#: what came in one request, committed together
RequestDeliveries = tuple[NewDelivery, ...]


class SharedArrivalFields(TypedDict, total=False):
    """What the elements of a request have in common; each may be left out."""

    headers: Iterable[tuple[str, str]]
    road: str
    #: what a repeat of failed or dead work does: ``rearm`` or ``count``
    redelivery: str
    #: whose it is; the intake's own tenant unless given
    tenant: str | None
    #: what becomes of a known body under a new unsigned key: ``hold``, ``run`` or ``drop``
    on_replay: str
    #: what was found about its time: ``fresh``, ``late`` or ``undated``
    verdict: str
    #: which of the source's secrets had signed it
    secret_id: str | None
    #: why it is held from the beginning, if it is new
    hold_reason: str | None
    #: the order within lanes
    rules: LaneRules


class ArrivalFields(SharedArrivalFields, total=False):
    """Everything an arrival may be said to be."""

    #: what makes it the same arrival; None: its body
    key: Required[str | None]
    body: Required[bytes]
    type_: str
    #: what stands for the body, where parts of that change from one sending to the next
    fingerprint: bytes | None
    #: nobody signed the key, or that there is none, so that a known body under a new one, or
    #: under none, is a replay
    unsigned: bool
    #: arrivals with the same one run one at a time
    order_key: str | None
    #: its number among those
    sequence: int | None
    #: our own delivery that was forwarded and came back
    echo_of: str | None


class BatchElement(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a batch request: which part of the body it is, and what it says."""

    start: int
    size: int
    #: None: the same part is the same arrival
    key: str | None = None
    type: str = ""
    #: of the part, without what changes from one sending to the next
    fingerprint: bytes | None = None
    unsigned: bool = False
    order_key: str | None = None
    sequence: int | None = None


class _CommitCallback:
    """Receives the result of a commit without a task or a future."""

    __slots__ = ("_callback", "_telemetry")

    def __init__(
        self, telemetry: Telemetry, callback: Callable[[OnceboxError | None], None]
    ) -> None:
        self._telemetry = telemetry
        self._callback = callback

    def done(self) -> bool:
        return False

    def set_result(self, _accepted: Accepted, /) -> None:
        faults.point("accept.committed")
        self._call_back(None)

    def set_exception(self, error: Exception, /) -> None:
        known = error if isinstance(error, OnceboxError) else StoreFailed("the commit failed")
        self._telemetry.refused.labels(known.code).inc()
        self._call_back(known)

    def _call_back(self, error: OnceboxError | None) -> None:
        try:
            self._callback(error)
        except Exception:
            # Whether the delivery is on disk does not depend on the callback.
            self._telemetry.log.exception("answer_not_given")


class Intake:
    """Stores deliveries; a result means that the delivery is on disk."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        *,
        tenant: str,
        limits: LimitSettings,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Store deliveries of this tenant unless another is given."""
        self._database = database
        self._telemetry = telemetry
        self._tenant = tenant
        self._limits = limits
        self._new_id = new_id
        self._group = GroupCommit(
            database,
            # Where the fast form applies it was tried before: not all of these are new.
            partial(accept, look_first=True) if database.round_trips else accept,
            fast=accept_new,
            waiting=limits.waiting,
            size=lambda each: len(each.body),
            committed=self._after_commit,
        )
        #: requests whose deliveries must be committed together or in order
        self._requests = GroupCommit(
            database,
            _accept_requests,
            in_order=True,
            waiting=limits.waiting,
            size=lambda request: sum(len(each.body) for each in request[:1]),
            committed=self._after_request_commit,
        )

    async def accept(self, source: str, **sides: Unpack[ArrivalFields]) -> Accepted:
        """Store an arrival once; without a key, the same body is the same arrival.

        Raises: InputRefused, RowRefused, StoreUnavailable.
        """
        try:
            new = self.draft(source, **sides)
            faults.point("accept.verified")
            accepted = await self._submit(new)
        except OnceboxError as error:
            self._telemetry.refused.labels(error.code).inc()
            raise
        faults.point("accept.committed")
        return accepted

    def accept_with_callback(
        self, new: NewDelivery, callback: Callable[[OnceboxError | None], None]
    ) -> None:
        """Store a draft that is in no lane; call ``callback`` after the commit, or with the error.

        The same as ``accept``, for callers without a task.

        Raises: StoreUnavailable.
        """
        waiter = _CommitCallback(self._telemetry, callback)
        faults.point("accept.verified")
        self._group.enqueue(new, waiter)

    async def accept_many(
        self,
        source: str,
        elements: Sequence[BatchElement],
        *,
        body: bytes,
        **sides: Unpack[SharedArrivalFields],
    ) -> list[Accepted | InputRefused]:
        """Store the elements of one request, in one commit; the request itself is kept once.

        Each element is new, a duplicate or a conflict by itself, and one that cannot be taken
        is answered with the error while the others are stored.

        Raises: InputRefused, RowRefused, StoreUnavailable.
        """
        try:
            drafts = self.drafts(source, elements, body=body, **sides)
            faults.point("accept.verified")
            good = tuple(each for each in drafts if isinstance(each, NewDelivery))
            accepted = await self._requests.submit(good) if good else []
        except OnceboxError as error:
            self._telemetry.refused.labels(error.code).inc()
            raise
        faults.point("accept.committed")
        answers = dict(zip((each.id for each in good), accepted, strict=True))
        return [each if isinstance(each, InputRefused) else answers[each.id] for each in drafts]

    def drafts(
        self,
        source: str,
        elements: Sequence[BatchElement],
        *,
        body: bytes,
        **sides: Unpack[SharedArrivalFields],
    ) -> list[NewDelivery | InputRefused]:
        """Check the elements of a request and return what the ledger takes of each."""
        whole = self.draft(source, key=None, body=body, **sides)
        rules = sides.get("rules", _DEFAULT_LANE_RULES)
        return [self._element_draft(whole, each, rules) for each in elements]

    def draft(  # noqa: PLR0913 - an arrival simply has this many sides
        self,
        source: str,
        *,
        key: str | None,
        body: bytes,
        headers: Iterable[tuple[str, str]] = (),
        type_: str = "",
        order_key: str | None = None,
        road: str = "api",
        redelivery: str = "rearm",
        tenant: str | None = None,
        fingerprint: bytes | None = None,
        unsigned: bool = False,
        on_replay: str = "hold",
        verdict: str = "",
        secret_id: str | None = None,
        hold_reason: str | None = None,
        sequence: int | None = None,
        rules: LaneRules = _DEFAULT_LANE_RULES,
        echo_of: str | None = None,
    ) -> NewDelivery:
        """Check an arrival and return what the ledger takes; nothing is stored yet."""
        now = self._database.clock()
        limits = self._limits
        _check_fields(source, key, type_, order_key, sequence)
        validation.check_body(body, limit=limits.body)
        kept = validation.check_headers(headers, count=limits.header_count, size=limits.headers)
        mark = hashlib.sha256(body).digest() if fingerprint is None else fingerprint
        return NewDelivery(
            id=self._new_id("dlv"),
            tenant=tenant or self._tenant,
            source=source,
            key=f"sha256:{mark.hex()}" if key is None else key,
            body=body,
            headers=encode_headers(kept),
            fingerprint=mark,
            type=type_,
            road=road,
            lane=order_key,
            order=None if order_key is None else _order(rules, type_, sequence, now),
            received_at=now,
            redelivery=redelivery,
            unsigned=unsigned,
            on_replay=on_replay,
            verdict=verdict,
            secret_id=secret_id,
            hold_reason=hold_reason,
            echo_of=echo_of,
        )

    def _element_draft(
        self, whole: NewDelivery, each: BatchElement, rules: LaneRules
    ) -> NewDelivery | InputRefused:
        """Return an element of a request as an arrival of its own, or why it cannot be one."""
        try:
            _check_fields(whole.source, each.key, each.type, each.order_key, each.sequence)
        except InputRefused as error:
            self._telemetry.refused.labels(error.code).inc()
            return error
        part = memoryview(whole.body)[each.start : each.start + each.size]
        mark = each.fingerprint or hashlib.sha256(part).digest()
        now = whole.received_at
        return msgspec.structs.replace(
            whole,
            id=self._new_id("dlv"),
            key=f"sha256:{mark.hex()}" if each.key is None else each.key,
            fingerprint=mark,
            type=each.type,
            lane=each.order_key,
            order=None if each.order_key is None else _order(rules, each.type, each.sequence, now),
            unsigned=each.unsigned,
            payload_id=whole.id.replace("dlv_", "pay_"),
            start=each.start,
            length=len(part),
        )

    async def _submit(self, new: NewDelivery) -> Accepted:
        if new.lane is None:
            return await self._group.submit(new)
        (accepted,) = await self._requests.submit((new,))
        return accepted

    def _after_request_commit(
        self, batch: Sequence[tuple[RequestDeliveries, list[Accepted]]]
    ) -> None:
        pairs = (zip(request, answers, strict=True) for request, answers in batch)
        self._after_commit([pair for request in pairs for pair in request])

    def _after_commit(self, batch: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Notify and count, once per commit."""
        self._database.notify(DUE)
        self._telemetry.commit_rows.labels("accept").observe(len(batch))
        new = Counter(each.source for each, answer in batch if answer.arrival is ArrivalKind.NEW)
        for source, count in new.items():
            self._telemetry.accepted.labels(source).inc(count)
        classes = Counter(answer.sighting for _, answer in batch if answer.sighting is not None)
        for sighting, count in classes.items():
            self._telemetry.duplicates.labels("delivery", sighting).inc(count)
        for each, answer in batch:
            if answer.arrival in _ALARMING:
                self._telemetry.log.warning(
                    str(answer.arrival), delivery=answer.id, source=each.source
                )


def _accept_requests(
    tx: Transaction, requests: Sequence[RequestDeliveries], now: int
) -> list[list[Accepted]]:
    arrivals = [each for request in requests for each in request]
    accepted = iter(accept(tx, arrivals, now))
    return [[next(accepted) for _ in request] for request in requests]


def _check_fields(
    source: str, key: str | None, type_: str, order_key: str | None, sequence: int | None
) -> None:
    validation.check_source_name(source)
    validation.check_type(type_)
    if key is not None:
        validation.check_key(key)
    if order_key is not None:
        validation.check_key(order_key, "order key")
    if sequence is not None:
        validation.check_sequence(sequence)


def _order(rules: LaneRules, type_: str, sequence: int | None, now: int) -> LaneOrder | None:
    """Return what is particular about a place in a lane; most lanes only go by arrival."""
    if sequence is None and not rules.after:
        return None
    return lane_order(rules, type_, sequence, now)
