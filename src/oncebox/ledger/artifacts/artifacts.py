"""Artifacts as stored: filed with their message, one row per value, list and get."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from oncebox.core import faults, ids
from oncebox.db.database import Row, Transaction, Value
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, NotFound
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.events import event_log
from oncebox.model.events import EventType, NewEvent
from oncebox.model.inboxes.artifact import (
    BEFORE_INBOX,
    PROVEN_VERDICT,
    Artifact,
    ArtifactChoice,
    ArtifactState,
    NewArtifact,
    Supersession,
    choose_artifact,
    join_purposes,
    split_purposes,
    supersessions,
    unclaimed_state,
    update_warnings,
)
from oncebox.model.inboxes.message import NewMessage, safe_domain, sender_verdict, storable_text
from oncebox.model.inboxes.received_mail import ArtifactKind, AuthResult

_sql = load(__package__, "artifacts.sql")

#: artifacts of an inbox among which the choice is made, proven and unproven ones each
_MOST_CANDIDATES = 50
#: what comes after every id
_AFTER_ALL_IDS = "~"
_FIELDS = Artifact.__struct_fields__
_KINDS, _STATES = (
    {each.value: each for each in ArtifactKind},
    {each.value: each for each in ArtifactState},
)
_warnings_decoder = msgspec.json.Decoder(tuple[str, ...])

#: an inbox and a kind, among whose artifacts one is meant
InboxKind = tuple[str, ArtifactKind]


class FiledMessage(NamedTuple):
    """A new message and its place, whose artifacts are to be filed."""

    filing: NewMessage
    sequence: int
    attempt_id: str | None
    #: when its inbox was made
    inbox_created_at: int


class _IncomingArtifact(NamedTuple):
    """One artifact of such a message."""

    message: FiledMessage
    artifact: NewArtifact

    @property
    def inbox_kind(self) -> InboxKind:
        return (self.message.filing.inbox_id, self.artifact.kind)

    @property
    def fingerprint(self) -> tuple[str, str, bytes]:
        return (*self.inbox_kind, self.artifact.fingerprint)

    @property
    def is_early(self) -> bool:
        """Whether its message came before there was an inbox for it."""
        return self.message.filing.delivery.received_at < self.message.inbox_created_at

    @property
    def matched(self) -> bool:
        """Whether it is what the inbox expects."""
        return self.message.filing.matched and self.artifact.matched and not self.is_early

    @property
    def verdict(self) -> str:
        """Say in one word whether its sender is proven, as far as that covers it."""
        filing = self.message.filing
        found = sender_verdict(filing.parsed, filing.document.verdict)
        return found if self.artifact.vouched or found != PROVEN_VERDICT else str(AuthResult.NONE)


def file(
    tx: Transaction, messages: Iterable[FiledMessage], now: int, new_id: ids.NewId = ids.new
) -> dict[str, list[tuple[ArtifactKind, str]]]:
    """File the artifacts of new messages; say by message what became of each.

    Whoever files has locked the inboxes. A value that its inbox has already makes no second
    artifact. How all stand among each other, and what is told of it, is the same commit.

    Raises: DatabaseBusy, when a value was overwritten in this very moment.
    """
    every = [_IncomingArtifact(each, new) for each in messages for new in each.filing.artifacts]
    if not every:
        return {}
    shown = _insert_artifacts(tx, every)
    fields = _newest_by_kind(tx, {each.inbox_kind for each in every})
    standing = _update_states(tx, fields)
    told = {shown[each.artifact.id]: each for each in every if each.artifact.id in shown}
    event_log.record(
        tx, [*_available_events(told, standing, now), *_conflict_events(told, fields, now, new_id)]
    )
    faults.point("artifacts.filed")
    ends: defaultdict[str, list[tuple[ArtifactKind, str]]] = defaultdict(list)
    for each in every:
        end = _filing_outcome(shown.get(each.artifact.id), standing)
        ends[each.message.filing.message_id].append((each.artifact.kind, end))
    return ends


def candidates(tx: Transaction, wanted: Iterable[InboxKind]) -> dict[InboxKind, list[Artifact]]:
    """Return the artifacts of inboxes of which one may be meant."""
    return _newest_by_kind(tx, set(wanted))


def page(  # noqa: PLR0913 - which ones, for whom, and how many
    tx: Transaction,
    asker: Requester,
    inbox_id: str,
    *,
    kind: ArtifactKind | None = None,
    state: ArtifactState | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[Artifact]:
    """Return the artifacts of an inbox, newest first.

    Raises: NotFound, when there is no such inbox for who asks.
    """
    if tx.one(_sql.inbox, id=inbox_id, tenant=asker.tenant, owner=asker.owner) is None:
        raise NotFound("there is no such inbox")
    where: dict[str, Value] = {
        "inbox_id": inbox_id,
        "tenant": asker.tenant,
        "before": before,
        "most": most,
    }
    return [to_artifact(row) for row in tx.all(_sql.page, kind=kind, state=state, **where)]


def get(tx: Transaction, asker: Requester, id_: str) -> Artifact:
    """Return one artifact, without what it says.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=asker.tenant, owner=asker.owner)
    if row is None:
        raise NotFound("there is no such artifact; list them with: oncebox artifact list INBOX")
    return to_artifact(row)


