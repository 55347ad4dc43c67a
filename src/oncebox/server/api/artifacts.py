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
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.inboxes.wait_filter import WaitFilter, check_filter
from oncebox.schemas import artifacts as wire
from oncebox.server.api.inboxes import requester
from oncebox.server.http.cursors import (
    AFTER_ALL_IDS,
    ResumeTokens,
    WaitProgress,
    make_page,
    page_start,
)
from oncebox.server.http.routing import AGENT, OPERATOR, ApiCall, Route

_LIST = "/v1/inboxes/{id}/artifacts"
_ONE = "/v1/artifacts/{id}"
_ARTIFACT_SCOPES = frozenset({AGENT, OPERATOR})


async def list_artifacts(call: ApiCall) -> wire.ArtifactPage:
    """Return artifacts of an inbox, newest first."""
    query: wire.ArtifactQuery = call.query
    route = _LIST.format(id=call.path["id"])
    found = await call.components.ledger.read(
        artifacts.page,
        requester(call),
        call.path["id"],
        kind=None if query.kind is UNSET else query.kind,
        state=None if query.state is UNSET else query.state,
        before=page_start(call, route, AFTER_ALL_IDS),
        most=query.limit + 1,
    )
    return make_page(
        call,
        route,
        wire.ArtifactPage,
        found,
        lambda each: artifact_schema(each, call),
        lambda each: each.id,
    )


async def get_artifact(call: ApiCall) -> wire.Artifact:
    """Return one artifact, without what it says."""
    found = await call.components.ledger.read(artifacts.get, requester(call), call.path["id"])
    return artifact_schema(found, call)


async def claim_artifact(call: ApiCall) -> wire.Grant:
    """Grant an artifact, once; to the same claim again and again."""
    asked: wire.ClaimArtifact = call.body
    who = claimant_of(requester(call), asked.claim_key)
    return grant_schema(await call.components.grants.claim(who, call.path["id"]), call)


async def release_artifact(call: ApiCall) -> wire.Artifact:
    """Take an artifact back from who has claimed it."""
    asked: wire.ReleaseArtifact = call.body
    released = await call.components.grants.release(
        requester(call), call.path["id"], call.audit_entry(asked.why)
    )
    return artifact_schema(released, call)


def artifact_schema(artifact: Artifact, call: ApiCall) -> wire.Artifact:
    """Return an artifact as it is told to who asks; nothing in it is a sender's text."""
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
    """Return an artifact with what it says, for who has claimed it."""
    told = structs.asdict(artifact_schema(granted.artifact, call))
    link = None
    if granted.link is not None:
        link = wire.GrantedLink(
            host=granted.link.host,
            token=granted.link.token,
            parameters=list(granted.link.parameters),
        )
    return wire.Grant(**told, value=granted.value.value, link=link, repeated=granted.repeated)


def _claim_schema(artifact: Artifact, call: ApiCall) -> wire.ArtifactClaim | None:
    if artifact.claimed_at is None:
        return None
    return wire.ArtifactClaim(at=artifact.claimed_at, mine=artifact.claimed_by == call.key.id)


ARTIFACT_ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listArtifacts",
        summary="Show the codes and links that came to an inbox, newest first; not what they say.",
        scopes=_ARTIFACT_SCOPES,
        query=wire.ArtifactQuery,
        answer=wire.ArtifactPage,
        handler=list_artifacts,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getArtifact",
        summary="Show one artifact; not what it says.",
        scopes=_ARTIFACT_SCOPES,
        answer=wire.Artifact,
        handler=get_artifact,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/claim",
        name="claimArtifact",
        summary="Get what an artifact says. It is granted once; the same claim gets it again.",
        scopes=_ARTIFACT_SCOPES,
        body=wire.ClaimArtifact,
        answer=wire.Grant,
        handler=claim_artifact,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/release",
        name="releaseArtifact",
        summary="Take an artifact back from who has claimed it; the audit keeps why.",
        scopes=frozenset({OPERATOR}),
        body=wire.ReleaseArtifact,
        answer=wire.Artifact,
        handler=release_artifact,
    ),
)


_WAIT_SCOPES = frozenset({AGENT, OPERATOR})
#: what keeps somebody from ever getting it, however long the wait
_FINAL_REFUSALS = frozenset({"already_claimed", "link_refused", "not_opened"})


async def wait_for_artifact(call: ApiCall) -> wire.WaitResult:
    """Wait for something in one inbox."""
    return await _wait_counted(call, (call.path["id"],))


async def wait_for_any_artifact(call: ApiCall) -> wire.WaitResult:
    """Wait for something in any of several inboxes."""
    return await _wait_counted(call, tuple(dict.fromkeys(call.body.inboxes)))


