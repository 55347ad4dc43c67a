"""``oncebox message``: what came to inboxes, for those who run them."""

import sys
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import owned, whose
from oncebox.cli.words import duration, moment
from oncebox.ledger.inboxes import reading
from oncebox.model.filing import Document, Message
from oncebox.model.message import Address

_COLUMNS = ("message", "number", "status", "from", "verdict", "subject", "age", "copies")
#: fields of a document that are no text for people
_BYTES = ("identity", "message_mark", "outline", "signatures")


@click.command("list", epilog=examples("oncebox message list inb_… --json | jq .id"))
@click.argument("inbox", metavar="INBOX")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--after", type=click.IntRange(0), default=0, help="Go on after this number.")
@owned
@with_call
def list_(call: Call, *, inbox: str, limit: int, after: int, tenant: str | None) -> None:
    """Show the messages of an inbox, in the order in which they were filed."""

    async def work(rooms: Rooms) -> tuple[reading.Page, int]:
        found = await rooms.database.read(
            reading.page,
            whose(rooms, tenant),
            inbox,
            after=after,
            most=limit,
            documents=rooms.vault,
        )
        return found, rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for each in found.messages:
            call.out.record(_brief(each, found.documents.get(each.id)))
    elif call.out.quiet:
        for each in found.messages:
            call.out.line(each.id)
    else:
        rows = (_cells(call, each, found.documents.get(each.id), now) for each in found.messages)
        call.out.table(_COLUMNS, list(rows))


@click.command("show", epilog=examples("oncebox message show msg_…"))
@click.argument("wanted", metavar="ID")
@owned
@with_call
def show(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Show all that was read of a message, and the deliveries that brought it.

    What is shown is a stranger's text.

    """

    async def work(rooms: Rooms) -> reading.Whole:
        return await rooms.database.read(reading.get, rooms.vault, whose(rooms, tenant), wanted)

    whole = call.run(work)
    if call.out.as_json:
        call.out.record(_everything(whole))
    else:
        call.out.outline(list(_outline(whole)))


@click.command("raw", epilog=examples("oncebox message raw msg_… > mail.eml"))
@click.argument("wanted", metavar="ID")
@owned
@with_call
def raw(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Write a message exactly as it was received, byte for byte.

    A terminal is not a safe place for a stranger's bytes: send them to a file or a program.

    """
    if call.out.on_terminal:
        message = "write it to a file: oncebox message raw ID > mail.eml"
        raise click.UsageError(message)

    async def work(rooms: Rooms) -> bytes:
        return await rooms.database.read(reading.raw, rooms.vault, whose(rooms, tenant), wanted)

    sys.stdout.buffer.write(call.run(work))
    sys.stdout.buffer.flush()


def _cells(call: Call, message: Message, document: Document | None, now: int) -> tuple[object, ...]:
    age = max(0, now - message.received_at)
    received = duration(age) if call.out.on_terminal else moment(message.received_at)
    subject = document.parsed.subject if document else ""
    return (
        message.id, message.sequence, message.status, message.sender, message.sender_verdict,
        subject, received, message.duplicates,
    )  # fmt: skip


def _brief(message: Message, document: Document | None) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(message)
    return told | {"subject": document.parsed.subject if document else None}


def _everything(whole: reading.Whole) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(whole.message)
    told["copies"] = msgspec.to_builtins(whole.copies)
    if whole.document is not None:
        document = msgspec.to_builtins(whole.document)
        for name in _BYTES:
            document["parsed"].pop(name, None)
        told |= document
    return told


def _outline(whole: reading.Whole) -> Iterator[tuple[object, ...]]:
    message, document, copies = whole
    yield ("message", message.id, f"number {message.sequence} of {message.inbox_id}")
    yield ("received", moment(message.received_at), f"{message.size} bytes", message.status)
    yield ("recipient", message.recipient)
    yield ("sender", message.sender, message.sender_verdict)
    if message.warnings:
        yield ("warnings", *message.warnings)
    for copy in copies:
        yield ("delivery", copy.delivery_id, copy.road, moment(copy.at), *copy.differs)
    if document is None:
        yield ("content", "no longer kept")
        return
    yield from _content(document)


def _content(document: Document) -> Iterator[tuple[object, ...]]:
    parsed, verdict = document.parsed, document.verdict
    yield ("checks", f"spf {verdict.spf}", f"dkim {verdict.dkim}", f"dmarc {verdict.dmarc}")
    if document.mismatch:
        yield ("not expected", document.mismatch)
    yield ("from", parsed.sender.name, parsed.sender.address)
    for name, people in (("to", parsed.to), ("cc", parsed.cc), ("reply to", parsed.reply_to)):
        yield from ((name, *_person(each)) for each in people)
    yield ("subject", parsed.subject)
    for each in parsed.attachments:
        yield ("attachment", each.number, each.name, each.media_type, f"{each.size} bytes")
    yield ("text", parsed.text)
    if parsed.hidden:
        yield ("hidden text", parsed.hidden)


def _person(person: Address) -> tuple[str, ...]:
    return (person.name, person.address) if person.name else (person.address,)
