"""The outbox: one intent in, one send in the ledger, whoever asks and however often."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from oncebox import ids
from oncebox.config import SendSettings
from oncebox.errors import (
    CommitUnknown,
    DatabaseBusy,
    DatabaseUnreachable,
    DiskFull,
    InputRefused,
    KeyInvalid,
    NotFound,
    StoreFailed,
    StoreUnavailable,
)
from oncebox.ids import NewId
from oncebox.ledger.inboxes.correspondence import Correspondence
from oncebox.ledger.sends import guards
from oncebox.ledger.sends import intents as ledger
from oncebox.ledger.sends.batches import IntendedBatch, NewBatch, other_batch
from oncebox.ledger.sends.desk import SendDesk
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.model import intent as intents
from oncebox.model import letter
from oncebox.model.email import Email, EmailLimits, checked, recipients
from oncebox.model.guards import Guards
from oncebox.model.intent import Intent, Origin
from oncebox.model.letter import Letter
from oncebox.model.mailbox import read_mailbox
from oncebox.model.send import (
    Answer,
    ClaimedSend,
    Intended,
    NewSend,
    Repeat,
    Retention,
    Send,
    SendReply,
    TurnedDown,
    kept_for,
)
from oncebox.send_errors import SendDiffers, SendTooLate
from oncebox.store.database import Transaction
from oncebox.telemetry import Telemetry

#: bytes of text and attachments from which on a mail is written in a thread
_LARGE = 128 * 1024
#: milliseconds that a send may lie ahead
_LATEST = 366 * 86_400_000

#: the store cannot be written; a queue that is full, or a program that ends, is no such thing
_AWAY = (DatabaseBusy, DatabaseUnreachable, DiskFull, StoreFailed)

_encode = msgspec.msgpack.Encoder().encode


class _Composes(Protocol):
    def __call__(self, email: Email, *, message_id: str, date: int, seed: bytes) -> bytes: ...


class Scribe(NamedTuple):
    """Who writes mail; its functions ask no clock and no chance."""

    #: fills in the template that an email names
    fill: Callable[[Email], Email]
    message_id: Callable[[bytes, str, str, str], str]
    compose: _Composes


class Beside(Protocol):
    """Who sends past the ledger while that cannot be written."""

    def remember(self, tenant: str, key: bytes) -> None:
        """Remember that the ledger has a key, or may have it."""

    def has(self, tenant: str, key: bytes) -> bool:
        """Say whether a mail goes, or went, past the ledger and is not on record yet."""
        ...

    async def told(self, asked: Repeat) -> Intended | None:
        """Tell of a mail that went past the ledger and is not on record yet; None: it did not."""
        ...

    async def send(self, new: NewSend, error: StoreUnavailable) -> Intended:
        """Send a mail, or raise the error."""
        ...


class _Meant(NamedTuple):
    """An intent as far as it must be known to find out whether it came before."""

    origin: Origin
    intent: Intent
    #: as it will be sent
    email: Email
    repeat: Repeat


class Outbox:
    """Takes intents to send, and answers each only when it is on disk."""

    def __init__(  # noqa: PLR0913 - who it works with
        self,
        desk: SendDesk,
        box: SendBox,
        scribe: Scribe,
        settings: SendSettings,
        telemetry: Telemetry,
        *,
        correspondence: Correspondence | None = None,
        new_id: NewId = ids.new,
    ) -> None:
        """Serve any number of callers at the same time."""
        self._desk = desk
        self._correspondence = correspondence
        self._box = box
        self._scribe = scribe
        self._settings = settings
        self._limits = EmailLimits(recipients=settings.recipients, size=settings.size)
        self._telemetry = telemetry
        self._new_id = new_id
        self._beside: Beside | None = None

    def fail_open(self, beside: Beside) -> None:
        """Send by somebody else what the ledger cannot take, because that was chosen."""
        self._beside = beside

    async def send(self, origin: Origin, intent: Intent) -> Intended:
        """Store an intent, or tell how it stands. When this returns, it is on disk.

        Raises: InputRefused, NotFound, SendCoolingDown, SendBudgetSpent, StoreUnavailable.
        """
        meant = await self._understood(origin, await self._answering(origin, intent))
        try:
            told: SendReply = await self._desk.repeat(meant.repeat)
            if told is None and self._beside is not None:
                # The ledger may have just come back, and not have heard of it.
                told = await self._beside.told(meant.repeat)
            if told is None:
                told = await self._desk.intend(await self._frozen(meant))
        except StoreUnavailable as error:
            return self._judged(await self._without_ledger(meant, error), intent)
        if isinstance(told, Intended):
            self._remember(meant)
        return self._judged(told, intent)

    def _check_on_record(self, tenant: str, keys: Sequence[bytes]) -> None:
        """See that no mail of these went past the ledger, which is about to be told.

        Raises: StoreUnavailable.
        """
        if self._beside is not None and any(self._beside.has(tenant, key) for key in keys):
            message = "the ledger is not told yet of what was sent past it; try again in a moment"
            raise StoreUnavailable(message)

    def _remember(self, meant: _Meant) -> None:
        if self._beside is not None:
            self._beside.remember(meant.repeat.tenant, meant.repeat.key)

    async def _without_ledger(self, meant: _Meant, error: StoreUnavailable) -> Intended:
        """Send past the ledger where that was chosen; else there is no mail.

        Raises: StoreUnavailable.
        """
        if isinstance(error, CommitUnknown):
            self._remember(meant)  # it may be there, and is sent then
        if self._beside is None or not isinstance(error, _AWAY):
            raise error
        return await self._beside.send(await self._frozen(meant), error)

    async def send_batch(
        self, origin: Origin, key: str | None, wanted: Sequence[Intent], *, strict: bool = False
    ) -> IntendedBatch:
        """Store many intents in one commit, or tell how they stand: all of them, or none.

        In a strict one, no send may be asked for again otherwise than at first.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        if not 1 <= len(wanted) <= self._settings.batch:
            message = f"a batch has between 1 and {self._settings.batch} sends, not {len(wanted)}"
            raise KeyInvalid(message)
        wanted = [await self._answering(origin, each) for each in wanted]
        meant = await asyncio.to_thread(self._meant_in_batch, origin, wanted)
        keys = [each.repeat.key for each in meant]
        if len(set(keys)) < len(keys):
            raise KeyInvalid("two sends of the batch are the same mail; name each once")
        self._check_on_record(origin.tenant, keys)
        known = await asyncio.gather(*[self._desk.repeat(each.repeat) for each in meant])
        new = await asyncio.to_thread(self._freeze_batch, meant, known)
        named = (
            intents.own_key(key) if key is not None else hashlib.sha256(_encode(keys)).hexdigest()
        )
        batch = NewBatch(
            id=self._new_id("bat"),
            tenant=origin.tenant,
            key=bytes.fromhex(named),
            owner=origin.key,
        )
        told = await self._desk.intend_batch(batch, new, strict=strict)
        if told.conflict:
            raise other_batch()
        self._count(told.answers)
        return told

    async def outcome(self, send: Send, within: float) -> Send:
        """Return how a send ended, or how it stands after so many seconds."""
        return await self._desk.outcomes.wait(send, within)

    def frozen(self, origin: Origin, intent: Intent) -> NewSend:
        """Return an intent as the ledger takes it, for who writes it in a commit of their own.

        Raises: InputRefused.
        """
        if intent.answers is not None:
            raise KeyInvalid("an answer cannot be written in a transaction; send it apart")
        return self._freeze(self._meant(origin, intent))

    def enqueue(self, tx: Transaction, origin: Origin, intent: Intent) -> Intended:
        """Store an intent in somebody's own transaction; it is on disk when that is.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        new = self.frozen(origin, intent)
        self._check_on_record(new.tenant, [new.key])
        return self._judged(ledger.intend(tx, [new], self._desk.clock())[0], intent)

    def ring(self) -> None:
        """Wake the workers, after a transaction in which something was stored."""
        self._desk.ring()

    def clock(self) -> int:
        """Return the database's time."""
        return self._desk.clock()

    def letter(self, claimed: ClaimedSend) -> tuple[bytes, Letter]:
        """Return the frozen bytes of a send, and who it goes to.

        Raises: MasterKeyWrong.
        """
        send = claimed.send
        envelope = self._box.open_envelope(send.tenant, send.body_id, claimed.envelope)
        message = self._box.open_message(send.tenant, send.body_id, claimed.message)
        return message, letter.decode(envelope)

    async def _answering(self, origin: Origin, intent: Intent) -> Intent:
        """Let an answer say what it answers, if a person wrote that."""
        if intent.answers is None or self._correspondence is None:
            return intent
        owner = origin.key if origin.is_agent else None
        fields = await self._correspondence.answers(origin.tenant, intent.answers, owner=owner)
        given = {name.lower() for name in intent.email.headers}
        added = {name: value for name, value in fields.items() if name.lower() not in given}
        email = msgspec.structs.replace(intent.email, headers={**intent.email.headers, **added})
        return msgspec.structs.replace(intent, email=email)

    def _meant(self, origin: Origin, intent: Intent) -> _Meant:
        """Check an intent, and find out by what it is known."""
        email = intent.email
        if email.template:
            email = self._scribe.fill(email)
        email = checked(email, default_sender=self._settings.sender, limits=self._limits)
        repeat = Repeat(
            tenant=origin.tenant,
            key=bytes.fromhex(intents.key_of(intent, email)),
            protected=intents.protected(email),
            content=self._box.content(origin.tenant, _encode(email)),
        )
        return _Meant(origin, intent, email, repeat)

    async def _understood(self, origin: Origin, intent: Intent) -> _Meant:
        """Check an intent; one that takes time apart from those who wait."""
        if intent.email.template or _size(intent.email) >= _LARGE:
            return await asyncio.to_thread(self._meant, origin, intent)
        return self._meant(origin, intent)

    def _meant_in_batch(self, origin: Origin, wanted: Sequence[Intent]) -> list[_Meant]:
        meant: list[_Meant] = []
        for each in wanted:
            try:
                meant.append(self._meant(origin, each))
            except InputRefused as error:
                error.args = (f"send {len(meant) + 1} of the batch: {error}", *error.args[1:])
                raise
        return meant

    async def _frozen(self, meant: _Meant) -> NewSend:
        """Write the mail; a large one apart from those who wait."""
        if _size(meant.email) < _LARGE:
            return self._freeze(meant)
        return await asyncio.to_thread(self._freeze, meant)

    def _freeze_batch(self, meant: Sequence[_Meant], known: Sequence[SendReply]) -> list[NewSend]:
        """Write the mails of a batch; of what is known nothing but its key will be looked at."""
        return [
            self._freeze(each, known=told is not None)
            for each, told in zip(meant, known, strict=True)
        ]

    def _freeze(self, meant: _Meant, *, known: bool = False) -> NewSend:
        origin, intent, email, repeat = meant
        now = self._desk.clock()
        if not known:
            self._check_times(intent, now)
        sender, key = read_mailbox(email.sender), repeat.key.hex()
        message_id = self._scribe.message_id(
            self._box.message_ids, origin.tenant, key, sender.domain
        )
        seed = self._box.seed(origin.tenant, message_id)
        message = self._scribe.compose(email, message_id=message_id, date=now, seed=seed)
        id_ = self._new_id("snd")
        to = recipients(email)
        kept = Letter(sender=sender.address, recipients=to, email=email)
        return NewSend(
            id=id_,
            tenant=origin.tenant,
            key=repeat.key,
            protected=repeat.protected,
            content=repeat.content,
            message=self._box.seal_message(origin.tenant, id_, message),
            envelope=self._box.seal_envelope(origin.tenant, id_, letter.encode(kept)),
            message_id=message_id,
            marks=tuple([self._box.mark(origin.tenant, read_mailbox(each).key) for each in to]),
            transport=intent.transport,
            event_type=intent.event_type,
            entity_id=intent.entity_id,
            owner=origin.key,
            attempt_id=intent.attempt_id,
            delivery_id=origin.delivery_id,
            effect=origin.effect,
            on_unknown=intent.on_unknown,
            send_at=intent.send_at,
            valid_until=intent.valid_until,
            guards=self._guards(origin),
            retention=intent.retention,
            kept_for=kept_for(intent.retention, intent.interval),
        )

    def _guards(self, origin: Origin) -> Guards:
        """Return what limits new sends; budgets are for agents."""
        settings = self._settings
        return Guards(
            cool_down=int(settings.cool_down * 1000),
            per_key=settings.per_key if origin.is_agent else 0,
            per_recipient=settings.per_recipient if origin.is_agent else 0,
        )

    def _check_times(self, intent: Intent, now: int) -> None:
        begin = max(now, intent.send_at or now)
        if intent.valid_until is not None and intent.valid_until <= begin:
            raise SendTooLate("valid_until is over, or before send_at; the mail was not sent")
        if begin - now > _LATEST:
            raise SendTooLate("send_at lies more than a year ahead; ask for it later")
        if intent.retention is Retention.SCHEDULED and intent.interval <= 0:
            raise KeyInvalid("a scheduled send needs its interval: how often such a mail comes")

    def _judged(self, told: SendReply, intent: Intent) -> Intended:
        """Pass on what was told, or raise why there will be no mail."""
        if told is None:
            raise NotFound("there is no such transport; list them with: oncebox transport list")
        if isinstance(told, TurnedDown):
            raise guards.refusal(told)
        self._count([told])
        if told.answer is Answer.CONFLICT or (told.drift and intent.strict):
            message = (
                "this key is that of another mail: to others, from another, or with other "
                "attachments; a new mail needs a new entity_id, version or key"
            )
            raise SendDiffers(message)
        return told

    def _count(self, answers: Sequence[SendReply]) -> None:
        for told in answers:
            if isinstance(told, Intended) and not (told.created or told.rearmed):
                kind = "drift" if told.drift else str(told.answer)
                self._telemetry.duplicates.labels("send", kind).inc()
                age = self._desk.clock() - told.send.created_at
                self._telemetry.send_key_age.observe(max(0, age) / 1000)


def _size(email: Email) -> int:
    return len(email.text) + len(email.html) + sum(len(each.content) for each in email.attachments)
