"""`oncebox key`, `tenant`, `domain`, `suppression`: administration."""

from operator import itemgetter
from typing import Any, Unpack

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    AuditOptions,
    audit_entry,
    audit_options,
    print_removed,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output.times import iso_time, parse_duration, parse_size
from oncebox.components import Components
from oncebox.ledger.admin import api_keys, tenants
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import quotas
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.sends import suppressions
from oncebox.ledger.sends.suppressions import Suppression, SuppressionReason
from oncebox.model.admin.access import ApiKey, Tenant, TenantStorage
from oncebox.model.inboxes.addresses import DnsRecord, Domain, dns_records, parse_mailbox
from oncebox.settings import Settings

_KEY_COLUMNS = ("key", "state", "name", "scopes", "begins with", "made", "expires", "last used")


@click.command(
    "new",
    epilog=examples(
        "oncebox key new --scope operator --name 'ada, laptop' --expires 90d",
        "oncebox key new --scope worker:stripe --tenant acme",
    ),
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="SCOPE",
    help="admin, operator, agent, metrics, worker:SOURCE or accept:SOURCE. Repeatable.",
)
@click.option("--name", default="", metavar="TEXT", help="Name of the key.")
@click.option(
    "--expires", type=parse_duration, metavar="TIME", help="Expiry from now, such as 90d.  [never]"
)
@tenant_option
@audit_options
@with_context
def new_key(
    call: CommandContext,
    *,
    scopes: tuple[str, ...],
    name: str,
    expires: float | None,
    **audit: Unpack[AuditOptions],
) -> None:
    """Create an API key and print it once.

    Only its hash is stored; revoke and replace a key that was lost.
    """

    async def work(components: Components) -> tuple[ApiKey, str]:
        entry = audit_entry(components, **audit)
        expires_at = None if expires is None else entry.at + round(expires * 1000)
        key, text = api_keys.generate(entry, scopes, expires_at=expires_at, name=name)
        await components.database.write(api_keys.add, key, text, entry)
        return key, text

    key, text = call.run(work, create=True)
    record = {**_key_record(key, key.created_at), "key": text}
    call.out.result(record, key.id, text, name=text)
    if call.out.on_terminal and not (call.out.as_json or call.out.quiet):
        click.echo("it is not shown again", err=True)


@click.command("list")
@tenant_option
@with_context
def list_keys(call: CommandContext, *, tenant: str | None) -> None:
    """List API keys, oldest first, without their texts."""
    with call.reader() as reader:
        found, now = reader.read(api_keys.list_all, tenant_of(reader, tenant)), reader.clock()
    call.out.listing(
        found,
        _KEY_COLUMNS,
        lambda key: _key_row(key, now),
        record=lambda key: _key_record(key, now),
    )


@click.command("revoke")
@click.argument("wanted", metavar="ID")
@tenant_option
@audit_options
@with_context
def revoke_key(call: CommandContext, *, wanted: str, **audit: Unpack[AuditOptions]) -> None:
    """Revoke an API key; services refuse it within seconds."""

    async def work(components: Components) -> tuple[ApiKey, int]:
        entry = audit_entry(components, **audit)
        id_ = await components.database.read(find_id, IdKind.KEY, entry.tenant, wanted)
        return await components.database.write(api_keys.revoke, id_, entry), entry.at

    key, now = call.run(work)
    call.out.result(_key_record(key, now), key.id, "revoked")


def _key_record(key: ApiKey, now: int) -> dict[str, object]:
    return {**msgspec.structs.asdict(key), "state": key.state(now)}


def _key_row(key: ApiKey, now: int) -> tuple[object, ...]:
    times = (key.created_at, key.expires_at, key.last_used_at)
    return (
        key.id,
        key.state(now),
        key.name,
        " ".join(key.scopes),
        key.hint,
        *("" if each is None else iso_time(each) for each in times),
    )


@click.command("new")
@click.argument("name")
@audit_options
@with_context
def new_tenant(call: CommandContext, *, name: str, who: str, why: str) -> None:
    """Create a tenant, isolated from the others."""

    async def work(components: Components) -> Tenant:
        return await components.database.write(
            tenants.create, name, audit_entry(components, None, who=who, why=why)
        )

    made = call.run(work, create=True)
    call.out.result(made, made.name, name=made.name)


