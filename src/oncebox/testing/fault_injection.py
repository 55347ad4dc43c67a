"""Test mode of a service: catch-all inbox, /v1/test routes, mail and webhook faults."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncebox.components import Components
from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.errors.http import ServerBusy
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.recipient_directory import RecipientRoute, RecipientStatus
from oncebox.mail.links.link_policy import link_verdict
from oncebox.model.deliveries.delivery import Accepted
from oncebox.model.inboxes.inbox import Inbox, InboxOptions, InboxPolicy, InboxState
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.inboxes.received_mail import Envelope
from oncebox.server.http.request_limits import (
    CONTEXT,
    REQUEST_ID,
    App,
    Message,
    Receive,
    RequestContext,
    Scope,
    Send,
    request_context,
)
from oncebox.server.http.routing import OPERATOR, ApiCall, Route
from oncebox.server.smtp.connection import MailStore, RecipientLookup, SessionAborted
from oncebox.testing.chaos import (
    ChaosRules,
    FaultPlan,
    FaultReport,
    FaultSchedule,
    MailRule,
    TestMode,
    WebhookRule,
)

#: what a server says that wants to be left alone for a while
_REPLY_421 = b"421 4.7.0 try again in a moment (a fault that was asked for)\r\n"
#: put before a copy, as a relay that hands a mail over twice does
_COPY_HEADER = (
    b"Received: from copy-%d.chaos.invalid by chaos.invalid; Thu, 1 Jan 1970 00:00:00 +0000\r\n"
)
#: seconds between the next mail and the one that it overtook, so that no clock confuses them
_REORDER_GAP = 0.01

#: says what is to happen to a mail
ChooseMailFault = Callable[[Envelope], MailRule | None]


@dataclass(eq=False)
class _HeldMail:
    """A mail that its sender thinks has arrived."""

    inboxes: frozenset[str]
    #: whether the next mail for one of its inboxes lets it go
    overtaken: bool
    released: asyncio.Event = field(default_factory=asyncio.Event)


class MailFaultInjector:
    """A post that stores mail twice, late, in another order, not at all, or without a word."""

    def __init__(self, post: MailStore, strike: ChooseMailFault, telemetry: Telemetry) -> None:
        """Stand before a post."""
        self._post = post
        self._choose_fault = strike
        self._log = telemetry.log
        self._held: dict[_HeldMail, asyncio.Task[None]] = {}

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is on disk, or said to be.

        Raises: SessionAborted, StoreUnavailable.
        """
        rule = self._choose_fault(envelope)
        if rule is None:
            await self._store_and_release(envelope, data)
        else:
            self._log.info("chaos", door="mail", fault=rule.fault)
            await self._inject(rule, envelope, data)

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Begin to store a mail."""

        async def stored() -> list[Accepted]:
            await self.store(envelope, data)
            return []

        return asyncio.get_running_loop().create_task(stored())

    def release_held(self, inbox_id: str | None = None) -> None:
        """Hold nothing any longer, of one inbox or of all."""
        for held in self._held:
            if inbox_id is None or inbox_id in held.inboxes:
                held.released.set()

    async def close(self) -> None:
        """Return when everything that was held has arrived."""
        self.release_held()
        await asyncio.gather(*self._held.values())

    async def _inject(self, rule: MailRule, envelope: Envelope, data: bytes) -> None:
        match rule.fault:
            case "duplicate":
                await self._store_and_release(envelope, data)
                for number in range(1, rule.extra_copies + 1):
                    await self._post.store(envelope, _COPY_HEADER % number + data)
            case "delay" | "reorder":
                self._hold_mail(rule, envelope, data)
            case "421":
                raise SessionAborted(_REPLY_421)
            case "drop_after_accept":
                await self._store_and_release(envelope, data)
                raise SessionAborted

    async def _store_and_release(self, envelope: Envelope, data: bytes) -> None:
        """Store a mail, and let go of those that it has overtaken."""
        overtaken = [
            held
            for held in self._held
            if held.overtaken and not held.inboxes.isdisjoint(_inbox_ids(envelope))
        ]
        await self._post.store(envelope, data)
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
            await self._post.store(envelope, data)
        except OnceboxError as error:
            self._log.error("chaos_lost_a_mail", error=error.code)
        finally:
            del self._held[held]


def _inbox_ids(envelope: Envelope) -> frozenset[str]:
    return frozenset(each.inbox_id for each in envelope.recipients)


#: says what is to happen to a request, by its path
ChooseWebhookFault = Callable[[str], WebhookRule | None]

_SUCCESS = range(200, 300)
_RETRY_AFTER = 1.0


class WebhookFaultInjector:
    """An ASGI application before another."""

    def __init__(self, app: App, strike: ChooseWebhookFault, telemetry: Telemetry) -> None:
        """Stand before an application."""
        self._app = app
        self._choose_fault = strike
        self._log = telemetry.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        rule = self._choose_fault(scope["path"])
        if rule is None:
            await self._app(scope, receive, send)
            return
        self._log.info("chaos", door="webhook", fault=rule.fault)
        match rule.fault:
            case "duplicate":
                await self._repeat(rule, scope, receive, send)
            case "delay":
                await asyncio.sleep(rule.hold_seconds)
                await self._app(scope, receive, send)
            case "503":
                await request_context(scope).refuse(ServerBusy, retry_after=_RETRY_AFTER)
            case "drop_after_accept":
                await self._accept_and_drop(scope, receive, send)

    async def _repeat(self, rule: WebhookRule, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request again before the first is answered, so that the answer is for all."""
        messages = await _read_messages(receive)
        answer = await self._response_messages(scope, messages)
        for _ in range(rule.extra_copies):
            await self._response_messages(scope, messages)
        for each in answer:
            await send(each)

    async def _accept_and_drop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request, and cut the connection where it was taken."""
        answer = await self._response_messages(scope, await _read_messages(receive))
        if answer and answer[0]["status"] not in _SUCCESS:
            for each in answer:
                await send(each)
            return
        request_context(scope).abort()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _response_messages(self, scope: Scope, messages: list[Message]) -> list[Message]:
        """Have a request served; return its answer, which nobody has heard yet."""
        said: list[Message] = []
        left = iter(messages)

        async def receive() -> Message:
            return next(left, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            named = [each for each in message.get("headers", ()) if each[0] != REQUEST_ID]
            said.append({**message, "headers": named})  # whoever sends it on names it again

        real = request_context(scope)
        alone = RequestContext(send, (real.address, 0), real.id_header)
        alone.headers = real.headers
        await self._app({**scope, CONTEXT: alone}, receive, send)
        return said


async def _read_messages(receive: Receive) -> list[Message]:
    """Return all of a request."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


