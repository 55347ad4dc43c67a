"""Outbox: checks, composes, encrypts and stores a send; replies; waiting for its outcome."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from oncebox.core import faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Transaction
from oncebox.db.notify import Poller
from oncebox.errors import (
    CommitOverdue,
    CommitUnknown,
    DatabaseBusy,
    DatabaseOverdue,
    DatabaseUnreachable,
    DiskFull,
    InputRefused,
    KeyInvalid,
    StateConflict,
    StoreFailed,
    StoreUnavailable,
)
from oncebox.errors.sends import RepliesToAutomaticMail, SendKeyConflict, SendTooLate
from oncebox.ledger.ciphers import MailCipher, SendCipher
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import SENDS
from oncebox.ledger.sends import sends, submission
from oncebox.ledger.sends.sends import SendRef
from oncebox.ledger.sends.submission import IntendedBatch, NewBatch, batch_conflict
from oncebox.ledger.transactions import Ledger
from oncebox.model.inboxes.addresses import parse_mailbox
from oncebox.model.inboxes.message import MessageDocument
from oncebox.model.inboxes.received_mail import ParseStatus
from oncebox.model.sends import intent as intents
from oncebox.model.sends.email import (
    Email,
    EmailLimits,
    SendEnvelope,
    check_email,
    recipient_addresses,
)
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import (
    AnswerStatus,
    ClaimedSend,
    IntentAccepted,
    IntentIdentity,
    IntentResult,
    NewSend,
    Retention,
    Send,
    SendLease,
    SendLimits,
    is_settled,
)
from oncebox.settings import SendSettings

#: as ``ParsedMail.headers``
MessageHeaders = tuple[tuple[str, tuple[str, ...]], ...]
#: some header fields were not read
_HEADERS_TRUNCATED = "header_limit"


class OutcomeWaiters:
    """Callers that wait for the outcome of sends.

    Outcomes of this process arrive at once through ``notify``, those of others by polling.
    """

    def __init__(self, ledger: Ledger, telemetry: Telemetry) -> None:
        self._ledger = ledger
        self._waiting: defaultdict[SendRef, set[asyncio.Future[Send | None]]] = defaultdict(set)
        self._poller = Poller(ledger, telemetry, SENDS, self._poll, self._waiting)

    async def wait(self, send: Send, within: float) -> Send:
        """Return a send after its outcome is known, or as it is after so many seconds."""
        if is_settled(send) or within <= 0:
            return send
        ref = (send.tenant, send.id)
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[Send | None] = loop.create_future()
        timer = loop.call_later(within, _give_up, settled)
        self._waiting[ref].add(settled)
        self._poller.start()
        try:
            if (found := await settled) is not None:
                return found
            return (await self._ledger.read(sends.by_ids, [ref])).get(ref, send)
        finally:
            timer.cancel()
            waiting = self._waiting[ref]
            waiting.discard(settled)
            if not waiting:
                del self._waiting[ref]

    def notify(self, changed: Iterable[Send]) -> None:
        """Answer the callers that wait for these sends, where they are settled."""
        for send in changed:
            if is_settled(send):
                for waiting in self._waiting.get((send.tenant, send.id), ()):
                    if not waiting.done():
                        waiting.set_result(send)

    async def close(self) -> None:
        """Stop polling."""
        await self._poller.close()

    async def _poll(self) -> None:
        await asyncio.sleep(0.05)  # several notifications lead to one read
        self.notify(await self._ledger.read(sends.not_in_progress, [*self._waiting]))


def _give_up(settled: "asyncio.Future[Send | None]") -> None:
    if not settled.done():
        settled.set_result(None)


#: bytes of text and attachments from which a mail is composed in a thread
_LARGE = 128 * 1024
#: latest send_at, in milliseconds from now
_LATEST_SEND_AT = 366 * 86_400_000

#: the database cannot be written; a full queue or a stopping program does not count
_STORE_DOWN = (DatabaseBusy, DatabaseOverdue, DatabaseUnreachable, DiskFull, StoreFailed)

#: after a long wait: the next caller need not wait again
_STORE_SLOW = (CommitOverdue, DatabaseBusy, DatabaseOverdue)

_encode = msgspec.msgpack.Encoder().encode


class _Compose(Protocol):
    def __call__(self, email: Email, *, message_id: str, date: int, seed: bytes) -> bytes: ...


class MailComposer(NamedTuple):
    """Functions that compose mail; pure, without clock and randomness."""

    #: renders the template an email names
    fill: Callable[[Email], Email]
    compose: _Compose
    #: returns whether a mail is automatic, by its header fields and envelope sender
    is_automatic: Callable[[MessageHeaders, str | None], bool]
    #: returns the header fields of a reply, from fields and id of the original
    reply_headers: Callable[[MessageHeaders, str], dict[str, str]]


class FailOpenSender(Protocol):
    """Sends without the ledger while that cannot be written; implemented by a worker."""

    def remember(self, tenant: str, key: bytes) -> None:
        """Remember a key that the ledger has or may have."""

    def check_ledger(self) -> None:
        """Refuse at once while the ledger is known to be down.

        Raises: DatabaseOverdue.
        """

    def ledger_failed(self, error: StoreUnavailable) -> None:
        """Remember that the ledger is down, until it is seen to be written again."""

    def has(self, tenant: str, key: bytes) -> bool:
        """Tell whether a mail was sent without the ledger and is not merged yet."""
        ...

    async def existing_answer(self, asked: IntentIdentity) -> IntentAccepted | None:
        """Return the answer for a mail sent without the ledger and not merged yet, or None."""
        ...

    async def send(self, new: NewSend, error: StoreUnavailable) -> IntentAccepted:
        """Send a mail, or raise the given error."""
        ...


class PlainMail(NamedTuple):
    """A composed mail that this process has just encrypted."""

    message: bytes
    envelope: SendEnvelope


class ReservedTry(NamedTuple):
    """Capacity of this process for one send; used or released once."""

    #: the lease to ask for
    lease: SendLease
    #: transmits the send, which is leased now
    transmit: Callable[[ClaimedSend, PlainMail], None]
    #: gives the capacity back: nothing was leased, as far as is known
    release: Callable[[], None]


class LocalSender(Protocol):
    """The send worker of this process, which may lease an intent in the commit that stores it."""

    async def reserve(
        self, tenant: str, transport: str, failover_group: str = ""
    ) -> ReservedTry | None:
        """Reserve capacity for one send; None: the send is to be claimed like any other."""
        ...


class _LeaseWaiter:
    """Passes a leased intent to the worker right after the commit, even if its caller is gone."""

    __slots__ = ("_mail", "_new", "_reserved", "result")

    def __init__(self, reserved: ReservedTry, new: NewSend, mail: PlainMail) -> None:
        self._reserved = reserved
        self._new = new
        self._mail = mail
        self.result: asyncio.Future[IntentResult] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """Return False: a lease must reach its worker."""
        return False

    def set_result(self, result: IntentResult, /) -> None:
        """Let the worker transmit what it has leased, and answer the caller."""
        new = self._new
        if isinstance(result, IntentAccepted) and result.send.id == new.id and result.send.fence:
            faults.point("sends.leased")
            claimed = ClaimedSend(result.send, new.message, new.envelope)
            self._reserved.transmit(claimed, self._mail)
        else:
            self._reserved.release()
        if not self.result.done():
            self.result.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        """Give the capacity back. If the commit succeeded anyway, the lease expires."""
        self._reserved.release()
        if not self.result.done():
            self.result.set_exception(error)


class _CheckedIntent(NamedTuple):
    """An intent with a checked email and the identity it is recognised by."""

    origin: SendOrigin
    intent: Intent
    #: as it will be sent
    email: Email
    recipients: tuple[str, ...]
    identity: IntentIdentity


class Outbox:
    """Accepts intents to send; each is on disk before it is answered."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        cipher: SendCipher,
        load_composer: Callable[[], MailComposer],
        settings: SendSettings,
        telemetry: Telemetry,
        *,
        mail_cipher: MailCipher | None = None,
        new_id: ids.NewId = ids.new,
    ) -> None:
        self._ledger = ledger
        self._find_existing = ledger.shared(submission.find_existing)
        self.clock = ledger.clock
        self.outcomes = OutcomeWaiters(ledger, telemetry)
        #: decrypts the messages that sends reply to
        self._mail_cipher = mail_cipher
        self._cipher = cipher
        self._new_id = new_id
        self._load_composer = load_composer
        self._settings = settings
        cool_down = int(settings.cool_down * 1000)
        self._guards = SendLimits(cool_down=cool_down)
        self._agent_guards = SendLimits(
            cool_down=cool_down, per_key=settings.per_key, per_recipient=settings.per_recipient
        )
        self._limits = EmailLimits(recipients=settings.recipients, size=settings.size)
        self._telemetry = telemetry
        #: set if fail-open sending is configured
        self.fail_open_sender: FailOpenSender | None = None
        #: set if this process transmits mail
        self.local_sender: LocalSender | None = None

    async def close(self) -> None:
        """Stop polling for outcomes."""
        await self.outcomes.close()

    async def send(self, origin: SendOrigin, intent: Intent) -> IntentAccepted:
        """Store an intent, or return the send of a repeated one; on disk when this returns.

        Raises: InputRefused, NotFound, SendCoolingDown, SendBudgetSpent, StoreUnavailable.
        """
        checked = await self._check_apart(origin, await self._with_reply_headers(origin, intent))
        try:
            result: IntentResult = await self._find_existing.read(checked.identity)
            if result is None and self.fail_open_sender is not None:
                # The ledger may have just come back, without this mail.
                result = await self.fail_open_sender.existing_answer(checked.identity)
                if result is None:
                    self.fail_open_sender.check_ledger()
            if result is None:
                result = await self._store(*await self._compose_apart(checked))
                faults.point("sends.intent_committed")
        except StoreUnavailable as error:
            return self._answer(await self._send_fail_open(checked, error), intent)
        if isinstance(result, IntentAccepted):
            self._remember(checked)
        return self._answer(result, intent)

    async def _store(self, new: NewSend, mail: PlainMail) -> IntentResult:
        """Store an intent; where this process can transmit it at once, lease it in that commit.

        See docs/decisions/0042-use-one-commit-for-intent-and-lease.md.
        """
        reserved = None
        if self.local_sender is not None and new.send_at is None:
            reserved = await self.local_sender.reserve(
                new.tenant, new.transport, new.failover_group
            )
        if reserved is None:
            return await self._ledger.submit(submission.store_intents, new)
        new = msgspec.structs.replace(new, lease=reserved.lease)
        waiter = _LeaseWaiter(reserved, new, mail)
        try:
            self._ledger.enqueue(submission.store_intents, new, waiter)
        except StoreUnavailable:
            reserved.release()
            raise
        return await waiter.result

    def _refuse_unmerged(self, tenant: str, keys: Sequence[bytes]) -> None:
        """Check that no mail of these keys was sent without the ledger and is not merged yet."""
        if self.fail_open_sender is not None and any(
            self.fail_open_sender.has(tenant, key) for key in keys
        ):
            raise StoreUnavailable(
                "mail sent while the ledger was down is not merged yet; try again in a moment"
            )

    def _remember(self, checked: _CheckedIntent) -> None:
        if self.fail_open_sender is not None:
            self.fail_open_sender.remember(checked.identity.tenant, checked.identity.key)

    async def _send_fail_open(
        self, checked: _CheckedIntent, error: StoreUnavailable
    ) -> IntentAccepted:
        if isinstance(error, CommitUnknown):
            self._remember(checked)  # if it is stored, the ledger sends it
        if self.fail_open_sender is None:
            raise error
        if isinstance(error, _STORE_SLOW):
            self.fail_open_sender.ledger_failed(error)
        if not isinstance(error, _STORE_DOWN):
            raise error
        composed = await self._compose_apart(checked)
        return await self.fail_open_sender.send(composed[0], error)

    async def send_batch(
        self, origin: SendOrigin, key: str | None, wanted: Sequence[Intent], *, strict: bool = False
    ) -> IntendedBatch:
        """Store many intents in one commit, or return the sends of repeated ones: all or none.

        ``strict`` refuses repeats with other content.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        if not 1 <= len(wanted) <= self._settings.batch:
            raise KeyInvalid(
                f"a batch has between 1 and {self._settings.batch} sends, not {len(wanted)}"
            )
        wanted = [await self._with_reply_headers(origin, each) for each in wanted]
        checked = await asyncio.to_thread(self._check_batch, origin, wanted)
        keys = [each.identity.key for each in checked]
        if len(set(keys)) < len(keys):
            raise KeyInvalid("two sends of the batch are the same mail; give each once")
        self._refuse_unmerged(origin.tenant, keys)
        known = await asyncio.gather(*[self._find_existing.read(each.identity) for each in checked])
        new = await asyncio.to_thread(self._compose_batch, checked, known)
        digest = hashlib.sha256(_encode(keys)).hexdigest()
        batch = NewBatch(
            id=self._new_id("bat"),
            tenant=origin.tenant,
            key=bytes.fromhex(digest if key is None else intents.caller_key(key)),
            owner=origin.key,
        )
        stored = await self._ledger.write(
            submission.store_batch, batch, new, self.clock(), strict=strict
        )
        faults.point("sends.intent_committed")
        self._ledger.notify(*submission.intent_topics(stored.answers))
        if stored.conflict:
            raise batch_conflict()
        self._count(stored.answers)
        return stored

    def compose(self, origin: SendOrigin, intent: Intent) -> NewSend:
        """Return an intent as the ledger stores it, for callers with a transaction of their own."""
        if intent.answers is not None:
            raise KeyInvalid("a reply cannot be sent in a transaction; send it separately")
        return self._compose(self._check(origin, intent))[0]

    def enqueue(self, tx: Transaction, origin: SendOrigin, intent: Intent) -> IntentAccepted:
        """Store an intent in the caller's transaction.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        new = self.compose(origin, intent)
        self._refuse_unmerged(new.tenant, [new.key])
        return self._answer(submission.store_intents(tx, [new], self.clock())[0], intent)

    def notify(self) -> None:
        """Wake the send workers after a transaction of the caller that stored intents."""
        self._ledger.notify(SENDS)

    async def _with_reply_headers(self, origin: SendOrigin, intent: Intent) -> Intent:
        """Add the header fields of a reply, if the original was written by a person."""
        id_, cipher = intent.answers, self._mail_cipher
        if id_ is None or cipher is None:
            return intent
        owner = origin.key if origin.is_agent else None
        found = await self._ledger.read(messages.get, cipher, origin.tenant, id_, owner=owner)
        if found.document is None:
            raise StateConflict("the content of this message was purged; it cannot be answered")
        if self._is_automatic(found.document):
            raise RepliesToAutomaticMail(
                "this message was sent by a program or to a mailing list, so no program may reply; "
                "let a person answer it"
            )
        parsed = found.document.parsed
        fields = self._load_composer().reply_headers(parsed.headers, parsed.message_id)
        given = {name.lower() for name in intent.email.headers}
        added = {name: value for name, value in fields.items() if name.lower() not in given}
        email = msgspec.structs.replace(intent.email, headers={**intent.email.headers, **added})
        return msgspec.structs.replace(intent, email=email)

    def _is_automatic(self, document: MessageDocument) -> bool:
        """Tell whether a program sent a message; if that is unclear, it counts as one."""
        parsed, carrier = document.parsed, document.carrier
        if (
            parsed.status is ParseStatus.UNPARSED
            or _HEADERS_TRUNCATED in parsed.warnings
            or parsed.auto_submitted
        ):
            return True
        # Only mail received by SMTP has an envelope sender.
        sender = carrier.sender if carrier.client else None
        return self._load_composer().is_automatic(parsed.headers, sender)

    def _check(self, origin: SendOrigin, intent: Intent) -> _CheckedIntent:
        if intent.transport and intent.failover_group:
            raise KeyInvalid("a mail names a transport or a failover group, not both; omit one")
        email = intent.email
        if email.template:
            email = self._load_composer().fill(email)
        email = check_email(email, default_sender=self._settings.sender, limits=self._limits)
        recipients = recipient_addresses(email)
        identity = IntentIdentity(
            tenant=origin.tenant,
            protected=intents.protected_fingerprint(email),
            key=bytes.fromhex(intents.key_for_intent(intent, email)),
            content=self._cipher.content_fingerprint(origin.tenant, _encode(email)),
        )
        return _CheckedIntent(origin, intent, email, recipients, identity)

    async def _check_apart(self, origin: SendOrigin, intent: Intent) -> _CheckedIntent:
        """Check an intent, a large one in a thread."""
        if intent.email.template or _email_size(intent.email) >= _LARGE:
            return await asyncio.to_thread(self._check, origin, intent)
        return self._check(origin, intent)

    def _check_batch(self, origin: SendOrigin, wanted: Sequence[Intent]) -> list[_CheckedIntent]:
        checked: list[_CheckedIntent] = []
        for each in wanted:
            try:
                checked.append(self._check(origin, each))
            except InputRefused as error:
                error.args = (f"send {len(checked) + 1} of the batch: {error}", *error.args[1:])
                raise
        return checked

    async def _compose_apart(self, checked: _CheckedIntent) -> tuple[NewSend, PlainMail]:
        """Compose the mail, a large one in a thread."""
        if _email_size(checked.email) < _LARGE:
            return self._compose(checked)
        return await asyncio.to_thread(self._compose, checked)

    def _compose_batch(
        self, checked: Sequence[_CheckedIntent], known: Sequence[IntentResult]
    ) -> list[NewSend]:
        """Compose the mails of a batch; of repeated ones only the key matters."""
        return [
            self._compose(each, known=result is not None)[0]
            for each, result in zip(checked, known, strict=True)
        ]

    def _compose(
        self, checked: _CheckedIntent, *, known: bool = False
    ) -> tuple[NewSend, PlainMail]:
        origin, intent, email, recipients, identity = checked
        now, cipher = self.clock(), self._cipher
        if not known:
            self._check_times(intent, now)
        sender = parse_mailbox(email.sender).address
        message_id = intents.message_id(
            cipher.message_id_secret,
            origin.tenant,
            identity.key.hex(),
            domain=sender.rpartition("@")[2],
        )
        seed = cipher.boundary_seed(origin.tenant, message_id)
        keys = [parse_mailbox(each).key for each in recipients]
        marks = [cipher.address_fingerprint(origin.tenant, key) for key in keys]
        message = self._load_composer().compose(email, message_id=message_id, date=now, seed=seed)
        id_ = self._new_id("snd")
        envelope = SendEnvelope(sender=sender, recipients=recipients, email=email)
        encrypted_message, encrypted_envelope = cipher.encrypt(
            origin.tenant, id_, message, envelope
        )
        new = NewSend(
            id=id_,
            tenant=origin.tenant,
            key=identity.key,
            protected=identity.protected,
            content=identity.content,
            message=encrypted_message,
            envelope=encrypted_envelope,
            message_id=message_id,
            marks=tuple(marks),
            transport=intent.transport,
            failover_group=intent.failover_group,
            pinned=bool(intent.transport),
            event_type=intent.event_type,
            entity_id=intent.entity_id,
            owner=origin.key,
            attempt_id=intent.attempt_id,
            delivery_id=origin.delivery_id,
            effect=origin.effect,
            on_unknown=intent.on_unknown,
            send_at=intent.send_at,
            valid_until=intent.valid_until,
            # Only agents have budgets.
            guards=self._agent_guards if origin.is_agent else self._guards,
            retention=intent.retention,
            kept_for=retention_period(intent.retention, intent.interval),
        )
        return new, PlainMail(message, envelope)

    def _check_times(self, intent: Intent, now: int) -> None:
        begin = max(now, intent.send_at or now)
        if intent.valid_until is not None and intent.valid_until <= begin:
            raise SendTooLate("valid_until has passed, or is before send_at; the mail was not sent")
        if begin - now > _LATEST_SEND_AT:
            raise SendTooLate("send_at is more than a year ahead; request it later")
        if intent.retention is Retention.SCHEDULED and intent.interval <= 0:
            raise KeyInvalid("a scheduled send needs its interval, in seconds")

    def _answer(self, result: IntentResult, intent: Intent) -> IntentAccepted:
        """Return the ledger's answer, or raise why there will be no mail."""
        if not isinstance(result, IntentAccepted):
            self._telemetry.send_requests.labels("refused").inc()
            raise submission.refusal_error(result)
        self._count([result])
        if result.status is AnswerStatus.CONFLICT or (result.drift and intent.strict):
            raise SendKeyConflict(
                "this key belongs to another mail: with other recipients, sender, attachments or "
                "template, or with strict, other content; give a new entity_id, version or key"
            )
        return result

    def _count(self, answers: Sequence[IntentAccepted]) -> None:
        for answer in answers:
            self._telemetry.send_requests.labels(_request_label(answer)).inc()
            if not (answer.created or answer.rearmed):
                kind = "drift" if answer.drift else str(answer.status)
                self._telemetry.count_duplicate("send", kind)
                age = self.clock() - answer.send.created_at
                self._telemetry.send_key_age.observe(max(0, age) / 1000)


def _request_label(answer: IntentAccepted) -> str:
    if answer.created:
        return "new"
    if answer.rearmed:
        return "rearmed"
    return "refused" if answer.status is AnswerStatus.CONFLICT else "repeated"


_RETENTION_MS = {Retention.TRANSACTIONAL: 7 * 86_400_000, Retention.NOTIFICATION: 86_400_000}


def retention_period(retention: Retention, interval: int = 0) -> int:
    """Return how many milliseconds content is kept: if scheduled, twice its interval."""
    return 2 * interval if retention is Retention.SCHEDULED else _RETENTION_MS[retention]


def _email_size(email: Email) -> int:
    return len(email.text) + len(email.html) + sum(len(each.content) for each in email.attachments)
