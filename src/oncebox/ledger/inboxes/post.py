"""The post: stores what SMTP took; an answer means that every recipient's delivery is on disk."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from oncebox import faults, ids
from oncebox.config import LimitSettings
from oncebox.errors import StoreUnavailable
from oncebox.ledger import vault as vaults
from oncebox.ledger.deliveries.arrivals import accept, accept_new
from oncebox.ledger.deliveries.intake import DUE
from oncebox.ledger.vault import LARGE, Vault
from oncebox.model.delivery import Accepted, Arrival, NewDelivery, encode_headers
from oncebox.model.envelope import MAIL, ROAD, TYPE, Envelope, Recipient, encode
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

#: one mail: a delivery for every inbox it is for, committed together
Mail = tuple[NewDelivery, ...]


class Post:
    """The one way of mail into the ledger."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        limits: LimitSettings,
        vault: Vault,
        *,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Let at most ``limits.waiting`` mails wait for their commit."""
        self._database = database
        self._telemetry = telemetry
        self._vault = vault
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
            if len(data) < LARGE:
                mail = self._mail(envelope, data)
            else:
                mail = await asyncio.to_thread(self._mail, envelope, data)
            await self._group.submit(mail)
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
        self._group.enlist(self._mail(envelope, data), stored)
        return stored

    def _mail(self, envelope: Envelope, data: bytes) -> Mail:
        """Return a delivery for each inbox; those of one tenant share what arrived."""
        mark = self._vault.mark(data)
        if len(envelope.recipients) == 1:
            return self._deliveries(envelope, envelope.recipients, data, mark)
        mail: list[NewDelivery] = []
        for tenant in dict.fromkeys(each.tenant for each in envelope.recipients):
            own = tuple(each for each in envelope.recipients if each.tenant == tenant)
            inboxes = {each.inbox_id: each for each in own}
            mail += self._deliveries(_seen_by(envelope, own), [*inboxes.values()], data, mark)
        return tuple(mail)

    def _deliveries(
        self, envelope: Envelope, own: Sequence[Recipient], data: bytes, mark: bytes
    ) -> Mail:
        """Return the deliveries of one tenant; what arrived is sealed once for all of them."""
        tenant = own[0].tenant
        shared = self._new_id("pay") if len(own) > 1 else None
        ids_ = [self._new_id("dlv") for _ in own]
        sealed = self._vault.seal(data, vaults.mail(tenant, shared or ids_[0]))
        headers = encode_headers(tuple(encode(envelope)))
        now = self._database.clock()
        return tuple(
            NewDelivery(
                id=id_,
                tenant=tenant,
                source=MAIL,
                key=f"{each.inbox_id}:{mark.hex()}",
                body=sealed,
                length=len(data),
                headers=headers,
                fingerprint=mark,
                type=TYPE,
                road=ROAD,
                received_at=now,
                payload_id=shared,
            )
            for id_, each in zip(ids_, own, strict=True)
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
