"""Claims: grant an artifact to one claim, leased to one worker of it, through group commit.

See docs/decisions/0028-use-permanent-grants-for-codes-and-links.md.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

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
    ArtifactInFlight,
    ArtifactPurged,
    ArtifactSuperseded,
    ArtifactUnmatched,
    ArtifactUsed,
    LinkRefused,
    MailDecryptionFailed,
)
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.ciphers import ArtifactCipher
from oncebox.ledger.notifications import MESSAGES
from oncebox.model.inboxes.artifact import (
    PURPOSE_UNCLEAR,
    Artifact,
    ArtifactClaimant,
    ArtifactClaimRequest,
    ArtifactFilter,
    ArtifactState,
    AwaitedMessage,
    CandidateKey,
    ClaimConflict,
    ClaimDenied,
    ClaimGranted,
    ClaimResult,
    DenialReason,
    HostClass,
    LinkParts,
    choose_artifact,
    choose_message,
    is_unclear,
)
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.inboxes.received_mail import ArtifactKind

_sql = load(__package__, "claims.sql")

#: attempts to claim free artifacts that others claim first
_MOST_ROUNDS = 5
#: the key of an operator who claims at the terminal
_TERMINAL_KEY = "terminal"
#: milliseconds for which an artifact is kept for the worker that read it
_LEASE = 30_000

#: checks a link against the policy of its inbox; pure
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
    """A grant, provided the artifact is still free."""

    granted: ClaimGranted
    fingerprint: bytes
    #: the artifact that superseded it and is excluded; empty if there is none
    skipped_successor: str

    @property
    def claimed_id(self) -> str:
        """The artifact that is claimed: the attempt's first with this value."""
        return self.granted.artifact.same_as or self.granted.artifact.id


