"""``/v1/messages``: what came to inboxes. An agent sees typed fields, an operator everything."""

import asyncio

import msgspec
from msgspec import UNSET

from oncebox import clock
from oncebox.edge.http.call import Call
from oncebox.edge.http.cursors import Cursors
from oncebox.edge.http.download import Download
from oncebox.edge.http.pages import place
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.errors import NotFound
from oncebox.ledger.inboxes import reading
from oncebox.mail.excerpt import excerpt, line
from oncebox.mail.extract import extract
from oncebox.mail_errors import AddressInvalid
from oncebox.model.address import address_key
from oncebox.model.filing import Copy, Document, Message, safe_domain
from oncebox.model.key import Scope
from oncebox.wire import messages as wire

_LIST = "/v1/inboxes/{id}/messages"
_ONE = "/v1/messages/{id}"
_SEE = frozenset({OPERATOR, AGENT})
_OPEN = frozenset({OPERATOR})
#: seconds between two looks while somebody waits
_LOOK_EVERY = 1.0
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
    found = await _page(call, after)
    until = clock.steady() + query.wait
    if not found.messages and query.wait:
        found = await _waited(call, after, until) or found
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
        reading.get, call.tenant, call.path["id"], owner=_owner(call)
    )
    message, document, copies = whole
    typed = _typed(call, message, document)
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
    body = await call.rooms.counter.read(reading.raw, call.tenant, id_)
    return Download(body, f"{id_}.eml")


async def attachment(call: Call) -> Download:
    """Return what is in one attachment."""
    id_ = call.path["id"]
    whole = await call.rooms.counter.read(reading.get, call.tenant, id_)
    described = whole.document.parsed.attachments if whole.document else ()
    for each in described:
        if str(each.number) == call.path["number"]:
            body = await call.rooms.counter.read(reading.raw, call.tenant, id_)
            content = await asyncio.to_thread(extract, body, each)
            if content is not None:
                return Download(content, f"{id_}-{each.number}.bin")
    message = "there is no such attachment"
    raise NotFound(message)


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
        documents=query.text and _may_read(call),
    )


async def _waited(call: Call, after: int, until: float) -> reading.Page | None:
    """Wait until something is filed, the time is up, or nobody is left who waits."""
    left = asyncio.ensure_future(call.left())
    try:
        while (rest := until - clock.steady()) > 0:
            await call.rooms.mail.rest(min(rest, _LOOK_EVERY))
            if call.stopping.is_set() or left.done():
                return None
            found = await _page(call, after)
            if found.messages:
                return found
        return None
    finally:
        left.cancel()


def _listed(call: Call, found: reading.Page, message: Message) -> wire.Message:
    document = found.documents.get(message.id)
    typed = _typed(call, message, document)
    if document is None or not _may_read(call):
        return typed
    return msgspec.structs.replace(typed, text=_text(document))


# what is shown


def _typed(call: Call, message: Message, document: Document | None) -> wire.Message:
    """Return the fields that no sender can write into; to an operator the recipient is whole."""
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
        recipient=message.recipient if _is_operator(call) else _plain(message.recipient),
        sender=sender,
        matched=message.matched,
        duplicates=message.duplicates,
        warnings=list(message.warnings),
        mismatch=document.mismatch if document and document.mismatch else UNSET,
        attachments=len(document.parsed.attachments) if document else UNSET,
        purged=not message.document_size,
    )


def _plain(recipient: str) -> str:
    """Return the address without what the sender put behind the plus sign, in its one spelling."""
    local, _, domain = recipient.rpartition("@")
    try:
        return address_key(local, domain)
    except AddressInvalid:
        return ""


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
