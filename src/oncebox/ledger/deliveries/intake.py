"""The intake: checks an arrival, then shares a commit with whoever arrives at the same time."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Required, TypedDict, Unpack

import msgspec

from oncebox import faults, ids
from oncebox.config import LimitSettings
from oncebox.errors import InputRefused, OnceboxError, StoreFailed
from oncebox.ledger.deliveries.arrivals import accept, accept_new
from oncebox.model import arrival
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, encode_headers
from oncebox.model.ordering import LaneRules, Order, order
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

#: rung when something became due
DUE = "due"

_PLAIN = LaneRules()
#: arrivals that somebody should look at
_ALARMING = {Arrival.CONFLICT, Arrival.SUSPICIOUS_REPLAY}

#: what came in one request, committed together
Request = tuple[NewDelivery, ...]


class Shared(TypedDict, total=False):
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


class Sides(Shared, total=False):
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


class Element(msgspec.Struct, frozen=True, kw_only=True):
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


class _Enlisted:
    """Waits for a commit without a task or a future."""

    __slots__ = ("_telemetry", "_told")

    def __init__(self, telemetry: Telemetry, told: Callable[[OnceboxError | None], None]) -> None:
        self._telemetry = telemetry
        self._told = told

    def done(self) -> bool:
        return False

    def set_result(self, _accepted: Accepted, /) -> None:
        faults.point("accept.committed")
        self._tell(None)

    def set_exception(self, error: Exception, /) -> None:
        known = error if isinstance(error, OnceboxError) else StoreFailed("the commit failed")
        self._telemetry.refused.labels(known.code).inc()
        self._tell(known)

    def _tell(self, error: OnceboxError | None) -> None:
        try:
            self._told(error)
        except Exception:
            # It is on disk or it is not; that nobody could be told changes nothing.
            self._telemetry.log.exception("answer_not_given")


class Intake:
    """The one way into the ledger; an answer means that the arrival is on disk."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        *,
        tenant: str,
        limits: LimitSettings,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Take arrivals, for this tenant unless told otherwise."""
        self._database = database
        self._telemetry = telemetry
        self._tenant = tenant
        self._limits = limits
        self._new_id = new_id
        self._group = Group(
            database,
            self._accept,
            shortcut=self._accept_new,
            waiting=limits.waiting,
            size=lambda each: len(each.body),
            committed=self._tell,
        )
        #: requests whose deliveries must be committed together or in order
        self._requests = Group(
            database,
            self._accept_requests,
            in_order=True,
            waiting=limits.waiting,
            size=lambda request: sum(len(each.body) for each in request[:1]),
            committed=self._tell_requests,
        )

    async def accept(self, source: str, **sides: Unpack[Sides]) -> Accepted:
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

    def enlist(self, new: NewDelivery, told: Callable[[OnceboxError | None], None]) -> None:
        """Store a draft that is in no lane; ``told`` hears when it is on disk, or why it is not.

        The same as ``accept``, for callers that have no task to wait in.

        Raises: StoreUnavailable.
        """
        faults.point("accept.verified")
        self._group.enlist(new, _Enlisted(self._telemetry, told))

    async def accept_many(
        self, source: str, elements: Sequence[Element], *, body: bytes, **sides: Unpack[Shared]
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
        self, source: str, elements: Sequence[Element], *, body: bytes, **sides: Unpack[Shared]
    ) -> list[NewDelivery | InputRefused]:
        """Check the elements of a request and return what the ledger takes of each.

        Raises: InputRefused, if the request itself cannot be taken.
        """
        whole = self.draft(source, key=None, body=body, **sides)
        rules = sides.get("rules", _PLAIN)
        return [self._element(whole, each, rules) for each in elements]

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
        rules: LaneRules = _PLAIN,
        echo_of: str | None = None,
    ) -> NewDelivery:
        """Check an arrival and return what the ledger takes; nothing is stored yet.

        Raises: InputRefused.
        """
        now = self._database.clock()
        limits = self._limits
        _check(source, key, type_, order_key, sequence)
        arrival.check_body(body, limit=limits.body)
        kept = arrival.check_headers(headers, count=limits.header_count, size=limits.headers)
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

    def _element(
        self, whole: NewDelivery, each: Element, rules: LaneRules
    ) -> NewDelivery | InputRefused:
        """Return an element of a request as an arrival of its own, or why it cannot be one."""
        try:
            _check(whole.source, each.key, each.type, each.order_key, each.sequence)
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

    def _accept(self, tx: Transaction, arrivals: Sequence[NewDelivery]) -> list[Accepted]:
        # Where there is a shortcut it has been tried: not all of these are new.
        look_first = self._database.round_trips
        return accept(tx, arrivals, self._database.clock(), look_first=look_first)

    def _accept_new(
        self, tx: Transaction, arrivals: Sequence[NewDelivery]
    ) -> list[Accepted] | None:
        return accept_new(tx, arrivals, self._database.clock())

    def _accept_requests(
        self, tx: Transaction, requests: Sequence[Request]
    ) -> list[list[Accepted]]:
        arrivals = [each for request in requests for each in request]
        answers = iter(accept(tx, arrivals, self._database.clock()))
        return [[next(answers) for _ in request] for request in requests]

    def _tell_requests(self, batch: Sequence[tuple[Request, list[Accepted]]]) -> None:
        pairs = (zip(request, answers, strict=True) for request, answers in batch)
        self._tell([pair for request in pairs for pair in request])

    def _tell(self, batch: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Ring and count, once for all that shared a commit."""
        self._database.ring(DUE)
        self._telemetry.commit_rows.labels("accept").observe(len(batch))
        new = Counter(each.source for each, answer in batch if answer.arrival is Arrival.NEW)
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


def _check(
    source: str, key: str | None, type_: str, order_key: str | None, sequence: int | None
) -> None:
    arrival.check_source(source)
    arrival.check_type(type_)
    if key is not None:
        arrival.check_key(key)
    if order_key is not None:
        arrival.check_key(order_key, "order key")
    if sequence is not None:
        arrival.check_sequence(sequence)


def _order(rules: LaneRules, type_: str, sequence: int | None, now: int) -> Order | None:
    """Return what is particular about a place in a lane; most lanes only go by arrival."""
    if sequence is None and not rules.after:
        return None
    return order(rules, type_, sequence, now)