@click.command("list")
@with_context
def list_tenants(call: CommandContext) -> None:
    """List all tenants; `default` always exists."""
    with call.reader() as reader:
        found = reader.read(tenants.list_all)
        default = reader.settings.limits.tenant_bytes
        stored = reader.read(quotas.storage_of_all, default)
    call.out.listing(
        [(each, stored.get(each.name, TenantStorage(each.name, 0, default))) for each in found],
        ("tenant", "made", "stored bytes", "quota"),
        lambda row: _tenant_row(*row),
        record=lambda row: _tenant_record(*row),
        name=lambda row: row[0].name,
    )


def _tenant_row(tenant: Tenant, storage: TenantStorage) -> tuple[object, ...]:
    made = iso_time(tenant.created_at) if tenant.created_at else ""
    return tenant.name, made, storage.stored_bytes, storage.quota_bytes or "none"


def _tenant_record(tenant: Tenant, storage: TenantStorage) -> dict[str, object]:
    record = msgspec.structs.asdict(storage)
    del record["tenant"]
    return {**msgspec.structs.asdict(tenant), **record}


@click.command(
    "quota",
    epilog=examples("oncebox tenant quota acme 20GiB", "oncebox tenant quota acme default"),
)
@click.argument("name")
@click.argument("size", type=parse_size, metavar="SIZE")
@audit_options
@with_context
def set_quota(call: CommandContext, *, name: str, size: int | None, who: str, why: str) -> None:
    """Limit the raw mail that a tenant stores.

    SIZE is a number of bytes, or such as 500MiB or 20GiB; 0 is no limit, `default` the setting
    limits.tenant_bytes. Beyond it, mail is refused with 452 4.2.2 until older mail is deleted.
    """

    async def work(components: Components) -> TenantStorage:
        entry = audit_entry(components, name, who=who, why=why)
        await components.database.write(quotas.set_quota, size, entry)
        default = components.settings.limits.tenant_bytes
        return await components.database.read(quotas.storage, name, default)

    storage = call.run(work)
    limit = f"{storage.quota_bytes} bytes" if storage.quota_bytes else "no limit"
    call.out.result(storage, name, f"stores {storage.stored_bytes} bytes of {limit}")


@click.command(
    "add",
    epilog=examples(
        "oncebox domain add inbox.example.com",
        "oncebox domain add inbox.example.com --catch-all",
    ),
)
@click.argument("name")
@click.option("--catch-all", is_flag=True, help="Catch-all inbox for addresses without one.")
@tenant_option
@audit_options
@with_context
def add_domain(
    call: CommandContext, *, name: str, catch_all: bool, **audit: Unpack[AuditOptions]
) -> None:
    """Accept mail for a domain and print the DNS records to set.

    Without --catch-all, only mail for existing inboxes is accepted.
    """

    async def work(components: Components) -> tuple[Domain, tuple[DnsRecord, ...]]:
        entry = audit_entry(components, **audit)
        requester = Requester(tenant=entry.tenant)
        domain = await components.database.write(
            components.inboxes.add_domain, name, requester, entry, catch_all=catch_all
        )
        components.database.notify(EVENTS)
        return domain, _dns_records(components.settings, domain)

    domain, found = call.run(work, create=True)
    catch_all_cell = () if domain.catch_all is None else (f"catch-all {domain.catch_all}",)
    call.out.report(
        {**_domain_record(domain, found), "action": "added"},
        [
            (domain.name, "added", *catch_all_cell),
            *((each.name, each.type, each.value) for each in found),
        ],
        name=domain.name,
    )


@click.command("list")
@tenant_option
@with_context
def list_domains(call: CommandContext, *, tenant: str | None) -> None:
    """List domains and how they handle addresses without an inbox."""
    with call.reader() as reader:
        service = InboxService(reader.settings.inboxes, home=reader.settings.tenant)
        domains = reader.read(service.domains, tenant_of(reader, tenant))
        found = [(each, _dns_records(reader.settings, each)) for each in domains]
    call.out.listing(
        found,
        ("domain", "other addresses", "added"),
        lambda each: _domain_row(each[0]),
        record=lambda each: _domain_record(*each),
        name=lambda each: each[0].name,
    )


