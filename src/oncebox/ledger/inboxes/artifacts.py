"""Artifacts: codes and links are filed with their message, each value once, and stand in order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from oncebox import faults, ids
from oncebox.errors import DatabaseBusy, NotFound
from oncebox.ledger.events import outbox
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.model.artifact import (
    PROVEN,
    TOO_EARLY,
    Artifact,
    ArtifactState,
    NewArtifact,
    joined,
    parted,
)
from oncebox.model.candidate import Kind
from oncebox.model.choice import Choice, Standing, choose, standings, unclaimed_state, warned
from oncebox.model.event import EventType, NewEvent
from oncebox.model.filing import Filing, safe_domain, sender_verdict, storable
from oncebox.model.verdict import Result
from oncebox.store.database import Row, Transaction, Value
from oncebox.store.queries import load

_sql = load(__package__, "artifacts.sql")

#: artifacts of an inbox among which the choice is made, proven and unproven ones each
_MOST = 50
#: what comes after every id
_END = "~"
_FIELDS = Artifact.__struct_fields__
_KINDS, _STATES = {each.value: each for each in Kind}, {each.value: each for each in ArtifactState}
_warnings = msgspec.json.Decoder(tuple[str, ...])

#: an inbox and a kind, among whose artifacts one is meant
Field = tuple[str, Kind]


class Brought(NamedTuple):
    """A new message and its place, whose artifacts are to be filed."""

    filing: Filing
    sequence: int
    attempt_id: str | None
    #: when its inbox was made
    inbox_since: int


class _New(NamedTuple):
    """One artifact of such a message."""

    brought: Brought
    artifact: NewArtifact

    @property
    def field(self) -> Field:
        return (self.brought.filing.inbox_id, self.artifact.kind)

    @property
    def mark(self) -> tuple[str, str, bytes]:
        return (*self.field, self.artifact.mark)

    @property
    def early(self) -> bool:
        """Whether its message came before there was an inbox for it."""
        return self.brought.filing.delivery.received_at < self.brought.inbox_since

    @property
    def matched(self) -> bool:
        """Whether it is what the inbox expects."""
        return self.brought.filing.matched and self.artifact.matched and not self.early

    @property
    def verdict(self) -> str:
        """Say in one word whether its sender is proven, as far as that covers it."""
        filing = self.brought.filing
        found = sender_verdict(filing.parsed, filing.document.verdict)
        return found if self.artifact.vouched or found != PROVEN else str(Result.NONE)


def file(
    tx: Transaction, messages: Iterable[Brought], now: int, new_id: ids.NewId = ids.new
) -> dict[str, list[tuple[Kind, str]]]:
    """File the artifacts of new messages; say by message what became of each.

    Whoever files has locked the inboxes. A value that its inbox has already makes no second
    artifact. How all stand among each other, and what is told of it, is the same commit.

    Raises: DatabaseBusy, when a value was overwritten in this very moment.
    """
    every = [_New(each, new) for each in messages for new in each.filing.artifacts]
    if not every:
        return {}
    shown = _insert(tx, every)
    fields = _fields(tx, {each.field for each in every})
    standing = _stand(tx, fields)
    told = {shown[each.artifact.id]: each for each in every if each.artifact.id in shown}
    outbox.record(tx, [*_available(told, standing, now), *_conflicts(told, fields, now, new_id)])
    faults.point("artifacts.filed")
    ends: defaultdict[str, list[tuple[Kind, str]]] = defaultdict(list)
    for each in every:
        end = _end(shown.get(each.artifact.id), standing)
        ends[each.brought.filing.message_id].append((each.artifact.kind, end))
    return ends


def candidates(tx: Transaction, wanted: Iterable[Field]) -> dict[Field, list[Artifact]]:
    """Return the artifacts of inboxes of which one may be meant."""
    return _fields(tx, set(wanted))


def page(  # noqa: PLR0913 - which ones, for whom, and how many
    tx: Transaction,
    asker: Asker,
    inbox_id: str,
    *,
    kind: Kind | None = None,
    state: ArtifactState | None = None,
    before: str = _END,
    most: int = 50,
) -> list[Artifact]:
    """Return the artifacts of an inbox, newest first.

    Raises: NotFound, when there is no such inbox for who asks.
    """
    if tx.one(_sql.inbox, id=inbox_id, tenant=asker.tenant, owner=asker.owner) is None:
        message = "there is no such inbox"
        raise NotFound(message)
    where: dict[str, Value] = {
        "inbox_id": inbox_id,
        "tenant": asker.tenant,
        "before": before,
        "most": most,
    }
    return [artifact(row) for row in tx.all(_sql.page, kind=kind, state=state, **where)]


def get(tx: Transaction, asker: Asker, id_: str) -> Artifact:
    """Return one artifact, without what it says.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=asker.tenant, owner=asker.owner)
    if row is None:
        message = "there is no such artifact; list them with: oncebox artifact list INBOX"
        raise NotFound(message)
    return artifact(row)


def artifact(row: Row) -> Artifact:
    """Return an artifact from a row that has its columns in the order of its fields."""
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    values["matched"], values["tied"] = bool(values["matched"]), bool(values["tied"])
    values["purposes"] = parted(values["purposes"])
    values["kind"], values["state"] = _KINDS[values["kind"]], _STATES[values["state"]]
    values["warnings"] = _warnings.decode(values["warnings"])
    return Artifact(**values)


# writing


