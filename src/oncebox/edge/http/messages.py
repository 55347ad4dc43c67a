"""``/v1/messages``: what came to inboxes. An agent sees typed fields, an operator everything."""

import asyncio

import msgspec
from msgspec import UNSET

from oncebox.edge.http.call import Call
from oncebox.edge.http.cursors import Cursors
from oncebox.edge.http.download import Download
from oncebox.edge.http.pages import place
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.edge.http.seats import seated
from oncebox.errors import NotFound
from oncebox.ledger.inboxes import reading
from oncebox.mail.excerpt import excerpt, line
from oncebox.mail.extract import extract
from oncebox.mail_errors import MailNotOpened
from oncebox.model.filing import NOT_OPENED, Copy, Document, Message, safe_domain
from oncebox.model.key import Scope
from oncebox.wire import messages as wire

_LIST = "/v1/inboxes/{id}/messages"
_ONE = "/v1/messages/{id}"
_SEE = frozenset({OPERATOR, AGENT})
_OPEN = frozenset({OPERATOR})
#: attachments that are named to an agent
_MOST_NAMES = 20


async def list_(call: Call) -> wire.MessagePage:
    """Return messages of an inbox in the order in which they were filed."""
    query: wire.MessageQuery = call.query
    route = _LIST.format(id=call.path["id"])
    after = int(place(call, route, "0"))
    places, reader = call.rooms.telemetry.places, (call.tenant, call.key.id, call.path["id"])
    if query.cursor is not UNSET:
        places.come("messages", reader, after)
    found = await (_waited(call, after) if query.wait else _page(call, after))
    if found.messages:
        places.shown("messages", reader, found.messages[-1].sequence)
    cursors = Cursors(call.rooms.master_key)

    def cursor(number: int) -> str:
        return cursors.make(str(number), call.tenant, route, query)

    data = [
        msgspec.structs.replace(_listed(call, found, each), cursor=cursor(each.sequence))
        for each in found.messages
    ]
    last = data[-1].cursor if data else cursor(after)
    assert last is not UNSET  # noqa: S101 - each was given one just now
    return wire.MessagePage(data=data, next_cursor=last, has_more=found.has_more)


async def get(call: Call) -> wire.Message:
    """Return one message."""
    whole = await call.rooms.counter.read(
        reading.get, call.rooms.vault, call.tenant, call.path["id"], owner=_owner(call)
    )
    message, document, copies = whole
    typed = _shown(call, message, document)
    if document is None:
        return typed
    if _is_operator(call):
        return msgspec.structs.replace(typed, content=_content(document), copies=_copies(copies))
    if _may_read(call):
        return msgspec.structs.replace(typed, text=_text(document))
    return typed


async def raw(call: Call) -> Download:
    """Return a message exactly as it was received."""
    id_ = call.path["id"]
    return Download(await _raw(call), f"{id_}.eml")


async def attachment(call: Call) -> Download:
    """Return what is in one attachment."""
    id_ = call.path["id"]
    whole = await call.rooms.counter.read(reading.get, call.rooms.vault, call.tenant, id_)
    if NOT_OPENED in whole.message.warnings:
        raise MailNotOpened
    described = whole.document.parsed.attachments if whole.document else ()
    for each in described:
        if str(each.number) == call.path["number"]:
            content = await asyncio.to_thread(extract, await _raw(call), each)
            if content is not None:
                return Download(content, f"{id_}-{each.number}.bin")
    message = "there is no such attachment"
    raise NotFound(message)


async def _raw(call: Call) -> bytes:
    return await call.rooms.counter.read(
        reading.raw, call.rooms.vault, call.tenant, call.path["id"]
    )


# who may see what


def _is_operator(call: Call) -> bool:
    return call.key.may(Scope.OPERATOR)


def _may_read(call: Call) -> bool:
    return call.key.may(Scope.OPERATOR, Scope.READ_TEXT)


def _owner(call: Call) -> str | None:
    """Return whose inboxes alone may be seen: an agent's own; an operator sees all."""
    return None if _is_operator(call) else call.key.id


# pages


async def _page(call: Call, after: int) -> reading.Page:
    query: wire.MessageQuery = call.query
    return await call.rooms.counter.read(
        reading.page,
        call.tenant,
        call.path["id"],
        owner=_owner(call),
        after=after,
        most=query.limit,
        documents=call.rooms.vault if query.text and _may_read(call) else None,
    )


async def _waited(call: Call, after: int) -> reading.Page:
    """Return what is filed, waiting for it if there is nothing."""
    query: wire.MessageQuery = call.query
    async with seated(call, [call.path["id"]], query.wait) as seat:
        while True:
            seat.look_begins()
            found = await _page(call, after)
            if found.messages or not await seat.rest():
                return found


def _listed(call: Call, found: reading.Page, message: Message) -> wire.Message:
    document = found.documents.get(message.id)
    typed = _shown(call, message, document)
    if document is None or not _may_read(call):
        return typed
    return msgspec.structs.replace(typed, text=_text(document))


# what is shown


def _shown(call: Call, message: Message, document: Document | None) -> wire.Message:
    """Return the typed fields, and for whom may read text, to which address exactly it came."""
    typed = _typed(message, document)
    if not _may_read(call):
        return typed
    exact = message.recipient
    return msgspec.structs.replace(typed, recipient=exact if _is_operator(call) else line(exact))


def _typed(message: Message, document: Document | None) -> wire.Message:
    """Return the fields that no sender can write into."""
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


def _text(document: Document) -> wire.MessageText:
    parsed = document.parsed
    shown = excerpt(parsed.text)
    return wire.MessageText(
        subject=line(parsed.subject),
        sender_name=line(parsed.sender.name),
        text=shown.text,
        attachments=[line(each.name) for each in parsed.attachments[:_MOST_NAMES]],
        cut=shown.cut,
        removed=shown.removed,
        links=shown.links,
    )


def _content(document: Document) -> wire.MessageContent:
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


def _copies(copies: list[Copy]) -> list[wire.MessageCopy]:
    return msgspec.convert(copies, list[wire.MessageCopy], from_attributes=True)


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listMessages",
        summary="Show messages of an inbox in the order in which they were filed.",
        scopes=_SEE,
        query=wire.MessageQuery,
        answer=wire.MessagePage,
        handler=list_,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getMessage",
        summary="Show a message: typed fields to agents, everything to operators.",
        scopes=_SEE,
        answer=wire.Message,
        handler=get,
    ),
    Route(
        method="GET",
        path=f"{_ONE}/raw",
        name="getRawMessage",
        summary="Download a message exactly as it was received.",
        scopes=_OPEN,
        media="message/rfc822",
        handler=raw,
    ),
    Route(
        method="GET",
        path=f"{_ONE}/attachments/{{number}}",
        name="getAttachment",
        summary="Download what is in an attachment.",
        scopes=_OPEN,
        media="application/octet-stream",
        handler=attachment,
    ),
)
