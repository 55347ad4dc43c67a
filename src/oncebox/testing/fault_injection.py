"""Test mode of a service: catch-all inbox, SMTP certificate, /v1/test routes, faults.

See docs/decisions/0038-use-command-line-test-mode-for-fault-injection.md.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from oncebox.components import Components
from oncebox.core import clock
from oncebox.core.files import write_private_file
from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.errors.http import ServerBusy
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.mail_intake import MailWaiter
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.mail.links.link_policy import link_verdict
from oncebox.model.inboxes.inbox import Inbox, InboxOptions, InboxPolicy, InboxState
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.inboxes.received_mail import Envelope
from oncebox.server.http.request_context import (
    Headers,
    RequestContext,
    WebhookHandler,
    takes_mail,
)
from oncebox.server.http.routing import OPERATORS, ApiCall, Route, Routes
from oncebox.server.smtp.connection import MailStore, RecipientLookup, SessionAborted
from oncebox.settings import Settings, SmtpSettings
from oncebox.testing.chaos import (
    ChaosRules,
    FaultPlan,
    FaultReport,
    FaultSchedule,
    MailRule,
    TestMode,
    WebhookRule,
)

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_REPLY_421 = b"421 4.7.0 try again in a moment (an injected fault)\r\n"
#: prepended to a copy, as by a relay that delivers a mail twice
_COPY_HEADER = (
    b"Received: from copy-%d.chaos.invalid by chaos.invalid; Thu, 1 Jan 1970 00:00:00 +0000\r\n"
)
#: seconds between the next mail and the one that it overtook, so that their times differ
_REORDER_GAP = 0.01


@dataclass(eq=False)
class _HeldMail:
    """A mail that was acknowledged and is not stored yet."""

    inboxes: frozenset[str]
    #: whether the next mail for one of its inboxes releases it
    overtaken: bool
    released: asyncio.Event = field(default_factory=asyncio.Event)


class MailFaultInjector:
    """A mail store that stores twice, late, in another order, not at all, or without a reply."""

    def __init__(
        self,
        store: MailStore,
        choose_fault: Callable[[Envelope], MailRule | None],
        telemetry: Telemetry,
    ) -> None:
        self._store = store
        self._choose_fault = choose_fault
        self._log = telemetry.log
        self._held: dict[_HeldMail, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is stored, or a fault pretends that it is."""
        rule = self._choose_fault(envelope)
        if rule is None:
            await self._store_and_release(envelope, data)
        else:
            self._log.info("fault_injected", channel="mail", fault=rule.fault)
            await self._inject(rule, envelope, data)

    def begin(self, envelope: Envelope, data: bytes, waiter: MailWaiter) -> None:
        """Store a mail in a task."""

        async def store() -> None:
            try:
                await self.store(envelope, data)
            except Exception as error:  # noqa: BLE001 - the waiter receives it
                waiter.set_exception(error)
            else:
                waiter.set_result([])

        task = asyncio.get_running_loop().create_task(store())
        self._tasks.add(task)  # the loop itself keeps only a weak reference
        task.add_done_callback(self._tasks.discard)

    def release_held(self, inbox_id: str | None = None) -> None:
        """Release held mail of one inbox or of all."""
        for held in self._held:
            if inbox_id is None or inbox_id in held.inboxes:
                held.released.set()

    async def close(self) -> None:
        """Release all held mail, and return when it is stored."""
        self.release_held()
        await asyncio.gather(*self._held.values())

    async def _inject(self, rule: MailRule, envelope: Envelope, data: bytes) -> None:
        match rule.fault:
            case "duplicate":
                await self._store_and_release(envelope, data)
                for number in range(1, rule.extra_copies + 1):
                    await self._store.store(envelope, _COPY_HEADER % number + data)
            case "delay" | "reorder":
                self._hold_mail(rule, envelope, data)
            case "421":
                raise SessionAborted(_REPLY_421)
            case "drop_after_accept":
                await self._store_and_release(envelope, data)
                raise SessionAborted

    async def _store_and_release(self, envelope: Envelope, data: bytes) -> None:
        """Store a mail, and release those that it has overtaken."""
        overtaken = [
            held
            for held in self._held
            if held.overtaken and not held.inboxes.isdisjoint(_inbox_ids(envelope))
        ]
        await self._store.store(envelope, data)
        for held in overtaken:
            held.released.set()

    def _hold_mail(self, rule: MailRule, envelope: Envelope, data: bytes) -> None:
        held = _HeldMail(_inbox_ids(envelope), overtaken=rule.fault == "reorder")
        late = self._store_later(held, rule.hold_seconds, envelope, data)
        self._held[held] = asyncio.get_running_loop().create_task(late)

    async def _store_later(
        self, held: _HeldMail, seconds: float, envelope: Envelope, data: bytes
    ) -> None:
        try:
            async with asyncio.timeout(seconds):
                await held.released.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(_REORDER_GAP)
        try:
            await self._store.store(envelope, data)
        except OnceboxError as error:
            self._log.error("held_mail_lost", error=error.code)
        finally:
            del self._held[held]


