"""``oncebox artifact``: codes and links that came by mail, and who has them."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.deeds import default_who
from oncebox.cli.office import deed_of, owned, whose
from oncebox.cli.words import moment
from oncebox.ledger.inboxes import artifacts
from oncebox.ledger.inboxes.grants import claimant
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.model.artifact import Artifact, ArtifactState
from oncebox.model.candidate import Kind
from oncebox.model.grant import Granted

#: what comes after every id
_END = "~"
_COLUMNS = ("artifact", "kind", "state", "sure", "from", "verdict", "purpose", "number", "received")
#: fields that say nothing to people
_HIDDEN = ("claim_mark", "rank")


@click.command("list", epilog=examples("oncebox artifact list inb_… --state available --json"))
@click.argument("inbox", metavar="INBOX")
@click.option("--kind", type=click.Choice([str(each) for each in Kind]), help="Only these.")
@click.option("--state", type=click.Choice([str(each) for each in ArtifactState]), help="As above.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@owned
@with_call
def list_(  # noqa: PLR0913 - which ones, whose, and how many
    call: Call,
    *,
    inbox: str,
    kind: str | None,
    state: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """Show the codes and links of an inbox, newest first; not what they say."""

    async def work(rooms: Rooms) -> list[Artifact]:
        return await rooms.database.read(
            artifacts.page,
            Asker(tenant=whose(rooms, tenant)),
            inbox,
            kind=Kind(kind) if kind else None,
            state=ArtifactState(state) if state else None,
            before=before,
            most=limit,
        )

    found = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(_record(each))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(_COLUMNS, [_cells(each) for each in found])


@click.command("show", epilog=examples("oncebox artifact show art_…"))
@click.argument("wanted", metavar="ID")
@owned
@with_call
def show(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Show all about an artifact but what it says."""

    async def work(rooms: Rooms) -> Artifact:
        return await rooms.database.read(artifacts.get, Asker(tenant=whose(rooms, tenant)), wanted)

    _print(call, call.run(work))


@click.command("claim", epilog=examples("oncebox artifact claim art_… --claim-key signup-4821"))
@click.argument("wanted", metavar="ID")
@click.option("--claim-key", metavar="TEXT", help="The same one gets it again.  [the attempt]")
@owned
@with_call
def claim(call: Call, *, wanted: str, claim_key: str | None, tenant: str | None) -> None:
    """Claim an artifact and print what it says.

    It is granted once: whoever asks for it by the API does not get it any more.
    """

    async def work(rooms: Rooms) -> Granted:
        who = claimant(Asker(tenant=whose(rooms, tenant)), claim_key)
        return await rooms.grants.claim(who, wanted)

    granted = call.run(work)
    if call.out.as_json:
        more = {"value": granted.value.value, "repeated": granted.repeated}
        link = {"link": msgspec.to_builtins(granted.link)}
        call.out.record(_record(granted.artifact) | more | link)
    else:
        call.out.line(granted.value.value)


@click.command("release", epilog=examples('oncebox artifact release art_… --why "the agent died"'))
@click.argument("wanted", metavar="ID")
@click.option("--who", metavar="NAME", default=default_who, help="Who does it.  [your login]")
@click.option("--why", metavar="TEXT", required=True, help="The reason; it is kept in the audit.")
@owned
@with_call
def release(call: Call, *, wanted: str, who: str, why: str, tenant: str | None) -> None:
    """Take an artifact back from who has claimed it, so that it can be claimed again."""

    async def work(rooms: Rooms) -> Artifact:
        deed = deed_of(rooms, tenant, who=who, why=why)
        return await rooms.grants.release(Asker(tenant=deed.tenant), wanted, deed)

    released = call.run(work)
    if call.out.as_json:
        call.out.record(_record(released))
    elif not call.out.quiet:
        call.out.line(released.id, released.state)


def _record(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact for JSON."""
    told: dict[str, Any] = msgspec.structs.asdict(artifact)
    for name in _HIDDEN:
        del told[name]
    return told | {"confidence": artifact.confidence / 1000}


def _cells(artifact: Artifact) -> tuple[object, ...]:
    return (
        artifact.id, artifact.kind, artifact.state, artifact.confidence / 1000, artifact.sender,
        artifact.sender_verdict, ",".join(artifact.purposes), artifact.sequence,
        moment(artifact.received_at),
    )  # fmt: skip


def _print(call: Call, artifact: Artifact) -> None:
    if call.out.as_json:
        call.out.record(_record(artifact))
    else:
        call.out.outline(list(_lines(artifact)))


def _lines(artifact: Artifact) -> Iterator[tuple[object, ...]]:
    yield ("artifact", artifact.id, artifact.kind)
    yield ("state", artifact.state)
    yield ("inbox", artifact.inbox_id)
    yield ("message", artifact.message_id, f"number {artifact.sequence}")
    yield ("received", moment(artifact.received_at))
    if artifact.signed_at is not None:
        yield ("signed date", moment(artifact.signed_at))
    yield ("sender", artifact.sender, artifact.sender_verdict)
    yield ("sure", artifact.confidence / 1000)
    if artifact.purposes:
        yield ("purpose", *artifact.purposes)
    yield from _fate(artifact)


def _fate(artifact: Artifact) -> Iterator[tuple[object, ...]]:
    """Tell what became of it."""
    if not artifact.matched:
        yield ("matched", "no: its message is not what the inbox expects")
    if artifact.warnings:
        yield ("warnings", *artifact.warnings)
    if artifact.superseded_by:
        yield ("superseded by", artifact.superseded_by)
    if artifact.claimed_at is not None:
        yield ("claimed by", artifact.claimed_by, moment(artifact.claimed_at))
    if artifact.releases:
        yield ("released", f"{artifact.releases} times")
    if artifact.purged_at is not None:
        yield ("overwritten", moment(artifact.purged_at))