def _insert(tx: Transaction, every: Sequence[_New]) -> dict[str, str]:
    """Write what is new and look again at what is not.

    Return which artifact stands for each that there is something to tell of: those that were
    kept, and those that make an artifact match that did not before.
    """
    ordered = sorted(every, key=lambda each: (each.mark, each.artifact.id))
    rows = [_row(each) for each in {each.mark: each for each in reversed(ordered)}.values()]
    shown = {str(id_): str(id_) for (id_,) in tx.many(_sql.insert, sorted(rows))}
    again = [each for each in ordered if each.artifact.id not in shown]
    # One after the other: where two of a batch say more than what is there, the better one wins.
    for each in again:
        known = tx.many(_sql.seen_again, [each.mark])
        if not known:
            message = "what the artifact says was overwritten in this moment; try again"
            raise DatabaseBusy(message)
        better = tx.run_many(_sql.better, [_sighting(each)])
        if better and not known[0][1] and each.matched:
            shown[each.artifact.id] = str(known[0][0])
    return shown


def _row(new: _New) -> Row:
    brought, own = new.brought, new.artifact
    filing = brought.filing
    return (
        own.id, filing.delivery.tenant, filing.inbox_id, brought.attempt_id, filing.message_id,
        brought.sequence, own.kind.value, own.mark, own.sealed, own.rank, own.confidence,
        int(own.tied), *_facts(new),
    )  # fmt: skip


def _sighting(new: _New) -> Row:
    brought, own = new.brought, new.artifact
    return (
        *new.mark, brought.filing.message_id, brought.sequence, own.rank, own.confidence,
        int(own.tied), *_facts(new),
    )  # fmt: skip


def _facts(new: _New) -> Row:
    """Return what the message says of an artifact."""
    filing, own = new.brought.filing, new.artifact
    warnings = (*own.warnings, TOO_EARLY) if new.early else own.warnings
    return (
        int(new.matched), joined(own.purposes), storable(own.sender),
        safe_domain(filing.parsed.sender.domain), new.verdict, int(new.verdict == PROVEN),
        filing.delivery.received_at, own.signed_at, msgspec.json.encode(warnings),
    )  # fmt: skip


# how they stand


def _fields(tx: Transaction, fields: set[Field]) -> dict[Field, list[Artifact]]:
    rows = sorted((inbox, kind.value, proven) for inbox, kind in fields for proven in (0, 1))
    found: dict[Field, list[Artifact]] = {field: [] for field in fields}
    for each in map(artifact, tx.many(_sql.newest, rows, most=_MOST) if rows else ()):
        found[each.inbox_id, each.kind].append(each)
    return found


def _stand(tx: Transaction, fields: dict[Field, list[Artifact]]) -> dict[str, Standing]:
    """Write down how artifacts stand now; return it by id."""
    found: dict[str, Standing] = {}
    rows = []
    for field in fields.values():
        standing = standings(field)
        found |= standing
        rows += [_stood(each, standing[each.id]) for each in field]
    changed = [row for row in rows if row is not None]
    if changed:
        tx.run_many(_sql.stand, sorted(changed))
    return found


def _stood(each: Artifact, standing: Standing) -> Row | None:
    """Return what changes about an artifact; nothing if it stands as before."""
    state = unclaimed_state(standing)
    warnings = warned(each.warnings, standing)
    same = each.claimed or each.state is state
    if same and (each.superseded_by, each.warnings) == (standing.superseded_by, warnings):
        return None
    return (each.id, state.value, standing.superseded_by, msgspec.json.encode(warnings))


def _end(id_: str | None, standing: dict[str, Standing]) -> str:
    """Say in one word what became of an artifact that was filed, by the one that stands for it."""
    if id_ is None:
        return "duplicate"
    stands = standing.get(id_)
    if stands is None:
        return "unmatched"
    return unclaimed_state(stands).value


# what is told


def _available(
    told: Mapping[str, _New], standing: dict[str, Standing], now: int
) -> Iterable[NewEvent]:
    for id_, each in told.items():
        stands = standing.get(id_)
        if stands is not None and stands.superseded_by is None:
            yield _told(id_, each, now)


def _told(id_: str, new: _New, now: int) -> NewEvent:
    filing = new.brought.filing
    return NewEvent(
        id=new.artifact.event_id,
        tenant=filing.delivery.tenant,
        type=EventType.ARTIFACT_AVAILABLE,
        inbox_id=filing.inbox_id,
        attempt_id=new.brought.attempt_id,
        subject_id=id_,
        at=now,
        data={
            "artifact_id": id_,
            "kind": new.artifact.kind.value,
            "confidence": new.artifact.confidence / 1000,
            "sender_domain": safe_domain(filing.parsed.sender.domain),
            "sender_verdict": new.verdict,
            "sequence": new.brought.sequence,
        },
    )


def _conflicts(
    told: Mapping[str, _New], fields: dict[Field, list[Artifact]], now: int, new_id: ids.NewId
) -> Iterable[NewEvent]:
    """Tell of the fields where something new makes it unclear which one is meant."""
    arrived: defaultdict[Field, dict[str, _New]] = defaultdict(dict)
    for id_, each in told.items():
        arrived[each.field][id_] = each
    for field, own in arrived.items():
        choice = choose(fields[field])
        if choice.why is not None and not own.keys().isdisjoint(choice.conflict):
            yield _contested(next(iter(own.values())), choice, now, new_id)


def _contested(new: _New, choice: Choice, now: int, new_id: ids.NewId) -> NewEvent:
    filing = new.brought.filing
    return NewEvent(
        id=new_id("evt"),
        tenant=filing.delivery.tenant,
        type=EventType.ARTIFACT_CONFLICT,
        inbox_id=filing.inbox_id,
        attempt_id=new.brought.attempt_id,
        subject_id=filing.inbox_id,
        at=now,
        data={
            "kind": new.artifact.kind.value,
            "artifact_ids": list(choice.conflict),
            "why": choice.why,
        },
    )