async def _wait_counted(call: ApiCall, inboxes: tuple[str, ...]) -> wire.WaitResult:
    """Wait, and count how it ended."""
    waits_by_end = call.components.telemetry.waits
    try:
        answer = await _wait_and_claim(call, inboxes)
    except OnceboxError as error:
        waits_by_end.labels(error.code).inc()
        raise
    waits_by_end.labels(answer.status).inc()
    return answer


async def _wait_and_claim(call: ApiCall, inboxes: tuple[str, ...]) -> wire.WaitResult:
    """Look for matches whenever an inbox advances, until one is granted or the time is over."""
    asked: wire.WaitRequest = call.body
    query = WaitQuery(
        requester=requester(call), key=call.key, inboxes=inboxes, awaited=_awaited(asked)
    )
    resumes = ResumeTokens(
        call.components.master_key,
        tenant=call.tenant,
        key=call.key.id,
        inboxes=inboxes,
        asked=asked,
    )
    progress = WaitProgress(call.now) if asked.resume is None else resumes.read(asked.resume)
    async with call.join_longpoll(inboxes, asked.wait) as waiter:
        while True:
            answer = await _try_to_claim(call, query, await waiter.look(query))
            if answer is not None:
                return answer
            if not await waiter.wait():
                break
    return wire.WaitResult(
        status="timeout",
        resume=resumes.make(progress),
        waited=max(0, call.now - progress.began_at) / 1000,
        reports=await _reports(call, query),
    )


async def _try_to_claim(
    call: ApiCall, query: WaitQuery, matches: Sequence[InboxMatches]
) -> wire.WaitResult | None:
    """Claim a match; None if there is none yet."""
    who = claimant_of(query.requester, query.awaited.claim_key)
    contested: wire.WaitConflict | None = None
    refusals: list[OnceboxError] = []
    for match_ in _claim_order(call, who, matches):
        outcome = await call.components.grants.request(
            ArtifactClaimRequest(claimant=who, artifact_filter=match_.artifact_filter)
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
    call: ApiCall, who: ArtifactClaimant, matches: Sequence[InboxMatches]
) -> list[InboxMatches]:
    """Return the matches that have something: first those with what is the claimant's already.

    So whoever asks again, because an answer was lost, gets the same and not one more.
    """
    holds = call.components.grants.resolver.holds

    def turn(match_: InboxMatches) -> tuple[bool, bool]:
        mine = any(holds(who, each) for each in match_.found)
        return (not mine, all(each.claimed for each in match_.found))

    return sorted((each for each in matches if each.found), key=turn)


def _awaited(asked: wire.WaitRequest) -> WaitFilter:
    """Return what is waited for, as it is compared.

    Raises: InboxInvalid.
    """
    return check_filter(
        WaitFilter(
            kind=ArtifactKind(asked.kind),
            sender=asked.sender,
            purpose=Purpose(asked.purpose),
            token=asked.token,
            subject=asked.subject,
            recipient=asked.recipient,
            claim_key=asked.claim_key,
            after=asked.after,
            host=asked.host,
        )
    )


def _granted_schema(call: ApiCall, outcome: ClaimGranted) -> wire.WaitResult:
    if not outcome.repeated:
        seconds = max(0, call.now - outcome.artifact.received_at) / 1000
        call.components.telemetry.grant_seconds.observe(seconds)
    return wire.WaitResult(status="granted", grant=grant_schema(outcome, call))


def _conflict_schema(match_: InboxMatches, outcome: ClaimConflict) -> wire.WaitConflict:
    return wire.WaitConflict(
        inbox_id=match_.inbox.id, why=outcome.why, artifact_ids=list(outcome.artifact_ids)
    )


async def _reports(call: ApiCall, query: WaitQuery) -> list[wire.WaitReport]:
    read = call.components.ledger.read
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


WAIT_ROUTES = (
    Route(
        method="POST",
        path="/v1/inboxes/{id}/wait",
        name="waitForArtifact",
        summary="Wait up to 55 seconds for a code or link that fits, and claim it.",
        scopes=_WAIT_SCOPES,
        body=wire.WaitRequest,
        answer=wire.WaitResult,
        handler=wait_for_artifact,
    ),
    Route(
        method="POST",
        path="/v1/inboxes/wait",
        name="waitForAnyArtifact",
        summary="Wait up to 55 seconds for a code or link in any of several inboxes, and claim it.",
        scopes=_WAIT_SCOPES,
        body=wire.WaitAnyRequest,
        answer=wire.WaitResult,
        handler=wait_for_any_artifact,
    ),
)