def _inbox_ids(envelope: Envelope) -> frozenset[str]:
    return frozenset(each.inbox_id for each in envelope.recipients)


class _RecordedRequest(RequestContext):
    """A request whose response is kept instead of being sent."""

    def __init__(self, original: RequestContext) -> None:
        super().__init__(original.id_header, original.head, original.address, original.scheme)
        self.response: asyncio.Future[tuple[int, Headers, bytes]] = (
            asyncio.get_running_loop().create_future()
        )

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.response.set_result((status, headers, body))

    def abort(self) -> None:
        self.response.cancel()


class WebhookFaultInjector:
    """Webhook handler that repeats, delays, rejects or cuts off requests before another."""

    def __init__(
        self,
        handler: WebhookHandler,
        choose_fault: Callable[[str], WebhookRule | None],
        telemetry: Telemetry,
    ) -> None:
        self._handler = handler
        self._choose_fault = choose_fault
        self._log = telemetry.log
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, request: RequestContext, body: bytes) -> None:
        """Handle a complete request."""
        rule = self._choose_fault(request.head.path)
        if rule is None:
            self._handler(request, body)
            return
        self._log.info("fault_injected", channel="webhook", fault=rule.fault)
        task = asyncio.get_running_loop().create_task(self._inject(rule, request, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def takes_mail(self, path: str) -> bool:
        """Say whether whole mails arrive at a path."""
        return takes_mail(self._handler, path)

    async def _inject(self, rule: WebhookRule, request: RequestContext, body: bytes) -> None:
        match rule.fault:
            case "duplicate":
                response = await self._handle(request, body)
                for _ in range(rule.extra_copies):
                    await self._handle(request, body)
                request.respond(*response)
            case "delay":
                await asyncio.sleep(rule.hold_seconds)
                self._handler(request, body)
            case "503":
                request.refuse(ServerBusy)
            case "drop_after_accept":
                response = await self._handle(request, body)
                if response[0] in range(200, 300):
                    request.abort()
                else:
                    request.respond(*response)

    async def _handle(self, request: RequestContext, body: bytes) -> tuple[int, Headers, bytes]:
        """Handle a request; return its response without sending it."""
        recorded = _RecordedRequest(request)
        self._handler(recorded, body)
        return await recorded.response


_CERTIFICATE_FILE = "smtp-test-certificate.pem"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
#: a clock of another machine may be behind
_VALID_BEFORE, _VALID_FOR = timedelta(days=1), timedelta(days=365)


def make_certificate(hosts: Iterable[str], now: int) -> tuple[bytes, bytes]:
    """Return a key and a self-signed certificate for these names and IP addresses, in PEM."""
    from cryptography import x509  # noqa: PLC0415 - only test mode needs it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Oncebox test mode")])
    at = datetime.fromtimestamp(now / 1000, UTC)
    uses = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "crl_sign", "encipher_only", "decipher_only"),
        False,
    )  # fmt: skip
    extensions = (
        (x509.SubjectAlternativeName(list(map(_general_name, sorted(hosts)))), False),
        # A certificate that signs itself is its own authority.
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, **uses), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    )
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(at - _VALID_BEFORE).not_valid_after(at + _VALID_FOR)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, builder.sign(key, hashes.SHA256()).public_bytes(pem)


