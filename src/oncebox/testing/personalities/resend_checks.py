"""What Resend finds wrong with a request."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_ADDRESS = re.compile(r"[^\s<>@,;]+@[^\s<>@,;]+\.[^\s<>@,;]+")
_MAILBOX = re.compile(r"[^<>\r\n]*<(?P<address>[^<>]*)>")
_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_FIELD = re.compile(r"[!-9;-~]+")
_RECIPIENTS = 50
#: bytes of all attachments together, as base64
_ATTACHED = 40 * 1024 * 1024
_FORM = "The email address needs to follow the `email@example.com` or `Name <email@example.com>` "
_TAGS = "Tags should only contain ASCII letters, numbers, underscores, or dashes."
_KNOWN = frozenset({
    "from", "to", "subject", "bcc", "cc", "scheduled_at", "reply_to", "html", "text", "headers",
    "attachments", "tags", "template", "topic_id",
})  # fmt: skip


class Wrong(Exception):
    """An error as Resend names it."""

    def __init__(
        self, status: int, name: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Keep how it is answered."""
        super().__init__(message)
        self.status = status
        self.name = name
        self.headers = dict(headers or {})


def read(body: bytes) -> Any:
    """Return the JSON of a request.

    Raises: Wrong.
    """
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Wrong(400, "validation_error", "The request body is not valid JSON.") from error


def email(
    wanted: Any, domains: frozenset[str] = frozenset(), *, in_batch: bool = False
) -> dict[str, Any]:
    """Return an email that can be sent.

    Raises: Wrong.
    """
    if not isinstance(wanted, dict):
        raise _invalid("An email is an object.")
    for field in wanted:
        if field not in _KNOWN:
            raise _invalid(f"Unrecognized key in object: `{field}`")
    for field in ("from", "to", "subject"):
        if not wanted.get(field) and not (field == "subject" and "template" in wanted):
            raise Wrong(422, "missing_required_field", f"Missing `{field}` field.")
    _check_people(wanted, domains)
    _check_content(wanted)
    _check_headers(wanted.get("headers") or {})
    _check_tags(wanted.get("tags") or [])
    _check_attachments(wanted.get("attachments") or [])
    if in_batch and (wanted.get("attachments") or wanted.get("scheduled_at")):
        raise _invalid("`attachments` and `scheduled_at` are not supported in batches.")
    return wanted


def recipients(payload: Mapping[str, Any]) -> Iterator[str]:
    """Give the addresses of all who get an email."""
    for field in ("to", "cc", "bcc"):
        yield from map(_address, _people(payload, field))


def header(payload: Mapping[str, Any], name: str) -> str:
    """Return a header field that came with an email; empty without one."""
    given: Mapping[str, str] = payload.get("headers") or {}
    return next((value for field, value in given.items() if field.lower() == name), "")


def _check_people(wanted: dict[str, Any], domains: frozenset[str]) -> None:
    sender = wanted["from"]
    if not isinstance(sender, str) or not _ADDRESS.fullmatch(_address(sender)):
        raise _invalid(f"Invalid `from` field. {_FORM}format.")
    domain = _address(sender).rpartition("@")[2].lower()
    if domains and domain not in domains:
        raise Wrong(403, "validation_error", f"The {domain} domain is not verified.")
    for field in ("to", "cc", "bcc", "reply_to"):
        given = _people(wanted, field)
        if len(given) > _RECIPIENTS:
            raise _invalid(f"The `{field}` field takes {_RECIPIENTS} addresses at most.")
        if not all(isinstance(each, str) and _ADDRESS.fullmatch(_address(each)) for each in given):
            raise _invalid(f"Invalid `{field}` field. {_FORM}format.")


def _check_content(wanted: dict[str, Any]) -> None:
    texts = [wanted.get(field) for field in ("subject", "html", "text", "scheduled_at")]
    if not all(each is None or isinstance(each, str) for each in texts):
        raise _invalid("`subject`, `html` and `text` are strings.")
    if wanted.get("html") is None and wanted.get("text") is None and "template" not in wanted:
        raise _invalid("Missing `html` or `text` field.")


def _check_headers(headers: Any) -> None:
    sound = isinstance(headers, dict) and all(
        isinstance(value, str) and _FIELD.fullmatch(name) and not re.search("[\r\n\0]", value)
        for name, value in headers.items()
    )
    if not sound:
        raise _invalid("Invalid `headers` field.")


def _check_tags(tags: Any) -> None:
    sound = isinstance(tags, list) and all(
        isinstance(each, dict)
        and set(each) == {"name", "value"}
        and all(isinstance(word, str) and _TAG.fullmatch(word) for word in each.values())
        for each in tags
    )
    if not sound:
        raise _invalid(_TAGS)


def _check_attachments(attachments: Any) -> None:
    if not isinstance(attachments, list) or not all(map(_is_attachment, attachments)):
        raise Wrong(422, "invalid_attachment", "Attachment must have either a content or path.")
    if sum(len(each.get("content", "")) for each in attachments) > _ATTACHED:
        raise _invalid("Attachments exceed the maximum of 40 MB.")


def _is_attachment(each: Any) -> bool:
    if not isinstance(each, dict):
        return False
    content = each.get("content")
    if not isinstance(content, str):
        return isinstance(each.get("path"), str)
    try:
        b64decode(content, validate=True)
    except binascii.Error:
        return False
    return isinstance(each.get("filename"), str)


def _people(wanted: Mapping[str, Any], field: str) -> list[Any]:
    given = wanted.get(field) or []
    return given if isinstance(given, list) else [given]


def _address(text: Any) -> str:
    found = _MAILBOX.fullmatch(text) if isinstance(text, str) else None
    return found["address"].strip() if found else str(text).strip()


def _invalid(message: str) -> Wrong:
    return Wrong(422, "validation_error", message)
