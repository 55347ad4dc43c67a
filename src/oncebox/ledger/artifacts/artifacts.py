"""Artifacts as stored: filed with their message or when it is claimed, one row per value."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from oncebox.core import faults, ids
from oncebox.db.database import Row, SentStatement, Transaction
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, NotFound
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.ciphers import ArtifactCipher, attempt_fingerprint
from oncebox.model.events import EventData, EventType, NewEvent
from oncebox.model.inboxes.addresses import organisational_domain
from oncebox.model.inboxes.artifact import (
    BEFORE_INBOX,
    PROVEN_VERDICT,
    Artifact,
    ArtifactChoice,
    ArtifactState,
    ArtifactValue,
    AwaitedMessage,
    CandidateKey,
    NewArtifact,
    Supersession,
    choose_artifact,
    supersessions,
)
from oncebox.model.inboxes.message import NewMessage, storable_text
from oncebox.model.inboxes.received_mail import ArtifactKind, AuthResult

_sql = load(__package__, "artifacts.sql")

#: artifacts of an inbox, or of a sender in it, among which the choice is made, proven and unproven
#: ones each
_MOST_CANDIDATES = 50
#: sorts after every id
_AFTER_ALL_IDS = "~"
_FIELDS = Artifact.__struct_fields__
_KINDS = {each.value: each for each in ArtifactKind}
_STATES = {each.value: each for each in ArtifactState}
_warnings_decoder = msgspec.json.Decoder(tuple[str, ...])

#: an inbox and a kind, whose artifacts replace each other
InboxKind = tuple[str, ArtifactKind]


class FiledMessage(NamedTuple):
    """A new message and its number, whose artifacts are to be filed."""

    filing: NewMessage
    sequence: int
    attempt_id: str | None
    inbox_created_at: int


class _IncomingArtifact(NamedTuple):
    """One artifact of such a message."""

    message: FiledMessage
    artifact: NewArtifact
    inbox_kind: InboxKind
    #: its message is older than the inbox
    is_early: bool
    #: whether the inbox's policy matches
    matched: bool
    #: the verdict on its sender, as far as that covers it
    verdict: str

    @property
    def fingerprint(self) -> tuple[str, str, bytes]:
        return (*self.inbox_kind, self.artifact.fingerprint)


#: kind and outcome of each artifact, by message
FilingOutcomes = dict[str, list[tuple[ArtifactKind, str]]]


def file(
    tx: Transaction, messages: Iterable[FiledMessage], now: int, new_id: ids.NewId = ids.new
) -> tuple[FilingOutcomes, list[NewEvent]]:
    """File the artifacts of new messages; return their outcomes, and the events to record.

    The caller has locked the inboxes. A value that its inbox has already makes no second
    artifact, and one that another inbox of the attempt has is claimed there. Supersessions and
    events belong to the same commit.

    Raises: DatabaseBusy, when a value was overwritten or filed elsewhere at the same moment.
    """
    every = [_incoming(each, artifact) for each in messages for artifact in each.filing.artifacts]
    if not every:
        return {}, []
    stored_as, newest = _insert_artifacts(tx, every)
    choices = {key[:2]: choose_artifact(known) for key, known in newest.items()}
    places = {
        id_: place for known in newest.values() for id_, place in supersessions(known).items()
    }
    _update_states(tx, newest.values(), places)
    claimed = {each.id for known in newest.values() for each in known if each.claimed}
    new = {
        stored_as[each.artifact.id]: each
        for each in every
        if each.artifact.id in stored_as and stored_as[each.artifact.id] not in claimed
    }
    faults.point("artifacts.filed")
    outcomes: defaultdict[str, list[tuple[ArtifactKind, str]]] = defaultdict(list)
    elsewhere = {each.id for known in newest.values() for each in known if each.same_as}
    for each in every:
        stored = stored_as.get(each.artifact.id)
        outcome = _filing_outcome(None if stored in elsewhere else stored, places)
        outcomes[each.message.filing.message_id].append((each.artifact.kind, outcome))
    return outcomes, [
        *_available_events(new, places, now),
        *_conflict_events(new, choices, now, new_id),
    ]


class SentCandidates(NamedTuple):
    """The query for the candidates of choices."""

    wanted: frozenset[CandidateKey]
    statement: SentStatement

    def read(self) -> dict[CandidateKey, list[Artifact]]:
        """Return the candidates of each choice, each artifact once."""
        found: defaultdict[tuple[str, ArtifactKind, str], dict[str, Artifact]] = defaultdict(dict)
        for sender, *row in self.statement.rows():
            artifact = to_artifact(tuple(row))
            found[artifact.inbox_id, artifact.kind, sender][artifact.id] = artifact
        choices = {}
        for key in self.wanted:
            own: dict[str, Artifact] = {}
            for sender in ("", *key.senders):
                own |= found[key.inbox_id, key.kind, sender]
            choices[key] = list(own.values())
        return choices


def candidates(
    tx: Transaction, wanted: Iterable[CandidateKey]
) -> dict[CandidateKey, list[Artifact]]:
    """Return the candidates of choices."""
    return send_candidates(tx, wanted).read()


def send_candidates(tx: Transaction, wanted: Iterable[CandidateKey]) -> SentCandidates:
    """Send the query for the candidates of choices."""
    keys = frozenset(wanted)
    rows = {
        (key.inbox_id, key.kind.value, sender, proven)
        for key in keys
        for sender in ("", *key.senders)
        for proven in (0, 1)
    }
    return SentCandidates(keys, tx.send_many(_sql.newest, sorted(rows), most=_MOST_CANDIDATES))


def of_messages(tx: Transaction, messages: Iterable[str]) -> dict[str, Artifact]:
    """Return the artifacts of messages that were claimed as such, by message."""
    rows = tx.many(_sql.of_messages, sorted((id_,) for id_ in set(messages)))
    return {each.message_id: each for each in map(to_artifact, rows)}


def file_awaited(
    tx: Transaction, cipher: ArtifactCipher, awaited: Iterable[AwaitedMessage]
) -> set[str]:
    """Store messages as artifacts, to be claimed; return the ids of those that are free.

    One that another claim has stored at the same time, or another inbox of the attempt, is not.
    """
    rows = sorted(_awaited_row(cipher, each) for each in awaited)
    return {str(id_) for id_, same_as in tx.many(_sql.insert, rows) if same_as is None}


def page(  # noqa: PLR0913 - which artifacts, for whom, and how many
    tx: Transaction,
    requester: Requester,
    inbox_id: str,
    *,
    kind: ArtifactKind | None = None,
    state: ArtifactState | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[Artifact]:
    """Return the artifacts of an inbox, newest first.

    Raises: NotFound, when the requester has no such inbox.
    """
    tenant = requester.tenant
    if tx.one(_sql.inbox, id=inbox_id, tenant=tenant, owner=requester.owner) is None:
        raise NotFound("there is no such inbox")
    rows = tx.all(
        _sql.page,
        inbox_id=inbox_id,
        tenant=tenant,
        kind=kind,
        state=state,
        before=before,
        most=most,
    )
    return [to_artifact(row) for row in rows]


def get(tx: Transaction, requester: Requester, id_: str) -> Artifact:
    """Return one artifact, without its value.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=requester.tenant, owner=requester.owner)
    if row is None:
        raise NotFound("there is no such artifact; list them with: oncebox artifact list INBOX")
    return to_artifact(row)