class ClaimResolver:
    """Grants artifacts, many at a time, in the caller's transaction."""

    def __init__(
        self, cipher: ArtifactCipher, judge_link: JudgeLink, *, lease: int = _LEASE
    ) -> None:
        """Keep what is granted for its worker for so many milliseconds."""
        self._cipher = cipher
        self.judge_link = judge_link
        self._lease = lease

    def claim(
        self, tx: Transaction, requests: Sequence[ArtifactClaimRequest], now: int
    ) -> list[ClaimResult]:
        """Return the results of claims in order, each as if it were alone.

        A free artifact is taken only if it is still free; a claim that is too late is resolved
        again. Two claims of one call for the same artifact take two rounds.

        Raises: DatabaseBusy.
        """
        results: dict[int, ClaimResult] = {}
        open_ = dict(enumerate(requests))
        for _ in range(_MOST_ROUNDS):
            pending: dict[int, _PendingGrant] = {}
            for n, found in self._resolve(tx, open_, now).items():
                if isinstance(found, _PendingGrant):
                    pending[n] = found
                else:
                    results[n] = found
            results |= _take_free(tx, open_, pending, now, now + self._lease)
            open_ = {n: request for n, request in open_.items() if n not in results}
            if not open_:
                faults.point("artifacts.claimed")
                return [results[n] for n in range(len(requests))]
        raise DatabaseBusy("other claims keep taking the requested artifacts; try again")

    def holds(self, claimant: ArtifactClaimant, artifact: Artifact) -> bool:
        """Return whether an artifact is the claimant's already."""
        return artifact.belongs_to(self._fingerprint(claimant, artifact))

    def _resolve(
        self, tx: Transaction, requests: dict[int, ArtifactClaimRequest], now: int
    ) -> dict[int, ClaimResult | _PendingGrant]:
        """Return the results of claims in the present state."""
        filters = {n: each.artifact_filter for n, each in requests.items() if each.artifact_filter}
        owners, newest = _owners_and_candidates(tx, {each.candidates for each in filters.values()})
        hosts = self._hosts(tx, filters.values(), newest)
        found: dict[int, ClaimResult | _PendingGrant] = {}
        skipped: dict[int, str] = {}
        meant = {n: each.artifact_id or "" for n, each in requests.items() if n not in filters}
        for n, wanted in filters.items():
            claimant = requests[n].claimant
            if not _may_see(claimant, owners.get(wanted.inbox_id)):
                found[n] = ClaimDenied(why="not_found")
            elif wanted.kind is not ArtifactKind.MESSAGE:
                candidates = newest[wanted.candidates]
                chosen = self._choose(claimant, wanted, candidates, hosts)
                if isinstance(chosen, Artifact):
                    meant[n] = chosen.id
                    skipped[n] = _skipped_successor(wanted, chosen, candidates)
                else:
                    found[n] = chosen
        awaited = {n: each for n, each in filters.items() if each.kind is ArtifactKind.MESSAGE}
        for n, id_ in self._choose_messages(tx, requests, awaited, found).items():
            if id_:
                meant[n] = id_
            else:
                found[n] = None
        rows = _rows_by_id(tx, meant.values())
        return found | {
            n: self._decide(requests[n], rows.get(id_), skipped.get(n, ""), now)
            for n, id_ in meant.items()
        }

    def _choose(
        self,
        claimant: ArtifactClaimant,
        wanted: ArtifactFilter,
        candidates: Sequence[Artifact],
        hosts: Mapping[str, str],
    ) -> Artifact | ClaimConflict | None:
        """Return the code or link that is meant; None if none matches yet."""
        matching = _matching(wanted, candidates, hosts)
        mark = self._fingerprint(claimant, matching[0]) if matching else None
        choice = choose_artifact(matching, mark, wanted.purpose)
        if choice.why is None:
            return choice.artifact
        return ClaimConflict(kind=wanted.kind, artifact_ids=choice.conflict, why=choice.why)

    def _choose_messages(
        self,
        tx: Transaction,
        requests: Mapping[int, ArtifactClaimRequest],
        wanted: Mapping[int, ArtifactFilter],
        refused: Container[int],
    ) -> dict[int, str]:
        """Return the artifacts of the messages that are meant; empty if no message matches.

        A message becomes an artifact when it is chosen. A request is left out, to be resolved
        again, if another one of this call or of another process has just chosen its message.
        """
        wanted = {n: each for n, each in wanted.items() if n not in refused}
        if not wanted:
            return {}
        every = (id_ for each in wanted.values() for id_ in each.messages or ())
        stored = artifacts.of_messages(tx, every)
        choices: dict[int, str] = {}
        chosen_by: dict[str, bytes] = {}
        new: dict[str, AwaitedMessage] = {}
        for n, each in wanted.items():
            matching, unclaimed = _matching_messages(each, stored)
            if not matching:
                choices[n] = ""
                continue
            mark = self._fingerprint(requests[n].claimant, matching[0])
            left = [one for one in matching if chosen_by.get(one.message_id, mark) == mark]
            choice = choose_message(left, mark)
            is_refused = choice is None or (choice.claimed and not choice.belongs_to(mark))
            if choice is None or (is_refused and len(left) < len(matching)):
                continue
            chosen_by[choice.message_id] = mark
            choices[n] = choice.id
            if choice.id in unclaimed:
                new.setdefault(choice.message_id, unclaimed[choice.id])
        free = artifacts.file_awaited(tx, self._cipher, new.values()) if new else set()
        ready = {"", *free, *(each.id for each in stored.values())}
        return {n: id_ for n, id_ in choices.items() if id_ in ready}

    def _hosts(
        self,
        tx: Transaction,
        filters: Iterable[ArtifactFilter],
        newest: Mapping[CandidateKey, Sequence[Artifact]],
    ) -> dict[str, str]:
        """Return the hosts of links, by id, where a filter names a host."""
        wanted = {each.candidates for each in filters if each.host}
        rows = _rows_by_id(tx, (each.id for key in wanted for each in newest[key]))
        return {id_: self._host(row) for id_, row in rows.items()}

    def _host(self, row: _ClaimRow) -> str:
        try:
            value = self._cipher.decrypt(row.artifact.tenant, row.artifact.id, row.ciphertext)
        except MasterKeyWrong:
            return ""
        return self.judge_link(value.value, _policy(row)).host

    def _fingerprint(self, claimant: ArtifactClaimant, artifact: Artifact) -> bytes:
        claim_key = claimant.claim_key or artifact.attempt_id or artifact.inbox_id
        return self._cipher.claim_fingerprint(claimant.tenant, claimant.key_id, claim_key)

    def _decide(
        self, request: ArtifactClaimRequest, row: _ClaimRow | None, skipped: str, now: int
    ) -> ClaimResult | _PendingGrant:
        """Return the result of a claim of this artifact; ``skipped`` does not supersede it."""
        claimant = request.claimant
        if row is None or not _may_see(claimant, (row.artifact.tenant, row.owner)):
            return ClaimDenied(why="not_found")
        artifact, mark = row.artifact, self._fingerprint(claimant, row.artifact)
        own = artifact.belongs_to(mark)
        reread = own and artifact.is_leased(now) and _is_leased_to(request, artifact)
        why = _own_denial(artifact, now, reread=reread) if own else _denial(artifact, skipped)
        if why is not None:
            return ClaimDenied(why=why, artifact=artifact)
        wanted = request.artifact_filter
        granted = self._decrypt(row, wanted.host if wanted else "", repeated=own)
        if isinstance(granted, ClaimDenied):
            return granted
        if wanted is not None:
            granted = _with_purpose_warning(granted, wanted.purpose)
        if reread:
            return msgspec.structs.replace(granted, reread=True)
        return _PendingGrant(granted, mark, skipped)

    def _decrypt(self, row: _ClaimRow, host: str, *, repeated: bool) -> ClaimGranted | ClaimDenied:
        """Return the value of an artifact; a link only if the policy allows it."""
        artifact = row.artifact
        try:
            value = self._cipher.decrypt(artifact.tenant, artifact.id, row.ciphertext)
        except MasterKeyWrong:  # one damaged value must not fail the others of this commit
            return ClaimDenied(why="not_opened", artifact=artifact)
        if artifact.kind is not ArtifactKind.LINK:
            return ClaimGranted(artifact=artifact, value=value, repeated=repeated)
        judged = self.judge_link(value.value, _policy(row, host))
        if repeated and not judged.allowed:
            # It was granted to a filter with its host; a repeat need not name the host again.
            judged = self.judge_link(value.value, _policy(row, judged.host))
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


