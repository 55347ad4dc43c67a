"""``/v1/artifacts`` and ``/v1/inboxes/wait``: codes, links, messages, claimed or waited for."""

from collections.abc import Sequence
from math import inf

import msgspec
from msgspec import UNSET, structs

from oncebox.core import ids
from oncebox.errors import OnceboxError
from oncebox.errors.mail import ArtifactInFlight
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.claims import claimant_of, grant_error
from oncebox.ledger.inboxes import longpoll
from oncebox.ledger.inboxes.inbox_counts import CountName
from oncebox.ledger.inboxes.longpoll import InboxMatches, InboxReport, WaitQuery
from oncebox.model.attempts import request_fingerprint
from oncebox.model.inboxes.artifact import (
    ANY_SENDER,
    Artifact,
    ArtifactClaimant,
    ArtifactClaimRequest,
    ClaimConflict,
    ClaimDenied,
    ClaimGranted,
)
from oncebox.model.inboxes.inbox import policy_warnings
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.inboxes.wait_filter import WaitFilter, check_filter
from oncebox.schemas import artifacts as wire
from oncebox.server.api.messages import message_schema
from oncebox.server.http.cursors import ResumeTokens, make_page, page_start
from oncebox.server.http.routing import AGENTS, OPERATORS, ApiCall, Routes

routes = Routes()
#: refusals that no further mail can change
_FINAL_REFUSALS = frozenset({"already_claimed", "used", "link_refused", "not_opened"})
#: answers after which the client asks again, unless its time is over
_UNFINISHED = frozenset({"timeout", "in_flight"})
#: what a wait accepts, as far as it is logged
_LOGGED_CRITERIA = ("sender", "purpose", "subject", "recipient", "host", "has_attachment", "after")
#: seconds between two looks at an artifact that another worker holds
_SHORTEST_LEASE_POLL, _LONGEST_LEASE_POLL = 0.02, 1.0


@routes(
    "GET",
    "/v1/inboxes/{id}/artifacts",
    "listArtifacts",
    scopes=AGENTS,
    query=wire.ArtifactQuery,
)
async def list_artifacts(call: ApiCall) -> wire.ArtifactPage:
    """List the codes and links of an inbox, newest first, without their values."""
    query: wire.ArtifactQuery = call.query
    found = await call.ledger.read(
        artifacts.page,
        call.requester,
        call.path["id"],
        kind=None if query.kind is UNSET else query.kind,
        state=None if query.state is UNSET else query.state,
        before=page_start(call),
        most=query.limit + 1,
    )
    return make_page(call, wire.ArtifactPage, found, lambda each: artifact_schema(each, call))


@routes("GET", "/v1/artifacts/{id}", "getArtifact", scopes=AGENTS)
async def get_artifact(call: ApiCall) -> wire.Artifact:
    """Get a code or link, without its value."""
    found = await call.ledger.read(artifacts.get, call.requester, call.path["id"])
    return artifact_schema(found, call)


@routes("POST", "/v1/artifacts/{id}/claim", "claimArtifact", scopes=AGENTS, body=wire.ClaimArtifact)
async def claim_artifact(call: ApiCall) -> wire.Grant:
    """Claim a code or link and get its value; a repeat with the same request_key gets it again."""
    asked: wire.ClaimArtifact = call.body
    who, id_ = claimant_of(call.requester, asked.claim_key), call.path["id"]
    request = _request_fingerprint(call, asked.request_key)
    try:
        granted = await call.components.grants.claim(who, id_, request)
    except ArtifactInFlight:
        held = await call.ledger.read(artifacts.get, call.requester, id_)
        _count_lease_conflict(call, held.inbox_id)
        raise
    _log_granted(call, granted)
    return await grant_schema(granted, call)


@routes("POST", "/v1/artifacts/{id}/used", "useArtifact", scopes=AGENTS, body=wire.UseArtifact)
async def use_artifact(call: ApiCall) -> wire.Artifact:
    """Report that a claimed code or link was used, so that no other worker gets it."""
    return artifact_schema(await call.components.grants.use(call.requester, call.path["id"]), call)


@routes(
    "POST",
    "/v1/artifacts/{id}/release",
    "releaseArtifact",
    scopes=OPERATORS,
    body=wire.ReleaseArtifact,
)
async def release_artifact(call: ApiCall) -> wire.Artifact:
    """Release a claimed code or link; the reason goes into the audit log."""
    released = await call.components.grants.release(
        call.requester, call.path["id"], call.audit_entry(call.body.why)
    )
    return artifact_schema(released, call)


