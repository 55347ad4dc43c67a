"""Telemetry of one process: Prometheus metrics and the structured log."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from oncebox.core.logging import Log

_SECONDS_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)
_AGE_BUCKETS = (1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
_ROW_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


#: readers of lists that are remembered
_MAX_TRACKED_READERS = 4_096


class Telemetry:
    """The counters of one process, in a registry of their own."""

    def __init__(self) -> None:
        """Start every counter at zero."""
        self.registry = registry = CollectorRegistry()
        self.log = Log()
        self.accepted = Counter(
            "oncebox_accepted",
            "Deliveries stored for the first time",
            ["source"],
            registry=registry,
        )
        self.duplicates = Counter(
            "oncebox_duplicates",
            "Repeats that caused no second effect",
            ["layer", "class"],
            registry=registry,
        )
        self.refused = Counter(
            "oncebox_refused", "Arrivals that were not stored", ["code"], registry=registry
        )
        self.rejected = Counter(
            "oncebox_rejected",
            "Requests that were not believed, by what they most likely were",
            ["class"],
            registry=registry,
        )
        self.not_quarantined = Counter(
            "oncebox_not_quarantined",
            "Rejected requests that were counted but found no room to be kept",
            registry=registry,
        )
        self.settled = Counter(
            "oncebox_settled", "Tries by how they ended", ["outcome"], registry=registry
        )
        self.lease_conflicts = Counter(
            "oncebox_lease_conflicts",
            "Writes refused because the lease was lost",
            registry=registry,
        )
        self.effects = Counter(
            "oncebox_effects", "Effects by what once.do did", ["outcome"], registry=registry
        )
        self.in_flight = Gauge(
            "oncebox_in_flight", "Handlers running in this process", registry=registry
        )
        self.handler_seconds = Histogram(
            "oncebox_handler_seconds",
            "Time a handler took",
            ["source"],
            buckets=_SECONDS_BUCKETS,
            registry=registry,
        )
        self._handler_histograms: dict[str, Histogram] = {}
        self.commit_rows = Histogram(
            "oncebox_commit_rows",
            "Rows that shared one commit",
            ["group"],
            buckets=_ROW_BUCKETS,
            registry=registry,
        )
        self.store_errors = Counter(
            "oncebox_store_errors", "Failures of the database", ["code"], registry=registry
        )
        self.sources = Gauge(
            "oncebox_sources",
            "Sources by whether they take requests",
            ["state"],
            registry=registry,
        )
        self._add_event_metrics(registry)
        self._add_mail_metrics(registry)
        self._add_wait_metrics(registry)
        self._add_http_metrics(registry)
        self._add_smtp_metrics(registry)
        self._add_send_metrics(registry)

    def _add_http_metrics(self, registry: CollectorRegistry) -> None:
        """Count requests and connections."""
        self.http = HttpRequestMetrics()
        registry.register(self.http)
        self.http_in_flight = Gauge(
            "oncebox_http_in_flight", "HTTP requests under way", registry=registry
        )
        self.connections = Gauge("oncebox_connections", "Open HTTP connections", registry=registry)
        self.connections_ended = Counter(
            "oncebox_connections_ended",
            "HTTP connections that we ended, by why",
            ["why"],
            registry=registry,
        )
        self.wrong_keys = Counter(
            "oncebox_wrong_keys", "HTTP requests without a valid API key", registry=registry
        )

    def _add_smtp_metrics(self, registry: CollectorRegistry) -> None:
        """Count sessions and what came of them."""
        self.smtp_open = Gauge("oncebox_smtp_open", "Open SMTP connections", registry=registry)
        self.smtp_sessions = Counter(
            "oncebox_smtp_sessions", "SMTP connections that were greeted", registry=registry
        )
        self.smtp_accepted = Counter(
            "oncebox_smtp_accepted", "Mails stored for all their recipients", registry=registry
        )
        self.smtp_refused = Counter(
            "oncebox_smtp_refused",
            "SMTP replies that refused something, by their code",
            ["code"],
            registry=registry,
        )
        self.smtp_ended = Counter(
            "oncebox_smtp_ended",
            "SMTP connections that we ended, by why",
            ["why"],
            registry=registry,
        )

    def _add_send_metrics(self, registry: CollectorRegistry) -> None:
        """Count what is asked to be sent, and what came of it."""
        self.sends = Counter(
            "oncebox_sends",
            "Tries at sends by how the send stood after them",
            ["status"],
            registry=registry,
        )
        self.sends_in_flight = Gauge(
            "oncebox_sends_in_flight", "Mails being handed over by this process", registry=registry
        )
        self.send_key_age = Histogram(
            "oncebox_send_key_age_seconds",
            "How old a send was when the same was asked for again",
            buckets=_AGE_BUCKETS,
            registry=registry,
        )
        self.provider_dedupe = Counter(
            "oncebox_provider_dedupe",
            "Repeats in doubt that a provider answered by the key it knew",
            ["kind"],
            registry=registry,
        )
        self.unknown_sends = Gauge(
            "oncebox_unknown_sends",
            "Sends of all tenants that wait for evidence or a person",
            registry=registry,
        )
        self.send_evidence = Counter(
            "oncebox_send_evidence", "What providers told", ["what", "result"], registry=registry
        )
        self.send_fail_open = Counter(
            "oncebox_send_fail_open",
            "Mails sent without the ledger, by explicit choice",
            registry=registry,
        )

    def _add_mail_metrics(self, registry: CollectorRegistry) -> None:
        """Count inboxes and what is read for them."""
        self.parsed = Counter(
            "oncebox_mail_parsed",
            "Mails by how much of them could be read",
            ["status"],
            registry=registry,
        )
        self.parser_deaths = Counter(
            "oncebox_parser_deaths",
            "Processes that ended while they read a mail, by why",
            ["cause"],
            registry=registry,
        )
        self.evidence_in_flight = Gauge(
            "oncebox_send_evidence_in_flight", "Webhooks about mail being heard", registry=registry
        )
        self.mail_in_flight = Gauge(
            "oncebox_mail_in_flight", "Mails being read in this process", registry=registry
        )
        self.messages = Counter(
            "oncebox_messages",
            "New messages by how far they could be read",
            ["status"],
            registry=registry,
        )
        self.artifacts = Counter(
            "oncebox_artifacts",
            "Codes and links by what became of them",
            ["kind", "end"],
            registry=registry,
        )
        self.artifact_duplicates = Counter(
            "oncebox_artifact_duplicates",
            "Codes and links that further messages brought again",
            ["kind"],
            registry=registry,
        )
        self.actions = Counter(
            "oncebox_actions",
            "Actions of attempts by what callers said or were told",
            ["outcome"],
            registry=registry,
        )
        self.resends = Counter(
            "oncebox_resends",
            "Wishes to ask for a mail again, by how they were answered",
            ["outcome"],
            registry=registry,
        )
        self.inboxes_missed = Counter(
            "oncebox_inboxes_missed",
            "Inboxes whose time was over with nothing matched",
            registry=registry,
        )

    def _add_wait_metrics(self, registry: CollectorRegistry) -> None:
        """Count who waits for mail, and how that ends."""
        self.waits_open = Gauge("oncebox_waits_open", "Calls that wait for mail", registry=registry)
        self.waits = Counter(
            "oncebox_waits",
            "Waits for a code or link by how they ended",
            ["end"],
            registry=registry,
        )
        self.grant_seconds = Histogram(
            "oncebox_received_to_grant_seconds",
            "Time from when a mail was taken to its grant to one who waited",
            buckets=_SECONDS_BUCKETS,
            registry=registry,
        )

    def _add_event_metrics(self, registry: CollectorRegistry) -> None:
        self.events_numbered = Counter(
            "oncebox_events_numbered",
            "Events that were given their numbers by this process",
            registry=registry,
        )
        self.sequencer_turns = Counter(
            "oncebox_sequencer_turns",
            "How often this process took over the numbering of events",
            registry=registry,
        )
        self.cursor_replays = Counter(
            "oncebox_cursor_replays",
            "Cursors that led back to what the same key was shown before",
            ["list"],
            registry=registry,
        )
        self.cursors = CursorTracker(self.cursor_replays)
        self.event_streams = Gauge(
            "oncebox_event_streams", "Open streams of events", registry=registry
        )

    def observe_handler(self, source: str, seconds: float) -> None:
        """Count one run of a handler."""
        histogram = self._handler_histograms.get(source)
        if histogram is None:
            histogram = self._handler_histograms[source] = self.handler_seconds.labels(source)
        histogram.observe(seconds)

    def scrape(self) -> str:
        """Return all metrics as Prometheus text."""
        return generate_latest(self.registry).decode()


class CursorTracker:
    """How far keys have read in lists, as far as this process remembers: who comes back is counted.

    Coming back is no mistake: what was shown may not have arrived, or was not dealt with.
    """

    def __init__(self, replays: Counter) -> None:
        """Begin with nobody."""
        self._replays = replays
        self._positions: dict[tuple[str, ...], int] = {}

    def resumed(self, list_: str, reader: tuple[str, ...], after: int) -> None:
        """Note where a reader goes on by its cursor."""
        if after < self._positions.get((list_, *reader), 0):
            self._replays.labels(list_).inc()

    def advanced(self, list_: str, reader: tuple[str, ...], upto: int) -> None:
        """Note how far a reader was shown things; the one not heard of for longest is forgotten."""
        key = (list_, *reader)
        self._positions[key] = max(upto, self._positions.pop(key, 0))
        if len(self._positions) > _MAX_TRACKED_READERS:
            del self._positions[next(iter(self._positions))]


class HttpRequestMetrics(Collector):
    """HTTP requests, counted by one thread without a lock: this is on the way of every webhook."""

    def __init__(self) -> None:
        """Begin with no request."""
        #: by route and status: how many took how long, and the seconds of all
        self._rows: dict[tuple[str, int], list[float]] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request; status 0 is a client that went before it was answered."""
        key = (route, status)
        if key not in self._rows:
            self._rows[key] = [0.0] * (len(_SECONDS_BUCKETS) + 2)
        row = self._rows[key]
        row[bisect_left(_SECONDS_BUCKETS, seconds)] += 1
        row[-1] += seconds

    def collect(self) -> Iterator[Metric]:
        """Return the figures as they are now."""
        requests = CounterMetricFamily(
            "oncebox_http_requests",
            "HTTP requests by what was asked for and how it was answered",
            labels=["route", "status"],
        )
        routes: dict[str, list[float]] = {}
        for (route, status), row in self._rows.items():
            requests.add_metric([route, str(status) if status else "gone"], sum(row[:-1]))
            before = routes.get(route, [0.0] * len(row))
            routes[route] = [*map(sum, zip(before, row, strict=True))]
        yield requests
        times = HistogramMetricFamily(
            "oncebox_http_seconds", "Time until an HTTP request was answered", labels=["route"]
        )
        names = [*map(floatToGoString, _SECONDS_BUCKETS), "+Inf"]
        for route, (*counts, total) in routes.items():
            times.add_metric([route], list(zip(names, accumulate(counts), strict=True)), total)
        yield times
