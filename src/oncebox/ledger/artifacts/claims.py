"""Claims: grant an artifact to exactly one claim, link policy applied, through group commit."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from oncebox.core import faults
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.group_commit import GroupCommit
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, MasterKeyWrong, NotFound, OnceboxError, StateConflict
from oncebox.errors.mail import (
    AlreadyClaimed,
    ArtifactConflict,
    ArtifactPurged,
    ArtifactSuperseded,
    ArtifactUnmatched,
    LinkRefused,
    MailDecryptionFailed,
)
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.artifacts import InboxKind
from oncebox.ledger.ciphers import ArtifactCipher
from oncebox.ledger.notifications import MESSAGES
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactClaimant,
    ArtifactClaimRequest,
    ArtifactFilter,
    ArtifactState,
    ClaimConflict,
    ClaimDenied,
    ClaimGranted,
    ClaimResult,
    HostClass,
    LinkParts,
    choose_artifact,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.received_mail import ArtifactKind

_sql = load(__package__, "claims.sql")

#: looks after which somebody always has taken what was free a moment ago
_MOST_ROUNDS = 5


class LinkVerdict(Protocol):
    """What the link policy says of a link."""

    @property
    def allowed(self) -> bool:
        """Whether it may be handed out."""

    @property
    def reason(self) -> str:
        """A stable code."""

    @property
    def canonical(self) -> str:
        """Exactly what was judged; empty if it was refused."""

    @property
    def host(self) -> str:
        """Where it leads."""

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Its parameters."""

    @property
    def token(self) -> str:
        """What looks like the secret in it."""


#: judges a link by what its inbox lets out; pure
JudgeLink = Callable[[str, InboxPolicy], LinkVerdict]
#: the tenant of an inbox, and the key that made it
_Owner = tuple[str, str | None]


class _ClaimRow(NamedTuple):
    """An artifact with what is needed to grant it."""

    artifact: Artifact
    ciphertext: bytes
    owner: str | None
    policy: bytes


class _PendingGrant(NamedTuple):
    """An ask that can be granted, if nobody is faster."""

    granted: ClaimGranted
    fingerprint: bytes
    #: what took the place of the artifact and is passed over; empty if nothing did
    skipped_successor: str


