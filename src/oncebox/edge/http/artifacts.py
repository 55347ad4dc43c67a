"""``/v1/artifacts``: codes and links, each granted once."""

from msgspec import UNSET, structs

from oncebox.edge.http.call import Call
from oncebox.edge.http.inboxes import asker
from oncebox.edge.http.pages import END, page, place
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.ledger.inboxes import artifacts
from oncebox.ledger.inboxes.grants import claimant
from oncebox.model.artifact import Artifact
from oncebox.model.grant import Granted
from oncebox.wire import artifacts as wire

_LIST = "/v1/inboxes/{id}/artifacts"
_ONE = "/v1/artifacts/{id}"
_SCOPES = frozenset({AGENT, OPERATOR})


async def list_(call: Call) -> wire.ArtifactPage:
    """Return artifacts of an inbox, newest first."""
    query: wire.ArtifactQuery = call.query
    route = _LIST.format(id=call.path["id"])
    found = await call.rooms.counter.read(
        artifacts.page,
        asker(call),
        call.path["id"],
        kind=None if query.kind is UNSET else query.kind,
        state=None if query.state is UNSET else query.state,
        before=place(call, route, END),
        most=query.limit + 1,
    )
    return page(
        call, route, wire.ArtifactPage, found, lambda each: shown(each, call), lambda each: each.id
    )


async def get(call: Call) -> wire.Artifact:
    """Return one artifact, without what it says."""
    found = await call.rooms.counter.read(artifacts.get, asker(call), call.path["id"])
    return shown(found, call)


async def claim(call: Call) -> wire.Grant:
    """Grant an artifact, once; to the same claim again and again."""
    asked: wire.ClaimArtifact = call.body
    who = claimant(asker(call), asked.claim_key)
    return grant(await call.rooms.grants.claim(who, call.path["id"]), call)


async def release(call: Call) -> wire.Artifact:
    """Take an artifact back from who has claimed it."""
    asked: wire.ReleaseArtifact = call.body
    released = await call.rooms.grants.release(asker(call), call.path["id"], call.deed(asked.why))
    return shown(released, call)


def shown(artifact: Artifact, call: Call) -> wire.Artifact:
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
        claimed=_claimed(artifact, call),
        purged=artifact.purged_at is not None,
    )


def grant(granted: Granted, call: Call) -> wire.Grant:
    """Return an artifact with what it says, for who has claimed it."""
    told = structs.asdict(shown(granted.artifact, call))
    link = None
    if granted.link is not None:
        link = wire.GrantedLink(
            host=granted.link.host,
            token=granted.link.token,
            parameters=list(granted.link.parameters),
        )
    return wire.Grant(**told, value=granted.value.value, link=link, repeated=granted.repeated)


def _claimed(artifact: Artifact, call: Call) -> wire.ArtifactClaim | None:
    if artifact.claimed_at is None:
        return None
    return wire.ArtifactClaim(at=artifact.claimed_at, mine=artifact.claimed_by == call.key.id)


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listArtifacts",
        summary="Show the codes and links that came to an inbox, newest first; not what they say.",
        scopes=_SCOPES,
        query=wire.ArtifactQuery,
        answer=wire.ArtifactPage,
        handler=list_,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getArtifact",
        summary="Show one artifact; not what it says.",
        scopes=_SCOPES,
        answer=wire.Artifact,
        handler=get,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/claim",
        name="claimArtifact",
        summary="Get what an artifact says. It is granted once; the same claim gets it again.",
        scopes=_SCOPES,
        body=wire.ClaimArtifact,
        answer=wire.Grant,
        handler=claim,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/release",
        name="releaseArtifact",
        summary="Take an artifact back from who has claimed it; the audit keeps why.",
        scopes=frozenset({OPERATOR}),
        body=wire.ReleaseArtifact,
        answer=wire.Artifact,
        handler=release,
    ),
)