def to_artifact(row: Row) -> Artifact:
    """Return an artifact from a row with its columns in the order of its fields."""
    values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    values["matched"], values["tied"] = bool(values["matched"]), bool(values["tied"])
    values["purposes"] = tuple(filter(None, values["purposes"].split(",")))
    values["kind"], values["state"] = _KINDS[values["kind"]], _STATES[values["state"]]
    values["warnings"] = _warnings_decoder.decode(values["warnings"])
    return Artifact(**values)


# writing


def _incoming(message: FiledMessage, artifact: NewArtifact) -> _IncomingArtifact:
    filing = message.filing
    is_early = filing.delivery.received_at < message.inbox_created_at
    covered = artifact.vouched or filing.sender_verdict != PROVEN_VERDICT
    return _IncomingArtifact(
        message,
        artifact,
        inbox_kind=(filing.inbox_id, artifact.kind),
        is_early=is_early,
        matched=not filing.document.mismatch and artifact.matched and not is_early,
        verdict=filing.sender_verdict if covered else AuthResult.NONE.value,
    )


def _candidate_keys(every: Iterable[_IncomingArtifact]) -> list[CandidateKey]:
    """Return one choice per inbox and kind, with the senders of what is filed there now."""
    senders: defaultdict[InboxKind, set[str]] = defaultdict(set)
    for each in every:
        domain = each.message.filing.sender_domain
        senders[each.inbox_kind] |= {organisational_domain(domain)} if domain else set()
    return [CandidateKey(*place, tuple(sorted(names))) for place, names in senders.items()]