class ClaimResolver:
    """Grants artifacts, many at a time, in whatever transaction it is given."""

    def __init__(self, strongbox: ArtifactCipher, judge_link: JudgeLink) -> None:
        """Open artifacts with this strongbox, and let out what this judge allows."""
        self._cipher = strongbox
        self._judge_link = judge_link

    def claim(
        self, tx: Transaction, asks: Sequence[ArtifactClaimRequest], now: int
    ) -> list[ClaimResult]:
        """Answer claims in order, each as if it were alone.

        What was free when it was looked at is taken only if it still is; who is too late looks
        again. Two claims of one call for the same artifact are two looks.

        Raises: DatabaseBusy.
        """
        outcomes: dict[int, ClaimResult] = {}
        waiting = dict(enumerate(asks))
        for _ in range(_MOST_ROUNDS):
            found = self._resolve(tx, waiting)
            outcomes |= {
                n: each for n, each in found.items() if not isinstance(each, _PendingGrant)
            }
            takes = {n: each for n, each in found.items() if isinstance(each, _PendingGrant)}
            outcomes |= _take_free(tx, waiting, takes, now)
            waiting = {n: ask for n, ask in waiting.items() if n not in outcomes}
            if not waiting:
                faults.point("artifacts.claimed")
                return [outcomes[n] for n in range(len(asks))]
        raise DatabaseBusy("others keep taking what is asked for; try again")

    def has_answer(self, tx: Transaction, asks: Sequence[ArtifactClaimRequest]) -> list[bool]:
        """Say for each ask whether there is anything to answer it with; changes nothing."""
        found = self._resolve(tx, dict(enumerate(asks)))
        return [found[n] is not None for n in range(len(asks))]

    def _resolve(
        self, tx: Transaction, asks: dict[int, ArtifactClaimRequest]
    ) -> dict[int, ClaimResult | _PendingGrant]:
        """Return what would come of asks as things are now."""
        wishes = {
            n: ask.artifact_filter for n, ask in asks.items() if ask.artifact_filter is not None
        }
        fields: set[InboxKind] = {(wish.inbox_id, wish.kind) for wish in wishes.values()}
        owners = _owners(tx, (inbox for inbox, _kind in fields))
        candidates = artifacts.candidates(tx, fields)
        hosts = self._hosts(tx, wishes.values(), candidates)
        found: dict[int, ClaimResult | _PendingGrant] = {}
        past: dict[int, str] = {}
        meant = {n: ask.artifact_id or "" for n, ask in asks.items() if ask.artifact_filter is None}
        for n, wish in wishes.items():
            claimant = asks[n].claimant
            if not _may_see(claimant, owners.get(wish.inbox_id)):
                found[n] = ClaimDenied(why="not_found")
                continue
            fitting = _matching(wish, candidates[wish.inbox_id, wish.kind], hosts)
            mark = self._fingerprint(claimant, fitting[0]) if fitting else None
            choice = choose_artifact(fitting, mark)
            if choice.artifact is not None:
                meant[n] = choice.artifact.id
                past[n] = _skipped_successor(
                    wish, choice.artifact, candidates[wish.inbox_id, wish.kind]
                )
            elif choice.why is None:
                found[n] = None
            else:
                found[n] = ClaimConflict(
                    kind=wish.kind, artifact_ids=choice.conflict, why=choice.why
                )
        rows = _rows_by_id(tx, meant.values())
        return found | {
            n: self._decide(asks[n], rows.get(id_), past.get(n, "")) for n, id_ in meant.items()
        }

    def holds(self, claimant: ArtifactClaimant, artifact: Artifact) -> bool:
        """Say whether an artifact is a claimant's already."""
        return artifact.belongs_to(self._fingerprint(claimant, artifact))

    def _hosts(
        self,
        tx: Transaction,
        wishes: Iterable[ArtifactFilter],
        candidates: Mapping[InboxKind, Sequence[Artifact]],
    ) -> dict[str, str]:
        """Return where links lead, by id, of which a host is asked for; each is opened once."""
        asked = {(wish.inbox_id, wish.kind) for wish in wishes if wish.host}
        rows = _rows_by_id(tx, (each.id for field in asked for each in candidates[field]))
        return {id_: self._host(row) for id_, row in rows.items()}

    def _host(self, row: _ClaimRow) -> str:
        try:
            value = self._cipher.decrypt(row.artifact.tenant, row.artifact.id, row.ciphertext)
        except MasterKeyWrong:
            return ""
        return self._judge_link(value.value, _policy(row)).host

    def _fingerprint(self, claimant: ArtifactClaimant, artifact: Artifact) -> bytes:
        claim_key = claimant.claim_key or artifact.attempt_id or artifact.inbox_id
        return self._cipher.claim_fingerprint(claimant.tenant, claimant.key_id, claim_key)

    def _decide(
        self, ask: ArtifactClaimRequest, row: _ClaimRow | None, past: str
    ) -> ClaimResult | _PendingGrant:
        """Say what comes of a claim of this very artifact, where ``past`` does not count."""
        claimant = ask.claimant
        if row is None or not _may_see(claimant, (row.artifact.tenant, row.owner)):
            return ClaimDenied(why="not_found")
        artifact, mark = row.artifact, self._fingerprint(claimant, row.artifact)
        own = artifact.belongs_to(mark)
        if artifact.purged_at is not None:
            return ClaimDenied(why="purged", artifact=artifact)
        if artifact.claimed and not own:
            return ClaimDenied(why="already_claimed", artifact=artifact)
        replaced = artifact.state is ArtifactState.SUPERSEDED and artifact.superseded_by != past
        if not own and replaced:
            return ClaimDenied(why="superseded", artifact=artifact)
        if not own and not artifact.matched:
            return ClaimDenied(why="unmatched", artifact=artifact)
        host = "" if ask.artifact_filter is None else ask.artifact_filter.host
        granted = self._decrypt(row, host, repeated=own)
        return (
            granted
            if own or isinstance(granted, ClaimDenied)
            else _PendingGrant(granted, mark, past)
        )

    def _decrypt(self, row: _ClaimRow, host: str, *, repeated: bool) -> ClaimGranted | ClaimDenied:
        """Return what an artifact says; a link only as far as the policy lets it out."""
        artifact = row.artifact
        try:
            value = self._cipher.decrypt(artifact.tenant, artifact.id, row.ciphertext)
        except MasterKeyWrong:  # others share this commit, and what is damaged is not theirs
            return ClaimDenied(why="not_opened", artifact=artifact)
        if artifact.kind is not ArtifactKind.LINK:
            return ClaimGranted(artifact=artifact, value=value, repeated=repeated)
        judged = self._judge_link(value.value, _policy(row, host))
        if repeated and not judged.allowed:
            # It was granted by naming its host; whoever reads it again need not name it.
            judged = self._judge_link(value.value, _policy(row, judged.host))
        if not judged.allowed:
            leads = _host_class(judged.host, artifact.sender_domain)
            return ClaimDenied(
                why="link_refused", artifact=artifact, reason=judged.reason, host=leads
            )
        return ClaimGranted(
            artifact=artifact,
            value=msgspec.structs.replace(value, value=judged.canonical),
            link=LinkParts(host=judged.host, token=judged.token, parameters=judged.parameters),
            repeated=repeated,
        )


