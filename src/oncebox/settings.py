"""Settings: every setting with type, default and meaning; see ``settings_loading``."""

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
import platformdirs

from oncebox.model.setting_rules import (
    Count,
    HostName,
    Limit,
    Port,
    PositiveSeconds,
    Seconds,
    Url,
)  # fmt: skip

#: what a log or traceback must not show
_SECRET_FIELDS = frozenset({"database_url", "master_key", "sources", "mailboxes"})


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How work is claimed and run. All times are in seconds."""

    #: handlers that run at the same time in one process
    concurrency: Count = 100
    #: lease duration; work that is not renewed becomes claimable again
    lease: PositiveSeconds = 30.0
    #: time limit of one run of a handler
    handler_limit: PositiveSeconds = 300.0
    #: the longest interval between two queries for work
    poll: PositiveSeconds = 1.0
    #: how long a stopping worker lets handlers finish before it releases their work
    stop_within: Seconds = 20.0
    #: how long the event loop may block before the process is ended; 0 is no limit
    watchdog: Seconds = 30.0
    #: address space one worker process may use, in MiB; 0 is no limit
    memory_limit: Limit = 0


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how long a failing delivery is retried. All times are in seconds."""

    #: tries, counted when work is claimed; the waits between 16 take 2.5 hours on average
    tries: Count = 16
    #: time from the first claim; time spent held or queued does not count
    budget: Seconds = 86_400.0
    #: the first wait is random between zero and this, then it doubles
    first_wait: Seconds = 2.0
    #: no wait is longer than this
    longest_wait: Seconds = 3_600.0


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one delivery, and of all that wait."""

    #: bytes of one body
    body: Limit = 25 * 1024 * 1024
    #: bytes of all headers of one delivery
    headers: Limit = 32 * 1024
    #: number of headers of one delivery
    header_count: Limit = 200
    #: deliveries waiting for their commit; beyond that callers are asked to retry later
    waiting: Count = 10_000
    #: bytes of raw mail of one inbox; 0 is no limit
    inbox_bytes: Limit = 5 * 1024 * 1024 * 1024
    #: bytes of raw mail of one tenant, unless it has a quota of its own; 0 is no limit
    tenant_bytes: Limit = 0
    #: free disk bytes below which large mail is refused; below half all mail, then webhooks
    free_disk: Limit = 512 * 1024 * 1024


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where HTTP is served, and what a client may do. All times are in seconds."""

    #: the address to listen on; put TLS in front of anything but loopback
    host: str = "127.0.0.1"
    #: the port to listen on; 0 picks a free one
    port: Port = 8808
    #: the URL of the service seen from outside, such as ``https://hooks.example.com``
    public_url: Url = ""
    #: further host names accepted by ``/mcp``, separated by commas
    hosts: str = ""
    #: bytes of one request body
    body: Limit = 1024 * 1024
    #: bytes of one request body with mail to send, attachments in base64
    mail_body: Limit = 36 * 1024 * 1024
    #: bytes of large request bodies in memory at once
    bodies: Limit = 256 * 1024 * 1024
    #: bytes of the request line and all headers
    headers: Limit = 32 * 1024
    #: number of headers
    header_count: Limit = 100
    #: open connections; beyond that the one that has been idle longest is closed
    connections: Count = 1_000
    #: open connections of one address; 0 is no limit
    connections_per_address: Limit = 0
    #: requests of one API key in progress at once, with its waits and event streams
    requests_per_key: Count = 300
    #: requests of one address per second; 0 is no limit
    rate: Limit = 0
    #: requests of one address with a wrong API key per minute; 0 is no limit
    wrong_keys: Limit = 60
    #: how long the headers of a request may take to arrive
    headers_within: PositiveSeconds = 10.0
    #: how long a connection may stay open between two requests
    idle: PositiveSeconds = 10.0
    #: bytes per second at which a body must arrive, averaged over a third of its time
    body_rate: Limit = 1024
    #: how long a whole body may take to arrive
    request_within: PositiveSeconds = 30.0
    #: how long a stopping server still accepts connections, while ``/readyz`` says it is stopping
    drain: Seconds = 2.0
    #: how long a stopping server lets requests finish
    stop_within: Seconds = 10.0
    #: trusted proxies, which tell the client's address: addresses or networks, separated by commas
    proxies: str = ""
    #: the header in which trusted proxies tell it
    forwarded_header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    #: whether connections of trusted proxies begin with a PROXY protocol header (v1 or v2)
    proxy_protocol: bool = False
    #: serve ``/metrics`` to other machines without a key
    public_metrics: bool = False
    #: serve the documentation and ``/openapi.json`` to other machines without a key
    public_docs: bool = False


class SmtpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where mail is received, and what a client may do. All times are in seconds."""

    #: whether mail is received at all
    enabled: bool = True
    #: the address to listen on
    host: str = "127.0.0.1"
    #: the port to listen on; 0 picks a free one
    port: Port = 2525
    #: the server's name in its greeting; empty is the name of the machine
    hostname: HostName = ""
    #: a file with the certificate chain for STARTTLS; empty is no STARTTLS
    tls_certificate: str = ""
    #: a file with the certificate's key, unless it is in the same file
    tls_key: str = ""
    #: bytes of one mail
    size: Limit = 25 * 1024 * 1024
    #: recipients of one mail
    recipients: Count = 100
    #: bytes of one command
    command: Annotated[int, msgspec.Meta(ge=64, le=64 * 1024)] = 512
    #: bytes of one line, in a command or a mail
    line: Annotated[int, msgspec.Meta(ge=1_000)] = 64 * 1024
    #: bytes from which a mail is spooled to disk while it arrives
    spool_from: Count = 256 * 1024
    #: bytes of large mails in memory at once while they are committed
    committing: Count = 64 * 1024 * 1024
    #: open connections
    connections: Count = 500
    #: open connections of one address; 0 is no limit
    connections_per_address: Limit = 50
    #: mails of one address per minute; 0 is no limit, as for this machine and in test mode
    rate_per_address: Limit = 600
    #: bytes of mail of one address per minute; 0 is no limit
    bytes_per_address: Limit = 256 * 1024 * 1024
    #: mails for one inbox per minute; 0 is no limit
    rate_per_inbox: Limit = 600
    #: bytes of mail for one inbox per minute; 0 is no limit
    bytes_per_inbox: Limit = 256 * 1024 * 1024
    #: errors since its last mail after which a client is disconnected
    errors: Count = 20
    #: commands without mail, and refused recipients, after which a client is disconnected
    junk: Count = 100
    #: how long a command may take to arrive
    command_within: PositiveSeconds = 60.0
    #: bytes per second at which a mail must arrive, averaged over a third of command_within
    data_rate: Limit = 1024
    #: how long a connection may stay open
    session_within: PositiveSeconds = 600.0
    #: how long a stopping server lets mails in transfer finish
    stop_within: Seconds = 10.0


class QuarantineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many rejected requests are kept; beyond that the oldest are deleted."""

    #: requests of one source
    source_count: Limit = 1_000
    #: bytes of one source
    source_bytes: Limit = 16 * 1024 * 1024
    #: requests of one tenant
    count: Limit = 10_000
    #: bytes of one tenant
    bytes: Limit = 128 * 1024 * 1024
    #: requests that wait in memory to be stored; beyond that they are only counted
    waiting: Limit = 200
    #: bytes that wait in memory
    waiting_bytes: Limit = 8 * 1024 * 1024


class InboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses and how long they are valid. All times are in seconds."""

    #: the default domain of addresses; it belongs to the tenant of the settings
    domain: str = "oncebox.test"
    #: the name of this mail server, for MX records
    host: HostName = ""
    #: default lifetime of an inbox; 0 is for ever
    lifetime: Seconds = 86_400.0
    #: how long mail is still accepted after an inbox was closed or has expired
    draining: Seconds = 900.0
    #: inboxes created by one call
    batch: Annotated[int, msgspec.Meta(ge=1, le=500)] = 500


class WaitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many requests may wait at once in one process, and for how long a worker has a code."""

    #: waits of one API key
    per_key: Count = 250
    #: waits of all
    most: Count = 5_000
    #: seconds for which a code or link is kept for the worker that got it, before another worker
    #: of the same attempt gets it; unless that worker says that it was used
    lease: PositiveSeconds = 30.0


class EventSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How events are numbered, kept and streamed. Times are in seconds unless noted."""

    #: days for which an event is kept
    keep: Count = 30
    #: lease duration of the process that numbers events
    lease: PositiveSeconds = 5.0
    #: open streams of one process; beyond that clients are asked to read pages
    streams: Limit = 500
    #: open streams of one API key
    streams_per_key: Count = 50
    #: the longest time without data on a stream
    heartbeat: PositiveSeconds = 15.0


class MailSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How senders of mail are checked. All times are in seconds."""

    #: check SPF, DKIM and DMARC
    authenticate: bool = True
    #: time limit of all checks of one mail; unanswered ones become a temperror
    authenticate_within: PositiveSeconds = 2.0
    #: name servers, separated by commas, such as ``9.9.9.9, [::1]:5353``; empty is the system's
    dns_servers: str = ""
    #: age of a signature from which it proves nothing: the mail may be a replay
    signature_age: PositiveSeconds = 86_400.0


class ReadingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How received mail is parsed and stored. All times are in seconds."""

    #: mails processed at the same time by one process
    concurrency: Count = 100
    #: bytes from which a mail is heavy: it is processed apart from all others
    heavy_from: Count = 256 * 1024
    #: heavy mails processed at the same time by one process
    heavy_concurrency: Count = 8
    #: bytes of raw mail in memory above which no further mail is fetched
    in_flight: Count = 64 * 1024 * 1024
    #: time limit of parsing one mail and authenticating its sender
    limit: PositiveSeconds = 60.0


class MailboxWorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How mailboxes on other servers are read. All times are in seconds."""

    #: mailboxes that one process reads
    most: Count = 1_000
    #: lease duration; a mailbox that is not renewed is read by another process
    lease: PositiveSeconds = 30.0
    #: the longest interval between two queries for mailboxes to read
    poll: PositiveSeconds = 1.0
    #: mails of one page
    page: Count = 250
    #: bytes of one mail; a larger one is skipped
    mail_bytes: Limit = 25 * 1024 * 1024
    #: time limit of one request
    within: PositiveSeconds = 30.0


class EgressSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which addresses outgoing webhooks may go to, besides the public internet."""

    #: networks and hosts, such as ``10.0.0.0/8``, ``app.internal`` or ``127.0.0.1:3000``, separated
    #: by commas; a named host may be reached by plain HTTP
    allow: str = ""


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How events are delivered to endpoints. All times are in seconds."""

    #: requests in progress of one process
    concurrency: Count = 128
    #: time limit of one request
    within: PositiveSeconds = 20.0


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many days data is kept after it is settled; 0 is for ever. Keys stay longer."""

    #: mail exactly as it was received
    raw_mail: Limit = 30
    #: parsed messages: subject, text, headers, names of attachments
    documents: Limit = 90
    #: the values of codes and links, claimed or not
    artifacts: Limit = 7
    #: inboxes that have ended, once nothing else of them is kept; addresses are not reused
    inboxes: Limit = 365
    #: tries and effects of deliveries whose body is gone
    journals: Limit = 0
    #: keys and outcomes of ended sends; after that the same intent is a new one
    sends: Limit = 0


class SendSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How mail is sent. All times are in seconds."""

    #: the default From address, such as ``Acme <hello@acme.com>``
    sender: str = ""
    #: the folder of templates; empty is ``templates`` in the data folder
    templates: str = ""
    #: mails sent at the same time by one process
    concurrency: Count = 64
    #: lease duration; work that is not renewed becomes claimable again
    lease: PositiveSeconds = 30.0
    #: time limit of transmitting one mail
    transport_timeout: PositiveSeconds = 120.0
    #: tries that were certainly not accepted, after which a send fails
    tries: Count = 12
    #: the first wait is random between half of this and this, then it doubles
    first_wait: Seconds = 5.0
    #: no wait is longer than this
    longest_wait: Seconds = 3_600.0
    #: recipients of one mail
    recipients: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 50
    #: bytes of one composed mail
    size: Limit = 25 * 1024 * 1024
    #: sends of one call
    batch: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    #: time in which a recipient gets no second mail of an event type under a new key; 0 is none
    cool_down: Seconds = 0.0
    #: new sends of one agent's key per hour; 0 is no limit
    per_key: Limit = 1_000
    #: new sends of agents to one recipient per hour; 0 is no limit
    per_recipient: Limit = 60
    #: send even while the ledger cannot be written, at the risk of sending twice
    fail_open: bool = False


class ParserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The processes that parse mail, and their limits for one mail."""

    #: number of processes; 0 is one less than the processors, at least one; heavy mail has another
    children: Annotated[int, msgspec.Meta(ge=0, le=256)] = 0
    #: seconds of CPU time after which a mail is heavy
    quick: PositiveSeconds = 0.2
    #: seconds of CPU time for one mail
    cpu: PositiveSeconds = 2.0
    #: seconds of wall-clock time for one mail
    wall: PositiveSeconds = 10.0
    #: address space of one process, in MiB; 0 is no limit
    memory: Limit = 256


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``oncebox serve`` and ``oncebox worker`` log to standard error."""

    #: the least important lines that are written; ``debug`` has a line for every API request
    level: Literal["debug", "info", "warning", "error"] = "info"
    #: one JSON object per line, or text; ``auto`` is text on a terminal and JSON elsewhere
    format: Literal["auto", "text", "json"] = "auto"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one process."""

    #: the folder of the SQLite file and the master key
    data_dir: str = ""
    #: ``sqlite:///path`` or ``postgresql://user:password@host/name``
    database_url: str = ""
    #: 32 bytes in base64; required on PostgreSQL, created in a file on SQLite
    master_key: str = ""
    #: a file that holds the master key
    master_key_file: str = ""
    #: connections to PostgreSQL for writing and reading, two thirds and one third
    connections: Count = 6
    #: seconds a caller waits for the database before it is asked to try again later
    database_within: PositiveSeconds = 8.0
    #: the tenant of this process
    tenant: str = "default"
    worker: WorkerSettings = WorkerSettings()
    retry: RetrySettings = RetrySettings()
    limits: LimitSettings = LimitSettings()
    http: HttpSettings = HttpSettings()
    smtp: SmtpSettings = SmtpSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    inboxes: InboxSettings = InboxSettings()
    waits: WaitSettings = WaitSettings()
    events: EventSettings = EventSettings()
    mail: MailSettings = MailSettings()
    reading: ReadingSettings = ReadingSettings()
    mailbox_worker: MailboxWorkerSettings = MailboxWorkerSettings()
    egress: EgressSettings = EgressSettings()
    endpoints: EndpointSettings = EndpointSettings()
    retention: RetentionSettings = RetentionSettings()
    parser: ParserSettings = ParserSettings()
    sends: SendSettings = SendSettings()
    log: LogSettings = LogSettings()
    #: sources of the tenant above, each a table ``[sources.NAME]``; they override the database
    sources: dict[str, dict[str, Any]] = {}
    #: mailboxes of the tenant above, each a table ``[mailboxes.NAME]``; they override the database
    mailboxes: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        """Show what is set, but nothing that is or may hold a secret."""
        shown = (
            f"{name}={'***' if name in _SECRET_FIELDS and value else repr(value)}"
            for name, value in msgspec.structs.asdict(self).items()
        )
        return f"Settings({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show less than ``repr`` does."""
        return [("data_dir", self.data_dir), ("tenant", self.tenant)]

    @property
    def folder(self) -> Path:
        """The data folder; a relative one is resolved from the current folder."""
        return Path(self.data_dir or platformdirs.user_data_dir("oncebox")).absolute()

    @property
    def templates_folder(self) -> Path:
        """The folder of mail templates."""
        return Path(self.sends.templates or self.folder / "templates")

    @property
    def database(self) -> str:
        """The database URL, by default a SQLite file in the data folder."""
        return self.database_url or f"sqlite:///{quote(str(self.folder / 'oncebox.db'))}"