@routes("POST", "/v1/inboxes/{id}/wait", "waitForArtifact", scopes=AGENTS, body=wire.WaitRequest)
async def wait_for_artifact(call: ApiCall) -> wire.WaitResult:
    """Wait up to 55 seconds for a matching code, link or message, and claim it."""
    return await _wait_counted(call, (call.path["id"],))


@routes("POST", "/v1/inboxes/wait", "waitForAnyArtifact", scopes=AGENTS, body=wire.WaitAnyRequest)
async def wait_for_any_artifact(call: ApiCall) -> wire.WaitResult:
    """Wait up to 55 seconds for a code, link or message in any of several inboxes; claim it."""
    return await _wait_counted(call, tuple(dict.fromkeys(call.body.inboxes)))


def artifact_schema(artifact: Artifact, call: ApiCall) -> wire.Artifact:
    """Return an artifact without its value; no field holds text of the sender."""
    return wire.Artifact(
        id=artifact.id,
        inbox_id=artifact.inbox_id,
        message_id=artifact.message_id,
        sequence=artifact.sequence,
        kind=artifact.kind,
        state=artifact.state,
        confidence=artifact.confidence / 1000,
        tied=artifact.tied,
        matched=artifact.matched,
        sender=wire.ArtifactSender(
            domain=artifact.sender_domain,
            verdict=artifact.sender_verdict,  # type: ignore[arg-type]
        ),
        purposes=list(artifact.purposes),  # type: ignore[arg-type]
        received_at=artifact.received_at,
        duplicates=artifact.duplicates,
        warnings=list(artifact.warnings),
        superseded_by=artifact.superseded_by,
        claimed=_claim_schema(artifact, call),
        purged=artifact.purged_at is not None,
        same_as=artifact.same_as,
    )


async def grant_schema(granted: ClaimGranted, call: ApiCall) -> wire.Grant:
    """Return an artifact with its value, for its claimant; a message as far as its key may read."""
    artifact = granted.artifact
    is_message = artifact.kind is ArtifactKind.MESSAGE
    return wire.Grant(
        **structs.asdict(artifact_schema(artifact, call)),
        message=await message_schema(call, artifact.message_id) if is_message else UNSET,
        value=granted.value.value,
        link=msgspec.convert(granted.link, wire.GrantedLink | None, from_attributes=True),
        repeated=granted.repeated,
    )


def _claim_schema(artifact: Artifact, call: ApiCall) -> wire.ArtifactClaim | None:
    if artifact.claimed_at is None:
        return None
    return wire.ArtifactClaim(
        at=artifact.claimed_at,
        mine=artifact.claimed_by == call.key.id,
        lease_until=None if artifact.used_at else artifact.lease_until,
        used_at=artifact.used_at,
    )


def _request_fingerprint(call: ApiCall, request_key: str | None) -> bytes:
    """Return what identifies the worker; without a key every request is a worker of its own."""
    return request_fingerprint(call.key.id, request_key or ids.new("req"))


def _count_lease_conflict(call: ApiCall, inbox_id: str) -> None:
    call.components.telemetry.lease_conflicts.inc()
    call.components.inbox_counter.count(inbox_id, call.tenant, "lease_conflicts")


# waits


async def _wait_counted(call: ApiCall, inboxes: tuple[str, ...]) -> wire.WaitResult:
    """Wait, and count how it ended; of a wait of many polls only the last one counts."""
    telemetry = call.components.telemetry
    telemetry.poll_attempts.labels("artifacts").inc()
    wait = _Wait(call, inboxes)
    try:
        answer = await wait.run()
    except OnceboxError as error:
        if not error.retry_safe:
            telemetry.waits.labels(error.code).inc()
        raise
    if answer.status in _UNFINISHED:
        if not call.body.last:
            return answer
        telemetry.wait_timeouts.inc()
        _count_each(call, inboxes, "timeouts")
    if not wait.reread:
        telemetry.waits.labels(answer.status).inc()
    if answer.status != "granted":
        _log_wait(call, inboxes, answer)
    return answer