def to_artifact(row: Row) -> Artifact:
    """Return an artifact from a row that has its columns in the order of its fields."""
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    values["matched"], values["tied"] = bool(values["matched"]), bool(values["tied"])
    values["purposes"] = split_purposes(values["purposes"])
    values["kind"], values["state"] = _KINDS[values["kind"]], _STATES[values["state"]]
    values["warnings"] = _warnings_decoder.decode(values["warnings"])
    return Artifact(**values)


# writing


def _insert_artifacts(tx: Transaction, every: Sequence[_IncomingArtifact]) -> dict[str, str]:
    """Write what is new and look again at what is not.

    Return which artifact stands for each that there is something to tell of: those that were
    kept, and those that make an artifact match that did not before.
    """
    ordered = sorted(every, key=lambda each: (each.fingerprint, each.artifact.id))
    rows = [
        _artifact_row(each)
        for each in {each.fingerprint: each for each in reversed(ordered)}.values()
    ]
    shown = {str(id_): str(id_) for (id_,) in tx.many(_sql.insert, sorted(rows))}
    again = [each for each in ordered if each.artifact.id not in shown]
    # One after the other: where two of a batch say more than what is there, the better one wins.
    for each in again:
        known = tx.many(_sql.seen_again, [each.fingerprint])
        if not known:
            raise DatabaseBusy("what the artifact says was overwritten in this moment; try again")
        better = tx.run_many(_sql.better, [_repeat_row(each)])
        if better and not known[0][1] and each.matched:
            shown[each.artifact.id] = str(known[0][0])
    return shown


def _artifact_row(new: _IncomingArtifact) -> Row:
    brought, own = new.message, new.artifact
    filing = brought.filing
    return (
        own.id, filing.delivery.tenant, filing.inbox_id, brought.attempt_id, filing.message_id,
        brought.sequence, own.kind.value, own.fingerprint, own.encrypted, own.rank, own.confidence,
        int(own.tied), *_message_columns(new),
    )  # fmt: skip


def _repeat_row(new: _IncomingArtifact) -> Row:
    brought, own = new.message, new.artifact
    return (
        *new.fingerprint, brought.filing.message_id, brought.sequence, own.rank, own.confidence,
        int(own.tied), *_message_columns(new),
    )  # fmt: skip


def _message_columns(new: _IncomingArtifact) -> Row:
    """Return what the message says of an artifact."""
    filing, own = new.message.filing, new.artifact
    warnings = (*own.warnings, BEFORE_INBOX) if new.is_early else own.warnings
    return (
        int(new.matched), join_purposes(own.purposes), storable_text(own.sender),
        safe_domain(filing.parsed.sender.domain), new.verdict, int(new.verdict == PROVEN_VERDICT),
        filing.delivery.received_at, own.signed_at, msgspec.json.encode(warnings),
    )  # fmt: skip


# how they stand


