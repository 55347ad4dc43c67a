"""How an email in Resend's shape is read; what it has and we cannot do is refused, not ignored."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime

from oncebox.edge.http.door import FieldMissing, ParameterInvalid
from oncebox.mail import media
from oncebox.model.email import Attachment, Email
from oncebox.refusals import FieldsInvalid
from oncebox.send_errors import AttachmentInvalid
from oncebox.wire import emails as wire


def email(wish: wire.EmailWish) -> Email:
    """Return the email that is wished for.

    Raises: FieldMissing, ParameterInvalid, FieldsInvalid, AttachmentInvalid.
    """
    _check_fields(wish)
    template = wish.template
    return Email(
        sender=wish.sender or "",
        to=_several(wish.to),
        cc=_several(wish.cc),
        bcc=_several(wish.bcc),
        reply_to=_several(wish.reply_to),
        subject=wish.subject or "",
        text=wish.text or "",
        html=wish.html or "",
        headers=wish.headers or {},
        attachments=[_attachment(each) for each in wish.attachments or ()],
        template="" if template is None else template.id,
        variables=(template.variables or {}) if template is not None else {},
        tags=_tags(wish.tags or ()),
    )


def moment(text: str | None) -> int | None:
    """Return when an email is to be sent.

    Raises: FieldsInvalid.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        message = "`scheduled_at` is a time in ISO 8601 with its offset: 2026-08-05T11:52:01Z"
        raise FieldsInvalid(message, pointer="/scheduled_at")
    return max(0, round(at.timestamp() * 1000))


def _check_fields(wish: wire.EmailWish) -> None:
    if not wish.to:
        raise FieldMissing("Missing `to` field.")
    if wish.topic_id is not None:
        raise ParameterInvalid("`topic_id`: there are no topics here; leave it out")
    if wish.template is not None:
        if wish.html is not None or wish.text is not None:
            raise FieldsInvalid("`template` makes html and text; leave them out")
        return
    if not wish.subject:
        raise FieldMissing("Missing `subject` field.")
    if not (wish.html or wish.text):
        raise FieldsInvalid("Missing `html` or `text` field.")


def _several(given: wire.Addresses) -> Sequence[str]:
    return given or ()


def _attachment(given: wire.EmailAttachment) -> Attachment:
    if given.path is not None:
        message = "`path` of an attachment: nothing is fetched here; send its `content`"
        raise AttachmentInvalid(message)
    if given.content is None or not given.filename:
        raise AttachmentInvalid("an attachment has a `filename` and its `content`")
    return Attachment(
        name=given.filename,
        content=_content(given.content),
        media_type=given.content_type or media.of_name(given.filename),
        content_id=given.content_id or given.inline_content_id or "",
    )


def _content(given: str | list[int] | wire.Buffer) -> bytes:
    if isinstance(given, wire.Buffer):
        given = given.data
    try:
        if isinstance(given, list):
            return bytes(given)
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError) as error:
        message = "`content` of an attachment is base64, or numbers from 0 to 255"
        raise AttachmentInvalid(message) from error


def _tags(given: Sequence[wire.EmailTag]) -> dict[str, str]:
    tags = {each.name: each.value for each in given}
    if len(tags) < len(given):
        raise FieldsInvalid("`tags` has a name twice; give each its own", pointer="/tags")
    return tags
