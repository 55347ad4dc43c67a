"""Artifacts: codes and links that came by mail, each granted once."""

from oncebox.client.call import Call, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.model.artifact import ArtifactState
from oncebox.model.candidate import Kind
from oncebox.wire import artifacts as wire


def list_(
    inbox_id: str, *, kind: Kind | str | None = None, state: ArtifactState | str | None = None
) -> Call[wire.ArtifactPage]:
    """Go through the artifacts of an inbox, newest first; not what they say."""
    return page(inbox_id, kind=kind, state=state)


def page(
    inbox_id: str,
    *,
    kind: Kind | str | None = None,
    state: ArtifactState | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[wire.ArtifactPage]:
    """Return some artifacts of an inbox, newest first; not what they say."""
    return paged(
        wire.ArtifactPage,
        path("inboxes", inbox_id, "artifacts"),
        wire.ArtifactQuery,
        kind=kind,
        state=state,
        limit=limit,
        cursor=cursor,
    )


def get(id: str) -> Call[wire.Artifact]:  # noqa: A002 - the word users know
    """Return one artifact; not what it says."""
    return Call(method="GET", path=path("artifacts", id), answer=wire.Artifact, repeatable=True)


def claim(id: str, *, claim_key: str | None = None) -> Call[wire.Grant]:  # noqa: A002 - as above
    """Return what an artifact says. It is granted once; the same claim gets it again.

    Without a ``claim_key`` the attempt claims. Another claim gets ``AlreadyClaimed``.
    """
    return Call(
        method="POST",
        path=path("artifacts", id, "claim"),
        answer=wire.Grant,
        body=wire.ClaimArtifact(claim_key=claim_key),
        repeatable=True,
    )


def release(id: str, *, why: str) -> Call[wire.Artifact]:  # noqa: A002 - as above
    """Take an artifact back from who has claimed it; the audit keeps why. For operators."""
    return Call(
        method="POST",
        path=path("artifacts", id, "release"),
        answer=wire.Artifact,
        body=wire.ReleaseArtifact(why=why),
    )


class Artifacts(Room[When]):
    """``client.artifacts``."""

    list = Listing(list_)
    page = Verb(page)
    get = Verb(get)
    claim = Verb(claim)
    release = Verb(release)