def _insert_artifacts(
    tx: Transaction, every: Sequence[_IncomingArtifact]
) -> tuple[dict[str, str], dict[CandidateKey, list[Artifact]]]:
    """Insert new values and count repeated ones.

    Return the stored artifact of each that an event reports: the new ones, and those whose
    repeat makes a stored artifact match that did not match before. Return also the candidates
    of the choices, as they are now.
    """
    ordered = sorted(every, key=lambda each: (each.fingerprint, each.artifact.id))
    first = {each.fingerprint: each for each in reversed(ordered)}
    inserted = tx.send_many(_sql.insert, sorted(map(_artifact_row, first.values())))
    wanted = _candidate_keys(every)
    newest = send_candidates(tx, wanted)
    stored_as = {str(id_): str(id_) for id_, _same_as in inserted.rows()}
    repeats = [each for each in ordered if each.artifact.id not in stored_as]
    # One after the other: where two repeats are better than the stored one, the better one wins.
    for each in repeats:
        known = tx.many(_sql.seen_again, [each.fingerprint])
        if not known and tx.many(_sql.insert, [_artifact_row(each)]):
            # Another inbox of the attempt got the same value in this very call.
            stored_as[each.artifact.id] = each.artifact.id
            continue
        if not known:
            raise DatabaseBusy("the same value was filed or overwritten just now; try again")
        better = tx.run_many(_sql.better, [_repeat_row(each)])
        if better and not known[0][1] and each.matched:
            stored_as[each.artifact.id] = str(known[0][0])
    return stored_as, candidates(tx, wanted) if repeats else newest.read()


def _artifact_row(new: _IncomingArtifact) -> Row:
    message, own = new.message, new.artifact
    filing, attempt_id = message.filing, message.attempt_id
    in_attempt = attempt_fingerprint(own.value_fingerprint, attempt_id) if attempt_id else None
    return (
        own.id, filing.delivery.tenant, filing.inbox_id, attempt_id, filing.message_id,
        message.sequence, own.kind.value, own.fingerprint, in_attempt, own.encrypted, own.rank,
        own.confidence, int(own.tied), *_message_columns(new),
    )  # fmt: skip


def _awaited_row(cipher: ArtifactCipher, awaited: AwaitedMessage) -> Row:
    own, identity = awaited.artifact, awaited.identity
    unscoped = cipher.unscoped_fingerprint(own.tenant, own.kind, identity.hex())
    in_attempt = attempt_fingerprint(unscoped, own.attempt_id) if own.attempt_id else None
    sealed = cipher.encrypt(own.tenant, own.id, ArtifactValue(value=own.message_id))
    return (
        own.id, own.tenant, own.inbox_id, own.attempt_id, own.message_id, own.sequence,
        own.kind.value, identity, in_attempt, sealed, own.rank, own.confidence, int(own.tied),
        int(own.matched), ",".join(own.purposes), own.sender, own.sender_domain,
        organisational_domain(own.sender_domain), own.sender_verdict, int(own.proven),
        own.received_at, own.signed_at, msgspec.json.encode(own.warnings),
    )  # fmt: skip


