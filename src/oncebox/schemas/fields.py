"""Shared field types, list queries and pages of the API."""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model import validation

#: no control characters
_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"

#: milliseconds since 1970
Timestamp = validation.Timestamp
#: the name of a source
SourceName = Annotated[
    str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
]
#: maximum number of entries in a page
Limit = Annotated[int, msgspec.Meta(ge=1, le=200, description="maximum number of entries")]
#: where a list continues
Cursor = Annotated[
    str,
    msgspec.Meta(
        description="opaque next_cursor of the previous page",
        # Documentation only: the cursor is validated as a whole.
        extra_json_schema={"pattern": "^c1_[A-Za-z0-9_-]{38,1000}$"},
    ),
]
#: a line of text, stored in the audit log
OptionalReason = Annotated[
    str,
    msgspec.Meta(max_length=500, pattern=_LINE, description="the reason, stored in the audit log"),
]
#: a required reason
Reason = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=500,
        pattern=_LINE,
        description="the reason, stored in the audit log",
    ),
]


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every page besides its data."""

    #: pass it as ``cursor`` to get the next page; null on the last page
    next_cursor: str | None = None
    has_more: bool = False


class ListQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Page size and position of a list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty body."""


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An optional reason."""

    why: OptionalReason = ""
