"""Claims: an artifact is granted once; the same claim reads it again, another does not."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from oncebox import faults
from oncebox.errors import DatabaseBusy, MasterKeyWrong, StateConflict
from oncebox.ledger.inboxes import artifacts
from oncebox.ledger.inboxes.artifacts import Field
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.ledger.inboxes.strongbox import Strongbox
from oncebox.ledger.office import audit
from oncebox.ledger.office.audit import Deed
from oncebox.model.artifact import Artifact, ArtifactState, Link
from oncebox.model.candidate import Kind
from oncebox.model.choice import choose
from oncebox.model.grant import (
    Ask,
    Claimant,
    Contested,
    Denied,
    Granted,
    HostClass,
    Outcome,
    Wish,
)
from oncebox.model.inbox import InboxPolicy
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "claims.sql")

#: looks after which somebody always has taken what was free a moment ago
_MOST_LOOKS = 5


class Judged(Protocol):
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
JudgeLink = Callable[[str, InboxPolicy], Judged]
#: the tenant of an inbox, and the key that made it
_Owner = tuple[str, str | None]


class _Row(NamedTuple):
    """An artifact with what is needed to grant it."""

    artifact: Artifact
    sealed: bytes
    owner: str | None
    policy: bytes


class _Take(NamedTuple):
    """An ask that can be granted, if nobody is faster."""

    granted: Granted
    mark: bytes
    #: what took the place of the artifact and is passed over; empty if nothing did
    past: str


class Clerk:
    """Grants artifacts, many at a time, in whatever transaction it is given."""

    def __init__(self, strongbox: Strongbox, judge_link: JudgeLink) -> None:
        """Open artifacts with this strongbox, and let out what this judge allows."""
        self._strongbox = strongbox
        self._judge_link = judge_link

    def claim(self, tx: Transaction, asks: Sequence[Ask], now: int) -> list[Outcome]:
        """Answer claims in order, each as if it were alone.

        What was free when it was looked at is taken only if it still is; who is too late looks
        again. Two claims of one call for the same artifact are two looks.

        Raises: DatabaseBusy.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = dict(enumerate(asks))
        for _ in range(_MOST_LOOKS):
            found = self._look(tx, waiting)
            outcomes |= {n: each for n, each in found.items() if not isinstance(each, _Take)}
            takes = {n: each for n, each in found.items() if isinstance(each, _Take)}
            outcomes |= _taken(tx, waiting, takes, now)
            waiting = {n: ask for n, ask in waiting.items() if n not in outcomes}
            if not waiting:
                faults.point("artifacts.claimed")
                return [outcomes[n] for n in range(len(asks))]
        message = "others keep taking what is asked for; try again"
        raise DatabaseBusy(message)

    def choose(self, tx: Transaction, asks: Sequence[Ask]) -> list[bool]:
        """Say for each ask whether there is anything to answer it with; changes nothing."""
        found = self._look(tx, dict(enumerate(asks)))
        return [found[n] is not None for n in range(len(asks))]

    def _look(self, tx: Transaction, asks: dict[int, Ask]) -> dict[int, Outcome | _Take]:
        """Return what would come of asks as things are now."""
        wishes = {n: ask.wish for n, ask in asks.items() if ask.wish is not None}
        fields: set[Field] = {(wish.inbox_id, wish.kind) for wish in wishes.values()}
        owners = _owners(tx, (inbox for inbox, _kind in fields))
        candidates = artifacts.candidates(tx, fields)
        hosts = self._hosts(tx, wishes.values(), candidates)
        found: dict[int, Outcome | _Take] = {}
        past: dict[int, str] = {}
        meant = {n: ask.artifact_id or "" for n, ask in asks.items() if ask.wish is None}
        for n, wish in wishes.items():
            claimant = asks[n].claimant
            if not _may_see(claimant, owners.get(wish.inbox_id)):
                found[n] = Denied(why="not_found")
                continue
            fitting = _fitting(wish, candidates[wish.inbox_id, wish.kind], hosts)
            mark = self._mark(claimant, fitting[0]) if fitting else None
            choice = choose(fitting, mark)
            if choice.artifact is not None:
                meant[n] = choice.artifact.id
                past[n] = _past(wish, choice.artifact, candidates[wish.inbox_id, wish.kind])
            elif choice.why is None:
                found[n] = None
            else:
                found[n] = Contested(kind=wish.kind, artifact_ids=choice.conflict, why=choice.why)
        rows = _named(tx, meant.values())
        return found | {
            n: self._judged(asks[n], rows.get(id_), past.get(n, "")) for n, id_ in meant.items()
        }

    def holds(self, claimant: Claimant, artifact: Artifact) -> bool:
        """Say whether an artifact is a claimant's already."""
        return artifact.belongs_to(self._mark(claimant, artifact))

    def _hosts(
        self,
        tx: Transaction,
        wishes: Iterable[Wish],
        candidates: Mapping[Field, Sequence[Artifact]],
    ) -> dict[str, str]:
        """Return where links lead, by id, of which a host is asked for; each is opened once."""
        asked = {(wish.inbox_id, wish.kind) for wish in wishes if wish.host}
        rows = _named(tx, (each.id for field in asked for each in candidates[field]))
        return {id_: self._host(row) for id_, row in rows.items()}

    def _host(self, row: _Row) -> str:
        try:
            value = self._strongbox.open(row.artifact.tenant, row.artifact.id, row.sealed)
        except MasterKeyWrong:
            return ""
        return self._judge_link(value.value, _policy(row)).host

    def _mark(self, claimant: Claimant, artifact: Artifact) -> bytes:
        claim_key = claimant.claim_key or artifact.attempt_id or artifact.inbox_id
        return self._strongbox.claim_mark(claimant.tenant, claimant.key_id, claim_key)

    def _judged(self, ask: Ask, row: _Row | None, past: str) -> Outcome | _Take:
        """Say what comes of a claim of this very artifact, where ``past`` does not count."""
        claimant = ask.claimant
        if row is None or not _may_see(claimant, (row.artifact.tenant, row.owner)):
            return Denied(why="not_found")
        artifact, mark = row.artifact, self._mark(claimant, row.artifact)
        own = artifact.belongs_to(mark)
        if artifact.purged_at is not None:
            return Denied(why="purged", artifact=artifact)
        if artifact.claimed and not own:
            return Denied(why="already_claimed", artifact=artifact)
        replaced = artifact.state is ArtifactState.SUPERSEDED and artifact.superseded_by != past
        if not own and replaced:
            return Denied(why="superseded", artifact=artifact)
        if not own and not artifact.matched:
            return Denied(why="unmatched", artifact=artifact)
        host = "" if ask.wish is None else ask.wish.host
        granted = self._opened(row, host, repeated=own)
        return granted if own or isinstance(granted, Denied) else _Take(granted, mark, past)

    def _opened(self, row: _Row, host: str, *, repeated: bool) -> Granted | Denied:
        """Return what an artifact says; a link only as far as the policy lets it out."""
        artifact = row.artifact
        try:
            value = self._strongbox.open(artifact.tenant, artifact.id, row.sealed)
        except MasterKeyWrong:  # others share this commit, and what is damaged is not theirs
            return Denied(why="not_opened", artifact=artifact)
        if artifact.kind is not Kind.LINK:
            return Granted(artifact=artifact, value=value, repeated=repeated)
        judged = self._judge_link(value.value, _policy(row, host))
        if repeated and not judged.allowed:
            # It was granted by naming its host; whoever reads it again need not name it.
            judged = self._judge_link(value.value, _policy(row, judged.host))
        if not judged.allowed:
            leads = _host_class(judged.host, artifact.sender_domain)
            return Denied(why="link_refused", artifact=artifact, reason=judged.reason, host=leads)
        return Granted(
            artifact=artifact,
            value=msgspec.structs.replace(value, value=judged.canonical),
            link=Link(host=judged.host, token=judged.token, parameters=judged.parameters),
            repeated=repeated,
        )


