"""A drill: what test mode and chaos put between the doors and the ledger of a service."""

from collections.abc import Sequence
from typing import Any

from oncebox.assembly import Rooms
from oncebox.edge.guard import App
from oncebox.edge.http.call import Call
from oncebox.edge.http.inboxes import asker
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.edge.smtp.office import Directory, Post
from oncebox.errors import ConfigInvalid
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.claims import Judged
from oncebox.ledger.inboxes.directory import Place, Standing
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.mail.linkpolicy import judge
from oncebox.model.envelope import Envelope
from oncebox.model.inbox import Inbox, InboxPolicy, InboxState, InboxWish
from oncebox.testing.chaos import Script
from oncebox.testing.chaos_hooks import ChaosHooks
from oncebox.testing.chaos_mail import ChaosMail
from oncebox.testing.chaos_rules import HookRule, MailRule, Rules
from oncebox.testing.drill_wire import FaultPlan, FaultReport, TestMode

#: the attempt whose inbox gets what no inbox has
_ATTEMPT, _LABEL = "oncebox-test", "catch-all"
#: addresses that lead nowhere by themselves
_NOBODYS = frozenset({Standing.UNKNOWN, Standing.NOT_OURS})
_HOOKS = "/in/"
_ABOUT = "/v1/test"
_FAULTS = "/v1/test/faults/{id}"
_SCOPES = frozenset({OPERATOR})


class Drill:
    """Test mode, chaos, or both."""

    def __init__(self, *, test: bool, rules: Rules | None = None) -> None:
        """Prepare; in test mode inboxes may be given faults of their own."""
        self._test = test
        self._rules = rules
        given = rules or Rules()
        self._mail = Script(given.mail, given.seed)
        self._hooks = Script(given.webhook, given.seed)
        #: faults of inboxes, by their ids
        self._own: dict[str, Script[MailRule]] = {}
        self._post: ChaosMail | None = None
        self._rooms: Rooms
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
                path=_ABOUT,
                name="getTestMode",
                summary="Show where mail is taken, and which inbox gets the rest.",
                scopes=_SCOPES,
                answer=TestMode,
                handler=self._about,
            ),
            Route(
                method="PUT",
                path=_FAULTS,
                name="setFaults",
                summary="Let the mail of an inbox meet faults.",
                scopes=_SCOPES,
                body=FaultPlan,
                answer=FaultReport,
                handler=self._set,
            ),
            Route(
                method="GET",
                path=_FAULTS,
                name="getFaults",
                summary="Show which faults the mail of an inbox has met.",
                scopes=_SCOPES,
                answer=FaultReport,
                handler=self._get,
            ),
            Route(
                method="DELETE",
                path=_FAULTS,
                name="forgetFaults",
                summary="Let go of mail that is held, and let no more meet faults.",
                scopes=_SCOPES,
                answer=FaultReport,
                handler=self._forget,
            ),
        )

    def judge_link(self, url: str, policy: InboxPolicy) -> Judged:
        """Let out links to this machine too, in test mode."""
        judged: Judged = judge(url, policy.link_hosts, local=policy.link_origins, here=self._test)
        return judged

    async def begin(self, rooms: Rooms, smtp: str | None) -> None:
        """Make sure that there is an inbox for what no inbox has.

        Raises: ConfigInvalid.
        """
        self._rooms, self._smtp = rooms, smtp
        if not self._test:
            return
        who = Asker(tenant=rooms.settings.tenant)
        wish = InboxWish(attempt_id=_ATTEMPT, label=_LABEL, lifetime=0)

        def verb(tx: Any) -> Inbox:
            (made,) = rooms.postmaster.make(tx, who, [wish], rooms.database.clock())
            return made.inbox

        self._catch_all = await rooms.database.write(verb)
        if self._catch_all.state is not InboxState.ACTIVE:
            message = (
                f"the catch-all inbox {self._catch_all.id} of test mode was closed; "
                "start with another --data-dir"
            )
            raise ConfigInvalid(message)

    def addresses(self, directory: Directory) -> Directory:
        """Let every address lead somewhere, in test mode."""
        if not self._test:
            return directory
        local, _, domain = self._catch_all.email.rpartition("@")
        return AnyAddress(directory, (local, domain))

    def mail(self, post: Post) -> Post:
        """Stand before the post, where faults may be asked for."""
        if not self._test and not self._mail.rules:
            return post
        self._post = ChaosMail(post, self._strike_mail, self._rooms.telemetry)
        return self._post

    def webhooks(self, app: App) -> App:
        """Stand before who takes webhooks, if there are rules for them."""
        if not self._hooks.rules:
            return app
        return ChaosHooks(app, self._strike_hook, self._rooms.telemetry)

    async def end(self) -> None:
        """Let everything arrive that is held."""
        if self._post is not None:
            await self._post.close()

    # what happens to what comes in

    def _strike_mail(self, envelope: Envelope) -> MailRule | None:
        """Return what is to happen to a mail; an inbox's own rules come first."""
        for each in dict.fromkeys(each.inbox_id for each in envelope.recipients):
            own = self._own.get(each)
            rule = own.next(lambda rule: rule.is_about(envelope)) if own is not None else None
            if rule is not None:
                return rule
        return self._mail.next(lambda rule: rule.is_about(envelope)) if self._mail.rules else None

    def _strike_hook(self, path: str) -> HookRule | None:
        entry = self._rooms.book.at(path[len(_HOOKS) :])
        if entry is None:
            return None  # who knocks at no door is none of ours
        return self._hooks.next(lambda rule: rule.is_about(entry.source.name))

    # what tests ask

    async def _about(self, _call: Call) -> TestMode:
        return TestMode(
            smtp=self._smtp, catch_all=self._catch_all.id, catch_all_email=self._catch_all.email
        )

    async def _set(self, call: Call) -> FaultReport:
        inbox_id = await self._inbox(call)
        plan: FaultPlan = call.body
        self._own[inbox_id] = Script(plan.rules, plan.seed)
        return FaultReport()

    async def _get(self, call: Call) -> FaultReport:
        own = self._own.get(await self._inbox(call))
        return FaultReport() if own is None else FaultReport(happened=own.happened)

    async def _forget(self, call: Call) -> FaultReport:
        inbox_id = await self._inbox(call)
        own = self._own.pop(inbox_id, None)
        if self._post is not None:
            self._post.let_go(inbox_id)
        return FaultReport() if own is None else FaultReport(happened=own.happened)

    async def _inbox(self, call: Call) -> str:
        """Return the inbox that is meant, if the key sees it.

        Raises: NotFound.
        """
        found = await call.rooms.counter.read(inboxes.get, asker(call), call.path["id"])
        return found.id


class AnyAddress:
    """A directory in which every address leads somewhere; an inbox that has ended stays ended."""

    def __init__(self, directory: Directory, rest: tuple[str, str]) -> None:
        """Let addresses that are nobody's lead where ``rest`` does."""
        self._directory = directory
        self._rest = rest

    def glance(self, local: str, domain: str) -> Place | None:
        """Return what is known at once; None: ask with ``find``."""
        place = self._directory.glance(local, domain)
        if place is None or place.standing not in _NOBODYS:
            return place
        return self._directory.glance(*self._rest)

    async def find(self, local: str, domain: str) -> Place:
        """Ask the database."""
        place = await self._directory.find(local, domain)
        return place if place.standing not in _NOBODYS else await self._directory.find(*self._rest)
