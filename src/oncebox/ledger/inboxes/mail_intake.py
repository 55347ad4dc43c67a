"""MailIntake: stores mail taken by SMTP and webhooks, one delivery of source @mail per inbox."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from oncebox.core import faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.group_commit import BulkInsert, GroupCommit, ResultSink
from oncebox.errors import StoreError, StoreUnavailable
from oncebox.ledger.ciphers import LARGE, MailCipher, mail_aad
from oncebox.ledger.deliveries.deduplication import accept, insert_new
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.notifications import DUE, MAIL
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind, NewDelivery, encode_headers
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    MAIL_TYPE,
    SMTP_CHANNEL,
    WEBHOOK_CHANNEL,
    Envelope,
    encode_envelope,
)
from oncebox.settings import LimitSettings

#: one mail: a delivery for each of its inboxes, committed together
MailDeliveries = tuple[NewDelivery, ...]
#: receives the result of a mail after its commit; its methods must not raise
MailWaiter = ResultSink[list[Accepted]]


class WebhookMail(NamedTuple):
    """A mail that the webhook of a source brought."""

    tenant: str
    source: str
    deliveries: MailDeliveries


class _Arrival(NamedTuple):
    """When and how a mail arrived, and its fingerprint."""

    mark: bytes
    channel: str
    received_at: int


class MailIntake:
    """Stores received mail in the ledger."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        limits: LimitSettings,
        cipher: MailCipher,
        *,
        heavy_from: int = 256 * 1024,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Let at most ``limits.waiting`` mails wait for their commit; large ones are heavy."""
        self._database = database
        self._telemetry = telemetry
        self._cipher = cipher
        self._heavy_from = heavy_from
        self._new_id = new_id
        self._rows = telemetry.commit_rows.labels("mail")
        self._new = telemetry.accepted.labels(MAIL_SOURCE)
        self._group: GroupCommit[MailDeliveries, list[Accepted]] = GroupCommit(
            database,
            self._accept,
            insert=_insert_new,
            # Mails come a few at a time, and there a small batch costs as much as a large one.
            in_order=database.round_trips,
            waiting=limits.waiting,
            size=lambda mail: len(mail[0].body),
            committed=self._after_commit,
        )
        self._webhook_group: GroupCommit[WebhookMail, list[Accepted]] = GroupCommit(
            database,
            self._accept_webhooks,
            in_order=database.round_trips,
            waiting=limits.waiting,
            size=lambda mail: len(mail.deliveries[0].body),
            committed=self._after_webhook_commit,
        )

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is committed for every recipient; the same bytes count once.

        Raises: StoreUnavailable.
        """
        try:
            if len(data) < LARGE:
                mail = self.deliveries(envelope, data)
            else:
                mail = await asyncio.to_thread(self.deliveries, envelope, data)
            await self._group.submit(mail)
        except StoreUnavailable:
            raise
        except Exception as error:
            # A fault of ours must never cause a permanent rejection.
            raise StoreUnavailable("the mail could not be stored; try again later") from error

    def begin(self, envelope: Envelope, data: bytes, waiter: MailWaiter) -> None:
        """Begin to store a small mail; the waiter receives the result after the commit.

        Raises: StoreUnavailable.
        """
        self._group.enqueue(self.deliveries(envelope, data), waiter)

    def webhook_mail(
        self, tenant: str, source: str, envelope: Envelope, data: bytes, provider_id: str
    ) -> WebhookMail:
        """Return the mail of a source's webhook; the same provider id is the same mail."""
        mark = (
            self._cipher.provider_fingerprint(source, provider_id)
            if provider_id
            else self._cipher.fingerprint(data)
        )
        arrival = _Arrival(mark, WEBHOOK_CHANNEL, self._database.clock())
        return WebhookMail(tenant, source, self._tenant_deliveries(envelope, data, arrival))

    async def store_webhook(self, mail: WebhookMail) -> list[Accepted]:
        """Return when the mail of a webhook is committed for every inbox.

        Raises: StoreError.
        """
        try:
            return await self._webhook_group.submit(mail)
        except StoreError:
            raise
        except Exception as error:
            raise StoreUnavailable("the mail could not be stored; try again later") from error

    def deliveries(
        self,
        envelope: Envelope,
        data: bytes,
        *,
        channel: str = SMTP_CHANNEL,
        received_at: int | None = None,
    ) -> MailDeliveries:
        """Return a delivery for each inbox; it was received now, or at another time."""
        mark, now = self._cipher.fingerprint(data), self._database.clock()
        arrival = _Arrival(mark, channel, now if received_at is None else min(received_at, now))
        if len(envelope.recipients) == 1:
            return self._tenant_deliveries(envelope, data, arrival)
        every: list[NewDelivery] = []
        for tenant in dict.fromkeys(each.tenant for each in envelope.recipients):
            own = tuple(each for each in envelope.recipients if each.tenant == tenant)
            # A tenant must not see the recipients of others.
            visible = msgspec.structs.replace(envelope, recipients=own)
            every += self._tenant_deliveries(visible, data, arrival)
        return tuple(every)

    def _tenant_deliveries(
        self, envelope: Envelope, data: bytes, arrival: _Arrival
    ) -> MailDeliveries:
        """Return the deliveries of one tenant, which share one encrypted payload."""
        tenant = envelope.recipients[0].tenant
        inboxes = {each.inbox_id: self._new_id("dlv") for each in envelope.recipients}
        first, *more = inboxes.values()
        shared = self._new_id("pay") if more else None
        encrypted = self._cipher.encrypt(data, mail_aad(tenant, shared or first))
        headers = encode_headers(tuple(encode_envelope(envelope)))
        return tuple([
            NewDelivery(
                id=id_,
                tenant=tenant,
                source=MAIL_SOURCE,
                key=f"{inbox_id}:{arrival.mark.hex()}",
                body=encrypted,
                length=len(data),
                headers=headers,
                fingerprint=arrival.mark,
                type=MAIL_TYPE,
                road=arrival.channel,
                received_at=arrival.received_at,
                payload_id=shared,
                heavy=len(data) >= self._heavy_from,
            )
            for inbox_id, id_ in inboxes.items()
        ])  # fmt: skip

    def _accept(
        self, tx: Transaction, mails: Sequence[MailDeliveries], now: int
    ) -> list[list[Accepted]]:
        # The fast form was tried before: not all of these are new.
        every = [each for mail in mails for each in mail]
        accepted = accept(tx, every, now, look_first=True)
        faults.point("smtp.rows-written")
        return _split_by_mail(mails, accepted)

    def _accept_webhooks(
        self, tx: Transaction, mails: Sequence[WebhookMail], now: int
    ) -> list[list[Accepted]]:
        """Store mails, and note that their sources brought mail, in one commit."""
        deliveries = [mail.deliveries for mail in mails]
        accepted = accept(tx, [one for each in deliveries for one in each], now, look_first=True)
        for tenant, source in sorted({(mail.tenant, mail.source) for mail in mails}):
            mailboxes.note_push(tx, tenant, source, now)
        faults.point("inbound.rows-written")
        return _split_by_mail(deliveries, accepted)

    def _after_commit(self, batch: Sequence[tuple[MailDeliveries, list[Accepted]]]) -> None:
        self._telemetry.smtp_accepted.inc(len(batch))
        self._count_commit([answer for _, each in batch for answer in each])

    def _after_webhook_commit(self, batch: Sequence[tuple[WebhookMail, list[Accepted]]]) -> None:
        self._count_commit([answer for _, each in batch for answer in each])

    def _count_commit(self, answers: Sequence[Accepted]) -> None:
        self._database.notify(MAIL)
        self._database.notify(DUE)
        telemetry = self._telemetry
        self._rows.observe(len(answers))
        new = sum(answer.arrival is ArrivalKind.NEW for answer in answers)
        self._new.inc(new)
        if new == len(answers):
            return
        classes = Counter(
            answer.duplicate_class for answer in answers if answer.duplicate_class is not None
        )
        for name, count in classes.items():
            telemetry.duplicates.labels("delivery", name).inc(count)


def _new_row(mail: MailDeliveries) -> Row | None:
    return insert_new.row(mail[0]) if len(mail) == 1 else None


def _new_results(mails: Sequence[MailDeliveries]) -> list[list[Accepted]]:
    accepted = insert_new.results([each for mail in mails for each in mail])
    faults.point("smtp.rows-written")
    return _split_by_mail(mails, accepted)


_insert_new = BulkInsert(insert_new.query, _new_row, insert_new.sort_key, _new_results)


def _split_by_mail(
    mails: Sequence[MailDeliveries], results: Sequence[Accepted]
) -> list[list[Accepted]]:
    """Return the results of each mail's deliveries."""
    every = iter(results)
    return [[next(every) for _ in mail] for mail in mails]
