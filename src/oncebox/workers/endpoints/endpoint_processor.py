"""EndpointProcessor: sends an event to its endpoint, signed, and settles the answer.

See docs/decisions/0056-use-deliveries-for-events-to-endpoints.md.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Protocol

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    EgressFailed,
    EgressRefused,
    MasterKeyWrong,
    NotFound,
    Permanent,
    Transient,
)
from oncebox.ledger.ciphers import EndpointCipher
from oncebox.ledger.deliveries import settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.endpoints import endpoints
from oncebox.ledger.endpoints.endpoints import EndpointOutcome
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import (
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.retry import failure_from_error, one_line, settle_failure
from oncebox.model.endpoints import (
    RETRY_RULES,
    SOURCE_PREFIX,
    AnswerKind,
    Endpoint,
    answer_kind,
)
from oncebox.webhooks.signing import sign
from oncebox.workers.deliveries.handlers import release_settlement

#: bytes of an answer that are stored
_EXCERPT = 1_000
#: seconds after which a success is recorded again
_RECORD_SUCCESS_EVERY = 30.0
#: seconds between two looks for due deliveries
_LOOK_EVERY = 0.02
#: deliveries that test an endpoint after a rest
_PROBE = 1
_SECONDS = re.compile(r"[0-9]{1,9}")
#: seconds
_LONGEST_RETRY_AFTER = 86_400.0


class Response(Protocol):
    """An endpoint's answer."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by lower-case names."""

    @property
    def body(self) -> bytes | None:
        """The beginning of the body."""


class Deliver(Protocol):
    """Sends requests to endpoints."""

    async def deliver(
        self, url: str, body: bytes, *, headers: Mapping[str, str], most: int, within: float
    ) -> Response:
        """POST a body.

        Raises: EgressRefused, EgressFailed.
        """