def use(tx: Transaction, requester: Requester, used: Iterable[str], now: int) -> None:
    """Record that artifacts were used; those that the requester's key has not claimed are not."""
    key_id = requester.key or _TERMINAL_KEY
    rows = [(id_, requester.tenant, key_id) for id_ in sorted(set(used))]
    tx.run_many(_sql.use, rows, now=now)


def confirm_used(tx: Transaction, requester: Requester, id_: str, now: int) -> Artifact:
    """Record that an artifact was used; a repeat changes nothing. Return it.

    Raises: NotFound; AlreadyClaimed; StateConflict, when nobody has claimed it.
    """
    found = artifacts.get(tx, requester, id_)
    if not found.claimed:
        raise StateConflict("this artifact is not claimed; claim it before you use it")
    if found.claimed_by != (requester.key or _TERMINAL_KEY):
        raise AlreadyClaimed("another API key has claimed it; only that one can confirm its use")
    use(tx, requester, [id_], now)
    return artifacts.get(tx, requester, id_)


def release(tx: Transaction, requester: Requester, id_: str, entry: AuditEntry) -> Artifact:
    """Release an artifact from its claim, so that it can be claimed again.

    Raises: NotFound; StateConflict, when it is not claimed.
    """
    found = artifacts.get(tx, requester, id_)
    if not tx.run(_sql.release, id=found.same_as or id_, tenant=requester.tenant):
        raise StateConflict("this artifact is not claimed, so there is nothing to release")
    holder = f"claimed by {found.claimed_by}" if found.claimed_by else ""
    audit.record(tx, entry, "artifact.release", id_, holder)
    return artifacts.get(tx, requester, id_)


def _with_purpose_warning(granted: ClaimGranted, purpose: str) -> ClaimGranted:
    """Add a warning if the message does not name the purpose that was asked for."""
    artifact = granted.artifact
    if not is_unclear(artifact, purpose) or PURPOSE_UNCLEAR in artifact.warnings:
        return granted
    warned = msgspec.structs.replace(artifact, warnings=(*artifact.warnings, PURPOSE_UNCLEAR))
    return msgspec.structs.replace(granted, artifact=warned)