def release(tx: Transaction, asker: Requester, id_: str, deed: AuditEntry) -> Artifact:
    """Take an artifact back from who has claimed it, so that it can be claimed again.

    Raises: NotFound; StateConflict, when nobody has claimed it.
    """
    found = artifacts.get(tx, asker, id_)
    if not tx.run(_sql.release, id=id_, tenant=asker.tenant):
        raise StateConflict("nobody has claimed this artifact, so there is nothing to release")
    holder = f"claimed by {found.claimed_by}" if found.claimed_by else ""
    audit.record(tx, deed, "artifact.release", id_, holder)
    return artifacts.get(tx, asker, id_)


def _rows_by_id(tx: Transaction, wanted: Iterable[str]) -> dict[str, _ClaimRow]:
    ids = sorted(set(wanted))
    rows = tx.many(_sql.named, [(id_,) for id_ in ids]) if ids else []
    found = (_claim_row(row) for row in rows)
    return {each.artifact.id: each for each in found}


def _claim_row(row: Row) -> _ClaimRow:
    *fields, sealed, owner, policy = row
    return _ClaimRow(artifacts.to_artifact(tuple(fields)), bytes(sealed), owner, bytes(policy))


def _policy(row: _ClaimRow, host: str = "") -> InboxPolicy:
    """Return what an inbox lets out; where it names no host, the one that is asked for."""
    policy = msgspec.json.decode(row.policy, type=InboxPolicy)
    if policy.link_hosts or not host:
        return policy
    return msgspec.structs.replace(policy, link_hosts=(host,))


def _matching(
    wish: ArtifactFilter, candidates: Sequence[Artifact], hosts: Mapping[str, str]
) -> list[Artifact]:
    """Return the artifacts that a wish describes."""
    fitting = [each for each in candidates if wish.matches(each)]
    if wish.host:
        fitting = [each for each in fitting if hosts.get(each.id) == wish.host]
    if not wish.by_domain:
        return fitting
    # As if each domain were one sender, without what is known to be older.
    return [
        msgspec.structs.replace(each, sender=each.sender and each.sender_domain)
        for each in fitting
        if each.state is not ArtifactState.SUPERSEDED or _skipped_successor(wish, each, candidates)
    ]


def _skipped_successor(
    wish: ArtifactFilter, artifact: Artifact, candidates: Iterable[Artifact]
) -> str:
    """Return what took the place of an artifact, if that is known not to be wanted."""
    if not wish.excluded_messages or artifact.superseded_by is None:
        return ""
    newer = (each for each in candidates if each.id == artifact.superseded_by)
    return next((each.id for each in newer if each.message_id in wish.excluded_messages), "")


def _owners(tx: Transaction, inboxes: Iterable[str]) -> dict[str, _Owner]:
    ids = sorted(set(inboxes))
    rows = tx.many(_sql.owners, [(id_,) for id_ in ids]) if ids else []
    return {str(id_): (str(tenant), owner) for id_, tenant, owner in rows}


def _may_see(claimant: ArtifactClaimant, owner: _Owner | None) -> bool:
    """Say whether an inbox is there for who claims: an agent sees those that its key made."""
    if owner is None or owner[0] != claimant.tenant:
        return False
    return claimant.owner is None or owner[1] == claimant.owner


def _take_free(
    tx: Transaction,
    asks: dict[int, ArtifactClaimRequest],
    takes: dict[int, _PendingGrant],
    now: int,
) -> dict[int, ClaimResult]:
    """Take what is still free; of several who want the same one, the first."""
    first: dict[str, int] = {}
    for n, take in sorted(takes.items()):
        first.setdefault(take.granted.artifact.id, n)
    rows = [
        (
            id_,
            asks[n].claimant.tenant,
            asks[n].claimant.key_id,
            takes[n].fingerprint,
            takes[n].skipped_successor,
        )
        for id_, n in sorted(first.items())
    ]
    if not rows:
        return {}
    won = {str(id_) for (id_,) in tx.many(_sql.take, rows, now=now)}
    return {
        n: _with_claim(takes[n], asks[n].claimant, now) for id_, n in first.items() if id_ in won
    }


