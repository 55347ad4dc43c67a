"""`oncebox message` and `oncebox artifact`: received mail, and the codes and links in it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    before_option,
    current_user,
    limit_option,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output.printer import Block
from oncebox.cli.output.times import duration, iso_time
from oncebox.components import Components
from oncebox.core import files
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.claims import claimant_of
from oncebox.ledger.inboxes import messages
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.mail.mime.parts import extract_attachment
from oncebox.model.inboxes.artifact import Artifact, ArtifactState, ClaimGranted
from oncebox.model.inboxes.message import Message, MessageDocument
from oncebox.model.inboxes.received_mail import ArtifactKind, HeaderAddress, ParsedAttachment

_MESSAGE_COLUMNS = (
    "message", "inbox", "number", "status", "from", "verdict", "subject", "age", "copies",
)  # fmt: skip
#: sorts after every id
_AFTER_ALL_IDS = "~"
#: fields of a document that are not text
_BINARY_FIELDS = ("identity", "message_mark", "outline", "signatures")


@click.command(
    "list",
    epilog=examples(
        "oncebox message list",
        "oncebox message list inb_… --json | jq .id",
    ),
)
@click.argument("inbox", metavar="[INBOX]", required=False)
@limit_option
@click.option(
    "--after", type=click.IntRange(0), help="Continue the list of an inbox after this number."
)
@before_option
@tenant_option
@with_context
def list_messages(
    call: CommandContext,
    *,
    inbox: str | None,
    limit: int,
    after: int | None,
    before: str,
    tenant: str | None,
) -> None:
    """List messages: of an inbox in the order of arrival, of all inboxes newest first."""
    if inbox is None and after is not None:
        raise click.UsageError("--after is for the list of an inbox; name one, or use --before ID")
    if inbox is not None and before != _AFTER_ALL_IDS:
        raise click.UsageError("--before is for the list of all inboxes; use --after NUMBER")
    with call.reader() as reader:
        owner, cipher = tenant_of(reader, tenant), reader.mail_cipher
        if inbox is None:
            found = reader.read(messages.recent, owner, before=before, most=limit, documents=cipher)
        else:
            id_ = reader.read(find_id, IdKind.INBOX, owner, inbox)
            found = reader.read(
                messages.page, owner, id_, after=after or 0, most=limit, documents=cipher
            )
        now = reader.clock()

    def subject(message: Message) -> str | None:
        document = found.documents.get(message.id)
        return document.parsed.subject if document else None

    def row(message: Message) -> tuple[object, ...]:
        age = duration(max(0, now - message.received_at))
        received = age if call.out.on_terminal else iso_time(message.received_at)
        return (
            message.id, *([message.inbox_id] if inbox is None else ()), message.sequence,
            message.status, message.sender, message.sender_verdict, subject(message), received,
            message.duplicates,
        )  # fmt: skip

    def record(message: Message) -> dict[str, Any]:
        return msgspec.structs.asdict(message) | {"subject": subject(message)}

    columns = [each for each in _MESSAGE_COLUMNS if inbox is None or each != "inbox"]
    call.out.listing(found.messages, columns, row, record=record)


@click.command("show", epilog=examples("oncebox message show msg_…"))
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def show_message(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Show a parsed message and the deliveries that contained it.

    The content is untrusted.
    """
    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        id_ = reader.read(find_id, IdKind.MESSAGE, owner, wanted)
        whole = reader.read(messages.get, reader.mail_cipher, owner, id_)
    if call.out.as_json:
        call.out.record(_message_record(whole))
    else:
        call.out.outline(_message_lines(whole))


