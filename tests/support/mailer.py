"""A mailer by hand: intents, claims, markers and words on sends, in time the test owns."""

import hashlib
from typing import Any

from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.ledger.admin import audit
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.sends import lifecycle, sends, submission, suppressions, transports
from oncebox.ledger.sends.lifecycle import SweepResult
from oncebox.model.sends.send import (
    ClaimedSend,
    IntentAccepted,
    IntentIdentity,
    IntentRefused,
    IntentResult,
    NewSend,
    Send,
    SendMarker,
    SendReport,
    SendSettled,
    SendState,
    SendTry,
)
from oncebox.model.sends.transports import (
    ConfiguredTransport,
    NewTransport,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
    TransportRate,
)
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.office import KEY

RELAY = "relay"
TO = "ann@example.org"
WAIT = 60_000
BOX = SendCipher(KEY)

TAKEN = SendAccepted(provider_id="p-1")
REFUSED = NotSent(code="try_later", phase=SendPhase.ENVELOPE, reply=451)
UNREACHED = NotSent(code="connect_failed", phase=SendPhase.CONNECT)
NO_KEY = NotSent(code="key_refused", phase=SendPhase.ANSWERED, reply=401, opens_circuit=True)
BOUNCED = SendRejected(code="mailbox_unknown", phase=SendPhase.ENVELOPE, reply=550)
SILENCE = SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)


