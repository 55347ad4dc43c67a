"""Artifacts, as the outside sees them: codes and links, and who has them."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.artifact import ArtifactState
from oncebox.model.candidate import Kind
from oncebox.wire.fields import ListQuery, Moment, Page, Reason

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"

ClaimKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="who claims: the same one gets it again, another one does not",
    ),
]
Purpose = Literal["signup", "login", "reset", "invite"]


class ArtifactQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which artifacts of an inbox are wanted, newest first."""

    kind: Kind | UnsetType = UNSET
    state: ArtifactState | UnsetType = UNSET


class ClaimArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who claims."""

    #: the attempt of its inbox unless set, and without one the inbox
    claim_key: ClaimKey | None = None


class ReleaseArtifact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why an artifact is taken back from who has claimed it."""

    why: Reason


class ArtifactSender(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of who sent it; nothing here is the sender's own text."""

    #: in letters, digits and hyphens; empty if there is not exactly one
    domain: str
    #: whether that domain is proven
    verdict: Literal["pass", "fail", "temperror", "permerror", "none", "ambiguous", "missing"]


class ArtifactClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Who has it."""

    at: Moment
    #: whether it was claimed with the key that asks
    mine: bool


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """A code or a link that came by mail, without what it says."""

    id: str
    inbox_id: str
    #: the message that brought it
    message_id: str
    #: the place of that message in its inbox
    sequence: int
    kind: Kind
    state: ArtifactState
    #: from 0 to 1
    confidence: float
    #: another one of the same message is as good
    tied: bool
    #: whether the inbox's policy lets its message through
    matched: bool
    sender: ArtifactSender
    #: what the message is about, by its words; empty if that is not clear
    purposes: list[Purpose]
    received_at: Moment
    #: further messages that brought the same
    duplicates: int
    #: codes of what a reader should know
    warnings: list[str]
    #: the one that took its place
    superseded_by: str | None
    claimed: ArtifactClaim | None
    #: what it says is no longer kept
    purged: bool


class GrantedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link in parts, so that a call can replace a browser."""

    host: str
    #: what looks like the secret in it; empty if that is not clear
    token: str
    parameters: list[tuple[str, str]]

    def __repr__(self) -> str:
        """Show nothing: this must not end up in a log."""
        return "GrantedLink(***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class Grant(Artifact, frozen=True, kw_only=True):
    """An artifact and what it says, for who has claimed it."""

    #: the code, or the link exactly as it was judged
    value: str
    #: none for a code
    link: GrantedLink | None
    #: it was granted to the same claim before
    repeated: bool

    def __repr__(self) -> str:
        """Show which one it is, not what it says: this must not end up in a log."""
        return f"Grant(id={self.id!r}, kind={self.kind.value!r}, value=***)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more than ``repr`` does."""
        return []


class ArtifactPage(Page, frozen=True, kw_only=True):
    """Some artifacts of an inbox, newest first."""

    data: list[Artifact]