def _rows_by_id(tx: Transaction, wanted: Iterable[str]) -> dict[str, _ClaimRow]:
    ids = sorted(set(wanted))
    found = {}
    for *fields, ciphertext, owner, policy in tx.many(_sql.named, [(id_,) for id_ in ids]):
        artifact = artifacts.to_artifact(tuple(fields))
        found[artifact.id] = _ClaimRow(artifact, bytes(ciphertext), owner, bytes(policy))
    return found


def _policy(row: _ClaimRow, host: str = "") -> InboxPolicy:
    """Return the policy of an inbox; if it names no link host, with the host of the request."""
    policy = msgspec.json.decode(row.policy, type=InboxPolicy)
    if policy.link_hosts or not host:
        return policy
    return msgspec.structs.replace(policy, link_hosts=(host,))


def _matching(
    wanted: ArtifactFilter, candidates: Sequence[Artifact], hosts: Mapping[str, str]
) -> list[Artifact]:
    matching = [
        each
        for each in candidates
        if wanted.matches(each) and (not wanted.host or hosts.get(each.id) == wanted.host)
    ]
    if not wanted.by_domain:
        return matching
    # As if each domain were one sender, without what is known to be older.
    return [
        msgspec.structs.replace(each, sender=each.sender and each.sender_domain)
        for each in matching
        if each.state is not ArtifactState.SUPERSEDED
        or _skipped_successor(wanted, each, candidates)
    ]


def _matching_messages(
    wanted: ArtifactFilter, stored: Mapping[str, Artifact]
) -> tuple[list[Artifact], dict[str, AwaitedMessage]]:
    """Return the messages that match, as artifacts, and those that are to be stored, by id."""
    known = [stored[id_] for id_ in wanted.messages or () if id_ in stored]
    new = {
        each.artifact.id: each
        for each in wanted.unclaimed
        if each.artifact.message_id not in stored
    }
    kept = [each for each in known if each.purged_at is None]
    every = (*kept, *(each.artifact for each in new.values()))
    return [each for each in every if wanted.matches(each)], new


def _skipped_successor(
    wanted: ArtifactFilter, artifact: Artifact, candidates: Iterable[Artifact]
) -> str:
    """Return the artifact that superseded another, if its message is excluded."""
    if not wanted.excluded_messages or artifact.superseded_by is None:
        return ""
    newer = (each for each in candidates if each.id == artifact.superseded_by)
    return next((each.id for each in newer if each.message_id in wanted.excluded_messages), "")


def _owners_and_candidates(
    tx: Transaction, wanted: set[CandidateKey]
) -> tuple[dict[str, _Owner], dict[CandidateKey, list[Artifact]]]:
    inboxes = sorted({each.inbox_id for each in wanted})
    owned = tx.send_many(_sql.owners, [(id_,) for id_ in inboxes])
    # Messages are looked up by their ids.
    found = {each for each in wanted if each.kind is not ArtifactKind.MESSAGE}
    newest = artifacts.candidates(tx, found)
    return {str(id_): (str(tenant), owner) for id_, tenant, owner in owned.rows()}, newest


def _may_see(claimant: ArtifactClaimant, owner: _Owner | None) -> bool:
    """Return whether the claimant may see an inbox: an agent sees those that its key made."""
    if owner is None or owner[0] != claimant.tenant:
        return False
    return claimant.owner is None or owner[1] == claimant.owner


def _is_leased_to(request: ArtifactClaimRequest, artifact: Artifact) -> bool:
    """Return whether the worker that read an artifact repeats its request."""
    return artifact.lease_fingerprint == request.request_fingerprint


def _own_denial(artifact: Artifact, now: int, *, reread: bool) -> DenialReason | None:
    """Return why a worker does not get what its claim holds."""
    if artifact.purged_at is not None:
        return "purged"
    if artifact.used_at is not None:
        return "used"
    return "in_flight" if artifact.is_leased(now) and not reread else None


