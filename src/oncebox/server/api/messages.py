"""``/v1/messages``: received mail; agents see typed fields, operators everything."""

import asyncio

import msgspec
from msgspec import UNSET

from oncebox.errors import NotFound
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.ledger.inboxes import inboxes, messages
from oncebox.mail.excerpt import excerpt, html_excerpt, one_line
from oncebox.mail.links.occurrences import all_urls
from oncebox.mail.mime.parts import extract_attachment
from oncebox.model.admin.access import Scope
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.link_rules import LinkVerdict
from oncebox.model.inboxes.message import (
    DOCUMENT_UNREADABLE,
    Message,
    MessageDocument,
    safe_domain,
)
from oncebox.schemas import messages as wire
from oncebox.server.http.cursors import Cursors, list_name, page_start
from oncebox.server.http.routing import AGENTS, OPERATORS, ApiCall, Download, Routes

routes = Routes()
#: attachments whose names an agent sees
_MAX_ATTACHMENT_NAMES = 20


@routes("GET", "/v1/inboxes/{id}/messages", "listMessages", scopes=AGENTS, query=wire.MessageQuery)
async def list_messages(call: ApiCall) -> wire.MessagePage:
    """List the messages of an inbox in the order in which they were filed."""
    query: wire.MessageQuery = call.query
    after = int(page_start(call, "0"))
    positions, reader = (
        call.components.telemetry.cursors,
        (call.tenant, call.key.id, call.path["id"]),
    )
    replayed = query.cursor is not UNSET and positions.resumed("messages", reader, after)
    found = await (_wait_for_page(call, after) if query.wait else _read_page(call, after))
    _count_poll(call, replayed=replayed)
    if found.messages:
        positions.advanced("messages", reader, found.messages[-1].sequence)
    cursors = Cursors(call.components.master_key)

    def cursor(number: int) -> str:
        return cursors.make(str(number), call.tenant, list_name(call), query)

    data = [
        msgspec.structs.replace(_listed_schema(call, found, each), cursor=cursor(each.sequence))
        for each in found.messages
    ]
    last = data[-1].cursor if data else cursor(after)
    assert last is not UNSET  # noqa: S101 - each was given one just now
    return wire.MessagePage(data=data, next_cursor=last, has_more=found.has_more)


@routes("GET", "/v1/messages/{id}", "getMessage", scopes=AGENTS)
async def get_message(call: ApiCall) -> wire.Message:
    """Get a message: typed fields for agents, everything for operators."""
    return await message_schema(call, call.path["id"])


async def message_schema(call: ApiCall, id_: str) -> wire.Message:
    """Return a message as far as the key may read it.

    Raises: NotFound.
    """
    whole = await call.ledger.read(
        messages.get, call.components.mail_cipher, call.tenant, id_, owner=call.requester.owner
    )
    message, document, copies = whole
    typed = _message_schema(call, message, document)
    if document is None or not _may_read(call):
        return typed
    html = await _html(call, id_)
    if not call.requester.sees_all:
        return msgspec.structs.replace(typed, text=_text_schema(document, html))
    inbox = await call.ledger.read(inboxes.get, call.requester, message.inbox_id)
    links = await asyncio.to_thread(_links, call, document, html, inbox.policy)
    return msgspec.structs.replace(
        typed,
        content=msgspec.structs.replace(
            _content_schema(document),
            html=html,
            links=[each.canonical for each in links if each.allowed],
            links_refused=sum(not each.allowed for each in links),
        ),
        copies=msgspec.convert(copies, list[wire.MessageCopy], from_attributes=True),
    )


@routes("GET", "/v1/messages/{id}/raw", "getRawMessage", scopes=OPERATORS, media="message/rfc822")
async def raw_message(call: ApiCall) -> Download:
    """Download a message exactly as it was received."""
    id_ = call.path["id"]
    return Download(await _raw_bytes(call, id_), f"{id_}.eml")


@routes(
    "GET",
    "/v1/messages/{id}/attachments/{number}",
    "getAttachment",
    scopes=OPERATORS,
    media="application/octet-stream",
)
async def get_attachment(call: ApiCall) -> Download:
    """Download the content of an attachment."""
    id_ = call.path["id"]
    whole = await call.ledger.read(messages.get, call.components.mail_cipher, call.tenant, id_)
    if DOCUMENT_UNREADABLE in whole.message.warnings:
        raise MailDecryptionFailed
    described = whole.document.parsed.attachments if whole.document else ()
    for each in described:
        if str(each.number) == call.path["number"]:
            raw = await _raw_bytes(call, id_)
            content = await asyncio.to_thread(extract_attachment, raw, each)
            if content is not None:
                return Download(content, f"{id_}-{each.number}.bin")
    raise NotFound("there is no such attachment")


async def _raw_bytes(call: ApiCall, id_: str) -> bytes:
    return await call.ledger.read(messages.raw, call.components.mail_cipher, call.tenant, id_)


