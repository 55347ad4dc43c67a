"""Resend-compatible email bodies, for programs written for Resend's API.

Optional fields may also be null, because some of Resend's packages send null.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Addresses = str | list[str] | None


class JavaScriptBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes as JavaScript's ``Buffer`` encodes them."""

    data: list[int]


class EmailAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attachment."""

    filename: str | None = None
    #: base64, or a list of bytes
    content: str | list[int] | JavaScriptBuffer | None = None
    #: a URL to fetch; refused, because Oncebox fetches no attachments
    path: str | None = None
    content_type: str | None = None
    content_id: str | None = None
    inline_content_id: str | None = None

    def __repr__(self) -> str:
        """Leave out the content."""
        return "EmailAttachment()"


class EmailTag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tag that a provider reports back."""

    name: str
    value: str


class EmailTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The template of an email and its variables."""

    id: str
    variables: dict[str, Any] | None = None


class EmailRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An email to send."""

    sender: str | None = msgspec.field(default=None, name="from")
    to: Addresses = None
    subject: str | None = None
    cc: Addresses = None
    bcc: Addresses = None
    reply_to: Addresses = None
    html: str | None = None
    text: str | None = None
    headers: dict[str, str] | None = None
    attachments: list[EmailAttachment] | None = None
    tags: list[EmailTag] | None = None
    #: ISO 8601 with an offset
    scheduled_at: str | None = None
    template: EmailTemplate | None = None
    #: refused: Oncebox has no topics
    topic_id: str | None = None

    def __repr__(self) -> str:
        """Leave out content and recipients."""
        return "EmailRequest()"


class EmailId(msgspec.Struct, frozen=True, kw_only=True):
    """The id of an accepted email."""

    id: str


class EmailError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one email of a batch."""

    #: its position, from 0
    index: int
    message: str


class EmailIds(msgspec.Struct, frozen=True, kw_only=True):
    """The emails of a batch, in request order."""

    data: list[EmailId]
    #: the rejected emails of a permissive batch
    errors: list[EmailError] | UnsetType = UNSET


class ResendEmail(msgspec.Struct, frozen=True, kw_only=True):
    """An email as requested, and its last event."""

    object: str = "email"
    id: str
    message_id: str
    sender: str = msgspec.field(name="from")
    to: list[str]
    cc: list[str]
    bcc: list[str]
    reply_to: list[str]
    subject: str
    html: str | None
    text: str | None
    tags: list[EmailTag]
    created_at: str
    scheduled_at: str | None
    last_event: str

    def __repr__(self) -> str:
        """Leave out content and recipients."""
        return f"ResendEmail({self.id!r})"


class ResendProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An error in Resend's format."""

    status: int = msgspec.field(name="statusCode")
    name: str
    message: str
