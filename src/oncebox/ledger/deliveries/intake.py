"""The intake: checks an arrival, then shares a commit with whoever arrives at the same time."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from oncebox import faults, ids
from oncebox.config import LimitSettings
from oncebox.errors import OnceboxError
from oncebox.ledger.deliveries.arrivals import accept, accept_new
from oncebox.model import arrival
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, encode_headers
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

#: rung when something became due
DUE = "due"


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
        """Take arrivals for one tenant."""
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
        self._lanes = Group(
            database,
            self._accept,
            in_order=True,
            waiting=limits.waiting,
            size=lambda each: len(each.body),
            committed=self._tell,
        )

    async def accept(  # noqa: PLR0913 - an arrival simply has this many sides
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
    ) -> Accepted:
        """Store an arrival once; without a key, the same body is the same arrival.

        Raises: InputRefused, RowRefused, StoreUnavailable.
        """
        received_at = self._database.clock()
        try:
            self._check(source, key, body, type_, order_key)
            kept = arrival.check_headers(
                headers, count=self._limits.header_count, size=self._limits.headers
            )
            fingerprint = hashlib.sha256(body).digest()
            new = NewDelivery(
                id=self._new_id("dlv"),
                tenant=self._tenant,
                source=source,
                key=key if key is not None else f"sha256:{fingerprint.hex()}",
                body=body,
                headers=encode_headers(kept),
                fingerprint=fingerprint,
                type=type_,
                road=road,
                lane=order_key,
                received_at=received_at,
                redelivery=redelivery,
            )
            faults.point("accept.verified")
            group = self._group if order_key is None else self._lanes
            accepted = await group.submit(new)
        except OnceboxError as error:
            self._telemetry.refused.labels(error.code).inc()
            raise
        faults.point("accept.committed")
        return accepted

    def _check(
        self, source: str, key: str | None, body: bytes, type_: str, order_key: str | None
    ) -> None:
        arrival.check_source(source)
        arrival.check_type(type_)
        arrival.check_body(body, limit=self._limits.body)
        if key is not None:
            arrival.check_key(key)
        if order_key is not None:
            arrival.check_key(order_key, "order key")

    def _accept(self, tx: Transaction, arrivals: Sequence[NewDelivery]) -> list[Accepted]:
        return accept(tx, arrivals, self._database.clock())

    def _accept_new(
        self, tx: Transaction, arrivals: Sequence[NewDelivery]
    ) -> list[Accepted] | None:
        return accept_new(tx, arrivals, self._database.clock())

    def _tell(self, batch: Sequence[tuple[NewDelivery, Accepted]]) -> None:
        """Ring and count, once for all that shared a commit."""
        self._database.ring(DUE)
        self._telemetry.commit_rows.labels("accept").observe(len(batch))
        new = Counter(each.source for each, answer in batch if answer.arrival is Arrival.NEW)
        for source, count in new.items():
            self._telemetry.accepted.labels(source).inc(count)
        for each, answer in batch:
            if answer.arrival is not Arrival.NEW:
                self._telemetry.duplicates.labels("delivery", answer.sighting).inc()
            if answer.arrival is Arrival.CONFLICT:
                self._telemetry.log.warning("conflict", delivery=answer.id, source=each.source)