def release(tx: Transaction, asker: Asker, id_: str, deed: Deed) -> Artifact:
    """Take an artifact back from who has claimed it, so that it can be claimed again.

    Raises: NotFound; StateConflict, when nobody has claimed it.
    """
    found = artifacts.get(tx, asker, id_)
    if not tx.run(_sql.release, id=id_, tenant=asker.tenant):
        message = "nobody has claimed this artifact, so there is nothing to release"
        raise StateConflict(message)
    holder = f"claimed by {found.claimed_by}" if found.claimed_by else ""
    audit.record(tx, deed, "artifact.release", id_, holder)
    return artifacts.get(tx, asker, id_)


def _named(tx: Transaction, wanted: Iterable[str]) -> dict[str, _Row]:
    ids = sorted(set(wanted))
    rows = tx.many(_sql.named, [(id_,) for id_ in ids]) if ids else []
    found = (_row(row) for row in rows)
    return {each.artifact.id: each for each in found}


def _row(row: Row) -> _Row:
    *fields, sealed, owner, policy = row
    return _Row(artifacts.artifact(tuple(fields)), bytes(sealed), owner, bytes(policy))


def _policy(row: _Row, host: str = "") -> InboxPolicy:
    """Return what an inbox lets out; where it names no host, the one that is asked for."""
    policy = msgspec.json.decode(row.policy, type=InboxPolicy)
    if policy.link_hosts or not host:
        return policy
    return msgspec.structs.replace(policy, link_hosts=(host,))