async def _html(call: ApiCall, id_: str) -> str | None:
    """Return the HTML of a message as written; it is not stored apart from the raw bytes."""
    try:
        raw = await _raw_bytes(call, id_)
    except (NotFound, MailDecryptionFailed):
        return None
    return await asyncio.to_thread(_read_html, raw) or None


def _read_html(raw: bytes) -> str:
    from oncebox.mail.parser import read_html  # noqa: PLC0415 - a start should not wait for it

    return read_html(raw)


def _links(
    call: ApiCall, document: MessageDocument, html: str | None, policy: InboxPolicy
) -> list[LinkVerdict]:
    """Return what the link policy says of each link of a message."""
    judge = call.components.grants.resolver.judge_link
    return [judge(url, policy) for url in all_urls(html or "", document.parsed.text)]


def _count_poll(call: ApiCall, *, replayed: bool) -> None:
    """Count a reading of an inbox that is the requester's."""
    components, inbox_id = call.components, call.path["id"]
    components.telemetry.poll_attempts.labels("messages").inc()
    components.inbox_counter.count(inbox_id, call.tenant, "polls")
    if replayed:
        components.inbox_counter.count(inbox_id, call.tenant, "cursor_replays")


# who may see what


def _may_read(call: ApiCall) -> bool:
    return call.key.may(Scope.OPERATOR, Scope.READ_TEXT)


# pages


async def _read_page(call: ApiCall, after: int) -> messages.MessagePage:
    query: wire.MessageQuery = call.query
    return await call.ledger.read(
        messages.page,
        call.tenant,
        call.path["id"],
        owner=call.requester.owner,
        after=after,
        most=query.limit,
        documents=call.components.mail_cipher if _may_read(call) else None,
    )


async def _wait_for_page(call: ApiCall, after: int) -> messages.MessagePage:
    """Return a page of messages; wait for the first if there is none."""
    query: wire.MessageQuery = call.query
    async with call.join_longpoll([call.path["id"]], query.wait) as waiter:
        while True:
            waiter.snapshot()
            found = await _read_page(call, after)
            if found.messages or not await waiter.wait():
                return found


def _listed_schema(call: ApiCall, found: messages.MessagePage, message: Message) -> wire.Message:
    document = found.documents.get(message.id)
    typed = _message_schema(call, message, document)
    if document is None or not (call.query.text and _may_read(call)):
        return typed
    return msgspec.structs.replace(typed, text=_text_schema(document))


# what is shown


def _message_schema(
    call: ApiCall, message: Message, document: MessageDocument | None
) -> wire.Message:
    """Return the typed fields, and for a key that may read text, whom it is from, to and about."""
    typed = _typed_fields(message, document)
    if not _may_read(call):
        return typed
    shown = str if call.requester.sees_all else one_line
    return msgspec.structs.replace(
        typed,
        recipient=shown(message.recipient),
        subject=shown(document.parsed.subject) if document else UNSET,
        sender_address=shown(message.sender),
    )


def _typed_fields(message: Message, document: MessageDocument | None) -> wire.Message:
    """Return the fields that hold no text of the sender."""
    verdict = document and document.verdict
    sender = wire.MessageSender(
        domain=safe_domain(message.sender_domain),
        verdict=message.sender_verdict,  # type: ignore[arg-type]
        spf=str(verdict.spf) if verdict else UNSET,  # type: ignore[arg-type]
        dkim=str(verdict.dkim) if verdict else UNSET,  # type: ignore[arg-type]
        dmarc=str(verdict.dmarc) if verdict else UNSET,  # type: ignore[arg-type]
    )
    return wire.Message(
        id=message.id,
        inbox_id=message.inbox_id,
        sequence=message.sequence,
        received_at=message.received_at,
        status=message.status,  # type: ignore[arg-type]
        size=message.size,
        sender=sender,
        matched=message.matched,
        duplicates=message.duplicates,
        warnings=list(message.warnings),
        mismatch=document.mismatch if document and document.mismatch else UNSET,
        attachments=len(document.parsed.attachments) if document else UNSET,
        purged=not message.document_size,
    )


def _text_schema(document: MessageDocument, html: str | None = None) -> wire.MessageText:
    parsed = document.parsed
    shown = excerpt(parsed.text)
    source = None if html is None else html_excerpt(html)
    return wire.MessageText(
        subject=one_line(parsed.subject),
        sender_name=one_line(parsed.sender.name),
        text=shown.text,
        attachments=[one_line(each.name) for each in parsed.attachments[:_MAX_ATTACHMENT_NAMES]],
        cut=shown.cut or (source is not None and source.cut),
        removed=shown.removed,
        links=shown.links,
        html=None if source is None else source.text,
    )


def _content_schema(document: MessageDocument) -> wire.MessageContent:
    parsed = document.parsed
    values = msgspec.to_builtins(parsed, builtin_types=(bytes,))
    return msgspec.convert(
        values
        | {
            "sender": {"name": parsed.sender.name, "address": parsed.sender.address},
            "carrier": msgspec.to_builtins(document.carrier),
            "details": list(document.verdict.details),
        },
        wire.MessageContent,
    )
