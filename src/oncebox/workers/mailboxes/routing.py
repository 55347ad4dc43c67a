"""Readers of mailboxes from their rows; routing of what they read into inboxes."""

import asyncio
import math
from collections.abc import Sequence
from functools import partial

from oncebox.core.metrics import Telemetry
from oncebox.errors import NotFound
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.ciphers import LARGE, MailboxCipher
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.mail_intake import MailIntake
from oncebox.ledger.inboxes.recipient_directory import RecipientDirectory, RecipientStatus
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.transactions import Ledger
from oncebox.mail.recipients import named_recipients
from oncebox.mailboxes.reader import FetchedMail, MailboxFailure, MailboxReader
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.inboxes.received_mail import MAILBOX_CHANNEL, Envelope, EnvelopeRecipient
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxLease

#: seconds until the next try if an inbox or its tenant stores as much as it may
_FULL_RETRY = 300.0
_DAY_MS = 86_400_000


def open_mailbox(ledger: Ledger, cipher: MailboxCipher, mailbox: Mailbox) -> MailboxReader:
    """Return the reader of a mailbox that is leased; it connects when it is first used.

    A refresh token that the endpoint replaces is stored under the lease.

    Raises: ConfigInvalid, MasterKeyWrong.
    """
    from oncebox.mailboxes import mailbox_config  # noqa: PLC0415 - few services read mailboxes

    lease = MailboxLease(id=mailbox.id, tenant=mailbox.tenant, fence=mailbox.fence)

    async def keep(config: bytes) -> None:
        encrypted = cipher.encrypt(mailbox.tenant, mailbox.name, config)
        await ledger.retrying().write(mailboxes.store_config, lease, encrypted, ledger.clock())

    plain = cipher.decrypt(mailbox.tenant, mailbox.name, mailbox.config)
    days = None
    if mailbox.cursor is None and mailbox.cursor_version:
        # A resync: mail that arrived before it must not be passed over as old.
        days = math.ceil(max(0, ledger.clock() - mailbox.created_at) / _DAY_MS)
    config = mailbox_config.decode_config(plain)
    refused = mailbox.failures if mailbox.failure == "mail_refused" else 0
    return mailbox_config.open_reader(config, keep, begin_days=days, refused_before=refused)


class MailboxRouter:
    """Finds the inboxes of mails, and returns their deliveries."""

    def __init__(
        self,
        ledger: Ledger,
        recipients: RecipientDirectory,
        intake: MailIntake,
        telemetry: Telemetry,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._recipients = recipients
        self._intake = intake

    async def __call__(
        self, mailbox: Mailbox, mails: Sequence[FetchedMail]
    ) -> list[tuple[NewDelivery, ...]]:
        """Return the deliveries of each mail of a page, one for each inbox.

        Those of a mail that is for no inbox of ours are none.

        Raises: MailboxFailure, StoreUnavailable.
        """
        if mailbox.inbox_id is not None and mails:
            recipients = (await self._bound(mailbox, mailbox.inbox_id),)
            return [await self._deliveries(mailbox, recipients, each) for each in mails]
        return [
            await self._deliveries(mailbox, await self._inboxes_of(mailbox, each), each)
            for each in mails
        ]

    async def _deliveries(
        self, mailbox: Mailbox, recipients: tuple[EnvelopeRecipient, ...], mail: FetchedMail
    ) -> tuple[NewDelivery, ...]:
        if not recipients:
            return ()
        envelope = Envelope(
            client="",
            helo="",
            sender="",
            recipients=recipients,
            origin=mailbox.name,
            authserv=mailbox.authserv,
            any_recipient=mailbox.inbox_id is not None and not mailbox.address,
        )
        make = partial(
            self._intake.deliveries,
            envelope,
            mail.raw,
            channel=MAILBOX_CHANNEL,
            received_at=mail.received_at,
        )
        return make() if len(mail.raw) < LARGE else await asyncio.to_thread(make)

    async def _inboxes_of(
        self, mailbox: Mailbox, mail: FetchedMail
    ) -> tuple[EnvelopeRecipient, ...]:
        groups = [mail.recipients] if mail.recipients else named_recipients(mail.raw)
        for addresses in groups:
            if found := await self._by_address(mailbox, addresses):
                return found
        return ()

    async def _by_address(
        self, mailbox: Mailbox, addresses: Sequence[str]
    ) -> tuple[EnvelopeRecipient, ...]:
        """Find the inboxes of addresses that have room."""
        found: dict[str, EnvelopeRecipient] = {}
        for address in addresses:
            local, _, domain = address.rpartition("@")
            route = await self._recipients.find(local, domain)
            if route.tenant != mailbox.tenant:
                continue
            if route.status is RecipientStatus.FULL:  # no reason to keep the mail of all others
                self._telemetry.log.warning(
                    "mailbox_inbox_full", mailbox=mailbox.name, inbox=route.inbox_id
                )
            if route.status is RecipientStatus.OPEN:
                found[route.inbox_id] = EnvelopeRecipient(
                    inbox_id=route.inbox_id, tenant=route.tenant, address=address
                )
        return tuple(found.values())

    async def _bound(self, mailbox: Mailbox, inbox_id: str) -> EnvelopeRecipient:
        """Return the mailbox's own inbox, if it accepts mail.

        Raises: MailboxFailure.
        """
        try:
            inbox = await self._ledger.read(inboxes.get, Requester(tenant=mailbox.tenant), inbox_id)
        except NotFound as error:
            raise MailboxFailure("inbox_missing", needs_operator=True) from error
        local, _, domain = inbox.email.rpartition("@")
        route = await self._recipients.find(local, domain)
        if route.status is RecipientStatus.FULL:
            raise MailboxFailure("inbox_full", retry_after=_FULL_RETRY)
        if route.status is not RecipientStatus.OPEN or route.inbox_id != inbox_id:
            raise MailboxFailure("inbox_closed", needs_operator=True)
        return EnvelopeRecipient(
            inbox_id=inbox_id, tenant=mailbox.tenant, address=mailbox.address or inbox.email
        )
