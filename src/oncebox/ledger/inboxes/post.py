"""The post: stores what SMTP took; an answer means that every recipient's delivery is on disk."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence

from oncebox import faults, ids
from oncebox.config import LimitSettings
from oncebox.errors import StoreUnavailable
from oncebox.ledger.deliveries.arrivals import accept, accept_new
from oncebox.ledger.deliveries.intake import DUE
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, encode_headers
from oncebox.model.envelope import MAIL, ROAD, TYPE, Envelope, Recipient, encode
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

#: bytes from which a mail is hashed in a thread
_LARGE = 256 * 1024

#: one mail: a delivery for every inbox it is for, committed together
Mail = tuple[NewDelivery, ...]


class Post:
    """The one way of mail into the ledger."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        limits: LimitSettings,
        *,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Let at most ``limits.waiting`` mails wait for their commit."""
        self._database = database
        self._telemetry = telemetry
        self._new_id = new_id
        self._rows = telemetry.commit_rows.labels("mail")
        self._new = telemetry.accepted.labels(MAIL)
        self._group: Group[Mail, list[Accepted]] = Group(
            database,
            self._accept,
            shortcut=self._accept_new,
            waiting=limits.waiting,
            size=lambda mail: len(mail[0].body),
            committed=self._tell,
        )

    async def store(self, envelope: Envelope, data: bytes) -> None:
        """Return when the mail is on disk for every recipient; the same bytes count once.

        Raises: StoreUnavailable.
        """
        try:
            if len(data) < _LARGE:
                mark = hashlib.sha256(data).digest()
            else:
                mark = (await asyncio.to_thread(hashlib.sha256, data)).digest()
            await self._group.submit(self._mail(envelope, data, mark))
        except StoreUnavailable:
            raise
        except Exception as error:
            # A sender must never be told for good what is only our own trouble.
            raise StoreUnavailable("the mail could not be stored; try again later") from error

    def begin(self, envelope: Envelope, data: bytes) -> asyncio.Future[list[Accepted]]:
        """Begin to store a small mail; what is returned is done when it is on disk.

        Raises: StoreUnavailable.
        """
        stored: asyncio.Future[list[Accepted]] = asyncio.get_running_loop().create_future()
        self._group.enlist(self._mail(envelope, data, hashlib.sha256(data).digest()), stored)
        return stored

    def _mail(self, envelope: Envelope, data: bytes, mark: bytes) -> Mail:
        """Return a delivery for each inbox; those of one tenant share what arrived."""
        if len(envelope.recipients) == 1:
            return (self._delivery(envelope, envelope.recipients[0], data, mark),)
        mail: list[NewDelivery] = []
        for tenant in dict.fromkeys(each.tenant for each in envelope.recipients):
            own = tuple(each for each in envelope.recipients if each.tenant == tenant)
            inboxes = {each.inbox_id: each for each in own}
            shared = self._new_id("pay") if len(inboxes) > 1 else None
            seen = _seen_by(envelope, own)
            mail += [self._delivery(seen, each, data, mark, shared) for each in inboxes.values()]
        return tuple(mail)

    def _delivery(
        self,
        envelope: Envelope,
        recipient: Recipient,
        data: bytes,
        mark: bytes,
        payload_id: str | None = None,
    ) -> NewDelivery:
        return NewDelivery(
            id=self._new_id("dlv"),
            tenant=recipient.tenant,
            source=MAIL,
            key=f"{recipient.inbox_id}:{mark.hex()}",
            body=data,
            headers=encode_headers(tuple(encode(envelope))),
            fingerprint=mark,
            type=TYPE,
            road=ROAD,
            received_at=self._database.clock(),
            payload_id=payload_id,
        )

    def _accept(self, tx: Transaction, mails: Sequence[Mail]) -> list[list[Accepted]]:
        # Where there is a shortcut it has been tried: not all of these are new.
        every = [each for mail in mails for each in mail]
        answers = accept(tx, every, self._database.clock(), look_first=self._database.round_trips)
        faults.point("smtp.rows-written")
        return _apart(mails, answers)

    def _accept_new(self, tx: Transaction, mails: Sequence[Mail]) -> list[list[Accepted]] | None:
        every = [each for mail in mails for each in mail]
        answers = accept_new(tx, every, self._database.clock())
        faults.point("smtp.rows-written")
        return None if answers is None else _apart(mails, answers)

    def _tell(self, batch: Sequence[tuple[Mail, list[Accepted]]]) -> None:
        """Ring and count, once for all that shared a commit."""
        self._database.ring(DUE)
        telemetry = self._telemetry
        answers = [answer for _, each in batch for answer in each]
        self._rows.observe(len(answers))
        telemetry.smtp_accepted.inc(len(batch))
        new = sum(answer.arrival is Arrival.NEW for answer in answers)
        self._new.inc(new)
        if new == len(answers):
            return
        classes = Counter(answer.sighting for answer in answers if answer.sighting is not None)
        for sighting, count in classes.items():
            telemetry.duplicates.labels("delivery", sighting).inc(count)


def _seen_by(envelope: Envelope, own: tuple[Recipient, ...]) -> Envelope:
    """Return an envelope as one tenant may see it: without the recipients of others."""
    return Envelope(
        client=envelope.client,
        helo=envelope.helo,
        sender=envelope.sender,
        recipients=own,
        tls=envelope.tls,
        utf8=envelope.utf8,
    )


def _apart(mails: Sequence[Mail], answers: Sequence[Accepted]) -> list[list[Accepted]]:
    """Return to each mail what was answered for its deliveries."""
    every = iter(answers)
    return [[next(every) for _ in mail] for mail in mails]
