"""``Components``: the services of one process over one database, each built when first used."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import cache, cached_property

from oncebox.core.disk_space import DiskSpace
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.db.startup import load_master_key, sqlite_path
from oncebox.ledger.admin import source_cache
from oncebox.ledger.admin.api_keys import ApiKeyCache
from oncebox.ledger.admin.source_cache import SourceCache
from oncebox.ledger.admin.source_service import SourceService
from oncebox.ledger.admin.sources import SERVICE
from oncebox.ledger.artifacts.claims import ClaimResolver, Grants, JudgeLink
from oncebox.ledger.attempts.actions import AttemptRepository
from oncebox.ledger.ciphers import (
    ArtifactCipher,
    EndpointCipher,
    MailboxCipher,
    MailCipher,
    SendCipher,
)
from oncebox.ledger.deliveries.intake import Intake
from oncebox.ledger.deliveries.quarantine import QuarantineWriter
from oncebox.ledger.endpoints.endpoint_service import EndpointService
from oncebox.ledger.events.broadcast import EventBroadcast
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.ledger.inboxes.domain_proofs import DomainProofs, FindTxt
from oncebox.ledger.inboxes.inbox_counts import InboxCounter
from oncebox.ledger.inboxes.longpoll import LongPollHub
from oncebox.ledger.inboxes.mail_intake import MailIntake
from oncebox.ledger.inboxes.recipient_directory import RecipientDirectory, StorageLimits
from oncebox.ledger.mailboxes.mailbox_service import MailboxService
from oncebox.ledger.master_key_rotation import DataKeyRefresher
from oncebox.ledger.sends.outbox import MailComposer, Outbox
from oncebox.ledger.sends.templates import TemplateFolder
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import Delivery, NewDelivery, Settlement
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.mailboxes.mailbox_fields import DeclaredMailboxes
from oncebox.model.public_internet import parse_allowed_hosts
from oncebox.model.sends.email import Email
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.model.webhooks.source import SchemeLookup
from oncebox.settings import Settings

#: verifies a rejected request again; returns its deliveries, or raises the reason
RecheckRejected = Callable[[RejectedRequest], Awaitable[Sequence[NewDelivery]]]

#: asks the policy of a claimed delivery; returns how its try ends, or None if it may run; raises
#: LeaseLost
AskPolicy = Callable[[Delivery], Awaitable[Settlement | None]]

#: services with background tasks or connections, in the order in which they are closed
_CLOSED = (
    "recipients", "broadcast", "longpoll", "inbox_counter", "outbox", "quarantine", "sources",
    "api_keys", "data_key_refresher",
)  # fmt: skip


class Components:
    """The services of one process; each is built when it is first used."""

    def __init__(  # noqa: PLR0913 - what the layers above provide
        self,
        settings: Settings,
        database: Database,
        telemetry: Telemetry,
        master_key: MasterKey,
        *,
        judge_link: JudgeLink | None = None,
        recheck: Callable[["Components"], RecheckRejected],
        find_txt: FindTxt,
        mailboxes: DeclaredMailboxes = DeclaredMailboxes(),  # noqa: B008 - frozen
    ) -> None:
        """Check the settings of sources and inboxes; ``close`` closes the database.

        Raises: ConfigInvalid.
        """
        self.settings = settings
        self.database = database
        self.telemetry = telemetry
        self.master_key = master_key
        self.ledger = Ledger(database)
        self.inboxes = InboxService(
            settings.inboxes, home=settings.tenant, tenant_bytes=settings.limits.tenant_bytes
        )
        #: whether the service stops soon; new requests should go elsewhere
        self.is_draining = False
        #: whose environment it is in which the variables of sources are looked up
        self.process = SERVICE
        #: the policies of the program that opened them, if it has any
        self.ask_policy: AskPolicy | None = None
        #: closed before the database
        self.exit_stack = AsyncExitStack()
        self._configured = source_cache.read_configured(
            settings.sources, settings.tenant, master_key
        )
        #: those of the settings
        self.declared_mailboxes = mailboxes
        self._schemes = scheme_lookup()
        self._judge_link = judge_link or _check_link
        self._recheck = recheck
        self._find_txt = find_txt

    async def close(self) -> None:
        """Close the services that were used, then the database."""
        await self.exit_stack.aclose()
        for name in _CLOSED:
            if name in self.__dict__:
                await getattr(self, name).close()
        await self.ledger.close()

    @cached_property
    def disk_space(self) -> DiskSpace:
        """Measures free disk space."""
        folders = [self.settings.folder]
        if self.settings.database.startswith("sqlite:"):
            folders.append(sqlite_path(self.settings.database).parent)
        return DiskSpace(folders, self.settings.limits.free_disk, self.telemetry)

    # deliveries

    @cached_property
    def intake(self) -> Intake:
        """Stores deliveries."""
        settings = self.settings
        return Intake(self.database, self.telemetry, tenant=settings.tenant, limits=settings.limits)

    @cached_property
    def quarantine(self) -> QuarantineWriter:
        """Stores rejected requests."""
        return QuarantineWriter(
            self.database, self.telemetry, key=self.master_key, caps=self.settings.quarantine
        )

    @cached_property
    def recheck_rejected(self) -> RecheckRejected:
        """Verifies rejected requests again."""
        return self._recheck(self)

    # administration

    @cached_property
    def api_keys(self) -> ApiKeyCache:
        """Finds API keys."""
        return ApiKeyCache(self.database)

    @cached_property
    def data_key_refresher(self) -> DataKeyRefresher:
        """Reads new data keys while the master key is rotated."""
        return DataKeyRefresher(
            self.database,
            self.master_key,
            self.telemetry,
            load_key=lambda: load_master_key(self.settings, may_create=False),
        )

    @cached_property
    def sources(self) -> SourceCache:
        """Finds sources; empty until its first ``refresh``."""
        return SourceCache(
            self.database,
            self.master_key,
            self.telemetry,
            written=self._configured,
            schemes=self._schemes,
            process=self.process,
        )

    @cached_property
    def source_service(self) -> SourceService:
        """Adds and changes sources."""
        names = {(each.tenant, each.name) for each in self._configured}
        return SourceService(self.master_key, schemes=self._schemes, written=names)

    @cached_property
    def attempts(self) -> AttemptRepository:
        """Begins and ends the actions of attempts."""
        return AttemptRepository(self.ledger, self.telemetry, self.master_key)

    @cached_property
    def broadcast(self) -> EventBroadcast:
        """Streams new events to all followers."""
        return EventBroadcast(self.database, self.telemetry)

    # received mail

    @cached_property
    def mail_cipher(self) -> MailCipher:
        """Encrypts and decrypts received mail."""
        return MailCipher(self.master_key)

    @cached_property
    def artifact_cipher(self) -> ArtifactCipher:
        """Encrypts and decrypts codes and links."""
        return ArtifactCipher(self.master_key)

    @cached_property
    def recipients(self) -> RecipientDirectory:
        """Finds the inbox of an address."""
        limits = self.settings.limits
        return RecipientDirectory(
            self.database,
            default=self.inboxes.default,
            draining=self.inboxes.draining,
            limits=StorageLimits(limits.inbox_bytes, limits.tenant_bytes),
        )

    @cached_property
    def domain_proofs(self) -> DomainProofs:
        """Checks that a domain is its tenant's."""
        return DomainProofs(self.master_key, self._find_txt)

    @cached_property
    def mail_intake(self) -> MailIntake:
        """Stores received mail."""
        settings = self.settings
        return MailIntake(
            self.database,
            self.telemetry,
            settings.limits,
            self.mail_cipher,
            heavy_from=settings.reading.heavy_from,
        )

    @cached_property
    def mailbox_cipher(self) -> MailboxCipher:
        """Encrypts and decrypts the configurations of mailboxes."""
        return MailboxCipher(self.master_key)

    @cached_property
    def mailbox_service(self) -> MailboxService:
        """Adds and changes mailboxes."""
        tenant = self.settings.tenant
        names = {(tenant, name) for name in self.declared_mailboxes.names}
        return MailboxService(self.mailbox_cipher, written=names)

    @cached_property
    def endpoint_cipher(self) -> EndpointCipher:
        """Encrypts and decrypts the secrets of endpoints."""
        return EndpointCipher(self.master_key)

    @cached_property
    def endpoint_service(self) -> EndpointService:
        """Adds endpoints and rotates their secrets."""
        allowed = parse_allowed_hosts(self.settings.egress.allow)
        return EndpointService(self.endpoint_cipher, allowed)

    @cached_property
    def longpoll(self) -> LongPollHub:
        """Wakes waits for mail."""
        return LongPollHub(self.ledger, self.mail_cipher, self.telemetry, self.settings.waits)

    @cached_property
    def inbox_counter(self) -> InboxCounter:
        """Counts polls, timeouts, duplicates, replays and conflicts per inbox."""
        return InboxCounter(self.ledger, self.telemetry)

    @cached_property
    def grants(self) -> Grants:
        """Grants codes and links to claimants."""
        lease = round(self.settings.waits.lease * 1000)
        resolver = ClaimResolver(self.artifact_cipher, self._judge_link, lease=lease)
        return Grants(self.database, resolver, self.telemetry)

    # sends

    @cached_property
    def send_cipher(self) -> SendCipher:
        """Encrypts and decrypts outgoing mail, and fingerprints addresses."""
        return SendCipher(self.master_key)

    @cached_property
    def outbox(self) -> Outbox:
        """Accepts mail to send."""
        return Outbox(
            self.ledger,
            self.send_cipher,
            _composer_loader(self.settings),
            self.settings.sends,
            self.telemetry,
            mail_cipher=self.mail_cipher,
        )