def _with_claim(take: _PendingGrant, claimant: ArtifactClaimant, now: int) -> ClaimGranted:
    claimed = msgspec.structs.replace(
        take.granted.artifact,
        state=ArtifactState.CLAIMED,
        claimed_by=claimant.key_id,
        claim_fingerprint=take.fingerprint,
        claimed_at=now,
    )
    return msgspec.structs.replace(take.granted, artifact=claimed)


def _host_class(host: str, sender_domain: str) -> HostClass:
    """Say of a refused host only whether it is its sender's own."""
    if not host:
        return "none"
    own = bool(sender_domain) and f".{host}".endswith(f".{sender_domain}")
    return "sender" if own else "other"


#: the key of somebody who claims at the terminal
TERMINAL_KEY = "terminal"


class Grants:
    """The one way in which artifacts leave the ledger."""

    def __init__(self, database: Database, clerk: ClaimResolver, telemetry: Telemetry) -> None:
        """Serve any number of claimants at the same time."""
        self._database = database
        self._resolver = clerk
        self._telemetry = telemetry
        self._rows = telemetry.commit_rows.labels("artifacts")
        self._group: GroupCommit[ArtifactClaimRequest, ClaimResult] = GroupCommit(
            database, clerk.claim, committed=self._after_commit
        )

    async def request(self, ask: ArtifactClaimRequest) -> ClaimResult:
        """Return what comes of a claim, after the commit that holds it.

        Raises: StoreUnavailable.
        """
        outcome = await self._group.submit(ask)
        faults.point("artifacts.granted")
        return outcome

    def holds(self, claimant: ArtifactClaimant, artifact: Artifact) -> bool:
        """Say whether an artifact is a claimant's already."""
        return self._resolver.holds(claimant, artifact)

    async def claim(self, claimant: ArtifactClaimant, artifact_id: str) -> ClaimGranted:
        """Return an artifact to who claims it; to the same claim again and again.

        Raises: NotFound, AlreadyClaimed, ArtifactSuperseded, ArtifactUnmatched, ArtifactPurged,
        LinkRefused, MailDecryptionFailed, StoreUnavailable.
        """
        outcome = await self.request(
            ArtifactClaimRequest(claimant=claimant, artifact_id=artifact_id)
        )
        if isinstance(outcome, ClaimGranted):
            return outcome
        raise grant_error(outcome)

    async def release(self, asker: Requester, artifact_id: str, deed: AuditEntry) -> Artifact:
        """Take an artifact back from who has claimed it; a person does that, and says why.

        Raises: NotFound, StateConflict, StoreUnavailable.
        """
        released = await self._database.write(release, asker, artifact_id, deed)
        self._telemetry.artifacts.labels(released.kind.value, "released").inc()
        self._database.notify(MESSAGES)
        return released

    def _after_commit(self, batch: Sequence[tuple[ArtifactClaimRequest, ClaimResult]]) -> None:
        """Count, once for all that shared a commit."""
        self._rows.observe(len(batch))
        ends = Counter(_metric_labels(outcome) for _ask, outcome in batch)
        for (kind, end), count in ends.items():
            if kind:
                self._telemetry.artifacts.labels(kind, end).inc(count)


def claimant_of(asker: Requester, claim_key: str | None = None) -> ArtifactClaimant:
    """Return who claims."""
    return ArtifactClaimant(
        tenant=asker.tenant,
        key_id=asker.key or TERMINAL_KEY,
        owner=asker.owner,
        claim_key=claim_key,
    )


def grant_error(outcome: ClaimDenied | ClaimConflict | None) -> OnceboxError:
    """Return why somebody does not get an artifact, with what helps; no text of a sender."""
    if isinstance(outcome, ClaimConflict):
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
    return _denied_error(outcome.why, outcome.artifact)


def _denied_error(why: str, artifact: Artifact) -> OnceboxError:
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
        return MailDecryptionFailed(message)
    message = "what it says was overwritten when its time was over (ONCEBOX_RETENTION__ARTIFACTS)"
    return ArtifactPurged(message)


def _metric_labels(outcome: ClaimResult) -> tuple[str, str]:
    """Return the kind of an artifact and in one word what became of a claim."""
    if isinstance(outcome, ClaimGranted):
        return outcome.artifact.kind.value, "repeated" if outcome.repeated else "granted"
    if isinstance(outcome, ClaimConflict):
        return outcome.kind.value, "conflict"
    if outcome is None or outcome.artifact is None:
        return "", ""
    return outcome.artifact.kind.value, outcome.why
