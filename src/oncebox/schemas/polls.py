"""Mailboxes that a program polls: lease, pages and failures of its loop; durations in seconds."""

from typing import Annotated, Literal

import msgspec

from oncebox.schemas.pull import Fence, Lease

#: the longest time a request for a mailbox in use may wait
LONGEST_POLL_WAIT = 30
#: messages of one request
MAX_MESSAGES = 100
#: characters of a cursor, as JSON
MAX_CURSOR = 200_000

LoopName = Annotated[
    str,
    msgspec.Meta(
        min_length=8, max_length=200, pattern=r"^[!-~]+$", description="unique to one loop"
    ),
]


class BeginPolls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for the lease of a mailbox."""

    #: a repeat with the same name gets the same lease; use a new name for each loop
    worker: LoopName
    lease: Lease = 30
    #: seconds to wait if another loop has the mailbox
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_POLL_WAIT)] = 0
    #: this loop was refused before, and counted as a conflict
    counted: bool = False


class PollLease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease of a mailbox, or why there is none."""

    #: ``in_use``: another loop has it; ``backoff``: its list failed a moment ago
    status: Literal["leased", "in_use", "backoff", "paused"]
    #: required in every later request of this loop
    fence: int | None = None
    #: JSON; null before the first page
    cursor: str | None = None
    cursor_version: int = 0
    #: seconds until the lease of the other loop or the wait ends
    retry_in: float = 0


class ListedMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that a program listed."""

    #: its id at the API: the same id is the same message
    key: Annotated[
        str,
        msgspec.Meta(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"),
    ]
    #: base64
    body: bytes


class ListedPage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages that a program listed, and the cursor after them."""

    fence: Fence
    #: the version of the cursor that the page continues
    version: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    #: JSON
    cursor: Annotated[str, msgspec.Meta(max_length=MAX_CURSOR, pattern=r"^[^\x00]*$")]
    messages: Annotated[list[ListedMessage], msgspec.Meta(max_length=MAX_MESSAGES)] = []
    #: messages that the program itself recognised
    repeated: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    #: false for all parts of a page but the last
    last: bool = True


class StoredListing(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a page."""

    cursor_version: int
    #: messages that nobody listed before
    new: int
    #: messages that are known although this mailbox did not list them
    duplicates: int
    #: messages that this mailbox listed before
    replays: int


class ClaimListed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request for the next message."""

    fence: Fence
    worker: LoopName
    #: a repeat with the same key gets the same message; use a new key for each claim
    request_key: Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^[!-~]+$")]
    lease: Lease = 30


class RenewPolls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A renewal of the lease of a mailbox, and of the message that is being handled."""

    fence: Fence
    lease: Lease = 30
    #: the id and the fence of the delivery
    delivery_id: Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[!-~]*$")] | None = None
    delivery_fence: Fence | None = None


class FailedPoll(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A report that the list function failed."""

    fence: Fence
    code: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,49}$")]
    #: seconds that the API asked for
    retry_after: Annotated[float, msgspec.Meta(ge=0, le=86_400)] | None = None


class PollDelayed(msgspec.Struct, frozen=True, kw_only=True):
    """When the mailbox may be polled again, by any loop."""

    retry_in: float


class EndPolls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a loop."""

    fence: Fence
    #: its deadline passed without a message
    timed_out: bool = False
