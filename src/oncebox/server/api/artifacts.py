"""``/v1/artifacts`` and ``/v1/inboxes/wait``: codes and links, claimed or waited for."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, structs

from oncebox.errors import OnceboxError
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.claims import claimant_of, grant_error
from oncebox.ledger.inboxes import longpoll
from oncebox.ledger.inboxes.longpoll import InboxMatches, InboxReport, WaitQuery
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactClaimant,
    ArtifactClaimRequest,
    ClaimConflict,
    ClaimDenied,
    ClaimGranted,
)
from oncebox.model.inboxes.wait_filter import WaitFilter, check_filter
from oncebox.schemas import artifacts as wire
from oncebox.server.http.cursors import ResumeTokens, make_page, page_start
from oncebox.server.http.routing import AGENTS, OPERATORS, ApiCall, Routes

routes = Routes()
#: refusals that no further mail can change
_FINAL_REFUSALS = frozenset({"already_claimed", "link_refused", "not_opened"})


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
    """Claim a code or link and get its value; repeating the same claim gets it again."""
    who = claimant_of(call.requester, call.body.claim_key)
    granted = await call.components.grants.claim(who, call.path["id"])
    _log_granted(call, granted)
    return grant_schema(granted, call)


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
    """Wait up to 55 seconds for a matching code or link, and claim it."""
    return await _wait_counted(call, (call.path["id"],))


@routes("POST", "/v1/inboxes/wait", "waitForAnyArtifact", scopes=AGENTS, body=wire.WaitAnyRequest)
async def wait_for_any_artifact(call: ApiCall) -> wire.WaitResult:
    """Wait up to 55 seconds for a code or link in any of several inboxes, and claim it."""
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
    )


def grant_schema(granted: ClaimGranted, call: ApiCall) -> wire.Grant:
    """Return an artifact with its value, for its claimant."""
    return wire.Grant(
        **structs.asdict(artifact_schema(granted.artifact, call)),
        value=granted.value.value,
        link=msgspec.convert(granted.link, wire.GrantedLink | None, from_attributes=True),
        repeated=granted.repeated,
    )


def _claim_schema(artifact: Artifact, call: ApiCall) -> wire.ArtifactClaim | None:
    if artifact.claimed_at is None:
        return None
    return wire.ArtifactClaim(at=artifact.claimed_at, mine=artifact.claimed_by == call.key.id)


async def _wait_counted(call: ApiCall, inboxes: tuple[str, ...]) -> wire.WaitResult:
    """Wait, and count how it ended."""
    waits = call.components.telemetry.waits
    try:
        answer = await _wait_and_claim(call, inboxes)
    except OnceboxError as error:
        waits.labels(error.code).inc()
        raise
    waits.labels(answer.status).inc()
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
        for name in ("sender", "purpose", "subject", "recipient", "host", "after")
        if (value := getattr(asked, name)) not in {None, 0, "any"}
    }
    contested = answer.conflict.artifact_ids if answer.conflict else None
    call.components.telemetry.log.info(
        "wait_ended",
        request=call.request_id,
        status=answer.status,
        inboxes=list(inboxes),
        attempts=sorted({each.attempt_id for each in answer.reports if each.attempt_id}),
        kind=asked.kind,
        criteria=criteria | ({"token": True} if asked.token is not None else {}),
        waited=answer.waited,
        inspected=sum(each.messages_inspected for each in answer.reports),
        smtp_saw=any(each.smtp_saw for each in answer.reports),
        artifacts=contested,
        api_key=call.key.id,
    )


async def _wait_and_claim(call: ApiCall, inboxes: tuple[str, ...]) -> wire.WaitResult:
    """Look for matches whenever an inbox changes, until one is granted or the time is over."""
    asked: wire.WaitRequest = call.body
    query = WaitQuery(
        requester=call.requester, key=call.key, inboxes=inboxes, awaited=_awaited(asked)
    )
    claimant = claimant_of(call.requester, asked.claim_key)
    resumes = ResumeTokens(call, inboxes)
    began_at = call.ledger.clock() if asked.resume is None else resumes.read(asked.resume)
    async with call.join_longpoll(inboxes, asked.wait) as waiter:
        while True:
            answer = await _try_to_claim(call, query, claimant, await waiter.look(query))
            if answer is not None:
                return answer
            if not await waiter.wait():
                break
    return wire.WaitResult(
        status="timeout",
        resume=resumes.make(began_at),
        waited=max(0, call.ledger.clock() - began_at) / 1000,
        reports=await _reports(call, query),
    )


async def _try_to_claim(
    call: ApiCall,
    query: WaitQuery,
    claimant: ArtifactClaimant,
    matches: Sequence[InboxMatches],
) -> wire.WaitResult | None:
    """Claim a match; None if there is none yet."""
    contested: wire.WaitConflict | None = None
    refusals: list[OnceboxError] = []
    for match_ in _claim_order(call, claimant, matches):
        outcome = await call.components.grants.request(
            ArtifactClaimRequest(claimant=claimant, artifact_filter=match_.artifact_filter)
        )
        if isinstance(outcome, ClaimGranted):
            return _granted_schema(call, outcome)
        if isinstance(outcome, ClaimConflict):
            contested = contested or _conflict_schema(match_, outcome)
        elif isinstance(outcome, ClaimDenied) and outcome.why in _FINAL_REFUSALS:
            refusals.append(grant_error(outcome))
    if contested is not None:
        reports = await _reports(call, query)
        return wire.WaitResult(status="conflict", conflict=contested, reports=reports)
    over = sum(match_.is_over and not match_.found for match_ in matches)
    if len(refusals) + over < len(matches):
        return None
    if refusals:
        raise refusals[0]
    return wire.WaitResult(status="inbox_closed", reports=await _reports(call, query))


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
    return check_filter(msgspec.convert(asked, WaitFilter, from_attributes=True))


def _granted_schema(call: ApiCall, outcome: ClaimGranted) -> wire.WaitResult:
    _log_granted(call, outcome)
    if not outcome.repeated:
        seconds = max(0, call.ledger.clock() - outcome.artifact.received_at) / 1000
        call.components.telemetry.grant_seconds.observe(seconds)
    return wire.WaitResult(status="granted", grant=grant_schema(outcome, call))


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
    )
