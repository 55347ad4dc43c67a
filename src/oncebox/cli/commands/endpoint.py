"""`oncebox endpoint add|list|show|test|pause|resume|rotate|remove`: outgoing webhooks."""

import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options,
    print_removed,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output import failures
from oncebox.cli.output.times import ago, iso_time
from oncebox.components import Components
from oncebox.core.egress import Egress
from oncebox.db.database import Transaction
from oncebox.errors import EgressError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.endpoints import endpoints
from oncebox.ledger.endpoints.endpoint_service import IssuedSecret
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.inspection import DeliveryRecord
from oncebox.model.endpoints import (
    DEFAULT_CONCURRENCY,
    AnswerKind,
    Endpoint,
    EndpointFields,
    EndpointOrder,
    answer_kind,
)
from oncebox.model.public_internet import parse_allowed_hosts
from oncebox.webhooks.signing import sign

_COLUMNS = ("endpoint", "state", "url", "events", "order", "last success", "note")
#: deliveries whose last answers are shown
_SHOWN = 10
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_TEST_BODY = b'{"type":"endpoint.test","timestamp":"%s","data":{}}'


@click.command(
    "add",
    epilog=examples(
        "oncebox endpoint add https://app.example.com/hooks",
        "oncebox endpoint add https://app.example.com/hooks --name agents \\",
        "    --events message.received,artifact.available --order inbox",
    ),
)
@click.argument("url")
@click.option("--name", metavar="NAME", help="Name.  [made of the host]")
@click.option("--events", metavar="TYPES", help="Event types, with commas; send.* is a family.")
@click.option("--inbox", "inbox_id", metavar="ID", help="Only events of this inbox.")
@click.option("--attempt", "attempt_id", metavar="ID", help="Only events of this attempt.")
@click.option("--source", metavar="NAME", help="Only events of this webhook source.")
@click.option(
    "--order",
    "ordering",
    type=click.Choice([str(each) for each in EndpointOrder]),
    default="none",
    help="Deliver events of one inbox, attempt or source one after the other.",
)
@click.option(
    "--concurrency",
    type=int,
    default=DEFAULT_CONCURRENCY,
    show_default=True,
    help="Requests at the same time.",
)
@tenant_option
@audit_options
@with_context
def add(  # noqa: PLR0913 - its options
    call: CommandContext,
    /,
    *,
    url: str,
    name: str | None,
    events: str | None,
    tenant: str | None,
    who: str,
    why: str,
    ordering: str,
    **fields: Any,
) -> None:
    """Deliver events to a URL, signed as Standard Webhooks, until it accepts them.

    Prints the secret that signs, which is not shown again. Events that are recorded from now on
    are delivered.
    """
    types = tuple(each.strip() for each in (events or "").split(",") if each.strip())
    wanted = EndpointFields(
        name=name or _name_of(url),
        url=url,
        types=types,
        ordering=EndpointOrder(ordering),
        **fields,
    )

    async def work(components: Components) -> IssuedSecret:
        entry = audit_entry(components, tenant, who=who, why=why)
        return await components.database.write(components.endpoint_service.add, wanted, entry)

    _print_secret(call, call.run(work, create=True), "added")


@click.command("rotate", epilog=examples("oncebox endpoint rotate agents"))
@click.argument("name")
@click.option("--at-once", is_flag=True, help="Do not sign with the secret before it any more.")
@tenant_option
@audit_options
@with_context
def rotate(
    call: CommandContext, *, name: str, at_once: bool, tenant: str | None, who: str, why: str
) -> None:
    """Sign with a new secret; the one before it signs too, until the next rotation."""

    async def work(components: Components) -> IssuedSecret:
        entry = audit_entry(components, tenant, who=who, why=why)
        service = components.endpoint_service
        return await components.database.write(
            lambda tx: service.rotate(tx, name, entry, overlap=not at_once)
        )

    _print_secret(call, call.run(work), "rotated")


@click.command("list")
@tenant_option
@with_context
def list_(call: CommandContext, *, tenant: str | None) -> None:
    """List endpoints and their state."""
    with call.reader() as reader:
        found = reader.read(endpoints.of_tenant, tenant_of(reader, tenant))
        now = reader.clock()
    call.out.listing(
        found, _COLUMNS, lambda each: _row(each, now), record=_record, name=attrgetter("name")
    )


@click.command("show")
@click.argument("name")
@tenant_option
@with_context
def show(call: CommandContext, *, name: str, tenant: str | None) -> None:
    """Show an endpoint and its last answers, without its secrets."""
    with call.reader() as reader:
        owner, now = tenant_of(reader, tenant), reader.clock()
        found = reader.read(endpoints.get, owner, name)
        last = reader.read(inspections.newest, owner, source=found.delivery_source, most=_SHOWN)
    if call.out.as_json:
        call.out.record({**_record(found), "deliveries": [_delivery_record(each) for each in last]})
        return
    call.out.outline(list(_lines(found, now)))
    for each in last:
        call.out.line(each.id, each.state, each.type, f"try {each.tries}", each.last_error or "")


