"""Grants: artifacts handed out, many claims in one commit; an answer means it is on disk."""

from collections import Counter
from collections.abc import Sequence

from oncebox import faults
from oncebox.artifact_errors import (
    AlreadyClaimed,
    ArtifactConflict,
    ArtifactPurged,
    ArtifactSuperseded,
    ArtifactUnmatched,
    LinkRefused,
)
from oncebox.errors import NotFound, OnceboxError
from oncebox.ledger.inboxes import claims
from oncebox.ledger.inboxes.claims import Clerk
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.ledger.inboxes.messages import MESSAGES
from oncebox.ledger.office.audit import Deed
from oncebox.mail_errors import MailNotOpened
from oncebox.model.artifact import Artifact
from oncebox.model.grant import Ask, Claimant, Contested, Denied, Granted, Outcome
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

#: the key of somebody who claims at the terminal
TERMINAL = "terminal"


class Grants:
    """The one way in which artifacts leave the ledger."""

    def __init__(self, database: Database, clerk: Clerk, telemetry: Telemetry) -> None:
        """Serve any number of claimants at the same time."""
        self._database = database
        self._clerk = clerk
        self._telemetry = telemetry
        self._rows = telemetry.commit_rows.labels("artifacts")
        self._group: Group[Ask, Outcome] = Group(database, self._claim, committed=self._tell)

    async def ask(self, ask: Ask) -> Outcome:
        """Return what comes of a claim, after the commit that holds it.

        Raises: StoreUnavailable.
        """
        outcome = await self._group.submit(ask)
        faults.point("artifacts.granted")
        return outcome

    def holds(self, claimant: Claimant, artifact: Artifact) -> bool:
        """Say whether an artifact is a claimant's already."""
        return self._clerk.holds(claimant, artifact)

    async def claim(self, claimant: Claimant, artifact_id: str) -> Granted:
        """Return an artifact to who claims it; to the same claim again and again.

        Raises: NotFound, AlreadyClaimed, ArtifactSuperseded, ArtifactUnmatched, ArtifactPurged,
        LinkRefused, MailNotOpened, StoreUnavailable.
        """
        outcome = await self.ask(Ask(claimant=claimant, artifact_id=artifact_id))
        if isinstance(outcome, Granted):
            return outcome
        raise refusal(outcome)

    async def release(self, asker: Asker, artifact_id: str, deed: Deed) -> Artifact:
        """Take an artifact back from who has claimed it; a person does that, and says why.

        Raises: NotFound, StateConflict, StoreUnavailable.
        """
        released = await self._database.write(claims.release, asker, artifact_id, deed)
        self._telemetry.artifacts.labels(released.kind.value, "released").inc()
        self._database.ring(MESSAGES)
        return released

    def _claim(self, tx: Transaction, asks: Sequence[Ask]) -> list[Outcome]:
        return self._clerk.claim(tx, asks, self._database.clock())

    def _tell(self, batch: Sequence[tuple[Ask, Outcome]]) -> None:
        """Count, once for all that shared a commit."""
        self._rows.observe(len(batch))
        ends = Counter(_end(outcome) for _ask, outcome in batch)
        for (kind, end), count in ends.items():
            if kind:
                self._telemetry.artifacts.labels(kind, end).inc(count)


def claimant(asker: Asker, claim_key: str | None = None) -> Claimant:
    """Return who claims."""
    return Claimant(
        tenant=asker.tenant, key_id=asker.key or TERMINAL, owner=asker.owner, claim_key=claim_key
    )


def refusal(outcome: Denied | Contested | None) -> OnceboxError:
    """Return why somebody does not get an artifact, with what helps; no text of a sender."""
    if isinstance(outcome, Contested):
        message = (
            f"{len(outcome.artifact_ids)} are meant equally ({outcome.why}); "
            "name a sender or a purpose, or claim one of them by its id"
        )
        return ArtifactConflict(message)
    if outcome is None or outcome.artifact is None:
        return NotFound("there is no such artifact")
    if outcome.why == "link_refused":
        message = (
            f"the link policy refuses it: {outcome.reason} (host: {outcome.host}); "
            "name the hosts that links may lead to when the inbox is made"
        )
        return LinkRefused(message)
    return _refused(outcome.why, outcome.artifact)


def _refused(why: str, artifact: Artifact) -> OnceboxError:
    if why == "already_claimed":
        message = "another claim has it; do not ask for another one, but ask who has claimed it"
        return AlreadyClaimed(message)
    if why == "superseded":
        message = f"a newer one has taken its place: claim {artifact.superseded_by}"
        return ArtifactSuperseded(message)
    if why == "unmatched":
        message = "its message is not what the inbox expects; an operator can read the message"
        return ArtifactUnmatched(message)
    if why == "not_opened":
        message = (
            "what it says is damaged, or was sealed with another master key or for another row; "
            "restore it from a backup"
        )
        return MailNotOpened(message)
    message = "what it says was overwritten when its time was over (ONCEBOX_RETENTION__ARTIFACTS)"
    return ArtifactPurged(message)


def _end(outcome: Outcome) -> tuple[str, str]:
    """Return the kind of an artifact and in one word what became of a claim."""
    if isinstance(outcome, Granted):
        return outcome.artifact.kind.value, "repeated" if outcome.repeated else "granted"
    if isinstance(outcome, Contested):
        return outcome.kind.value, "conflict"
    if outcome is None or outcome.artifact is None:
        return "", ""
    return outcome.artifact.kind.value, outcome.why