class EndpointTargets:
    """The claim targets of endpoints: those that have due deliveries and do not rest."""

    def __init__(self, ledger: Ledger, *, worker: str, lease: float) -> None:
        self._ledger = ledger
        self._worker = worker
        self._lease = int(lease * 1000)
        #: the endpoints that were found last, for the processor
        self.known: dict[tuple[str, str], Endpoint] = {}
        self._look_at = 0.0

    async def list_targets(self) -> list[DeliveryClaimant]:
        """Return the targets to claim from now."""
        # Every delivery notifies this worker, and few of them are for endpoints.
        if (wait := self._look_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        self._look_at = clock.steady() + _LOOK_EVERY
        now = self._ledger.clock()
        found = await self._ledger.read(endpoints.busy, now)
        self.known.update({(each.tenant, each.delivery_source): each for each in found})
        return [self._claimant(each, now) for each in found]

    def _claimant(self, place: Endpoint, now: int) -> DeliveryClaimant:
        return DeliveryClaimant(
            place.tenant,
            place.delivery_source,
            self._worker,
            self._lease,
            RETRY_RULES.tries,
            RETRY_RULES.budget,
            concurrency=_concurrency(place, now),
        )


def _concurrency(place: Endpoint, now: int) -> int:
    """Return how many deliveries an endpoint may get at a time."""
    if place.paused is not None:
        return 0
    if place.rests_until is None:
        return place.concurrency
    return _PROBE if place.rests_until <= now else 0


class EndpointProcessor:
    """Turns a claimed event into a settlement by sending it."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        egress: Callable[[], Deliver],
        cipher: EndpointCipher,
        targets: EndpointTargets,
        telemetry: Telemetry,
        *,
        within: float,
        random: Callable[[], float],
    ) -> None:
        """Give an endpoint ``within`` seconds to answer; ``egress`` is made when it is needed."""
        self._ledger = ledger
        self._retrying = ledger.retrying()
        self._egress = egress
        self._cipher = cipher
        self._targets = targets
        self._telemetry = telemetry
        self._within = within
        self._random = random
        self._agent = f"oncebox/{version('oncebox')}"
        self._recorded_at: dict[tuple[str, str], float] = {}

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that a try may take."""
        del delivery
        return self._within + 5

    async def process(self, delivery: Delivery) -> Settlement:
        """Send one event; one whose endpoint was removed meanwhile is dropped."""
        try:
            return await self._process(delivery, await self._endpoint(delivery))
        except (NotFound, Transient):
            if not await self._is_removed(delivery):
                raise
        return Settlement(
            delivery=delivery, state=DeliveryState.DONE, outcome=DeliveryOutcome.DROPPED
        )

    async def _process(self, delivery: Delivery, place: Endpoint) -> Settlement:
        """Send one event; an answer other than 2xx raises."""
        if place.paused is not None:  # its worker was lost before
            return release_settlement(delivery, self._ledger.clock())
        faults.point("endpoints.claimed")
        try:
            answer = await self._send(place, delivery)
        except EgressFailed as error:
            await self._record(place, accepted=False)
            self._telemetry.endpoint_answers.labels("none").inc()
            raise Transient(str(error)) from error
        except EgressRefused as error:
            await self._record(place, accepted=False)
            raise Transient(f"{error}; allow it with the setting egress.allow") from error
        faults.point("endpoints.answered")
        kind = answer_kind(answer.status)
        self._telemetry.endpoint_answers.labels(f"{answer.status // 100}xx").inc()
        await self._record(place, accepted=kind is AnswerKind.ACCEPTED)
        if kind is AnswerKind.GONE:
            await self._mark_gone(place)
            raise Permanent(_described(answer))
        if kind is AnswerKind.REFUSED:
            raise Transient(
                _described(answer), retry_after=_retry_after(answer, self._ledger.clock())
            )
        return Settlement(
            delivery=delivery, state=DeliveryState.DONE, outcome=DeliveryOutcome.HANDLED
        )

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return the settlement of an event that was not accepted."""
        failure = failure_from_error(error)
        settled = settle_failure(
            delivery, failure, RETRY_RULES, now=self._ledger.clock(), random=self._random
        )
        settlements.log_failed_try(self._telemetry.log, settled)
        return settled

    async def _send(self, place: Endpoint, delivery: Delivery) -> Response:
        try:
            secrets = self._cipher.decrypt(place.tenant, place.name, place.secrets)
        except MasterKeyWrong as error:
            raise Permanent(str(error)) from error
        signed = sign(secrets, delivery.key, self._ledger.clock(), delivery.body)
        headers = {
            "content-type": "application/json",
            "user-agent": self._agent,
            "accept": "*/*",
            **signed,
        }
        return await self._egress().deliver(
            place.url, delivery.body, headers=headers, most=_EXCERPT, within=self._within
        )

    async def _endpoint(self, delivery: Delivery) -> Endpoint:
        """Return the endpoint of a delivery as it was when it was claimed.

        Raises: NotFound, if it was removed.
        """
        found = self._targets.known.get((delivery.tenant, delivery.source))
        if found is not None:
            return found
        return await self._stored(delivery)

    async def _stored(self, delivery: Delivery) -> Endpoint:
        name = delivery.source.removeprefix(SOURCE_PREFIX)
        return await self._retrying.read(endpoints.get, delivery.tenant, name)

    async def _is_removed(self, delivery: Delivery) -> bool:
        try:
            await self._stored(delivery)
        except NotFound:
            return True
        return False

    async def _record(self, place: Endpoint, *, accepted: bool) -> None:
        """Count an outcome for the circuit breaker; successes of a healthy endpoint rarely."""
        ref = (place.tenant, place.name)
        healthy = not place.failures and place.rests_until is None
        due = self._recorded_at.get(ref, 0.0)
        if accepted and healthy and clock.steady() < due:
            return
        self._recorded_at[ref] = clock.steady() + _RECORD_SUCCESS_EVERY
        opened = await self._retrying.write(
            endpoints.record_outcomes,
            [EndpointOutcome(*ref, accepted)],
            self._random,
            self._ledger.clock(),
        )
        for each in opened:
            self._telemetry.endpoint_breakers.inc()
            self._telemetry.log.warning(
                "endpoint_failing", endpoint=each.name, failures=each.failures
            )
            self._ledger.notify(EVENTS)

    async def _mark_gone(self, place: Endpoint) -> None:
        now = self._ledger.clock()
        if await self._retrying.write(endpoints.mark_gone, place.tenant, place.name, now):
            self._telemetry.log.warning("endpoint_paused", endpoint=place.name, reason="gone")
            self._ledger.notify(EVENTS)


def _described(answer: Response) -> str:
    """Return an answer in one line: its status, and the beginning of its body."""
    text = (answer.body or b"").decode("utf-8", "replace")
    return one_line(f"the endpoint answered {answer.status}: {text}").removesuffix(":")


def _retry_after(answer: Response, now: int) -> float | None:
    """Return the seconds an endpoint asks to wait, as a number or a date; a day at most."""
    text = answer.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, at - now / 1000), _LONGEST_RETRY_AFTER)