def _general_name(host: str) -> "GeneralName":
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


#: the states of an address that no inbox has
_UNASSIGNED = frozenset({RecipientStatus.UNKNOWN, RecipientStatus.NOT_OURS})


class ServiceTestMode:
    """Test mode, chaos, or both."""

    def __init__(self, *, test: bool, rules: ChaosRules | None = None) -> None:
        self._test = test
        self._rules = rules
        given = rules or ChaosRules()
        self._mail_schedule = FaultSchedule(given.mail, given.seed)
        self._webhook_schedule = FaultSchedule(given.webhook, given.seed)
        #: faults of single inboxes, by inbox id; in test mode
        self._schedules_by_inbox: dict[str, FaultSchedule[MailRule]] = {}
        self._mail_injector: MailFaultInjector | None = None
        self._components: Components
        self._catch_all: Inbox
        self._smtp: str | None = None
        #: the file with the certificate for STARTTLS and its key, and the certificate alone
        self._certificate_file: Path | None = None
        self._certificate: str | None = None

    @property
    def banner(self) -> list[str]:
        """Warnings for the operator."""
        lines = []
        if self._test:
            lines += [
                "TEST MODE: mail for ANY address is accepted, and links to this machine are",
                "granted. Never start a service like this where real mail or agents reach it.",
            ]
        if self._rules is not None:
            count = len(self._rules.mail) + len(self._rules.webhook)
            noun = "rule" if count == 1 else "rules"
            lines += [
                f"CHAOS: {count} {noun}, seed {self._rules.seed}. Mail and webhooks are repeated,",
                "held, refused and cut off on purpose; a kill loses held mail.",
            ]
        return lines

    @property
    def routes(self) -> Sequence[Route]:
        """API routes of test mode."""
        if not self._test:
            return ()
        table, path = Routes(), "/v1/test/faults/{id}"
        table("GET", "/v1/test", "getTestMode", scopes=OPERATORS)(self._get_test_mode)
        table("PUT", path, "setFaults", scopes=OPERATORS, body=FaultPlan)(self._set_faults)
        table("GET", path, "getFaults", scopes=OPERATORS)(self._get_faults)
        table("DELETE", path, "forgetFaults", scopes=OPERATORS)(self._delete_faults)
        return table

    def judge_link(self, url: str, policy: InboxPolicy) -> LinkVerdict:
        """Return the verdict on a link; test mode allows links to this machine."""
        judged: LinkVerdict = link_verdict(
            url, policy.link_hosts, local=policy.link_origins, here=self._test
        )
        return judged

    async def begin(self, components: Components, smtp: str | None) -> None:
        """Create the catch-all inbox in test mode."""
        self._components, self._smtp = components, smtp
        if not self._test:
            return
        if smtp is not None and not components.settings.smtp.tls_certificate:
            self._make_certificate(components.settings)
        requester_ = Requester(tenant=components.settings.tenant)
        options = InboxOptions(attempt_id="oncebox-test", label="catch-all", lifetime=0)

        def create(tx: Any) -> Inbox:
            now = components.database.clock()
            (created,) = components.inboxes.allocate(tx, requester_, [options], now)
            return created.inbox

        self._catch_all = await components.database.write(create)
        if self._catch_all.state is not InboxState.ACTIVE:
            raise ConfigInvalid(
                f"the catch-all inbox {self._catch_all.id} of test mode was closed; "
                "start with another --data-dir"
            )

    @property
    def smtp_auth(self) -> bool:
        """Whether SMTP clients may log in, with any credentials."""
        return self._test

    def smtp_settings(self, settings: SmtpSettings) -> SmtpSettings:
        """Return the settings of SMTP; in test mode with a certificate."""
        if self._certificate_file is None:
            return settings
        return msgspec.structs.replace(settings, tls_certificate=str(self._certificate_file))

    def _make_certificate(self, settings: Settings) -> None:
        hosts = {settings.smtp.hostname, settings.smtp.host, socket.gethostname(), *_LOCAL_HOSTS}
        names = {host for host in hosts if host and host.isascii()}
        key, certificate = make_certificate(names, clock.system())
        file = settings.folder / _CERTIFICATE_FILE
        file.unlink(missing_ok=True)
        write_private_file(file, key + certificate)
        self._certificate_file, self._certificate = file, certificate.decode()

    def addresses(self, directory: RecipientLookup) -> RecipientLookup:
        """Return the directory; in test mode with the catch-all inbox."""
        if not self._test:
            return directory
        local, _, domain = self._catch_all.email.rpartition("@")
        return CatchAllDirectory(directory, (local, domain))

    def mail(self, store: MailStore) -> MailStore:
        """Return the mail store; with faults if there may be any."""
        if not self._test and not self._mail_schedule.rules:
            return store
        self._mail_injector = MailFaultInjector(
            store, self._choose_mail_fault, self._components.telemetry
        )
        return self._mail_injector

    def webhooks(self, handler: WebhookHandler) -> WebhookHandler:
        """Return the webhook endpoint; with faults if there are rules for them."""
        if not self._webhook_schedule.rules:
            return handler
        return WebhookFaultInjector(handler, self._choose_webhook_fault, self._components.telemetry)

    async def end(self) -> None:
        """Store all mail that is held."""
        if self._mail_injector is not None:
            await self._mail_injector.close()

    def _choose_mail_fault(self, envelope: Envelope) -> MailRule | None:
        """Return the rule that applies to a mail; rules of an inbox come first."""
        for inbox_id in dict.fromkeys(each.inbox_id for each in envelope.recipients):
            own = self._schedules_by_inbox.get(inbox_id)
            rule = own and own.next(lambda rule: rule.matches(envelope))
            if rule:
                return rule
        return self._mail_schedule.next(lambda rule: rule.matches(envelope))

    def _choose_webhook_fault(self, path: str) -> WebhookRule | None:
        entry = self._components.sources.by_public_id(path.removeprefix("/in/"))
        if entry is None:
            return None
        return self._webhook_schedule.next(lambda rule: rule.matches(entry.source.name))

    async def _get_test_mode(self, _call: ApiCall) -> TestMode:
        """Show the SMTP address and the catch-all inbox."""
        return TestMode(
            smtp=self._smtp,
            smtp_certificate=self._certificate,
            catch_all=self._catch_all.id,
            catch_all_email=self._catch_all.email,
        )

    async def _set_faults(self, call: ApiCall) -> FaultReport:
        """Inject faults into the mail of an inbox."""
        inbox_id = await self._visible_inbox_id(call)
        plan: FaultPlan = call.body
        self._schedules_by_inbox[inbox_id] = FaultSchedule(plan.rules, plan.seed)
        return FaultReport()

    async def _get_faults(self, call: ApiCall) -> FaultReport:
        """Show the faults injected into the mail of an inbox."""
        own = self._schedules_by_inbox.get(await self._visible_inbox_id(call))
        return FaultReport(happened=own.happened if own else [])

    async def _delete_faults(self, call: ApiCall) -> FaultReport:
        """Release held mail and stop injecting faults."""
        inbox_id = await self._visible_inbox_id(call)
        own = self._schedules_by_inbox.pop(inbox_id, None)
        if self._mail_injector is not None:
            self._mail_injector.release_held(inbox_id)
        return FaultReport(happened=own.happened if own else [])

    async def _visible_inbox_id(self, call: ApiCall) -> str:
        """Return the id in the path, if the key may see that inbox."""
        found = await call.ledger.read(inboxes.get, call.requester, call.path["id"])
        return found.id


class CatchAllDirectory:
    """A directory with a catch-all address; an inbox that has ended stays ended."""

    def __init__(self, directory: RecipientLookup, catch_all: tuple[str, str]) -> None:
        self._directory = directory
        self._catch_all = catch_all

    def find_cached(self, local: str, domain: str) -> RecipientRoute | None:
        """Return the route if it is cached; None: call ``find``."""
        route = self._directory.find_cached(local, domain)
        if route is None or route.status not in _UNASSIGNED:
            return route
        return self._directory.find_cached(*self._catch_all)

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Return the route from the database."""
        route = await self._directory.find(local, domain)
        if route.status not in _UNASSIGNED:
            return route
        return await self._directory.find(*self._catch_all)