def _repeat_row(new: _IncomingArtifact) -> Row:
    message, own = new.message, new.artifact
    return (
        *new.fingerprint, message.filing.message_id, message.sequence, own.rank, own.confidence,
        int(own.tied), *_message_columns(new),
    )  # fmt: skip


def _message_columns(new: _IncomingArtifact) -> Row:
    """Return the columns that depend on the message."""
    filing, own = new.message.filing, new.artifact
    warnings = (*own.warnings, BEFORE_INBOX) if new.is_early else own.warnings
    return (
        int(new.matched), ",".join(sorted(own.purposes)), storable_text(own.sender),
        filing.sender_domain, organisational_domain(filing.sender_domain), new.verdict,
        int(new.verdict == PROVEN_VERDICT), filing.delivery.received_at, own.signed_at,
        msgspec.json.encode(warnings),
    )  # fmt: skip


def _update_states(
    tx: Transaction, newest: Iterable[Sequence[Artifact]], places: Mapping[str, Supersession]
) -> None:
    rows = []
    for each in chain.from_iterable(newest):
        place = places[each.id]
        same = each.state in {place.state, ArtifactState.CLAIMED}
        if not same or (each.superseded_by, each.warnings) != (place.superseded_by, place.warnings):
            warnings = msgspec.json.encode(place.warnings)
            rows.append((each.id, place.state.value, place.superseded_by, warnings))
    tx.send_many(_sql.stand, sorted(rows))


def _filing_outcome(id_: str | None, places: Mapping[str, Supersession]) -> str:
    if id_ is None:
        return "duplicate"
    return places[id_].state.value if id_ in places else "unmatched"


# events


def _available_events(
    new: Mapping[str, _IncomingArtifact], places: Mapping[str, Supersession], now: int
) -> Iterable[NewEvent]:
    for id_, each in new.items():
        if id_ in places and places[id_].superseded_by is None:
            data = {
                "artifact_id": id_,
                "kind": each.artifact.kind.value,
                "confidence": each.artifact.confidence / 1000,
                "sender_domain": each.message.filing.sender_domain,
                "sender_verdict": each.verdict,
                "sequence": each.message.sequence,
            }
            yield _event(each.artifact.event_id, EventType.ARTIFACT_AVAILABLE, each, id_, data, now)


def _conflict_events(
    new: Mapping[str, _IncomingArtifact],
    choices: Mapping[InboxKind, ArtifactChoice],
    now: int,
    new_id: ids.NewId,
) -> Iterable[NewEvent]:
    """Report each inbox and kind in which a new artifact causes a conflict."""
    arrived: defaultdict[InboxKind, dict[str, _IncomingArtifact]] = defaultdict(dict)
    for id_, each in new.items():
        arrived[each.inbox_kind][id_] = each
    for (inbox_id, kind), own in arrived.items():
        choice = choices[inbox_id, kind]
        if choice.why is not None and not own.keys().isdisjoint(choice.conflict):
            first = next(iter(own.values()))
            data = {
                "kind": kind.value,
                "artifact_ids": list(choice.conflict),
                "why": choice.why,
            }
            yield _event(new_id("evt"), EventType.ARTIFACT_CONFLICT, first, inbox_id, data, now)


def _event(
    id_: str, type_: EventType, new: _IncomingArtifact, subject_id: str, data: EventData, now: int
) -> NewEvent:
    filing = new.message.filing
    return NewEvent(
        id=id_,
        tenant=filing.delivery.tenant,
        type=type_,
        inbox_id=filing.inbox_id,
        attempt_id=new.message.attempt_id,
        subject_id=subject_id,
        at=now,
        data=data,
    )