def _check_link(url: str, policy: InboxPolicy) -> LinkVerdict:
    """Judge a link by the hosts that its inbox lets out."""
    from oncebox.mail.links.link_policy import link_verdict  # noqa: PLC0415 - most commands need none

    judged: LinkVerdict = link_verdict(url, policy.link_hosts, local=policy.link_origins)
    return judged


def _composer_loader(settings: Settings) -> Callable[[], MailComposer]:
    """Return a function that loads the mail composer on first use; most commands need none."""
    templates = TemplateFolder(settings.templates_folder)

    def fill(email: Email) -> Email:
        from oncebox.mail.compose.templates import Template, fill_template  # noqa: PLC0415 - few need Jinja2

        subject, text, html = templates.get(email.template)
        template = Template(name=email.template, subject=subject, text=text, html=html)
        return fill_template(email, template)

    @cache
    def load() -> MailComposer:
        from oncebox.mail.compose import mime_writer, replies  # noqa: PLC0415 - as above

        return MailComposer(
            fill, mime_writer.compose_checked, replies.is_automatic, replies.reply_headers
        )

    return load


def scheme_lookup() -> SchemeLookup:
    """Return which schemes exist; the tables are read on first use."""

    def known(name: str) -> bool:
        from oncebox.webhooks import registry  # noqa: PLC0415 - most commands need none

        return name in registry.scheme_names()

    def keyless(name: str) -> bool:
        from oncebox.webhooks import registry  # noqa: PLC0415 - most commands need none

        return known(name) and registry.find_scheme(name).keyless

    def unknown(name: str) -> str:
        from oncebox.webhooks import registry  # noqa: PLC0415 - most commands need none

        return registry.unknown_scheme_message(name)

    return SchemeLookup(known=known, keyless=keyless, unknown=unknown)
