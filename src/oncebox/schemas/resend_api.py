"""Resend-compatible email bodies, for programs written for Resend's API.

What may be left out may also be null: that is how some of its packages leave it out.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Addresses = str | list[str] | None


class JavaScriptBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes as JavaScript writes them."""

    data: list[int]


class EmailAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes with an email."""

    filename: str | None = None
    #: in base64, or byte by byte
    content: str | list[int] | JavaScriptBuffer | None = None
    #: where it is to be fetched from; refused, because nothing is fetched
    path: str | None = None
    content_type: str | None = None
    content_id: str | None = None
    inline_content_id: str | None = None

    def __repr__(self) -> str:
        """Show nothing of what is in it."""
        return "EmailAttachment()"


class EmailTag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A word that a provider reports back."""

    name: str
    value: str


class EmailTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an email is made by."""

    id: str
    variables: dict[str, Any] | None = None


class EmailRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An email to be sent."""

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
    #: ISO 8601 with its offset
    scheduled_at: str | None = None
    template: EmailTemplate | None = None
    #: refused: there are no topics here
    topic_id: str | None = None

    def __repr__(self) -> str:
        """Show nothing of what it says and whom it is for."""
        return "EmailRequest()"


class EmailId(msgspec.Struct, frozen=True, kw_only=True):
    """By what an email is asked for later."""

    id: str


class EmailError(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one email of a batch."""

    #: its place, from 0
    index: int
    message: str


class EmailIds(msgspec.Struct, frozen=True, kw_only=True):
    """The emails of a batch, in their order."""

    data: list[EmailId]
    #: those that were left out, where the batch was permissive
    errors: list[EmailError] | UnsetType = UNSET


class ResendEmail(msgspec.Struct, frozen=True, kw_only=True):
    """An email as it was asked for, and what became of it."""

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
        """Show nothing of what it says and whom it is for."""
        return f"ResendEmail({self.id!r})"


class ResendProblem(msgspec.Struct, frozen=True, kw_only=True):
    """How Resend says no."""

    status: int = msgspec.field(name="statusCode")
    name: str
    message: str