def _log_granted(call: ApiCall, granted: ClaimGranted) -> None:
    """Log which code or link was granted, never its value."""
    artifact = granted.artifact
    call.components.telemetry.log.info(
        "artifact_granted",
        request=call.request_id,
        artifact=artifact.id,
        inbox=artifact.inbox_id,
        attempt=artifact.attempt_id,
        kind=artifact.kind,
        api_key=call.key.id,
        repeated=granted.repeated,
    )


def _log_wait(call: ApiCall, inboxes: tuple[str, ...], answer: wire.WaitResult) -> None:
    """Log a wait in vain, with what was waited for; a token may be a secret."""
    asked: wire.WaitRequest = call.body
    criteria = {
        name: value
        for name in _LOGGED_CRITERIA
        if ((value := getattr(asked, name)) or value is False) and value != "any"
    }
    contested = answer.conflict.artifact_ids if answer.conflict else None
    call.components.telemetry.log.info(
        "wait_ended",
        request=call.request_id,
        status=answer.status,
        inboxes=list(inboxes),
        attempts=sorted({each.attempt_id for each in answer.reports if each.attempt_id}),
        cursors=[each.cursor for each in answer.reports],
        kind=asked.kind,
        criteria=criteria | ({"token": True} if asked.token is not None else {}),
        waited=answer.waited,
        inspected=sum(each.messages_inspected for each in answer.reports),
        smtp_saw=any(each.smtp_saw for each in answer.reports),
        artifacts=contested,
        api_key=call.key.id,
    )


class _Wait:
    """One poll of a wait: its query, its worker, and what it has met."""

    def __init__(self, call: ApiCall, inboxes: tuple[str, ...]) -> None:
        asked: wire.WaitRequest = call.body
        self._call = call
        self.query = WaitQuery(
            requester=call.requester, key=call.key, inboxes=inboxes, awaited=_awaited(asked)
        )
        self._claimant = claimant_of(call.requester, asked.claim_key)
        self._request = _request_fingerprint(call, asked.request_key)
        #: the grant repeats one whose answer was lost
        self.reread = False
        #: the artifact that another worker of the claim holds
        self._held: Artifact | None = None

    async def run(self) -> wire.WaitResult:
        """Look for matches whenever an inbox changes, until one is granted or the time is over."""
        call, query = self._call, self.query
        resumes = ResumeTokens(call, query.inboxes)
        now, token = call.ledger.clock(), call.body.resume
        began_at, contended = (now, False) if token is None else resumes.read(token)
        counted = False
        async with call.join_longpoll(query.inboxes, call.body.wait) as waiter:
            while True:
                matches = await waiter.look(query)
                if not counted:  # all inboxes are the requester's
                    counted = True
                    _count_each(call, query.inboxes, "polls")
                answer = await self._try_to_claim(matches)
                if answer is not None:
                    return answer
                if self._held is not None and not contended:
                    contended = True
                    _count_lease_conflict(call, self._held.inbox_id)
                if not await waiter.wait(self._pause()) and waiter.is_over:
                    break
        waited = max(0, call.ledger.clock() - began_at) / 1000
        return wire.WaitResult(
            status="timeout" if self._held is None else "in_flight",
            in_flight=UNSET if self._held is None else self._in_flight_schema(self._held),
            resume=resumes.make(began_at, contended=contended),
            waited=waited,
            reports=await _reports(call, query),
        )

    def _pause(self) -> float:
        """Return the seconds after which to look again, even if no inbox changes."""
        if self._held is None:
            return inf
        return min(_LONGEST_LEASE_POLL, max(_SHORTEST_LEASE_POLL, self._seconds_left(self._held)))

    def _seconds_left(self, held: Artifact) -> float:
        return max(0, (held.lease_until or 0) - self._call.ledger.clock()) / 1000

    def _in_flight_schema(self, held: Artifact) -> wire.WaitInFlight:
        return wire.WaitInFlight(
            artifact_id=held.id, inbox_id=held.inbox_id, seconds_left=self._seconds_left(held)
        )

    async def _try_to_claim(self, matches: Sequence[InboxMatches]) -> wire.WaitResult | None:
        """Claim a match; None if there is none yet, or another worker holds it."""
        call, self._held = self._call, None
        contested: wire.WaitConflict | None = None
        refusals: list[ClaimDenied] = []
        for match_ in _claim_order(call, self._claimant, matches):
            outcome = await call.components.grants.request(
                ArtifactClaimRequest(
                    claimant=self._claimant,
                    request_fingerprint=self._request,
                    artifact_filter=match_.artifact_filter,
                )
            )
            if isinstance(outcome, ClaimGranted):
                self.reread = outcome.reread
                return await _granted_schema(call, outcome, self.query.awaited)
            if isinstance(outcome, ClaimConflict):
                contested = contested or _conflict_schema(match_, outcome)
            if isinstance(outcome, ClaimDenied):
                if outcome.why == "in_flight":  # do not take another one of the attempt's
                    self._held = outcome.artifact
                    return None
                refusals.append(outcome)
        if contested is not None:
            reports = await _reports(call, self.query)
            return wire.WaitResult(status="conflict", conflict=contested, reports=reports)
        return await self._end_if_over(matches, refusals)

    async def _end_if_over(
        self, matches: Sequence[InboxMatches], refusals: Sequence[ClaimDenied]
    ) -> wire.WaitResult | None:
        """Return the answer, or raise the refusal, if no further mail can be granted."""
        final = [each for each in refusals if each.why in _FINAL_REFUSALS]
        over = sum(match_.is_over and not match_.found for match_ in matches)
        if len(final) + over < len(matches):
            return None
        if final:
            raise grant_error(final[0], self._call.ledger.clock())
        reports = await _reports(self._call, self.query)
        return wire.WaitResult(status="inbox_closed", reports=reports)


