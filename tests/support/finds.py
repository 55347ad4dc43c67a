"""Codes and links that come by mail, for tests: filed, claimed and released by hand."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from oncebox.box import Oncebox
from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts, claims
from oncebox.ledger.artifacts.claims import ClaimResolver as Granter
from oncebox.ledger.artifacts.claims import claimant_of
from oncebox.ledger.ciphers import ArtifactCipher
from oncebox.ledger.deliveries import deduplication, leases
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.mail.languages.purposes import find_purposes
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactClaimRequest,
    ArtifactFilter,
    ClaimResult,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.inboxes.message import NewMessage, NewMessageResult, new_message
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    PURPOSE_RULE,
    ArtifactKind,
    AuthResult,
    Candidate,
    Extraction,
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderStatus,
    SenderVerdict,
)
from oncebox.workers.mail.mail_processor import build_artifacts
from tests.support.clerk import TENANT, Clerk
from tests.support.letters import FILE, Mailroom, envelope, posted
from tests.support.office import KEY, Office

AGENT, OTHER = "key_agent", "key_other"
#: as if the inbox named its senders
RULES = InboxPolicy(senders=("shop.example",))
_numbers = itertools.count(1)


def judge_link(url: str, policy: InboxPolicy) -> LinkVerdict:
    """Let links out to hosts that are listed; a small stand-in for the link policy."""
    host = url.removeprefix("https://").partition("/")[0]
    if host not in policy.link_hosts:
        return LinkVerdict(allowed=False, reason="host_not_allowed", host=host)
    token = url.rpartition("=")[2]
    return LinkVerdict(
        allowed=True,
        reason="allowed",
        canonical=url,
        host=host,
        parameters=(("token", token),),
        token=token,
    )


def candidate(value: str, kind: ArtifactKind = ArtifactKind.CODE, score: int = 10) -> Candidate:
    """Return something that was found in a mail."""
    return Candidate(
        kind=kind, value=value, shown=value, where="plain", start=0, end=len(value),
        score=score, confidence=0.987,
    )  # fmt: skip


def found_codes(*values: str) -> Extraction:
    """Return what is found in a mail with these codes, which are as good as each other."""
    codes = tuple(candidate(value) for value in values)
    tied = len(codes) > 1
    return Extraction(code=None if tied else codes[0], codes=codes, codes_tied=tied)


def found_link(url: str) -> Extraction:
    """Return what is found in a mail with one link."""
    link = candidate(url, ArtifactKind.LINK)
    return Extraction(link=link, links=(link,))


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail with something in it."""

    found: Extraction
    sender: str = "no-reply@shop.example"
    #: whether the sender's domain vouches for it
    proven: bool = True
    #: the signed date; none: it is not signed
    signed_at: int | None = None
    #: none: the clerk's time
    received_at: int | None = None
    subject: str = "Your verification code"
    mismatch: str = ""
    standing: SenderStatus = SenderStatus.SINGLE


def code(*values: str, **rest: Any) -> Letter:
    """Return a mail with codes."""
    return Letter(found=found_codes(*values), **rest)


def link(url: str, **rest: Any) -> Letter:
    """Return a mail with a link."""
    return Letter(found=found_link(url), **rest)


def parsed(letter: Letter) -> ParsedMail:
    """Return what is read of a mail."""
    single = letter.standing is SenderStatus.SINGLE
    sender = ParsedSender(
        address=letter.sender if single else "",
        domain=letter.sender.rpartition("@")[2] if single else "",
        standing=letter.standing,
    )
    return ParsedMail(
        status=ParseStatus.PARSED,
        subject=letter.subject,
        sender=sender,
        date=letter.signed_at,
        identity=f"identity {next(_numbers):040}".encode(),
        purposes=find_purposes(letter.subject, ""),
        purpose_rule=PURPOSE_RULE,
        found=letter.found,
    )


def verdict(letter: Letter) -> SenderVerdict:
    """Return what is proven of its sender."""
    if not letter.proven:
        return SenderVerdict()
    details = ("signed_date",) if letter.signed_at is not None else ()
    domain = letter.sender.rpartition("@")[2]
    return SenderVerdict(
        dkim=AuthResult.PASS, dmarc=AuthResult.PASS, domain=domain, details=details
    )