#: the attempt whose inbox gets what no inbox has
_ATTEMPT, _LABEL = "oncebox-test", "catch-all"
#: addresses that lead nowhere by themselves
_UNASSIGNED = frozenset({RecipientStatus.UNKNOWN, RecipientStatus.NOT_OURS})
_WEBHOOK_PREFIX = "/in/"
_TEST_MODE_PATH = "/v1/test"
_FAULTS_PATH = "/v1/test/faults/{id}"
_OPERATOR_SCOPES = frozenset({OPERATOR})


class ServiceTestMode:
    """Test mode, chaos, or both."""

    def __init__(self, *, test: bool, rules: ChaosRules | None = None) -> None:
        """Prepare; in test mode inboxes may be given faults of their own."""
        self._test = test
        self._rules = rules
        given = rules or ChaosRules()
        self._mail_schedule = FaultSchedule(given.mail, given.seed)
        self._webhook_schedule = FaultSchedule(given.webhook, given.seed)
        #: faults of inboxes, by their ids
        self._schedules_by_inbox: dict[str, FaultSchedule[MailRule]] = {}
        self._mail_injector: MailFaultInjector | None = None
        self._components: Components
        self._catch_all: Inbox
        self._smtp: str | None = None

    @property
    def banner(self) -> list[str]:
        """What whoever starts it must see."""
        lines = []
        if self._test:
            lines += [
                "TEST MODE: mail for ANY address is taken, and links to this machine are",
                "handed out. Never start a service so that real mail or real agents reach.",
            ]
        if self._rules is not None:
            count = len(self._rules.mail) + len(self._rules.webhook)
            lines += [
                f"CHAOS: {count} rules, seed {self._rules.seed}. Mail and webhooks are repeated,",
                "held, refused and cut off on purpose; what is held is lost by a kill.",
            ]
        return lines

    # what the service asks for

    @property
    def routes(self) -> Sequence[Route]:
        """What can be asked in test mode."""
        if not self._test:
            return ()
        return (
            Route(
                method="GET",
                path=_TEST_MODE_PATH,
                name="getTestMode",
                summary="Show where mail is taken, and which inbox gets the rest.",
                scopes=_OPERATOR_SCOPES,
                answer=TestMode,
                handler=self._get_test_mode,
            ),
            Route(
                method="PUT",
                path=_FAULTS_PATH,
                name="setFaults",
                summary="Let the mail of an inbox meet faults.",
                scopes=_OPERATOR_SCOPES,
                body=FaultPlan,
                answer=FaultReport,
                handler=self._set_faults,
            ),
            Route(
                method="GET",
                path=_FAULTS_PATH,
                name="getFaults",
                summary="Show which faults the mail of an inbox has met.",
                scopes=_OPERATOR_SCOPES,
                answer=FaultReport,
                handler=self._get_faults,
            ),
            Route(
                method="DELETE",
                path=_FAULTS_PATH,
                name="forgetFaults",
                summary="Let go of mail that is held, and let no more meet faults.",
                scopes=_OPERATOR_SCOPES,
                answer=FaultReport,
                handler=self._delete_faults,
            ),
        )

    def judge_link(self, url: str, policy: InboxPolicy) -> LinkVerdict:
        """Let out links to this machine too, in test mode."""
        judged: LinkVerdict = link_verdict(
            url, policy.link_hosts, local=policy.link_origins, here=self._test
        )
        return judged

    async def begin(self, rooms: Components, smtp: str | None) -> None:
        """Make sure that there is an inbox for what no inbox has.

        Raises: ConfigInvalid.
        """
        self._components, self._smtp = rooms, smtp
        if not self._test:
            return
        who = Requester(tenant=rooms.settings.tenant)
        wish = InboxOptions(attempt_id=_ATTEMPT, label=_LABEL, lifetime=0)

        def verb(tx: Any) -> Inbox:
            (made,) = rooms.inboxes.allocate(tx, who, [wish], rooms.database.clock())
            return made.inbox

        self._catch_all = await rooms.database.write(verb)
        if self._catch_all.state is not InboxState.ACTIVE:
            raise ConfigInvalid(
                f"the catch-all inbox {self._catch_all.id} of test mode was closed; "
                "start with another --data-dir"
            )

    def addresses(self, directory: RecipientLookup) -> RecipientLookup:
        """Let every address lead somewhere, in test mode."""
        if not self._test:
            return directory
        local, _, domain = self._catch_all.email.rpartition("@")
        return CatchAllDirectory(directory, (local, domain))

    def mail(self, post: MailStore) -> MailStore:
        """Stand before the post, where faults may be asked for."""
        if not self._test and not self._mail_schedule.rules:
            return post
        self._mail_injector = MailFaultInjector(
            post, self._choose_mail_fault, self._components.telemetry
        )
        return self._mail_injector

    def webhooks(self, app: App) -> App:
        """Stand before who takes webhooks, if there are rules for them."""
        if not self._webhook_schedule.rules:
            return app
        return WebhookFaultInjector(app, self._choose_webhook_fault, self._components.telemetry)

    async def end(self) -> None:
        """Let everything arrive that is held."""
        if self._mail_injector is not None:
            await self._mail_injector.close()

    # what happens to what comes in

    def _choose_mail_fault(self, envelope: Envelope) -> MailRule | None:
        """Return what is to happen to a mail; an inbox's own rules come first."""
        for each in dict.fromkeys(each.inbox_id for each in envelope.recipients):
            own = self._schedules_by_inbox.get(each)
            rule = own.next(lambda rule: rule.matches(envelope)) if own is not None else None
            if rule is not None:
                return rule
        return (
            self._mail_schedule.next(lambda rule: rule.matches(envelope))
            if self._mail_schedule.rules
            else None
        )

    def _choose_webhook_fault(self, path: str) -> WebhookRule | None:
        entry = self._components.sources.by_public_id(path[len(_WEBHOOK_PREFIX) :])
        if entry is None:
            return None  # who knocks at no door is none of ours
        return self._webhook_schedule.next(lambda rule: rule.matches(entry.source.name))

    # what tests ask

    async def _get_test_mode(self, _call: ApiCall) -> TestMode:
        return TestMode(
            smtp=self._smtp, catch_all=self._catch_all.id, catch_all_email=self._catch_all.email
        )

    async def _set_faults(self, call: ApiCall) -> FaultReport:
        inbox_id = await self._visible_inbox_id(call)
        plan: FaultPlan = call.body
        self._schedules_by_inbox[inbox_id] = FaultSchedule(plan.rules, plan.seed)
        return FaultReport()

    async def _get_faults(self, call: ApiCall) -> FaultReport:
        own = self._schedules_by_inbox.get(await self._visible_inbox_id(call))
        return FaultReport() if own is None else FaultReport(happened=own.happened)

    async def _delete_faults(self, call: ApiCall) -> FaultReport:
        inbox_id = await self._visible_inbox_id(call)
        own = self._schedules_by_inbox.pop(inbox_id, None)
        if self._mail_injector is not None:
            self._mail_injector.release_held(inbox_id)
        return FaultReport() if own is None else FaultReport(happened=own.happened)

    async def _visible_inbox_id(self, call: ApiCall) -> str:
        """Return the inbox that is meant, if the key sees it.

        Raises: NotFound.
        """
        found = await call.components.ledger.read(inboxes.get, call.requester, call.path["id"])
        return found.id


class CatchAllDirectory:
    """A directory in which every address leads somewhere; an inbox that has ended stays ended."""

    def __init__(self, directory: RecipientLookup, rest: tuple[str, str]) -> None:
        """Let addresses that are nobody's lead where ``rest`` does."""
        self._directory = directory
        self._catch_all = rest

    def glance(self, local: str, domain: str) -> RecipientRoute | None:
        """Return what is known at once; None: ask with ``find``."""
        place = self._directory.glance(local, domain)
        if place is None or place.status not in _UNASSIGNED:
            return place
        return self._directory.glance(*self._catch_all)

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Ask the database."""
        place = await self._directory.find(local, domain)
        return (
            place
            if place.status not in _UNASSIGNED
            else await self._directory.find(*self._catch_all)
        )