class Mailer:
    """Every verb of the sends, at the clerk's time, by one transport."""

    def __init__(self, clerk: Clerk, *, transport: str = RELAY) -> None:
        """Work beside a clerk; the transport is there."""
        self.clerk = clerk
        self.transport = transport
        self.add_transport(transport)

    def deed(self, tenant: str = TENANT) -> audit.AuditEntry:
        """Return who does something, and why."""
        now = self.clerk.now
        return audit.AuditEntry(id=ids.new("aud"), tenant=tenant, at=now, who="eve", why="because")

    # intents

    def new(
        self, key: str = "key", text: str = "hello", *, to: tuple[str, ...] = (TO,), **more: Any
    ) -> NewSend:
        """Return an intent that was not stored yet."""
        id_, tenant = ids.new("snd"), more.pop("tenant", TENANT)
        protected = more.pop("protected", ",".join(to))
        return NewSend(
            id=id_,
            tenant=tenant,
            key=hashlib.sha256(key.encode()).digest(),
            protected=hashlib.sha256(protected.encode()).digest(),
            content=BOX.content_fingerprint(tenant, text.encode()),
            message=BOX.encrypt_field("message", tenant, id_, text.encode()),
            envelope=BOX.encrypt_field("envelope", tenant, id_, ",".join(to).encode()),
            message_id=more.pop("message_id", f"<{key}@example.com>"),
            marks=tuple(BOX.address_fingerprint(tenant, each) for each in to),
            transport=more.pop("transport", self.transport),
            **more,
        )

    def told(self, *new: NewSend) -> list[IntentResult]:
        """Store intents in one commit, or hear that they are not let in."""
        return self.clerk.run(submission.store_intents, new, self.clerk.now)

    def ask(self, *new: NewSend) -> list[IntentAccepted | None]:
        """Store intents in one commit; all of them are let in."""
        told = self.told(*new)
        let_in = [each for each in told if not isinstance(each, IntentRefused)]
        assert len(let_in) == len(told)
        return let_in

    def intend(self, key: str = "key", text: str = "hello", **more: Any) -> IntentAccepted:
        """Store one intent."""
        (told,) = self.ask(self.new(key, text, **more))
        assert told is not None
        return told

    def turned_down(self, key: str = "key", text: str = "hello", **more: Any) -> IntentRefused:
        """Ask for one that is not let in."""
        (told,) = self.told(self.new(key, text, **more))
        assert isinstance(told, IntentRefused)
        return told

    # tries

    def claim(
        self, most: int = 100, worker: str = "ann", *, transport: str | None = None
    ) -> list[ClaimedSend]:
        """Claim what is due."""
        who = lifecycle.SendClaimant(TENANT, transport or self.transport, worker, LEASE)
        return self.clerk.run(lifecycle.claim, who, most, self.clerk.now)

    def claim_one(self, worker: str = "ann") -> Send:
        """Claim the only send that is due."""
        (claimed,) = self.claim(worker=worker)
        return claimed.send

    def marker(self, send: Send, replay_for: int | None = None) -> SendMarker:
        """Return the wish to hand over."""
        now = self.clerk.now
        return SendMarker(
            tenant=send.tenant,
            id=send.id,
            fence=send.fence,
            until=now + LEASE,
            replay_until=None if replay_for is None else now + replay_for,
        )

    def begin(self, send: Send, replay_for: int | None = None) -> bool:
        """Commit the marker; say whether the send may be handed over."""
        markers = [self.marker(send, replay_for)]
        return self.clerk.run(lifecycle.mark_sending, markers, self.clerk.now)[0]

    def renew(self, send: Send) -> bool:
        """Keep a send; say whether it is still held."""
        return self.clerk.run(lifecycle.renew, [self.marker(send)], self.clerk.now)[0]

    def start(self, key: str = "key", replay_for: int | None = None, **more: Any) -> Send:
        """Store an intent, claim it and commit its marker."""
        told = self.intend(key, **more)
        (send,) = (each.send for each in self.claim() if each.send.id == told.send.id)
        assert self.begin(send, replay_for)
        return send

    def word(
        self, send: Send, outcome: SendOutcome, *, wait: int | None = WAIT, **more: Any
    ) -> SendReport:
        """Return a word on how a try ended."""
        return SendReport(
            tenant=send.tenant,
            id=send.id,
            fence=more.pop("fence", send.fence),
            outcome=outcome,
            transport=more.pop("transport", send.transport),
            due_at=None if wait is None else self.clerk.now + wait,
            **more,
        )

    def say(self, send: Send, outcome: SendOutcome, **more: Any) -> bool:
        """Say how a try ended; say whether that counted."""
        settled = self.settle(self.word(send, outcome, **more))[0]
        return settled is not None and settled.counted

    def settle(self, *words: SendReport) -> list[SendSettled | None]:
        """Record words in one commit."""
        return self.clerk.run(lifecycle.settle, words, self.clerk.now)

    def in_doubt(self, key: str = "key", replay_for: int | None = None, **more: Any) -> Send:
        """Hand a send over without ever hearing of it."""
        send = self.start(key, replay_for, **more)
        assert self.say(send, SILENCE)
        return self.get(send.id)

    def sweep(self, tries: int = 8) -> SweepResult:
        """Look after what was lost."""
        return self.clerk.run(lifecycle.sweep, self.clerk.now, tries=tries)

    def lose(self) -> SweepResult:
        """Let the leases run out, and sweep."""
        self.clerk.now += LEASE
        return self.sweep()

    # people

    def resolve(self, id_: str, *, sent: bool) -> Send:
        """Say what became of a send in doubt."""
        return self.clerk.run(lifecycle.resolve, id_, self.deed(), sent=sent)

    def cancel(self, id_: str, owner: str | None = None) -> Send:
        """Call a send off."""
        return self.clerk.run(lifecycle.cancel, id_, self.deed(), owner=owner)

    def resend(self, id_: str) -> Send:
        """Let a send be tried again."""
        return self.clerk.run(lifecycle.resend, id_, self.deed())

    def suppress(self, address: str = TO, tenant: str = TENANT) -> bool:
        """Put an address on the list."""
        new = suppressions.Suppression(
            fingerprint=BOX.address_fingerprint(tenant, address),
            address=BOX.encrypt_address(tenant, address),
            reason=suppressions.SuppressionReason.MANUAL,
            send_id=None,
            created_at=self.clerk.now,
        )
        return self.clerk.run(suppressions.add, new, self.deed(tenant))

    def unsuppress(self, address: str = TO) -> None:
        """Take an address off the list."""
        self.clerk.run(suppressions.remove, BOX.address_fingerprint(TENANT, address), self.deed())

    def add_transport(
        self,
        name: str,
        *,
        rate: TransportRate | None = None,
        tenant: str = TENANT,
        position: int = 0,
        **more: Any,
    ) -> ConfiguredTransport:
        """Configure a way."""
        new = NewTransport(
            **{"name": name, "kind": "smtp", "position": position, "rate": rate, **more}
        )
        return self.clerk.run(transports.add, new, self.deed(tenant))

    def join_group(self, name: str = RELAY, group: str = "main", **more: Any) -> None:
        """Put a way into a failover group; that also ends its rest."""
        new = NewTransport(**{"name": name, "kind": "smtp", "failover_group": group, **more})
        self.clerk.run(transports.change, new, self.deed())

    def pause(self, name: str = RELAY, *, paused: bool = True) -> None:
        """Pause a way."""
        self.clerk.run(transports.pause, name, self.deed(), paused=paused)

    def remove(self, name: str = RELAY) -> ConfiguredTransport:
        """Remove a way."""
        return self.clerk.run(transports.remove, name, self.deed())

    # looks

    def get(self, id_: str) -> Send:
        """Return a send as it stands."""
        return self.clerk.run(sends.get, TENANT, id_)

    def state(self, id_: str) -> SendState:
        """Return where a send stands."""
        return self.get(id_).state

    def tries(self, id_: str) -> list[SendTry]:
        """Return the tries at a send."""
        return self.clerk.run(sends.tries, TENANT, id_)

    def audited(self, target: str) -> list[tuple[str, str]]:
        """Return what people did to a thing."""
        return [
            (each.action, each.detail) for each in self.clerk.run(audit.for_target, TENANT, target)
        ]

    def events(self) -> list[str]:
        """Return the types of all events, in their order."""
        return [row[0] for row in self.rows("SELECT type FROM oncebox_events ORDER BY id")]

    def rows(self, statement: str) -> list[Row]:
        """Return what a statement finds."""

        def found(tx: Transaction) -> list[Row]:
            return tx.execute(statement)

        return self.clerk.run(found)


def repeat_of(new: NewSend) -> IntentIdentity:
    """Return by what an intent is known again."""
    return IntentIdentity(
        tenant=new.tenant, key=new.key, protected=new.protected, content=new.content
    )
