"""`client.inboxes`, `client.messages`, `client.artifacts` (codes and links), and `Inbox`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.client.asynchronous.runner import AsyncResource, AsyncRunner
from oncebox.client.core import actions
from oncebox.client.core.calls import create_call, get_call, page_call, post_call
from oncebox.client.core.inbox_plans import (
    change_policy_call,
    claim_call,
    close_call,
    messages_call,
    used_call,
    wait_plan,
)
from oncebox.model.inboxes.artifact import ArtifactState
from oncebox.model.inboxes.inbox import InboxState
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.schemas import artifacts as artifact_schemas
from oncebox.schemas import inboxes as schemas
from oncebox.schemas.artifacts import Artifact, ArtifactPage, ArtifactQuery, ReleaseArtifact
from oncebox.schemas.attempts import AttemptStats
from oncebox.schemas.messages import (
    Message,
    MessageAttachment,
    MessageContent,
    MessagePage,
    MessageText,
)


class AsyncGrant(artifact_schemas.Grant, frozen=True, kw_only=True, dict=True):
    """A code or link that was granted, with its ``value``, kept for the caller for a short lease.

    Meanwhile other workers of the attempt wait; after a crash the next one gets it.
    """

    @classmethod
    def of(cls, runner: AsyncRunner, grant: artifact_schemas.Grant) -> Self:
        """Return the answer of the service with its method."""
        made = cls(**msgspec.structs.asdict(grant))
        made.__dict__["_runner"] = runner
        return made

    async def used(self) -> Artifact:
        """Report that it was used, so that no other worker gets it; a repeat changes nothing."""
        runner: AsyncRunner = self.__dict__["_runner"]
        return await runner.run(used_call(self.id))


class AsyncMessageGrant(AsyncGrant, frozen=True, kw_only=True, dict=True):
    """A message that was granted; ``value`` is its id, ``message`` all that the key may read.

    Keys without ``read:text`` see none of the texts, which are untrusted.
    """

    @property
    def _content(self) -> MessageContent | MessageText | None:
        message = self.message or None
        return message and (message.content or message.text or None)

    @property
    def subject(self) -> str | None:
        """The subject; None if the key may not read it."""
        return self._content.subject if self._content else None

    @property
    def sender_address(self) -> str | None:
        """The address in From; None if the key may not read it."""
        return (self.message and self.message.sender_address) or None

    @property
    def text(self) -> str | None:
        """The visible text; None if the key may not read it."""
        return self._content.text if self._content else None

    @property
    def html(self) -> str | None:
        """The source of the HTML part, if there is one; links in it only for operators."""
        return self._content.html if self._content else None

    @property
    def links(self) -> list[str]:
        """The links that the link policy allows; for operators."""
        content = self._content
        return content.links if isinstance(content, MessageContent) else []

    @property
    def attachments(self) -> list[MessageAttachment]:
        """The attachments, to be read with ``client.messages.attachment``; for operators."""
        content = self._content
        return content.attachments if isinstance(content, MessageContent) else []


class AsyncInbox(AsyncResource):
    """An inbox as it was when it was created or found, with its own methods.

    Its fields: ``id``, ``email``, ``attempt_id``, ``label``, ``state``, ``created_at``,
    ``active_until``, ``drains_until``, ``ended_at``, ``cursor`` (the number of its last message),
    ``metadata``, ``policy``, ``warnings``, ``rotated_from``, ``rotated_to``, ``created`` (false if
    the attempt had it already).
    """

    def __init__(self, runner: AsyncRunner, data: schemas.CreatedInbox) -> None:
        super().__init__(runner)
        #: the answer of the service
        self.data = data
        self.id = data.id
        self.email = data.email
        self.attempt_id = data.attempt_id
        self.label = data.label
        self.state = data.state
        self.created_at = data.created_at
        self.active_until = data.active_until
        self.drains_until = data.drains_until
        self.ended_at = data.ended_at
        self.cursor = data.cursor
        self.metadata = data.metadata
        self.policy = data.policy
        self.warnings = data.warnings
        self.rotated_from = data.rotated_from
        self.rotated_to = data.rotated_to
        self.created = data.created

    async def wait_for_code(
        self,
        *,
        sender: str | Sequence[str] | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        subject: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncGrant:
        """Wait for a code in this inbox, and claim it.

        ``sender`` is an address, a domain with its subdomains, ``*.`` and a domain, or several
        of these; SPF or DKIM must prove it. ``subject`` is a glob pattern (``*``, ``?``).
        ``after`` skips messages up to that number. The code is kept for this call until
        ``grant.used()``, or for a short lease; meanwhile others with the same key and
        ``claim_key`` (default: the attempt) wait. ``resume`` continues a wait that timed out,
        with the same arguments. ``grace`` is added to ``within``, only for the last answer to
        arrive.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, ArtifactConflict, AlreadyClaimed,
        InboxClosed, NotFound.
        """
        plan = wait_plan(
            "code",
            self.id,
            within=within,
            resume=resume,
            grace=grace,
            sender=sender,
            purpose=purpose,
            token=token,
            subject=subject,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncGrant.of(self._runner, await self._run(plan))

    async def wait_for_link(
        self,
        *,
        host: str | None = None,
        sender: str | Sequence[str] | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        subject: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncGrant:
        """Wait for a link in this inbox, and claim it.

        A link is granted only if it leads to one of the inbox's ``link_hosts``, and to ``host``
        if that is given. The other parameters are as for codes.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, ArtifactConflict, AlreadyClaimed,
        LinkRefused, InboxClosed, NotFound.
        """
        plan = wait_plan(
            "link",
            self.id,
            within=within,
            resume=resume,
            grace=grace,
            host=host,
            sender=sender,
            purpose=purpose,
            token=token,
            subject=subject,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncGrant.of(self._runner, await self._run(plan))

    async def wait_for_message(
        self,
        *,
        subject: str | None = None,
        sender: str | Sequence[str] | None = None,
        has_attachment: bool | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncMessageGrant:
        """Wait for a message in this inbox, and claim the first that matches, by number.

        For mail whose arrival is the signal. The result has its subject, text, HTML and
        attachments if the key may read them. ``has_attachment`` does not count inline ones. The
        other parameters are as for codes.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, AlreadyClaimed, InboxClosed, NotFound.
        """
        plan = wait_plan(
            "message",
            self.id,
            within=within,
            resume=resume,
            grace=grace,
            subject=subject,
            sender=sender,
            has_attachment=has_attachment,
            purpose=purpose,
            token=token,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncMessageGrant.of(self._runner, await self._run(plan))

    async def close(self, *, drain: float | None = None) -> schemas.Inbox:
        """Accept mail for ``drain`` seconds more, then close; a second time changes nothing."""
        return await self._run(close_call(self.id, drain))

    def messages(
        self,
        *,
        cursor: str | None = None,
        text: bool = False,
        follow: bool = False,
        idle: float | None = None,
    ) -> AsyncIterator[Message]:
        """Iterate over its messages in the order of receipt.

        Begins after ``cursor``, which every message has. With ``follow`` it waits for more at
        the end, forever or until nothing has come for ``idle`` seconds. Subject and sender are
        included if the key may read text, and with ``text`` the text too.
        """
        first = messages_call(self.id, cursor=cursor, text=text or None)
        return self._runner.iterate(first, follow=follow, idle=idle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncInbox) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        fields = msgspec.structs.asdict(self.data).items()
        return f"AsyncInbox({', '.join(f'{name}={value!r}' for name, value in fields)})"


class AsyncInboxes(AsyncResource):
    """``client.inboxes``."""

    async def create(
        self,
        *,
        attempt_id: str | None = None,
        label: str = "",
        policy: schemas.Policy | None = None,
        metadata: Mapping[str, str] | None = None,
        lifetime: float | None = None,
        domain: str | None = None,
        local: str | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncInbox:
        """Create an inbox, or return the attempt's inbox with this label.

        The result has all fields and the methods ``wait_for_code``, ``wait_for_link``,
        ``wait_for_message``, ``messages`` and ``close``. ``lifetime`` is in seconds; 0: forever.
        """
        body = schemas.NewInbox(
            attempt_id=attempt_id,
            label=label,
            policy=policy or schemas.Policy(),
            metadata=dict(metadata or {}),
            lifetime=lifetime,
            domain=domain,
            local=local,
        )
        call = create_call(schemas.CreatedInbox, body, idempotency_key, "inboxes")
        return AsyncInbox(self._runner, await self._run(call))

    async def create_many(
        self, inboxes: Sequence[schemas.NewInbox], *, idempotency_key: str | None = None
    ) -> schemas.CreatedInboxes:
        """Create inboxes in one commit, all or none; the answer has the same order."""
        body = schemas.NewInboxes(inboxes=[*inboxes])
        call = create_call(schemas.CreatedInboxes, body, idempotency_key, "inboxes", "batch")
        return await self._run(call)

    def list(
        self, *, attempt_id: str | None = None, state: InboxState | str | None = None
    ) -> AsyncIterator[schemas.Inbox]:
        """Iterate over inboxes, newest first."""
        filters = {"attempt_id": attempt_id, "state": state}
        return self._runner.iterate(
            page_call(schemas.InboxPage, schemas.InboxQuery, "inboxes", **filters)
        )

    async def page(
        self,
        *,
        attempt_id: str | None = None,
        state: InboxState | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> schemas.InboxPage:
        """Return one page of inboxes, newest first."""
        filters = {"attempt_id": attempt_id, "state": state, "limit": limit, "cursor": cursor}
        return await self._run(
            page_call(schemas.InboxPage, schemas.InboxQuery, "inboxes", **filters)
        )

    async def get(self, id: str) -> schemas.Inbox:
        """Return one inbox."""
        return await self._run(get_call(schemas.Inbox, "inboxes", id))

    async def close(self, id: str, *, drain: float | None = None) -> schemas.Inbox:
        """Accept mail for ``drain`` seconds more, then close; a second time changes nothing."""
        return await self._run(close_call(id, drain))

    async def rotate(self, id: str, *, drain: float | None = None) -> schemas.Inbox:
        """Return a new address for the same attempt and label; the old one drains.

        A repeat for the same inbox returns the same new one.
        """
        body = schemas.CloseInbox(drain=drain)
        call = post_call(schemas.Inbox, body, "inboxes", id, "rotate", repeatable=True)
        return await self._run(call)

    async def change_policy(
        self,
        id: str,
        *,
        senders: Sequence[str] | UnsetType = UNSET,
        authenticated: bool | UnsetType | None = UNSET,
        forwards: bool | UnsetType = UNSET,
        link_hosts: Sequence[str] | UnsetType = UNSET,
        link_origins: Sequence[str] | UnsetType = UNSET,
        token: str | UnsetType | None = UNSET,
        purpose: schemas.PolicyPurpose | UnsetType = UNSET,
        resends: int | UnsetType = UNSET,
    ) -> schemas.Inbox:
        """Change fields of an inbox's policy, for mail that arrives from now on."""
        call = change_policy_call(
            id,
            senders=senders,
            authenticated=authenticated,
            forwards=forwards,
            link_hosts=link_hosts,
            link_origins=link_origins,
            token=token,
            purpose=purpose,
            resends=resends,
        )
        return await self._run(call)

    async def stats(self, id: str) -> schemas.InboxStats:
        """Return statistics of an inbox."""
        return await self._run(get_call(schemas.InboxStats, "inboxes", id, "stats"))

    async def attempt_stats(self, attempt_id: str) -> AttemptStats:
        """Return statistics of all inboxes and actions of an attempt."""
        return await self._run(actions.stats_call(attempt_id))

    def messages(
        self,
        inbox_id: str,
        *,
        cursor: str | None = None,
        text: bool = False,
        follow: bool = False,
        idle: float | None = None,
    ) -> AsyncIterator[Message]:
        """Iterate over the messages of an inbox in the order of receipt.

        Begins after ``cursor``, which every message has. With ``follow`` it waits for more at
        the end, forever or until nothing has come for ``idle`` seconds. Subject and sender are
        included if the key may read text, and with ``text`` the text too.
        """
        first = messages_call(inbox_id, cursor=cursor, text=text or None)
        return self._runner.iterate(first, follow=follow, idle=idle)

    async def wait_for_code(
        self,
        inboxes: str | Sequence[str],
        *,
        sender: str | Sequence[str] | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        subject: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncGrant:
        """Wait for a code in an inbox, or in any of several, and claim it.

        ``sender`` is an address, a domain with its subdomains, ``*.`` and a domain, or several
        of these; SPF or DKIM must prove it. ``subject`` is a glob pattern (``*``, ``?``).
        ``after`` skips messages up to that number. The code is kept for this call until
        ``grant.used()``, or for a short lease; meanwhile others with the same key and
        ``claim_key`` (default: the attempt) wait. ``resume`` continues a wait that timed out,
        with the same arguments. ``grace`` is added to ``within``, only for the last answer to
        arrive.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, ArtifactConflict, AlreadyClaimed,
        InboxClosed, NotFound.
        """
        plan = wait_plan(
            "code",
            inboxes,
            within=within,
            resume=resume,
            grace=grace,
            sender=sender,
            purpose=purpose,
            token=token,
            subject=subject,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncGrant.of(self._runner, await self._run(plan))

    async def wait_for_link(
        self,
        inboxes: str | Sequence[str],
        *,
        host: str | None = None,
        sender: str | Sequence[str] | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        subject: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncGrant:
        """Wait for a link in an inbox, or in any of several, and claim it.

        A link is granted only if it leads to one of the inbox's ``link_hosts``, and to ``host``
        if that is given. The other parameters are as for codes.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, ArtifactConflict, AlreadyClaimed,
        LinkRefused, InboxClosed, NotFound.
        """
        plan = wait_plan(
            "link",
            inboxes,
            within=within,
            resume=resume,
            grace=grace,
            host=host,
            sender=sender,
            purpose=purpose,
            token=token,
            subject=subject,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncGrant.of(self._runner, await self._run(plan))

    async def wait_for_message(
        self,
        inboxes: str | Sequence[str],
        *,
        subject: str | None = None,
        sender: str | Sequence[str] | None = None,
        has_attachment: bool | None = None,
        within: float = 60.0,
        purpose: str | None = None,
        token: str | None = None,
        recipient: str | None = None,
        claim_key: str | None = None,
        after: int = 0,
        resume: str | None = None,
        grace: float = 0.0,
    ) -> AsyncMessageGrant:
        """Wait for a message in an inbox, or in any of several, and claim the first that matches.

        For mail whose arrival is the signal. The result has its subject, text, HTML and
        attachments if the key may read them. ``has_attachment`` does not count inline ones. The
        other parameters are as for codes.

        Raises: WaitTimedOut, WaitInFlight, ArtifactUsed, AlreadyClaimed, InboxClosed, NotFound.
        """
        plan = wait_plan(
            "message",
            inboxes,
            within=within,
            resume=resume,
            grace=grace,
            subject=subject,
            sender=sender,
            has_attachment=has_attachment,
            purpose=purpose,
            token=token,
            recipient=recipient,
            claim_key=claim_key,
            after=after,
        )
        return AsyncMessageGrant.of(self._runner, await self._run(plan))


class AsyncMessages(AsyncResource):
    """``client.messages``."""

    async def page(
        self,
        inbox_id: str,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        text: bool | None = None,
    ) -> MessagePage:
        """Return one page of messages; ``next_cursor`` is set also after the last one."""
        return await self._run(messages_call(inbox_id, limit=limit, cursor=cursor, text=text))

    async def get(self, id: str) -> Message:
        """Return one message: typed fields for agents, everything for operators."""
        return await self._run(get_call(Message, "messages", id))

    async def raw(self, id: str) -> bytes:
        """Return a message exactly as it was received; for operators."""
        return await self._run(get_call(bytes, "messages", id, "raw"))

    async def attachment(self, id: str, number: int) -> bytes:
        """Return the content of an attachment; for operators."""
        return await self._run(get_call(bytes, "messages", id, "attachments", str(number)))


class AsyncArtifacts(AsyncResource):
    """``client.artifacts``."""

    def list(
        self,
        inbox_id: str,
        *,
        kind: ArtifactKind | str | None = None,
        state: ArtifactState | str | None = None,
    ) -> AsyncIterator[Artifact]:
        """Iterate over the codes and links of an inbox, newest first; without their values."""
        path = ("inboxes", inbox_id, "artifacts")
        return self._runner.iterate(
            page_call(ArtifactPage, ArtifactQuery, *path, kind=kind, state=state)
        )

    async def page(
        self,
        inbox_id: str,
        *,
        kind: ArtifactKind | str | None = None,
        state: ArtifactState | str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """Return one page of the codes and links of an inbox; without their values."""
        path = ("inboxes", inbox_id, "artifacts")
        filters = {"kind": kind, "state": state, "limit": limit, "cursor": cursor}
        return await self._run(page_call(ArtifactPage, ArtifactQuery, *path, **filters))

    async def get(self, id: str) -> Artifact:
        """Return one code or link; without its value."""
        return await self._run(get_call(Artifact, "artifacts", id))

    async def claim(self, id: str, *, claim_key: str | None = None) -> AsyncGrant:
        """Return the value of a code or link, kept for this call until ``grant.used()``.

        Without a ``claim_key`` the attempt claims; after a short lease it gets the value again.
        Another claim gets ``AlreadyClaimed``.

        Raises: AlreadyClaimed, ArtifactInFlight, ArtifactUsed, ArtifactSuperseded, NotFound.
        """
        return AsyncGrant.of(self._runner, await self._run(claim_call(id, claim_key)))

    async def used(self, id: str) -> Artifact:
        """Report that a claimed code or link was used; no worker gets it any more."""
        return await self._run(used_call(id))

    async def release(self, id: str, *, why: str) -> Artifact:
        """Take a code or link back from its claimant; audited. For operators."""
        body = ReleaseArtifact(why=why)
        return await self._run(post_call(Artifact, body, "artifacts", id, "release"))