@click.command("remove")
@click.argument("name")
@tenant_option
@audit_options
@with_context
def remove_domain(call: CommandContext, *, name: str, **audit: Unpack[AuditOptions]) -> None:
    """Stop accepting mail for a domain; its inboxes and messages stay."""

    async def work(components: Components) -> None:
        entry = audit_entry(components, **audit)
        await components.database.write(components.inboxes.remove_domain, name, entry)

    call.run(work)
    print_removed(call, name)


def _dns_records(settings: Settings, domain: Domain) -> tuple[DnsRecord, ...]:
    return dns_records(domain.name, settings.inboxes.host or f"mail.{domain.name}")


def _domain_record(domain: Domain, found: tuple[DnsRecord, ...]) -> dict[str, object]:
    return {**msgspec.structs.asdict(domain), "records": found}


def _domain_row(domain: Domain) -> tuple[str, str, str]:
    added = iso_time(domain.created_at) if domain.created_at else ""
    return domain.name, "refused" if domain.catch_all is None else domain.catch_all, added


@click.command("add", epilog=examples("oncebox suppression add ann@example.com --why 'she asked'"))
@click.argument("address")
@tenant_option
@audit_options
@with_context
def add_suppression(call: CommandContext, *, address: str, **audit: Unpack[AuditOptions]) -> None:
    """Send no more mail to an address, in any spelling.

    Sends in flight are not stopped.
    """
    key = parse_mailbox(address).key

    async def work(components: Components) -> tuple[Suppression, bool]:
        entry = audit_entry(components, **audit)
        new = Suppression(
            fingerprint=components.send_cipher.address_fingerprint(entry.tenant, key),
            address=components.send_cipher.encrypt_address(entry.tenant, key),
            reason=SuppressionReason.MANUAL,
            send_id=None,
            created_at=entry.at,
        )
        return new, await components.database.write(suppressions.add, new, entry)

    new, is_new = call.run(work, create=True)
    record = {**_suppression_record(new, key), "created": is_new}
    done = "added" if is_new else "was there already"
    call.out.result(record, record["id"], done, name=record["id"])


@click.command("list", epilog=examples("oncebox suppression list --json | jq -r .address"))
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option("--after", default="", metavar="ID", help="Continue the list after this id.")
@tenant_option
@with_context
def list_suppressions(call: CommandContext, *, limit: int, after: str, tenant: str | None) -> None:
    """List suppressed addresses and the reasons."""
    try:
        mark = bytes.fromhex(after)
    except ValueError as error:
        raise click.BadParameter(
            "write an id as the list shows it", param_hint="--after"
        ) from error

    with call.reader() as reader:
        owner = tenant_of(reader, tenant)
        stored = reader.read(suppressions.page, owner, after=mark, most=limit)
        decrypt = reader.send_cipher.decrypt_address
        found = [
            _suppression_record(each, decrypt(owner, each.fingerprint, each.address))
            for each in stored
        ]
    call.out.listing(
        found,
        ("suppressed", "address", "reason", "send", "since"),
        lambda each: (
            *itemgetter("id", "address", "reason", "send_id")(each),
            iso_time(each["created_at"]),
        ),
        name=itemgetter("id"),
    )


@click.command("remove", epilog=examples("oncebox suppression remove ann@example.com --why fixed"))
@click.argument("address")
@tenant_option
@audit_options
@with_context
def remove_suppression(
    call: CommandContext, *, address: str, **audit: Unpack[AuditOptions]
) -> None:
    """Send mail to an address again; suppressed mail is not sent until: oncebox send resend."""
    key = parse_mailbox(address).key

    async def work(components: Components) -> None:
        entry = audit_entry(components, **audit)
        fingerprint = components.send_cipher.address_fingerprint(entry.tenant, key)
        await components.database.write(suppressions.remove, fingerprint, entry)

    call.run(work)
    print_removed(call, key)


def _suppression_record(found: Suppression, address: str) -> dict[str, Any]:
    return {
        "id": found.fingerprint.hex(),
        "address": address,
        "reason": found.reason,
        "send_id": found.send_id,
        "created_at": found.created_at,
    }