def _newest_by_kind(tx: Transaction, fields: set[InboxKind]) -> dict[InboxKind, list[Artifact]]:
    rows = sorted((inbox, kind.value, proven) for inbox, kind in fields for proven in (0, 1))
    found: dict[InboxKind, list[Artifact]] = {field: [] for field in fields}
    for each in map(to_artifact, tx.many(_sql.newest, rows, most=_MOST_CANDIDATES) if rows else ()):
        found[each.inbox_id, each.kind].append(each)
    return found


def _update_states(
    tx: Transaction, fields: dict[InboxKind, list[Artifact]]
) -> dict[str, Supersession]:
    """Write down how artifacts stand now; return it by id."""
    found: dict[str, Supersession] = {}
    rows = []
    for field in fields.values():
        standing = supersessions(field)
        found |= standing
        rows += [_changed_row(each, standing[each.id]) for each in field]
    changed = [row for row in rows if row is not None]
    if changed:
        tx.run_many(_sql.stand, sorted(changed))
    return found


def _changed_row(each: Artifact, standing: Supersession) -> Row | None:
    """Return what changes about an artifact; nothing if it stands as before."""
    state = unclaimed_state(standing)
    warnings = update_warnings(each.warnings, standing)
    same = each.claimed or each.state is state
    if same and (each.superseded_by, each.warnings) == (standing.superseded_by, warnings):
        return None
    return (each.id, state.value, standing.superseded_by, msgspec.json.encode(warnings))


def _filing_outcome(id_: str | None, standing: dict[str, Supersession]) -> str:
    """Say in one word what became of an artifact that was filed, by the one that stands for it."""
    if id_ is None:
        return "duplicate"
    stands = standing.get(id_)
    if stands is None:
        return "unmatched"
    return unclaimed_state(stands).value


# what is told


def _available_events(
    told: Mapping[str, _IncomingArtifact], standing: dict[str, Supersession], now: int
) -> Iterable[NewEvent]:
    for id_, each in told.items():
        stands = standing.get(id_)
        if stands is not None and stands.superseded_by is None:
            yield _available_event(id_, each, now)


def _available_event(id_: str, new: _IncomingArtifact, now: int) -> NewEvent:
    filing = new.message.filing
    return NewEvent(
        id=new.artifact.event_id,
        tenant=filing.delivery.tenant,
        type=EventType.ARTIFACT_AVAILABLE,
        inbox_id=filing.inbox_id,
        attempt_id=new.message.attempt_id,
        subject_id=id_,
        at=now,
        data={
            "artifact_id": id_,
            "kind": new.artifact.kind.value,
            "confidence": new.artifact.confidence / 1000,
            "sender_domain": safe_domain(filing.parsed.sender.domain),
            "sender_verdict": new.verdict,
            "sequence": new.message.sequence,
        },
    )


def _conflict_events(
    told: Mapping[str, _IncomingArtifact],
    fields: dict[InboxKind, list[Artifact]],
    now: int,
    new_id: ids.NewId,
) -> Iterable[NewEvent]:
    """Tell of the fields where something new makes it unclear which one is meant."""
    arrived: defaultdict[InboxKind, dict[str, _IncomingArtifact]] = defaultdict(dict)
    for id_, each in told.items():
        arrived[each.inbox_kind][id_] = each
    for field, own in arrived.items():
        choice = choose_artifact(fields[field])
        if choice.why is not None and not own.keys().isdisjoint(choice.conflict):
            yield _conflict_event(next(iter(own.values())), choice, now, new_id)


def _conflict_event(
    new: _IncomingArtifact, choice: ArtifactChoice, now: int, new_id: ids.NewId
) -> NewEvent:
    filing = new.message.filing
    return NewEvent(
        id=new_id("evt"),
        tenant=filing.delivery.tenant,
        type=EventType.ARTIFACT_CONFLICT,
        inbox_id=filing.inbox_id,
        attempt_id=new.message.attempt_id,
        subject_id=filing.inbox_id,
        at=now,
        data={
            "kind": new.artifact.kind.value,
            "artifact_ids": list(choice.conflict),
            "why": choice.why,
        },
    )
