"""Test mode of a service: catch-all inbox, /v1/test routes, mail and webhook faults.

See docs/decisions/0038-use-command-line-test-mode-for-fault-injection.md.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
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

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is stored, or a fault pretends that it is."""
        rule = self._choose_fault(envelope)
        if rule is None:
            await self._store_and_release(envelope, data)
        else:
            self._log.info("fault_injected", channel="mail", fault=rule.fault)
            await self._inject(rule, envelope, data)

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Store a mail in a task."""

        async def stored() -> list[Accepted]:
            await self.store(envelope, data)
            return []

        return asyncio.get_running_loop().create_task(stored())

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


class WebhookFaultInjector:
    """ASGI middleware that repeats, delays, rejects or cuts off requests."""

    def __init__(
        self, app: App, choose_fault: Callable[[str], WebhookRule | None], telemetry: Telemetry
    ) -> None:
        self._app = app
        self._choose_fault = choose_fault
        self._log = telemetry.log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        rule = self._choose_fault(scope["path"])
        if rule is None:
            await self._app(scope, receive, send)
            return
        self._log.info("fault_injected", channel="webhook", fault=rule.fault)
        match rule.fault:
            case "duplicate":
                await self._repeat(rule, scope, receive, send)
            case "delay":
                await asyncio.sleep(rule.hold_seconds)
                await self._app(scope, receive, send)
            case "503":
                await request_context(scope).refuse(ServerBusy, retry_after=1.0)
            case "drop_after_accept":
                await self._accept_and_drop(scope, receive, send)

    async def _repeat(self, rule: WebhookRule, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request several times before the first answer is sent."""
        messages = await _read_messages(receive)
        answer = await self._response_messages(scope, messages)
        for _ in range(rule.extra_copies):
            await self._response_messages(scope, messages)
        for each in answer:
            await send(each)

    async def _accept_and_drop(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and cut the connection if it was accepted."""
        answer = await self._response_messages(scope, await _read_messages(receive))
        if answer and answer[0]["status"] not in range(200, 300):
            for each in answer:
                await send(each)
            return
        request_context(scope).abort()
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _response_messages(self, scope: Scope, messages: list[Message]) -> list[Message]:
        """Serve a request; return its answer without sending it."""
        answer: list[Message] = []
        left = iter(messages)

        async def receive() -> Message:
            return next(left, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            # Without the request id, which is added when the answer is sent.
            headers = [each for each in message.get("headers", ()) if each[0] != REQUEST_ID]
            answer.append({**message, "headers": headers})

        original = request_context(scope)
        context = RequestContext(send, (original.address, 0), original.id_header)
        context.headers = original.headers
        await self._app({**scope, CONTEXT: context}, receive, send)
        return answer


async def _read_messages(receive: Receive) -> list[Message]:
    """Return all messages of a request."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    return messages


#: the states of an address that no inbox has
_UNASSIGNED = frozenset({RecipientStatus.UNKNOWN, RecipientStatus.NOT_OURS})
_OPERATOR_SCOPES = frozenset({OPERATOR})


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

    @property
    def banner(self) -> list[str]:
        """Warnings for the operator."""
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

    @property
    def routes(self) -> Sequence[Route]:
        """API routes of test mode."""
        if not self._test:
            return ()
        faults = partial(
            Route, path="/v1/test/faults/{id}", scopes=_OPERATOR_SCOPES, answer=FaultReport
        )
        return (
            Route(
                method="GET",
                path="/v1/test",
                name="getTestMode",
                summary="Show the SMTP address and the catch-all inbox.",
                scopes=_OPERATOR_SCOPES,
                answer=TestMode,
                handler=self._get_test_mode,
            ),
            faults(
                method="PUT",
                name="setFaults",
                summary="Inject faults into the mail of an inbox.",
                body=FaultPlan,
                handler=self._set_faults,
            ),
            faults(
                method="GET",
                name="getFaults",
                summary="Show the faults injected into the mail of an inbox.",
                handler=self._get_faults,
            ),
            faults(
                method="DELETE",
                name="forgetFaults",
                summary="Release held mail and stop injecting faults.",
                handler=self._delete_faults,
            ),
        )

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

    def webhooks(self, app: App) -> App:
        """Return the webhook endpoint; with faults if there are rules for them."""
        if not self._webhook_schedule.rules:
            return app
        return WebhookFaultInjector(app, self._choose_webhook_fault, self._components.telemetry)

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
        return FaultReport(happened=own.happened if own else [])

    async def _delete_faults(self, call: ApiCall) -> FaultReport:
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
