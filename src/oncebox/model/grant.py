"""Grants: who asks for an artifact, and what comes of it."""

from typing import Literal

import msgspec

from oncebox.model.artifact import Artifact, ArtifactValue, Link
from oncebox.model.candidate import Kind
from oncebox.model.choice import Why
from oncebox.model.purpose import Purpose

#: why somebody does not get an artifact
Denial = Literal[
    "not_found",
    "already_claimed",
    "superseded",
    "unmatched",
    "purged",
    "link_refused",
    "not_opened",
]
#: where a link leads that the policy refused: to its sender's own domain, or somewhere else
HostClass = Literal["sender", "other", "none"]


class Claimant(msgspec.Struct, frozen=True, kw_only=True):
    """Who claims."""

    tenant: str
    #: the API key; a fixed word for somebody at the terminal
    key_id: str
    #: the only owner whose inboxes may be seen; none: any of the tenant
    owner: str | None
    #: tells claims of one key apart; the attempt of the inbox unless set, or the inbox
    claim_key: str | None = None


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which artifact of an inbox is wanted, where none is named."""

    inbox_id: str
    kind: Kind
    #: an address or a domain, in lower case; anybody if there is none
    sender: str = ""
    purpose: Purpose = Purpose.ANY
    #: only what these messages brought; any if it is not said
    messages: frozenset[str] | None = None
    #: messages that are known not to be wanted: they take the place of none that is
    passed_over: frozenset[str] = frozenset()
    #: only what came after this place in the inbox
    after: int = 0
    #: of a link: only what leads to this host; it is allowed where the inbox names none
    host: str = ""
    #: a domain was named: all its addresses are one sender
    by_domain: bool = False

    def fits(self, artifact: Artifact) -> bool:
        """Say whether an artifact of the inbox and kind is one of those that are wanted."""
        return (
            artifact.sequence > self.after
            and (self.messages is None or artifact.message_id in self.messages)
            and (self.purpose is Purpose.ANY or self.purpose in artifact.purposes)
            and (not self.sender or self.sender in {artifact.sender, artifact.sender_domain})
        )


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: of an artifact that is named, or of the one that a wish describes."""

    claimant: Claimant
    artifact_id: str | None = None
    wish: Wish | None = None


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The artifact is the claimant's; what it says is in here."""

    artifact: Artifact
    value: ArtifactValue
    #: of a link; the value is then exactly what was judged
    link: Link | None = None
    #: it was the claimant's before
    repeated: bool


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    """The claimant does not get it."""

    why: Denial
    artifact: Artifact | None = None
    #: of a link that the policy refused: its code
    reason: str = ""
    host: HostClass = "none"


class Contested(msgspec.Struct, frozen=True, kw_only=True):
    """Several are meant equally, and nobody chooses for the claimant."""

    kind: Kind
    artifact_ids: tuple[str, ...]
    why: Why


#: what comes of an ask; None: there is nothing yet that fits the wish
Outcome = Granted | Denied | Contested | None