def _denial(artifact: Artifact, skipped: str) -> DenialReason | None:
    """Return why a claim does not get what it does not hold."""
    if artifact.purged_at is not None:
        return "purged"
    if artifact.claimed:
        return "already_claimed"
    if artifact.state is ArtifactState.SUPERSEDED and artifact.superseded_by != skipped:
        return "superseded"
    return None if artifact.matched else "unmatched"


def _take_free(
    tx: Transaction,
    requests: dict[int, ArtifactClaimRequest],
    pending: dict[int, _PendingGrant],
    now: int,
    until: int,
) -> dict[int, ClaimResult]:
    """Claim the artifacts that are still free; of several claims for one, the first wins."""
    first: dict[str, int] = {}
    for n, grant in sorted(pending.items()):
        first.setdefault(grant.claimed_id, n)
    rows: list[Row] = []
    same: list[Row] = []
    for claimed_id, n in sorted(first.items()):
        claimant, (granted, mark, skipped) = requests[n].claimant, pending[n]
        by = (claimant.tenant, claimant.key_id, mark, skipped, requests[n].request_fingerprint)
        if granted.artifact.same_as is None:
            rows.append((claimed_id, *by))
        else:
            same.append((granted.artifact.id, claimed_id, *by))
    taken = [
        *(tx.many(_sql.take, rows, now=now, until=until) if rows else ()),
        *(tx.many(_sql.take_same, same, now=now, until=until) if same else ()),
    ]
    results: dict[int, ClaimResult] = {}
    for (id_,) in taken:
        n = first[str(id_)]
        before = pending[n].granted.artifact
        claimed = msgspec.structs.replace(
            before,
            state=ArtifactState.CLAIMED,
            claimed_by=requests[n].claimant.key_id,
            claim_fingerprint=pending[n].fingerprint,
            claimed_at=before.claimed_at or now,
            lease_until=until,
            lease_fingerprint=requests[n].request_fingerprint,
        )
        results[n] = msgspec.structs.replace(pending[n].granted, artifact=claimed)
    return results


def _host_class(host: str, sender_domain: str) -> HostClass:
    """Reveal of a refused host only whether it is its sender's own."""
    if not host:
        return "none"
    own = bool(sender_domain) and f".{host}".endswith(f".{sender_domain}")
    return "sender" if own else "other"


class Grants:
    """Grants and releases artifacts; claims share commits."""

    def __init__(self, database: Database, resolver: ClaimResolver, telemetry: Telemetry) -> None:
        self.resolver = resolver
        self._database = database
        self._telemetry = telemetry
        self._rows = telemetry.commit_rows.labels("artifacts")
        self._group: GroupCommit[ArtifactClaimRequest, ClaimResult] = GroupCommit(
            database, resolver.claim, committed=self._after_commit
        )

    async def request(self, request: ArtifactClaimRequest) -> ClaimResult:
        """Return the result of a claim after its commit.

        Raises: StoreUnavailable.
        """
        result = await self._group.submit(request)
        faults.point("artifacts.granted")
        return result

    async def claim(
        self, claimant: ArtifactClaimant, artifact_id: str, request: bytes = b""
    ) -> ClaimGranted:
        """Grant an artifact to a claim; the same request gets it again.

        Raises: NotFound, AlreadyClaimed, ArtifactInFlight, ArtifactUsed, ArtifactSuperseded,
        ArtifactUnmatched, ArtifactPurged, LinkRefused, MailDecryptionFailed, StoreUnavailable.
        """
        result = await self.request(
            ArtifactClaimRequest(
                claimant=claimant, request_fingerprint=request, artifact_id=artifact_id
            )
        )
        if isinstance(result, ClaimGranted):
            return result
        raise grant_error(result, self._database.clock())

    async def use(self, requester: Requester, artifact_id: str) -> Artifact:
        """Record that the claimant has used an artifact; return it.

        Raises: NotFound, AlreadyClaimed, StateConflict, StoreUnavailable.
        """
        now = self._database.clock()
        used = await self._database.write(confirm_used, requester, artifact_id, now)
        self._telemetry.artifacts.labels(used.kind.value, "used").inc()
        return used

    async def release(self, requester: Requester, artifact_id: str, entry: AuditEntry) -> Artifact:
        """Release an artifact from its claim, on the decision of a person.

        Raises: NotFound, StateConflict, StoreUnavailable.
        """
        released = await self._database.write(release, requester, artifact_id, entry)
        self._telemetry.artifacts.labels(released.kind.value, "released").inc()
        self._database.notify(MESSAGES)
        return released

    def _after_commit(self, batch: Sequence[tuple[ArtifactClaimRequest, ClaimResult]]) -> None:
        self._rows.observe(len(batch))
        for (kind, end), count in Counter(_metric_labels(result) for _, result in batch).items():
            if kind:
                self._telemetry.artifacts.labels(kind, end).inc(count)


