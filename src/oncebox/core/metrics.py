"""Telemetry of one process: Prometheus metrics and the structured log."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client import Metric as MetricFamily
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from oncebox.core import clock
from oncebox.core.logging import Log
from oncebox.errors import InputRefused, OnceboxError, StoreError
from oncebox.model.attempts import BeginStatus
from oncebox.model.deliveries.delivery import DeliveryOutcome, DeliveryState
from oncebox.model.deliveries.duplicates import REJECTION_RULES, DuplicateClass
from oncebox.model.inboxes.received_mail import (
    INBOUND_PROVIDERS,
    ArtifactKind,
    InboundOutcome,
    ParseStatus,
)
from oncebox.model.mailboxes.mailbox import MailboxKind
from oncebox.model.sends.send import AnswerStatus, SendState
from oncebox.model.sends.transports import ProviderStatus

_SECONDS_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
_WAIT_BUCKETS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3_600)
_AGE_BUCKETS = (1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
_ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

#: seconds between two log lines of the same database error
_LOG_ERROR_EVERY = 10.0
#: what happens to codes and links: how they are filed, claimed and given up
_ARTIFACT_ENDS = (
    "available", "superseded", "conflict", "unmatched", "duplicate", "granted", "repeated",
    "already_claimed", "link_refused", "not_opened", "purged", "released", "overwritten",
)  # fmt: skip
_HTTP_ENDS = (
    "idle", "slow_headers", "slow_body", "rest_of_body", "does_not_read", "gave_way", "refused",
    "large_headers", "malformed",
)  # fmt: skip
_SMTP_CODES = (
    "421", "451", "452", "500", "501", "502", "503", "504", "550", "552", "553", "554", "555",
)  # fmt: skip
_SMTP_ENDS = (
    "session_over", "slow_data", "slow_command", "stopping", "too_many", "tls_failed",
)  # fmt: skip
#: readers of lists whose position is remembered
_MAX_TRACKED_READERS = 4_096

#: how a try can end; these series exist for every source from its beginning
SETTLED_OUTCOMES = (
    DeliveryOutcome.HANDLED, DeliveryOutcome.IGNORED, DeliveryOutcome.DROPPED,
    DeliveryOutcome.FAILED, DeliveryOutcome.PERMANENT, DeliveryOutcome.TRIES_USED_UP,
    DeliveryOutcome.TIME_USED_UP, DeliveryOutcome.HELD, DeliveryOutcome.GIVEN_BACK,
)  # fmt: skip
#: states of deliveries that are counted; those that are done need nobody
COUNTED_STATES = tuple(state for state in DeliveryState if state is not DeliveryState.DONE)

M = TypeVar("M", bound=MetricWrapperBase)


def _codes(*kinds: type[OnceboxError]) -> list[str]:
    """Return the codes of these errors and of the more special ones."""
    own = [kind.code for kind in kinds]
    return own + [code for kind in kinds for code in _codes(*kind.__subclasses__())]


class Metric(Generic[M]):
    """Declaration of a metric; every ``Telemetry`` creates its own from it.

    A series that appears with its first event has no increase, so that no alert fires: series
    whose labels are known begin with the process, at zero.
    """

    def __init__(
        self,
        kind: type[M],
        name: str,
        meaning: str,
        *labels: str,
        known: Iterable[str | tuple[str, ...]] = (),
        buckets: Sequence[float] | None = None,
    ) -> None:
        """Declare a metric and its known label values; only a histogram has buckets."""
        self.kind = kind
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self.known = [(each,) if isinstance(each, str) else each for each in known]
        self._options: dict[str, Any] = {} if buckets is None else {"buckets": buckets}

    def create(self, registry: CollectorRegistry) -> M:
        """Return the metric, at zero."""
        made = self.kind(self.name, self.meaning, self.labels, registry=registry, **self._options)
        for values in self.known:
            made.labels(*values)
        return made

    def __get__(self, telemetry: "Telemetry", owner: type) -> M:
        """Tell type checkers that an instance has the metric in place of its declaration."""
        raise AttributeError(self.name)


class Telemetry:
    """Metrics of one process in a registry of their own, and its log."""

    # deliveries
    accepted = Metric(Counter, "oncebox_accepted", "Deliveries stored for the first time", "source")
    duplicates = Metric(
        Counter,
        "oncebox_duplicates",
        "Repeats that caused no second effect",
        "layer",
        "class",
        known=[
            *product(["delivery"], DuplicateClass),
            ("message", "copy"),
            *product(["send"], [*AnswerStatus, "drift"]),
        ],
    )
    refused = Metric(
        Counter,
        "oncebox_refused",
        "Requests and mails refused before storage, by error code",
        "code",
        known=_codes(InputRefused, StoreError),
    )
    rejected = Metric(
        Counter,
        "oncebox_rejected",
        "Rejected webhook requests by their most likely class",
        "class",
        known=[rule.duplicate_class for rule in REJECTION_RULES],
    )
    not_quarantined = Metric(
        Counter, "oncebox_not_quarantined", "Rejected requests dropped by a full quarantine"
    )
    settled = Metric(
        Counter,
        "oncebox_settled",
        "Tries of deliveries by outcome, and deliveries held on arrival",
        "source",
        "outcome",
    )
    deliveries = Metric(
        Gauge,
        "oncebox_deliveries",
        "Deliveries of all tenants that are not done, dead ones until acknowledged; up to 1000",
        "state",
        "source",
    )
    oldest_due = Metric(
        Gauge,
        "oncebox_oldest_due_seconds",
        "How long the oldest due delivery has been waiting for a worker",
        "source",
    )
    oldest_held = Metric(
        Gauge,
        "oncebox_oldest_held_seconds",
        "How long the oldest held delivery has been held",
        "source",
    )
    lease_conflicts = Metric(
        Counter,
        "oncebox_lease_conflicts",
        "Leases that were lost before a write, or that another worker of the attempt held",
    )
    effects = Metric(
        Counter,
        "oncebox_effects",
        "Calls of once.do by outcome",
        "outcome",
        known=["called", "returned", "repeated", "verified", "in_doubt"],
    )
    in_flight = Metric(Gauge, "oncebox_in_flight", "Handlers running in this process")
    handler_seconds = Metric(
        Histogram,
        "oncebox_handler_seconds",
        "Duration of a handler",
        "source",
        buckets=_SECONDS_BUCKETS,
    )
    sources = Metric(Gauge, "oncebox_sources", "Sources by state", "state")
    # database
    commit_rows = Metric(
        Histogram,
        "oncebox_commit_rows",
        "Rows that shared one commit",
        "group",
        buckets=_ROW_BUCKETS,
    )
    free_disk = Metric(
        Gauge, "oncebox_free_disk_bytes", "Free bytes on the fullest disk that the service uses"
    )
    store_errors = Metric(
        Counter,
        "oncebox_store_errors",
        "Database errors by code and by what met them: webhook, smtp, api or a part of a worker",
        "code",
        "path",
        known=product(_codes(StoreError), ("webhook", "smtp", "api")),
    )
    store_overdue = Metric(
        Gauge,
        "oncebox_store_overdue",
        "Calls that the database has not answered although their callers were told to try again",
    )
    # events
    events_numbered = Metric(Counter, "oncebox_events_numbered", "Events numbered by this process")
    sequencer_turns = Metric(
        Counter, "oncebox_sequencer_turns", "Times this process took over the numbering of events"
    )
    cursor_replays = Metric(
        Counter,
        "oncebox_cursor_replays",
        "Cursors that returned to what was already read",
        "list",
        known=["events", "messages", "mailboxes"],
    )
    event_streams = Metric(Gauge, "oncebox_event_streams", "Open event streams")
    # received mail
    parsed = Metric(
        Counter, "oncebox_mail_parsed", "Mails by parsing status", "status", known=ParseStatus
    )
    parser_deaths = Metric(
        Counter,
        "oncebox_parser_deaths",
        "Parser processes that died, by cause",
        "cause",
        known=["cpu", "wall", "memory", "crash"],
    )
    mail_in_flight = Metric(Gauge, "oncebox_mail_in_flight", "Mails being parsed in this process")
    heavy_mail_in_flight = Metric(
        Gauge, "oncebox_heavy_mail_in_flight", "Heavy mails being parsed in this process"
    )
    mail_deferred = Metric(
        Counter,
        "oncebox_mail_deferred",
        "Mails that became heavy: slow to parse, or without a turn in time",
        "why",
        known=["slow", "crowded"],
    )
    messages = Metric(
        Counter, "oncebox_messages", "New messages by parsing status", "status", known=ParseStatus
    )
    artifacts = Metric(
        Counter,
        "oncebox_artifacts",
        "Codes and links by outcome",
        "kind",
        "end",
        known=product(ArtifactKind, _ARTIFACT_ENDS),
    )
    artifact_duplicates = Metric(
        Counter,
        "oncebox_artifact_duplicates",
        "Codes and links that arrived again in further messages",
        "kind",
        known=ArtifactKind,
    )
    inboxes_missed = Metric(
        Counter, "oncebox_inboxes_missed", "Inboxes that ended without a matching message"
    )
    inbound_mails = Metric(
        Counter,
        "oncebox_inbound_mails",
        "Mails that providers' webhooks brought, by outcome",
        "provider",
        "outcome",
        known=product(INBOUND_PROVIDERS, InboundOutcome),
    )
    # endpoints
    endpoint_answers = Metric(
        Counter,
        "oncebox_endpoint_answers",
        "Answers of endpoints, by class of status; none: no answer",
        "status",
        known=["2xx", "3xx", "4xx", "5xx", "none"],
    )
    endpoint_breakers = Metric(
        Counter, "oncebox_endpoint_breakers_opened", "Circuit breakers of endpoints that opened"
    )
    endpoint_events_missed = Metric(
        Counter,
        "oncebox_endpoint_events_missed",
        "Events that were deleted before they were stored for endpoints",
    )
    endpoints_in_flight = Metric(
        Gauge, "oncebox_endpoint_requests_in_progress", "Requests to endpoints in progress"
    )
    # mailboxes on other servers
    mailboxes_reading = Metric(
        Gauge, "oncebox_mailboxes_reading", "Mailboxes that this process reads"
    )
    mailbox_polls = Metric(
        Counter,
        "oncebox_mailbox_polls",
        "Requests for a page of a mailbox, by kind",
        "kind",
        known=MailboxKind,
    )
    mailbox_mails = Metric(
        Counter,
        "oncebox_mailbox_mails",
        "Mails that were read, by kind of mailbox and outcome",
        "kind",
        "outcome",
        known=product(MailboxKind, ["new", "duplicate", "skipped", "unrouted"]),
    )
    mailbox_failures = Metric(
        Counter,
        "oncebox_mailbox_failures",
        "Failures to read a mailbox, by kind; the log has their codes",
        "kind",
        known=MailboxKind,
    )
    mailbox_timeouts = Metric(
        Counter,
        "oncebox_mailbox_timeouts",
        "Failures to read a mailbox because its server did not answer in time, by kind",
        "kind",
        known=MailboxKind,
    )
    mailbox_lag = Metric(
        Gauge,
        "oncebox_mailbox_lag_seconds",
        "How long the next read of a mailbox is overdue; 0 while it is paused",
        "tenant",
        "mailbox",
    )
    mailbox_last_success = Metric(
        Gauge,
        "oncebox_mailbox_last_success_timestamp_seconds",
        "When a mailbox was last read, in seconds since 1970; 0: never",
        "tenant",
        "mailbox",
    )
    mailbox_remaining = Metric(
        Gauge,
        "oncebox_mailbox_remaining",
        "Mails of a mailbox that are still to be read, where its server says so",
        "tenant",
        "mailbox",
    )
    mailbox_paused = Metric(
        Gauge,
        "oncebox_mailbox_paused",
        "1 while a mailbox is paused, by an operator or after failures",
        "tenant",
        "mailbox",
    )
    mailbox_lease_conflicts = Metric(
        Counter,
        "oncebox_mailbox_lease_conflicts",
        "Mailboxes that another process had, or had taken over",
    )
    poll_timeouts = Metric(
        Counter,
        "oncebox_poll_timeouts",
        "Deadlines of programs that passed without a message of their mailbox",
    )
    # attempts and waits
    actions = Metric(
        Counter,
        "oncebox_actions",
        "Actions of attempts by outcome",
        "outcome",
        known=[*BeginStatus, "repeated", "not_done", "stale"],
    )
    resends = Metric(
        Counter,
        "oncebox_resends",
        "Requests to have a mail sent again, by outcome",
        "outcome",
        known=["granted", "refused"],
    )
    waits_open = Metric(Gauge, "oncebox_waits_open", "Open long polls for mail")
    waits = Metric(
        Counter,
        "oncebox_waits",
        "Waits for a code or link by outcome, each once, however many polls it took",
        "end",
        known=["granted", "conflict", "timeout", "in_flight", "inbox_closed"],
    )
    wait_timeouts = Metric(
        Counter, "oncebox_wait_timeouts", "Waits that ended without a code or link"
    )
    poll_attempts = Metric(
        Counter,
        "oncebox_poll_attempts",
        "Requests that may wait for a code, a link or a message",
        "list",
        known=["artifacts", "messages"],
    )
    time_to_first_message = Metric(
        Histogram,
        "oncebox_time_to_first_message_seconds",
        "Time from the creation of an inbox or mailbox to its first message",
        buckets=_WAIT_BUCKETS,
    )
    grant_seconds = Metric(
        Histogram,
        "oncebox_received_to_grant_seconds",
        "Time from the receipt of a mail to its grant to a waiting call",
        buckets=_SECONDS_BUCKETS,
    )
    # HTTP and SMTP
    http_in_flight = Metric(Gauge, "oncebox_http_in_flight", "HTTP requests in flight")
    connections = Metric(Gauge, "oncebox_connections", "Open HTTP connections")
    connections_ended = Metric(
        Counter,
        "oncebox_connections_ended",
        "HTTP connections closed by the service, by reason",
        "why",
        known=_HTTP_ENDS,
    )
    wrong_keys = Metric(Counter, "oncebox_wrong_keys", "HTTP requests without a valid API key")
    smtp_open = Metric(Gauge, "oncebox_smtp_open", "Open SMTP connections")
    smtp_sessions = Metric(Counter, "oncebox_smtp_sessions", "SMTP sessions opened")
    smtp_accepted = Metric(
        Counter, "oncebox_smtp_accepted", "Mails stored for all their recipients"
    )
    smtp_refused = Metric(
        Counter,
        "oncebox_smtp_refused",
        "SMTP error replies by code",
        "code",
        known=_SMTP_CODES,
    )
    smtp_ended = Metric(
        Counter,
        "oncebox_smtp_ended",
        "SMTP connections closed by the service, by reason",
        "why",
        known=_SMTP_ENDS,
    )
    # sends
    send_requests = Metric(
        Counter,
        "oncebox_send_requests",
        "Requests to send by answer: new, rearmed, a repeat, or refused",
        "answer",
        known=["new", "rearmed", "repeated", "refused"],
    )
    sends = Metric(
        Counter, "oncebox_sends", "Tries of sends by resulting status", "status", known=SendState
    )
    sends_in_flight = Metric(
        Gauge, "oncebox_sends_in_flight", "Mails being transmitted in this process"
    )
    send_key_age = Metric(
        Histogram,
        "oncebox_send_key_age_seconds",
        "Age of a send when it was requested again",
        buckets=_AGE_BUCKETS,
    )
    provider_dedupe = Metric(
        Counter,
        "oncebox_provider_dedupe",
        "Repeats of unknown outcome that a provider recognised by their key",
        "kind",
        known=["resend", "smtp", "log"],
    )
    unknown_sends = Metric(
        Gauge, "oncebox_unknown_sends", "Sends of unknown outcome, of all tenants"
    )
    send_evidence = Metric(
        Counter,
        "oncebox_send_evidence",
        "Provider events about sends, by kind and result",
        "what",
        "result",
        known=product(ProviderStatus, ["proof", "news", "repeat", "unknown"]),
    )
    evidence_in_flight = Metric(
        Gauge, "oncebox_send_evidence_in_flight", "Provider events being processed"
    )
    send_fail_open = Metric(
        Counter, "oncebox_send_fail_open", "Mails sent without the ledger, by explicit choice"
    )

    def __init__(self) -> None:
        """Start every metric at zero."""
        self.registry = CollectorRegistry()
        for name, metric in vars(Telemetry).items():
            if isinstance(metric, Metric):
                self.__dict__[name] = metric.create(self.registry)
        self.http = HttpRequestMetrics()
        self.registry.register(self.http)
        self.cursors = CursorTracker(self.cursor_replays)
        #: looking up the one for some labels takes longer than counting
        self._handler_histograms: dict[str, Histogram] = {}
        self._duplicate_counters: dict[tuple[str, str], Counter] = {}
        self._sources: set[str] = set()
        self.log = Log()
        #: when each kind of database error may be logged again
        self._log_again_at: dict[tuple[str, str], float] = {}

    def count_store_error(self, path: str, error: StoreError) -> None:
        """Count a database error, and log it, at most every ten seconds for each path."""
        self.store_errors.labels(error.code, path).inc()
        now = clock.steady()
        if now >= self._log_again_at.get((path, error.code), 0.0):
            self._log_again_at[path, error.code] = now + _LOG_ERROR_EVERY
            facts = {} if error.sqlstate is None else {"sqlstate": error.sqlstate}
            self.log.error("store_error", path=path, code=error.code, **facts)

    def expect_source(self, source: str) -> None:
        """Begin the series of a source at zero, as soon as it is configured or handled."""
        if source in self._sources:
            return
        self._sources.add(source)
        self.accepted.labels(source)
        self.oldest_due.labels(source)
        self.oldest_held.labels(source)
        for outcome in SETTLED_OUTCOMES:
            self.settled.labels(source, outcome)
        for state in COUNTED_STATES:
            self.deliveries.labels(state, source)

    @property
    def expected_sources(self) -> frozenset[str]:
        """The sources whose series exist."""
        return frozenset(self._sources)

    def observe_handler(self, source: str, seconds: float) -> None:
        """Record the duration of a handler."""
        histogram = self._handler_histograms.get(source)
        if histogram is None:
            histogram = self._handler_histograms[source] = self.handler_seconds.labels(source)
        histogram.observe(seconds)

    def count_duplicate(self, layer: str, kind: str) -> None:
        """Count a repeat that caused no second effect."""
        counter = self._duplicate_counters.get((layer, kind))
        if counter is None:
            counter = self.duplicates.labels(layer, kind)
            self._duplicate_counters[layer, kind] = counter
        counter.inc()

    def scrape(self) -> str:
        """Return all metrics as Prometheus text."""
        return generate_latest(self.registry).decode()


class CursorTracker:
    """Counts readers of lists that return to an earlier position, as far as it remembers them.

    Returning is not an error: the page may not have arrived, or not have been processed.
    """

    def __init__(self, replays: Counter) -> None:
        """Count in this metric."""
        self._replays = replays
        self._positions: dict[tuple[str, ...], int] = {}

    def resumed(self, list_: str, reader: tuple[str, ...], after: int) -> bool:
        """Note the cursor with which a reader continues; return whether it has been further."""
        replayed = after < self._positions.get((list_, *reader), 0)
        if replayed:
            self._replays.labels(list_).inc()
        return replayed

    def advanced(self, list_: str, reader: tuple[str, ...], upto: int) -> None:
        """Note how far a reader has got; the least recently seen reader is forgotten."""
        key = (list_, *reader)
        self._positions[key] = max(upto, self._positions.pop(key, 0))
        if len(self._positions) > _MAX_TRACKED_READERS:
            del self._positions[next(iter(self._positions))]


class HttpRequestMetrics(Collector):
    """HTTP requests, counted by one thread without a lock, since every webhook is counted."""

    def __init__(self) -> None:
        #: by route and status: the count of each bucket, and the sum of all seconds
        self._rows: dict[tuple[str, int], list[float]] = {}
        for status in (200, 401, 500, 503):
            self._rows["/in/", status] = [0.0] * (len(_SECONDS_BUCKETS) + 2)

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request; status 0: the client disconnected before the response."""
        key = (route, status)
        if key not in self._rows:
            self._rows[key] = [0.0] * (len(_SECONDS_BUCKETS) + 2)
        row = self._rows[key]
        row[bisect_left(_SECONDS_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def collect(self) -> Iterator[MetricFamily]:
        """Yield the current values."""
        requests = CounterMetricFamily(
            "oncebox_http_requests",
            "HTTP requests by route and status",
            labels=["route", "status"],
        )
        routes: dict[str, list[float]] = {}
        for (route, status), row in self._rows.items():
            requests.add_metric([route, str(status) if status else "gone"], sum(row[:-1]))
            before = routes.get(route, [0.0] * len(row))
            routes[route] = [*map(sum, zip(before, row, strict=True))]
        yield requests
        times = HistogramMetricFamily(
            "oncebox_http_seconds", "Duration of HTTP requests", labels=["route"]
        )
        names = [*map(floatToGoString, _SECONDS_BUCKETS), "+Inf"]
        for route, (*counts, total) in routes.items():
            times.add_metric([route], list(zip(names, accumulate(counts), strict=True)), total)
        yield times
