"""What can go wrong when an artifact is claimed; a part of the error tree.

OnceboxError
└── StateConflict
    ├── AlreadyClaimed            somebody else has it
    ├── ArtifactSuperseded        a newer one has taken its place
    ├── ArtifactUnmatched         its message is not what the inbox expects
    ├── ArtifactPurged            what it says was overwritten
    ├── ArtifactConflict          several are meant equally
    └── LinkRefused               the link policy does not let it out
"""

from oncebox.errors import StateConflict


class AlreadyClaimed(StateConflict):
    """Another claim has this artifact; it is granted once."""

    code = "already_claimed"


class ArtifactSuperseded(StateConflict):
    """A newer artifact of the same sender and purpose has taken the place of this one."""

    code = "artifact_superseded"


class ArtifactUnmatched(StateConflict):
    """The message of this artifact is not what its inbox expects."""

    code = "artifact_unmatched"


class ArtifactPurged(StateConflict):
    """What this artifact says was overwritten when its time was over."""

    code = "artifact_purged"


class ArtifactConflict(StateConflict):
    """Several artifacts are meant equally, and none is chosen by guessing."""

    code = "artifact_conflict"


class LinkRefused(StateConflict):
    """The link policy does not let this link out; it stays available."""

    code = "link_refused"