@click.command("raw", epilog=examples("oncebox message raw msg_… > mail.eml"))
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def raw_message(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Write a message exactly as it was received, byte for byte.

    Raw bytes are not written to a terminal: redirect them to a file or a program.
    """
    if call.out.on_terminal:
        raise click.UsageError("write it to a file: oncebox message raw ID > mail.eml")

    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        id_ = reader.read(find_id, IdKind.MESSAGE, owner, wanted)
        raw = reader.read(messages.raw, reader.mail_cipher, owner, id_)
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


@click.command(
    "attachment",
    epilog=examples(
        "oncebox message attachment msg_… 1 --output invoice.pdf",
        "oncebox message attachment msg_… invoice.pdf --output invoice.pdf --force",
    ),
)
@click.argument("wanted", metavar="ID")
@click.argument("which", metavar="NUMBER|NAME")
@click.option(
    "--output",
    "target",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write; the sender's name for it is never used.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@tenant_option
@with_context
def attachment(
    call: CommandContext, *, wanted: str, which: str, target: Path, force: bool, tenant: str | None
) -> None:
    """Write an attachment of a message to a file. Its content is untrusted."""
    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        id_ = reader.read(find_id, IdKind.MESSAGE, owner, wanted)
        whole = reader.read(messages.get, reader.mail_cipher, owner, id_)
        found = _find_attachment(whole, which)
        raw = reader.read(messages.raw, reader.mail_cipher, owner, id_)
    content = extract_attachment(raw, found)
    if content is None:
        raise NotFound(f"the raw message does not contain it; see: oncebox message show {id_}")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}; create it first")
    if not files.write_private_file(target, content, replace=force):
        raise StateConflict(f"{target} exists already; choose another name, or use --force")
    record = {"message_id": id_, "number": found.number, "file": str(target), "size": found.size}
    call.out.result(record, str(target), f"{found.size} bytes")


def _find_attachment(whole: messages.FullMessage, which: str) -> ParsedAttachment:
    """Return the attachment with a number or a name.

    Raises: NotFound; StateConflict, if several have the name.
    """
    see = f"see: oncebox message show {whole.message.id}"
    if whole.document is None:
        raise NotFound(f"the content of this message is no longer kept; {see}")
    attached = whole.document.parsed.attachments
    found = [each for each in attached if str(each.number) == which]
    found = found or [each for each in attached if each.name == which]
    if not found:
        raise NotFound(f"this message has no such attachment; {see}")
    if len(found) > 1:
        raise StateConflict(f"{len(found)} attachments have this name; give a number; {see}")
    return found[0]


def _message_record(whole: messages.FullMessage) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(whole.message)
    record["copies"] = msgspec.to_builtins(whole.copies)
    if whole.document is not None:
        document = msgspec.to_builtins(whole.document)
        for name in _BINARY_FIELDS:
            document["parsed"].pop(name, None)
        record |= document
    return record


def _message_lines(whole: messages.FullMessage) -> Iterator[tuple[object, ...]]:
    message, document, copies = whole
    yield ("message", message.id, f"number {message.sequence} of {message.inbox_id}")
    yield ("received", iso_time(message.received_at), f"{message.size} bytes", message.status)
    yield ("recipient", message.recipient)
    yield ("sender", message.sender, message.sender_verdict)
    if message.warnings:
        yield ("warnings", *message.warnings)
    for copy in copies:
        yield ("delivery", copy.delivery_id, copy.road, iso_time(copy.at), *copy.differs)
    if document is None:
        yield ("content", "no longer kept")
        return
    yield from _content_lines(document)


def _content_lines(document: MessageDocument) -> Iterator[tuple[object, ...]]:
    parsed, verdict = document.parsed, document.verdict
    yield ("checks", f"spf {verdict.spf}", f"dkim {verdict.dkim}", f"dmarc {verdict.dmarc}")
    if document.mismatch:
        yield ("not expected", document.mismatch)
    yield ("from", parsed.sender.name, parsed.sender.address)
    for name, people in (("to", parsed.to), ("cc", parsed.cc), ("reply to", parsed.reply_to)):
        yield from ((name, *_address_cells(each)) for each in people)
    yield ("subject", parsed.subject)
    for each in parsed.attachments:
        yield ("attachment", each.number, each.name, each.media_type, f"{each.size} bytes")
    yield ("text", Block(parsed.text))
    yield ("hidden text", Block(parsed.hidden))


def _address_cells(person: HeaderAddress) -> tuple[str, ...]:
    return (person.name, person.address) if person.name else (person.address,)


_ARTIFACT_COLUMNS = (
    "artifact", "kind", "state", "sure", "from", "verdict", "purpose", "number", "received",
)  # fmt: skip
_INTERNAL_FIELDS = ("claim_fingerprint", "lease_fingerprint", "rank")


@click.command("list", epilog=examples("oncebox artifact list inb_… --state available --json"))
@click.argument("inbox", metavar="INBOX")
@click.option("--kind", type=click.Choice([str(each) for each in ArtifactKind]), help="Only these.")
@click.option(
    "--state", type=click.Choice([str(each) for each in ArtifactState]), help="Filter by state."
)
@limit_option
@before_option
@tenant_option
@with_context
def list_artifacts(  # noqa: PLR0913 - its options
    call: CommandContext,
    *,
    inbox: str,
    kind: str | None,
    state: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """List the codes and links of an inbox without their values, newest first."""
    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        found = reader.read(
            artifacts.page,
            Requester(tenant=owner),
            reader.read(find_id, IdKind.INBOX, owner, inbox),
            kind=ArtifactKind(kind) if kind else None,
            state=ArtifactState(state) if state else None,
            before=before,
            most=limit,
        )
    call.out.listing(found, _ARTIFACT_COLUMNS, _artifact_row, record=_artifact_record)


@click.command("show", epilog=examples("oncebox artifact show art_…"))
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def show_artifact(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Show a code or link without its value."""
    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        id_ = reader.read(find_id, IdKind.ARTIFACT, owner, wanted)
        found = reader.read(artifacts.get, Requester(tenant=owner), id_)
    if call.out.as_json:
        call.out.record(_artifact_record(found))
    else:
        call.out.outline(_artifact_lines(found))


@click.command("claim", epilog=examples("oncebox artifact claim art_… --claim-key signup-4821"))
@click.argument("wanted", metavar="ID")
@click.option(
    "--claim-key", metavar="TEXT", help="Claim key; the same key gets it again.  [the attempt]"
)
@tenant_option
@with_context
def claim_artifact(
    call: CommandContext, *, wanted: str, claim_key: str | None, tenant: str | None
) -> None:
    """Claim a code or link and print its value.

    A value is granted once: API callers do not get it any more.
    """

    async def work(components: Components) -> ClaimGranted:
        owner = tenant_of(components, tenant)
        id_ = await components.database.read(find_id, IdKind.ARTIFACT, owner, wanted)
        return await components.grants.claim(claimant_of(Requester(tenant=owner), claim_key), id_)

    granted = call.run(work)
    if call.out.as_json:
        more = {"value": granted.value.value, "repeated": granted.repeated}
        link = {"link": msgspec.to_builtins(granted.link)}
        call.out.record(_artifact_record(granted.artifact) | more | link)
    else:
        call.out.line(granted.value.value)


@click.command("release", epilog=examples('oncebox artifact release art_… --why "the agent died"'))
@click.argument("wanted", metavar="ID")
@click.option(
    "--who",
    metavar="NAME",
    default=current_user,
    help="Operator named in the audit log.  [your login]",
)
@click.option("--why", metavar="TEXT", required=True, help="Reason, kept in the audit log.")
@tenant_option
@with_context
def release_artifact(
    call: CommandContext, *, wanted: str, who: str, why: str, tenant: str | None
) -> None:
    """Release a claim, so that the code or link can be claimed again."""

    async def work(components: Components) -> Artifact:
        entry = audit_entry(components, tenant, who=who, why=why)
        id_ = await components.database.read(find_id, IdKind.ARTIFACT, entry.tenant, wanted)
        return await components.grants.release(Requester(tenant=entry.tenant), id_, entry)

    released = call.run(work)
    call.out.result(_artifact_record(released), released.id, released.state)


def _artifact_record(artifact: Artifact) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.structs.asdict(artifact)
    for name in _INTERNAL_FIELDS:
        del record[name]
    return record | {"confidence": artifact.confidence / 1000}


def _artifact_row(artifact: Artifact) -> tuple[object, ...]:
    return (
        artifact.id, artifact.kind, artifact.state, artifact.confidence / 1000, artifact.sender,
        artifact.sender_verdict, ",".join(artifact.purposes), artifact.sequence,
        iso_time(artifact.received_at),
    )  # fmt: skip


def _artifact_lines(artifact: Artifact) -> Iterator[tuple[object, ...]]:
    yield ("artifact", artifact.id, artifact.kind)
    yield ("state", artifact.state)
    yield ("inbox", artifact.inbox_id)
    yield ("message", artifact.message_id, f"number {artifact.sequence}")
    yield ("received", iso_time(artifact.received_at))
    if artifact.signed_at is not None:
        yield ("signed date", iso_time(artifact.signed_at))
    yield ("sender", artifact.sender, artifact.sender_verdict)
    yield ("sure", artifact.confidence / 1000)
    if artifact.purposes:
        yield ("purpose", *artifact.purposes)
    yield from _history_lines(artifact)


def _claim_lines(artifact: Artifact) -> Iterator[tuple[object, ...]]:
    if artifact.same_as:
        yield ("same as", artifact.same_as, "in another inbox of the attempt")
    if artifact.claimed_at is not None:
        yield ("claimed by", artifact.claimed_by, iso_time(artifact.claimed_at))
    if artifact.used_at is not None:
        yield ("used", iso_time(artifact.used_at))
    elif artifact.lease_until is not None:
        yield ("leased until", iso_time(artifact.lease_until))
    if artifact.releases:
        yield ("released", f"{artifact.releases} times")


def _history_lines(artifact: Artifact) -> Iterator[tuple[object, ...]]:
    if not artifact.matched:
        yield ("matched", "no: its message does not match the inbox's policy")
    if artifact.warnings:
        yield ("warnings", *artifact.warnings)
    if artifact.superseded_by:
        yield ("superseded by", artifact.superseded_by)
    yield from _claim_lines(artifact)
    if artifact.purged_at is not None:
        yield ("overwritten", iso_time(artifact.purged_at))