def claimant_of(requester: Requester, claim_key: str | None = None) -> ArtifactClaimant:
    """Return the claimant of a request."""
    return ArtifactClaimant(
        tenant=requester.tenant,
        key_id=requester.key or _TERMINAL_KEY,
        owner=requester.owner,
        claim_key=claim_key,
    )


def grant_error(result: ClaimDenied | ClaimConflict | None, now: int) -> OnceboxError:
    """Return the error of a claim that was not granted; it quotes no text of a sender."""
    if isinstance(result, ClaimConflict):
        return ArtifactConflict(
            f"{len(result.artifact_ids)} are equally good ({result.why}); "
            "name a sender or a purpose, or claim one of them by its id"
        )
    if result is None or result.artifact is None:
        return NotFound("there is no such artifact")
    if result.why == "link_refused":
        return LinkRefused(
            f"the link policy refuses it: {result.reason} (host: {result.host}); "
            + _link_remedy(result.reason, result.artifact.inbox_id)
        )
    if result.why == "in_flight":
        left = max(0, (result.artifact.lease_until or 0) - now) / 1000
        return ArtifactInFlight(
            f"another worker of this attempt holds it for {left:.0f} s more; do not request "
            "another one, but try again then",
            retry_after=left,
        )
    if result.why == "superseded":
        newer = result.artifact.superseded_by
        return ArtifactSuperseded(f"a newer one has replaced it: claim {newer}")
    error, message = _DENIALS[result.why]
    return error(message)


#: reasons of the link policy for which no entry of ``link_hosts`` helps
_NOT_PUBLIC = frozenset({
    "scheme", "ip_literal", "single_label", "internal_name", "port_not_allowed",
})  # fmt: skip


def _link_remedy(reason: str, inbox_id: str) -> str:
    """Return how to allow a link; its host is not named, because its sender chose it."""
    command = f"oncebox inbox change-policy {inbox_id}"
    if reason in _NOT_PUBLIC:
        return (
            "if it leads to a system of yours that is not public, an operator allows its origin: "
            f"{command} --link-origin http://HOST:PORT"
        )
    return f"name its host in the wait (host=HOST), or allow it: {command} --link-host HOST"


_DENIALS: dict[str, tuple[type[OnceboxError], str]] = {
    "already_claimed": (
        AlreadyClaimed,
        "another claim has it; do not request another one, but find out who claimed it",
    ),
    "used": (
        ArtifactUsed,
        "a worker of this attempt has used it; for a newer one, pass its sequence as after",
    ),
    "unmatched": (
        ArtifactUnmatched,
        "its message does not match the inbox's policy; an operator can read the message",
    ),
    "not_opened": (
        MailDecryptionFailed,
        "its value is damaged or was encrypted with another key; restore it from a backup",
    ),
    "purged": (
        ArtifactPurged,
        "its value was overwritten after its retention time (ONCEBOX_RETENTION__ARTIFACTS)",
    ),
}


def _metric_labels(result: ClaimResult) -> tuple[str, str]:
    """Return the kind of an artifact and the outcome of a claim."""
    if isinstance(result, ClaimGranted):
        return result.artifact.kind.value, "repeated" if result.repeated else "granted"
    if isinstance(result, ClaimConflict):
        return result.kind.value, "conflict"
    if result is None or result.artifact is None:
        return "", ""
    return result.artifact.kind.value, result.why