def _fitting(
    wish: Wish, candidates: Sequence[Artifact], hosts: Mapping[str, str]
) -> list[Artifact]:
    """Return the artifacts that a wish describes."""
    fitting = [each for each in candidates if wish.fits(each)]
    if wish.host:
        fitting = [each for each in fitting if hosts.get(each.id) == wish.host]
    if not wish.by_domain:
        return fitting
    # As if each domain were one sender, without what is known to be older.
    return [
        msgspec.structs.replace(each, sender=each.sender and each.sender_domain)
        for each in fitting
        if each.state is not ArtifactState.SUPERSEDED or _past(wish, each, candidates)
    ]


def _past(wish: Wish, artifact: Artifact, candidates: Iterable[Artifact]) -> str:
    """Return what took the place of an artifact, if that is known not to be wanted."""
    if not wish.passed_over or artifact.superseded_by is None:
        return ""
    newer = (each for each in candidates if each.id == artifact.superseded_by)
    return next((each.id for each in newer if each.message_id in wish.passed_over), "")


def _owners(tx: Transaction, inboxes: Iterable[str]) -> dict[str, _Owner]:
    ids = sorted(set(inboxes))
    rows = tx.many(_sql.owners, [(id_,) for id_ in ids]) if ids else []
    return {str(id_): (str(tenant), owner) for id_, tenant, owner in rows}


def _may_see(claimant: Claimant, owner: _Owner | None) -> bool:
    """Say whether an inbox is there for who claims: an agent sees those that its key made."""
    if owner is None or owner[0] != claimant.tenant:
        return False
    return claimant.owner is None or owner[1] == claimant.owner


def _taken(
    tx: Transaction, asks: dict[int, Ask], takes: dict[int, _Take], now: int
) -> dict[int, Outcome]:
    """Take what is still free; of several who want the same one, the first."""
    first: dict[str, int] = {}
    for n, take in sorted(takes.items()):
        first.setdefault(take.granted.artifact.id, n)
    rows = [
        (id_, asks[n].claimant.tenant, asks[n].claimant.key_id, takes[n].mark, takes[n].past)
        for id_, n in sorted(first.items())
    ]
    if not rows:
        return {}
    won = {str(id_) for (id_,) in tx.many(_sql.take, rows, now=now)}
    return {
        n: _with_claim(takes[n], asks[n].claimant, now) for id_, n in first.items() if id_ in won
    }


def _with_claim(take: _Take, claimant: Claimant, now: int) -> Granted:
    claimed = msgspec.structs.replace(
        take.granted.artifact,
        state=ArtifactState.CLAIMED,
        claimed_by=claimant.key_id,
        claim_mark=take.mark,
        claimed_at=now,
    )
    return msgspec.structs.replace(take.granted, artifact=claimed)


def _host_class(host: str, sender_domain: str) -> HostClass:
    """Say of a refused host only whether it is its sender's own."""
    if not host:
        return "none"
    own = bool(sender_domain) and f".{host}".endswith(f".{sender_domain}")
    return "sender" if own else "other"