@click.command("test")
@click.argument("name")
@tenant_option
@with_context
def test(call: CommandContext, *, name: str, tenant: str | None) -> int:
    """Send a signed test event now; the exit code is 1 if it is not accepted."""

    async def work(components: Components) -> dict[str, Any]:
        found = await components.database.read(endpoints.get, tenant_of(components, tenant), name)
        return await _send_test(components, found)

    record = call.run(work)
    answer = f"answered {record['status']}" if record["code"] is None else record["detail"]
    call.out.result(record, name, "works" if record["works"] else "does not work", answer)
    return failures.OK if record["works"] else failures.ERROR


async def _send_test(components: Components, found: Endpoint) -> dict[str, Any]:
    now, settings = components.database.clock(), components.settings
    body = _TEST_BODY % iso_time(now).encode()
    secrets = components.endpoint_cipher.decrypt(found.tenant, found.name, found.secrets)
    headers = {"content-type": "application/json", "user-agent": "oncebox"}
    headers |= sign(secrets, f"evt_test_{now}", now, body)
    egress = Egress(allowed=parse_allowed_hosts(settings.egress.allow), any_port=True)
    record: dict[str, Any] = {"name": found.name, "works": False, "status": None, "code": None}
    try:
        answer = await egress.deliver(
            found.url, body, headers=headers, most=0, within=settings.endpoints.within
        )
    except EgressError as error:
        return {**record, "code": error.code, "detail": str(error)}
    finally:
        await egress.close()
    works = answer_kind(answer.status) is AnswerKind.ACCEPTED
    return {**record, "works": works, "status": answer.status}


def _operation(
    name: str, done: str, verb: Callable[[Transaction, str, AuditEntry], Endpoint], meaning: str
) -> click.Command:
    @click.argument("name")
    @tenant_option
    @audit_options
    @with_context
    def command(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
        async def work(components: Components) -> Endpoint:
            entry = audit_entry(components, tenant, who=who, why=why)
            found = await components.database.write(verb, name, entry)
            components.database.notify(DUE)
            return found

        found = call.run(work)
        call.out.result({**_record(found), "action": done}, found.name, done, name=found.name)

    return click.command(name, help=meaning)(command)


pause = _operation(
    "pause", "paused", endpoints.pause, "Deliver nothing to an endpoint; its events wait."
)
resume = _operation(
    "resume", "resumed", endpoints.resume, "Deliver at once, after a pause or failures."
)


@click.command("remove")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def remove(call: CommandContext, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Forget an endpoint; events that wait for it are dropped."""

    async def work(components: Components) -> None:
        database = components.database
        entry = audit_entry(components, tenant, who=who, why=why)
        await database.write(endpoints.remove, name, entry)
        while await database.write(endpoints.drop_waiting, entry.tenant, name, database.clock()):
            pass

    call.run(work)
    print_removed(call, name)


def _name_of(url: str) -> str:
    """Return a name made of the host of a URL; a URL without one is refused later."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return _NOT_IN_NAMES.sub("-", host).strip("-")[:64] or "endpoint"


def _print_secret(call: CommandContext, issued: IssuedSecret, done: str) -> None:
    found = issued.endpoint
    record = {**_record(found), "secret": issued.secret, "action": done}
    call.out.result(record, found.name, done, issued.secret, name=issued.secret)


def _record(found: Endpoint) -> dict[str, Any]:
    values = msgspec.structs.asdict(found)
    del values["secrets"]
    return values


def _delivery_record(found: DeliveryRecord) -> dict[str, Any]:
    return {
        "id": found.id,
        "event": found.key,
        "type": found.type,
        "state": found.state,
        "tries": found.tries,
        "error": found.last_error,
    }


def _state(found: Endpoint, now: int) -> str:
    if found.paused is not None:
        return "paused"
    if found.rests_until is not None and found.rests_until > now:
        return "resting"
    return "failing" if found.failures else "active"


def _row(found: Endpoint, now: int) -> tuple[object, ...]:
    last = ago(found.succeeded_at, now) if found.succeeded_at else "never"
    types = ",".join(found.types) or "all"
    return (found.name, _state(found, now), found.url, types, found.ordering, last,
            _note(found, now))  # fmt: skip


def _note(found: Endpoint, now: int) -> str:
    if found.paused is not None:
        why = "it answered 410" if found.paused == "gone" else "by an operator"
        return f"{why}; go on with: oncebox endpoint resume {found.name}"
    if found.rests_until is not None and found.rests_until > now:
        return f"{found.failures} failures; next try {ago(found.rests_until, now)}"
    return ""


def _lines(found: Endpoint, now: int) -> Iterator[tuple[str, object]]:
    yield ("endpoint", found.name)
    yield ("tenant", found.tenant)
    yield ("url", found.url)
    yield ("state", _state(found, now))
    if note := _note(found, now):
        yield ("note", note)
    yield ("events", ",".join(found.types) or "all")
    for name in ("inbox_id", "attempt_id", "source"):
        if getattr(found, name):
            yield (name.removesuffix("_id"), getattr(found, name))
    yield ("order", found.ordering)
    yield ("concurrency", found.concurrency)
    for name, at in (("last success", found.succeeded_at), ("last failure", found.failed_at)):
        if at is not None:
            yield (name, iso_time(at))