def _count_each(call: ApiCall, inboxes: tuple[str, ...], name: CountName) -> None:
    for id_ in inboxes:
        call.components.inbox_counter.count(id_, call.tenant, name)


def _claim_order(
    call: ApiCall, claimant: ArtifactClaimant, matches: Sequence[InboxMatches]
) -> list[InboxMatches]:
    """Return the inboxes with matches, those first in which the claimant already holds one.

    So a repeat after a lost answer is granted the same artifact, not another one.
    """
    holds = call.components.grants.resolver.holds

    def turn(match_: InboxMatches) -> tuple[bool, bool]:
        mine = any(holds(claimant, each) for each in match_.found)
        return (not mine, all(each.claimed for each in match_.found))

    return sorted((each for each in matches if each.found), key=turn)


def _awaited(asked: wire.WaitRequest) -> WaitFilter:
    """Return the normalised filter.

    Raises: InboxInvalid.
    """
    named = [] if asked.sender is None else asked.sender
    fields = structs.asdict(asked) | {"senders": [named] if isinstance(named, str) else named}
    return check_filter(msgspec.convert(fields, WaitFilter))


async def _granted_schema(
    call: ApiCall, outcome: ClaimGranted, awaited: WaitFilter
) -> wire.WaitResult:
    _log_granted(call, outcome)
    if not outcome.repeated:
        seconds = max(0, call.ledger.clock() - outcome.artifact.received_at) / 1000
        call.components.telemetry.grant_seconds.observe(seconds)
    grant = await grant_schema(outcome, call)
    if awaited.senders:  # whoever waits has named the sender
        warnings = [each for each in grant.warnings if each != ANY_SENDER]
        grant = structs.replace(grant, warnings=warnings)
    return wire.WaitResult(status="granted", grant=grant)


def _conflict_schema(match_: InboxMatches, outcome: ClaimConflict) -> wire.WaitConflict:
    return wire.WaitConflict(
        inbox_id=match_.inbox.id, why=outcome.why, artifact_ids=list(outcome.artifact_ids)
    )


async def _reports(call: ApiCall, query: WaitQuery) -> list[wire.WaitReport]:
    read = call.ledger.read
    return [
        _report_schema(
            await read(
                longpoll.explain_no_match,
                call.components.mail_cipher,
                query.requester,
                id_,
                query.awaited,
            )
        )
        for id_ in query.inboxes
    ]


def _report_schema(report: InboxReport) -> wire.WaitReport:
    return wire.WaitReport(
        inbox_id=report.inbox.id,
        attempt_id=report.inbox.attempt_id,
        state=report.inbox.state,
        cursor=report.inbox.cursor,
        messages_inspected=report.inspected,
        seen=[msgspec.convert(e, wire.InspectedMessage, from_attributes=True) for e in report.seen],
        smtp_saw=report.smtp_saw,
        unread=report.unread,
        warnings=list(policy_warnings(report.inbox.policy)),
    )
