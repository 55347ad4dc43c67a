"""Intake: validates arrivals, gives each a deduplication key, and stores them by group commit."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Required, TypedDict, Unpack

import msgspec

from oncebox.core import faults, ids
from oncebox.core.logging import loggable_key
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.db.group_commit import GroupCommit, ResultSink
from oncebox.errors import InputRefused, OnceboxError
from oncebox.ledger.deliveries.deduplication import accept, count_duplicates, insert_new
from oncebox.ledger.notifications import DUE, EVENTS
from oncebox.model import validation
from oncebox.model.deliveries.delivery import (
    Accepted,
    ArrivalKind,
    DeliveryOutcome,
    DeliveryState,
    LaneOrder,
    LaneRules,
    NewDelivery,
    encode_headers,
    lane_order,
)
from oncebox.settings import LimitSettings

_DEFAULT_LANE_RULES = LaneRules()
#: arrivals that are logged as warnings
_ALARMING = {ArrivalKind.CONFLICT, ArrivalKind.SUSPICIOUS_REPLAY}

#: made by ``encode_headers`` of headers that are within the limits, and need no further check
EncodedHeaders = bytes
#: the deliveries of one request, committed together
RequestDeliveries = tuple[NewDelivery, ...]


class _StoredFields(TypedDict, total=False):
    """Fields of ``NewDelivery`` that are stored as given."""

    road: str
    redelivery: str
    on_replay: str
    verdict: str
    secret_id: str | None
    hold_reason: str | None


class SharedArrivalFields(_StoredFields, total=False):
    """What the elements of a request have in common."""

    headers: Iterable[tuple[str, str]]
    #: the intake's own tenant unless given
    tenant: str | None
    #: the order within lanes
    rules: LaneRules


class ArrivalFields(SharedArrivalFields, total=False):
    """An arrival; see ``NewDelivery``."""

    #: the deduplication key; None: the fingerprint
    key: Required[str | None]
    body: Required[bytes]
    type_: str
    #: identifies the content, where parts of the body change from one sending to the next
    fingerprint: bytes | None
    unsigned: bool
    #: arrivals with the same one run one at a time
    order_key: str | None
    #: its number among those
    sequence: int | None
    echo_of: str | None


class BatchElement(msgspec.Struct, frozen=True, kw_only=True):
    """One element of a batch request: a part of the body."""

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
        self._database = database
        self._telemetry = telemetry
        self._tenant = tenant
        self.limits = limits
        self._new_id = new_id
        self._group = GroupCommit(
            database,
            # The fast form has been tried before: not all of these are new.
            partial(accept, look_first=True),
            insert=insert_new,
            known=count_duplicates,
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

    async def accept(
        self, source: str, *, in_order: bool = False, **fields: Unpack[ArrivalFields]
    ) -> Accepted:
        """Store an arrival once; without a key, the same body is the same arrival.

        ``in_order``: before all that this process accepts in order later.

        Raises: InputRefused, RowRefused, StoreUnavailable.
        """
        try:
            new = self.draft(source, **fields)
            faults.point("accept.verified")
            if new.lane is None and not in_order:
                accepted = await self._group.submit(new)
            else:
                (accepted,) = await self._requests.submit((new,))
        except OnceboxError as error:
            self._telemetry.refused.labels(error.code).inc()
            raise
        faults.point("accept.committed")
        return accepted

    def enqueue(self, new: NewDelivery, waiter: ResultSink[Accepted]) -> None:
        """Store a draft that is in no lane; the waiter receives the result of its commit.

        The same as ``accept``, for callers without a task.

        Raises: StoreUnavailable.
        """
        faults.point("accept.verified")
        self._group.enqueue(new, waiter)

    async def accept_many(
        self,
        source: str,
        elements: Sequence[BatchElement],
        *,
        body: bytes,
        **fields: Unpack[SharedArrivalFields],
    ) -> list[Accepted | InputRefused]:
        """Store the elements of one request in one commit; the request itself is stored once.

        Each element is new, a duplicate or a conflict by itself; for an invalid one the error is
        returned while the others are stored.

        Raises: InputRefused, RowRefused, StoreUnavailable.
        """
        try:
            drafts = self.drafts(source, elements, body=body, **fields)
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
        **fields: Unpack[SharedArrivalFields],
    ) -> list[NewDelivery | InputRefused]:
        """Check the elements of a request; return the delivery of each, or its error."""
        whole = self.draft(source, key=None, body=body, **fields)
        rules = fields.get("rules", _DEFAULT_LANE_RULES)
        return [self._element_draft(whole, each, rules) for each in elements]

    def draft(  # noqa: PLR0913 - an arrival has this many properties
        self,
        source: str,
        *,
        key: str | None,
        body: bytes,
        headers: Iterable[tuple[str, str]] | EncodedHeaders = (),
        type_: str = "",
        order_key: str | None = None,
        sequence: int | None = None,
        rules: LaneRules = _DEFAULT_LANE_RULES,
        tenant: str | None = None,
        fingerprint: bytes | None = None,
        unsigned: bool = False,
        echo_of: str | None = None,
        road: str = "api",
        redelivery: str = "rearm",
        on_replay: str = "hold",
        verdict: str = "",
        secret_id: str | None = None,
        hold_reason: str | None = None,
    ) -> NewDelivery:
        """Check an arrival and return its delivery; nothing is stored yet."""
        now = self._database.clock()
        limits = self.limits
        _check_fields(source, key, type_, order_key, sequence)
        validation.check_body(body, limit=limits.body)
        if not isinstance(headers, bytes):
            headers = encode_headers(
                validation.check_headers(headers, count=limits.header_count, size=limits.headers)
            )
        fingerprint = hashlib.sha256(body).digest() if fingerprint is None else fingerprint
        return NewDelivery(
            id=self._new_id("dlv"),
            tenant=tenant or self._tenant,
            source=source,
            key=f"sha256:{fingerprint.hex()}" if key is None else key,
            body=body,
            headers=headers,
            fingerprint=fingerprint,
            type=type_,
            lane=order_key,
            order=None if order_key is None else _order(rules, type_, sequence, now),
            received_at=now,
            unsigned=unsigned,
            echo_of=echo_of,
            road=road,
            redelivery=redelivery,
            on_replay=on_replay,
            verdict=verdict,
            secret_id=secret_id,
            hold_reason=hold_reason,
        )

    def _element_draft(
        self, whole: NewDelivery, each: BatchElement, rules: LaneRules
    ) -> NewDelivery | InputRefused:
        """Return the delivery of one element, or the error."""
        try:
            _check_fields(whole.source, each.key, each.type, each.order_key, each.sequence)
        except InputRefused as error:
            self._telemetry.refused.labels(error.code).inc()
            return error
        part = memoryview(whole.body)[each.start : each.start + each.size]
        fingerprint = each.fingerprint or hashlib.sha256(part).digest()
        now = whole.received_at
        return msgspec.structs.replace(
            whole,
            id=self._new_id("dlv"),
            key=f"sha256:{fingerprint.hex()}" if each.key is None else each.key,
            fingerprint=fingerprint,
            type=each.type,
            lane=each.order_key,
            order=None if each.order_key is None else _order(rules, each.type, each.sequence, now),
            unsigned=each.unsigned,
            payload_id=whole.id.replace("dlv_", "pay_"),
            start=each.start,
            length=len(part),
        )

    def _after_request_commit(
        self, batch: Sequence[tuple[RequestDeliveries, list[Accepted]]]
    ) -> None:
        pairs = (zip(request, answers, strict=True) for request, answers in batch)
        self._after_commit([pair for request in pairs for pair in request])

    def _after_commit(self, batch: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Notify and count, once per commit."""
        self._database.notify(DUE)
        self._telemetry.commit_rows.labels("accept").observe(len(batch))
        others = [pair for pair in batch if pair[1].arrival is not ArrivalKind.NEW]
        new = Counter([each.source for each, _ in batch])
        new.subtract([each.source for each, _ in others])
        for source, count in new.items():
            self._telemetry.accepted.labels(source).inc(count)
        if others:
            self._count_others(others)
        held = [pair for pair in batch if pair[1].state is DeliveryState.HELD and _is_new(*pair)]
        if held:
            self._report_held(held)

    def _report_held(self, held: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Announce, count and log deliveries that wait for a person from the beginning."""
        self._database.notify(EVENTS)
        for each, answer in held:
            self._telemetry.settled.labels(each.source, DeliveryOutcome.HELD).inc()
            self._telemetry.log.warning(
                "delivery_held",
                delivery=answer.id,
                source=each.source,
                key=loggable_key(each.key),
                reason=each.hold_reason if answer.arrival is ArrivalKind.NEW else answer.arrival,
            )

    def _count_others(self, others: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Count duplicates; log what may be an attack, unless it is held, which is logged."""
        classes = Counter(answer.duplicate_class for _, answer in others)
        for name, count in classes.items():
            if name is not None:
                self._telemetry.duplicates.labels("delivery", name).inc(count)
        for each, answer in others:
            is_held = answer.state is DeliveryState.HELD and _is_new(each, answer)
            if answer.arrival in _ALARMING and not is_held:
                self._telemetry.log.warning(
                    str(answer.arrival), delivery=answer.id, source=each.source
                )


def _is_new(arrival: NewDelivery, answer: Accepted) -> bool:
    """Say whether this very arrival was stored, be it as a conflict or a replay."""
    return answer.id == arrival.id


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
    """Return an order that differs from that of arrival; most lanes have none."""
    if sequence is None and not rules.after:
        return None
    return lane_order(rules, type_, sequence, now)