class Finds:
    """A clerk's hands for artifacts."""

    def __init__(self, clerk: Clerk) -> None:
        """Work with this clerk, in inbox ``inb_1`` and others that are added."""
        self.clerk = clerk
        self.room = Mailroom(clerk)
        self.office = Office(clerk)
        self.strongbox = ArtifactCipher(KEY)
        self.granter = Granter(self.strongbox, judge_link)

    def file(self, *letters: Letter, inbox: str = "inb_1") -> list[NewMessageResult]:
        """Take mails in and file them in one commit."""
        filings = [self.filing(each, inbox) for each in letters]
        return self.clerk.run(FILE, filings, self.clerk.now)

    def filing(self, letter: Letter, inbox: str = "inb_1") -> NewMessage:
        """Take a mail in, claim it and read it."""
        delivery = self._delivery(letter, inbox)
        said, read, judged = envelope(inbox), parsed(letter), verdict(letter)
        return new_message(
            delivery,
            said.recipients[0],
            said,
            parsed=read,
            verdict=judged,
            mismatch=letter.mismatch,
            ids=(ids.new("msg"), ids.new("evt")),
            artifacts=build_artifacts(self.strongbox, TENANT, inbox, read, judged, RULES),
        )

    def _delivery(self, letter: Letter, inbox: str) -> Delivery:
        at = self.clerk.now if letter.received_at is None else letter.received_at
        raw = f"mail {next(_numbers)}".encode()
        self.clerk.run(deduplication.accept, posted(raw, inbox, now=at), self.clerk.now)
        (delivery,) = self.clerk.claim(source=MAIL_SOURCE)
        return msgspec.structs.replace(delivery, received_at=at)

    def all(self, inbox: str = "inb_1") -> list[Artifact]:
        """Return the artifacts of an inbox, oldest first."""
        found = self.clerk.run(artifacts.page, Requester(tenant=TENANT), inbox, most=1000)
        return found[::-1]

    def asker(self, key: str = AGENT) -> Requester:
        """Return somebody who sees everything of the tenant."""
        return Requester(tenant=TENANT, key=key)

    def ask(
        self,
        artifact_id: str,
        key: str = AGENT,
        claim_key: str | None = None,
        worker: str = "",
    ) -> ArtifactClaimRequest:
        """Return a claim of one artifact."""
        return ArtifactClaimRequest(
            claimant=claimant_of(self.asker(key), claim_key),
            request_fingerprint=worker.encode(),
            artifact_id=artifact_id,
        )

    def wish(
        self,
        kind: ArtifactKind = ArtifactKind.CODE,
        key: str = AGENT,
        claim_key: str | None = None,
        inbox: str = "inb_1",
        worker: str = "",
        **rest: Any,
    ) -> ArtifactClaimRequest:
        """Return a claim of whatever is meant."""
        wish = ArtifactFilter(inbox_id=inbox, kind=kind, **rest)
        return ArtifactClaimRequest(
            claimant=claimant_of(self.asker(key), claim_key),
            request_fingerprint=worker.encode(),
            artifact_filter=wish,
        )

    def claim(self, *asks: ArtifactClaimRequest) -> list[ClaimResult]:
        """Claim, all in one commit."""
        return self.clerk.run(self.granter.claim, asks, self.clerk.now)

    def use(self, artifact_id: str, key: str = AGENT) -> Artifact:
        """Say that an artifact was used."""
        return self.clerk.run(claims.confirm_used, self.asker(key), artifact_id, self.clerk.now)

    def release(self, artifact_id: str) -> Artifact:
        """Take an artifact back."""
        return self.clerk.run(
            claims.release, self.asker(), artifact_id, self.office.deed(why="agent died")
        )

    def sql(self, statement: str) -> list[Any]:
        """Look into the database."""

        def look(tx: Transaction) -> Sequence[Any]:
            return tx.execute(statement)

        return list(self.clerk.run(look))


async def bring(box: Oncebox, inbox: str, *letters: Letter, tenant: str = "") -> list[str]:
    """File mails into an inbox of an opened box, past the worker; return their artifacts."""
    rooms = box.components
    tenant, now = tenant or box.settings.tenant, rooms.database.clock()
    raws = [f"mail {next(_numbers)} {ids.new('raw')}".encode() for _ in letters]
    new = [each for raw in raws for each in posted(raw, inbox, now=now, tenant=tenant)]
    await rooms.database.write(deduplication.accept, new, now)
    who = leases.DeliveryClaimant(tenant, MAIL_SOURCE, "test", 30_000, 8, 1_000_000)
    said, filings = envelope(inbox, tenant=tenant), []
    claimed = await rooms.database.write(leases.claim, who, 1000, now)
    for letter, delivery in zip(letters, sorted(claimed, key=lambda each: each.id), strict=True):
        read, judged = parsed(letter), verdict(letter)
        found = build_artifacts(rooms.artifact_cipher, tenant, inbox, read, judged)
        filings.append(
            new_message(
                delivery,
                said.recipients[0],
                said,
                parsed=read,
                verdict=judged,
                mismatch=letter.mismatch,
                ids=(ids.new("msg"), ids.new("evt")),
                artifacts=found,
            )
        )
    await rooms.database.write(messages.file, filings, now, cipher=rooms.mail_cipher)
    rooms.ledger.notify(MESSAGES, EVENTS)
    return [each.id for filing_ in filings for each in filing_.artifacts]
