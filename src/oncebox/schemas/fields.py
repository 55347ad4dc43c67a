"""Shared field types, list queries and pages of the API."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model import validation

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"

#: milliseconds since 1970
Timestamp = validation.Timestamp
#: what a source is called
SourceName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
]
#: how many things a list shows at most
Limit = Annotated[int, msgspec.Meta(ge=1, le=200, description="how many to show at most")]
#: where a list goes on
Cursor = Annotated[
    str,
    msgspec.Meta(
        description="next_cursor of the page before; opaque",
        # Said to the outside, but judged with the rest of the cursor.
        extra_json_schema={"pattern": "^c1_[A-Za-z0-9_-]{38,1000}$"},
    ),
]
#: text of one line, kept in the audit
OptionalReason = Annotated[
    str,
    msgspec.Meta(max_length=500, pattern=_LINE, description="the reason; kept in the audit"),
]
#: a reason that must be given
Reason = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=500, pattern=_LINE, description="the reason; kept in the audit"
    ),
]


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """What every list has besides its data."""

    #: give it as ``cursor`` to go on; none after the last page
    next_cursor: str | None = None
    has_more: bool = False


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of a list is wanted."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing has to be said."""


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is done, for those who like to say."""

    why: OptionalReason = ""
