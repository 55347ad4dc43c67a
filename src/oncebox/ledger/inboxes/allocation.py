"""InboxService: allocates, rotates and closes inboxes, adds and removes domains."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import ConfigInvalid, NotFound, StateConflict
from oncebox.errors.mail import (
    AddressInvalid,
    AddressTaken,
    DomainRequired,
    DomainTaken,
    DomainUnknown,
    InboxConflict,
)
from oncebox.ledger.admin import audit, tenants
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes, quotas
from oncebox.model.inboxes.addresses import (
    ADDRESS_RANDOM_BYTES,
    Domain,
    address_key,
    domain_key,
    domains_overlap,
    make_local_part,
)
from oncebox.model.inboxes.inbox import (
    Inbox,
    InboxOptions,
    InboxPolicy,
    InboxState,
    check_options,
    check_policy,
)
from oncebox.settings import InboxSettings

_sql = load(__package__, "allocation.sql")


#: random addresses to try; more collisions mean a broken random source
_MOST_DRAWS = 5
_CATCH_ALL = "catch-all"
_DOMAIN_TAKEN = (
    "this domain, or one above or below it, is in the installation already; choose another"
)
_DOMAIN_MISSING = "there is no such domain; list them with: oncebox domain list"
_DOMAIN_UNKNOWN = "there is no such domain here; add it with: oncebox domain add"


class AllocatedInbox(msgspec.Struct, frozen=True):
    """An inbox, and whether this call created it."""

    inbox: Inbox
    new: bool


class InboxService:
    """Creates, rotates and closes inboxes; all times in milliseconds."""

    def __init__(
        self,
        settings: InboxSettings,
        *,
        home: str,
        tenant_bytes: int = 0,
        random: Callable[[int], bytes] = os.urandom,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Reserve the default domain for the tenant ``home``; limit the mail of tenants.

        Raises: ConfigInvalid.
        """
        try:
            self.default = domain_key(settings.domain) if settings.domain else ""
        except AddressInvalid as error:
            raise ConfigInvalid(f"the setting inboxes.domain cannot be used: {error}") from error
        self.draining = round(settings.draining * 1000)
        self._lifetime = round(settings.lifetime * 1000)
        self._default_tenant = home
        self._tenant_bytes = tenant_bytes
        self._random = random
        self._new_id = new_id

    # inboxes

    def allocate(
        self, tx: Transaction, requester: Requester, options: Sequence[InboxOptions], now: int
    ) -> list[AllocatedInbox]:
        """Create inboxes in one commit; an attempt that has one with that label keeps it.

        Raises: AddressInvalid, AddressTaken, DomainRequired, DomainUnknown, InboxConflict,
        InboxInvalid, QuotaExceeded.
        """
        wanted = dict(enumerate(map(check_options, options)))
        domains = {
            name: self._domain(tx, requester.tenant, name, now)
            for name in dict.fromkeys(each.domain for each in wanted.values())
        }
        found: dict[int, AllocatedInbox] = {}
        for _ in range(_MOST_DRAWS):
            drawn = {
                number: self._new_inbox(requester, each, domains[each.domain], now)
                for number, each in wanted.items()
                if number not in found
            }
            added = inboxes.add(tx, requester, drawn.values(), now)
            for number, inbox in drawn.items():
                if inbox.id in added:
                    found[number] = AllocatedInbox(inbox, new=True)
            if len(found) < len(wanted):
                rest = {n: each for n, each in wanted.items() if n not in found}
                found |= _existing(tx, requester, rest)
            if len(found) == len(wanted):
                if any(each.new for each in found.values()):
                    quotas.require_storage(tx, requester.tenant, self._tenant_bytes)
                return [found[number] for number in wanted]
        raise AddressTaken("this address was assigned before; choose another")

    def rotate(
        self, tx: Transaction, requester: Requester, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Give an attempt a new address and drain the old one; a repeat returns the same.

        Raises: NotFound, DomainUnknown.
        """
        old = inboxes.get(tx, requester, id_)
        successor = self._new_id("inb")
        if not inboxes.set_successor(tx, requester, id_, successor):
            rotated_to = inboxes.get(tx, requester, id_).rotated_to
            return inboxes.get(tx, requester, rotated_to or "")
        if _find_domain(tx, requester.tenant, old.domain) is None:
            raise DomainUnknown(_DOMAIN_UNKNOWN)
        if old.ended_at is None:
            inboxes.close(tx, requester, id_, self._drain_until(draining, now), now)
        lifetime = None if old.active_until is None else old.active_until - old.created_at
        until = None if lifetime is None else now + lifetime
        owner = Requester(tenant=requester.tenant, key=old.owner)
        for _ in range(_MOST_DRAWS):
            new = Inbox(
                id=successor,
                tenant=old.tenant,
                email=self._address(None, old.domain),
                attempt_id=old.attempt_id,
                label=old.label,
                owner=old.owner,
                state=InboxState.ACTIVE,
                created_at=now,
                active_until=until,
                due_at=until,
                metadata=old.metadata,
                policy=old.policy,
                rotated_from=old.id,
            )
            if inboxes.add(tx, owner, [new], now):
                inboxes.keep_original_policy(tx, new)
                return new
        raise AddressTaken("no free address was found; try again")

    def change_policy(
        self,
        tx: Transaction,
        requester: Requester,
        id_: str,
        changes: Mapping[str, Any],
        entry: audit.AuditEntry,
    ) -> Inbox:
        """Change fields of an inbox's policy; it applies to mail that arrives from now on.

        Raises: NotFound, InboxInvalid, StateConflict, DatabaseBusy.
        """
        stored = inboxes.stored_policy(tx, requester, id_)
        before = msgspec.json.decode(stored, type=InboxPolicy)
        fields = msgspec.to_builtins(before) | changes
        policy = check_policy(msgspec.convert(fields, InboxPolicy))
        inbox = inboxes.get(tx, requester, id_)
        if policy == before:
            return inbox
        if inbox.ended_at is not None:
            raise StateConflict(
                "the inbox accepts no more mail; create another with: oncebox inbox new"
            )
        inboxes.set_policy(tx, requester, id_, policy, stored=stored)
        audit.record(tx, entry, "inbox change-policy", id_, ", ".join(sorted(changes)))
        return inboxes.get(tx, requester, id_)

    def close(
        self, tx: Transaction, requester: Requester, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Drain an inbox and then close it; an ended one is unchanged.

        Raises: NotFound.
        """
        inboxes.get(tx, requester, id_)
        inboxes.close(tx, requester, id_, self._drain_until(draining, now), now)
        return inboxes.get(tx, requester, id_)

    # domains

    def is_default(self, tenant: str, name: str) -> bool:
        """Return whether a domain is the default one, and the tenant's."""
        return bool(name) and name == self.default and tenant == self._default_tenant

    def domains(self, tx: Transaction, tenant: str) -> list[Domain]:
        """Return the domains of a tenant, by name, including the default one."""
        found = {each.name: each for each in _list_domains(tx, tenant)}
        if self.is_default(tenant, self.default):
            found.setdefault(self.default, Domain(self.default, tenant, None, 0))
        return sorted(found.values(), key=lambda each: each.name)

    def has_domain(self, tx: Transaction, tenant: str, name: str) -> bool:
        """Return whether a tenant has a domain."""
        return _find_domain(tx, tenant, domain_key(name)) is not None

    def add_domain(
        self,
        tx: Transaction,
        name: str,
        requester: Requester,
        entry: audit.AuditEntry,
        *,
        catch_all: bool,
    ) -> Domain:
        """Accept mail for a domain: for its inboxes only, or with a catch-all inbox.

        The caller has made sure that the domain is the tenant's: see ``DomainProofs``.

        Raises: AddressInvalid, NotFound, DomainTaken.
        """
        key, tenant = domain_key(name), entry.tenant
        if domains_overlap(key, self.default) and tenant != self._default_tenant:
            raise DomainTaken(_DOMAIN_TAKEN)
        if self.is_default(tenant, key) and catch_all:
            _ensure_domain(tx, key, tenant, entry.at)
        else:
            tenants.require(tx, tenant)
            if not _insert_domain(tx, key, tenant, entry.at):
                raise DomainTaken(_DOMAIN_TAKEN)
        audit.record(tx, entry, "domain add", f"domain:{key}", _CATCH_ALL if catch_all else "")
        if catch_all:
            options = InboxOptions(label=_CATCH_ALL, domain=key, lifetime=0)
            (made,) = self.allocate(tx, requester, [options], entry.at)
            if not tx.run(_sql.set_catch_all, name=key, tenant=tenant, catch_all=made.inbox.id):
                raise DomainTaken(_DOMAIN_TAKEN)
        (row,) = tx.all(_sql.one, name=key, tenant=tenant)
        return Domain(*row)

    def remove_domain(self, tx: Transaction, name: str, entry: audit.AuditEntry) -> None:
        """Accept no more mail for a domain; its inboxes and messages remain readable.

        Raises: NotFound, StateConflict.
        """
        try:
            key = domain_key(name)
        except AddressInvalid as error:
            raise NotFound(_DOMAIN_MISSING) from error
        if self.is_default(entry.tenant, key):
            raise StateConflict(
                "the default domain cannot be removed; name another in ONCEBOX_INBOXES__DOMAIN"
            )
        if not tx.run(_sql.remove, name=key, tenant=entry.tenant):
            raise NotFound(_DOMAIN_MISSING)
        audit.record(tx, entry, "domain remove", f"domain:{key}")

    def _domain(self, tx: Transaction, tenant: str, name: str | None, now: int) -> str:
        """Return the domain that a request names, or the default of its tenant."""
        if name is not None:
            key = domain_key(name)
        elif self.is_default(tenant, self.default):
            key = self.default
        else:
            own = _list_domains(tx, tenant)
            if len(own) != 1:
                raise DomainRequired(
                    "name the domain of the address; list them with: oncebox domain list"
                )
            key = own[0].name
        if self.is_default(tenant, key):
            _ensure_domain(tx, key, tenant, now)
        elif _find_domain(tx, tenant, key) is None:
            raise DomainUnknown(_DOMAIN_UNKNOWN)
        return key

    def _new_inbox(
        self, requester: Requester, options: InboxOptions, domain: str, now: int
    ) -> Inbox:
        lifetime = self._lifetime if options.lifetime is None else options.lifetime
        until = now + lifetime if lifetime else None
        return Inbox(
            email=self._address(options.local, domain),
            id=self._new_id("inb"),
            tenant=requester.tenant,
            attempt_id=options.attempt_id,
            label=options.label,
            owner=requester.key,
            state=InboxState.ACTIVE,
            created_at=now,
            active_until=until,
            due_at=until,
            metadata=options.metadata,
            policy=options.policy,
        )

    def _address(self, local: str | None, domain: str) -> str:
        if local is None:
            return f"{make_local_part(self._random(ADDRESS_RANDOM_BYTES))}@{domain}"
        if "+" in local:
            raise AddressInvalid(
                "leave out the plus sign; mail to name+anything is delivered to name"
            )
        return address_key(local, domain)

    def _drain_until(self, draining: int | None, now: int) -> int:
        return now + (self.draining if draining is None else draining)


def _find_domain(tx: Transaction, tenant: str, name: str) -> Domain | None:
    row = tx.one(_sql.one, name=name, tenant=tenant)
    return None if row is None else Domain(*row)


def _list_domains(tx: Transaction, tenant: str) -> list[Domain]:
    return [Domain(*row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def _insert_domain(tx: Transaction, name: str, tenant: str, now: int) -> bool:
    """Insert a domain, unless it is there or overlaps with one of another tenant."""
    tx.run(_sql.lock)
    return bool(tx.run(_sql.add, name=name, tenant=tenant, now=now))


def _ensure_domain(tx: Transaction, name: str, tenant: str, now: int) -> None:
    """Insert the default domain unless the tenant has it."""
    if _find_domain(tx, tenant, name) is not None:
        return
    if not _insert_domain(tx, name, tenant, now) and _find_domain(tx, tenant, name) is None:
        raise DomainTaken(_DOMAIN_TAKEN)


def _existing(
    tx: Transaction, requester: Requester, wanted: dict[int, InboxOptions]
) -> dict[int, AllocatedInbox]:
    """Return the inboxes that attempts have already, by their number in the call."""
    pairs = {n: (each.attempt_id, each.label) for n, each in wanted.items() if each.attempt_id}
    known = inboxes.of_attempts(tx, requester.tenant, pairs.values()) if pairs else {}
    originals = inboxes.original_policies(tx, known.values())
    for number, pair in pairs.items():
        if pair in known:
            policies = {known[pair].policy, originals.get(known[pair].id, known[pair].policy)}
            _check_same(requester, number, wanted[number], known[pair], policies)
    return {
        number: AllocatedInbox(known[pair], new=False)
        for number, pair in pairs.items()
        if pair in known
    }


def _check_same(
    requester: Requester,
    number: int,
    options: InboxOptions,
    inbox: Inbox,
    policies: Collection[InboxPolicy],
) -> None:
    """Refuse a request that differs from the inbox its attempt has.

    ``policies`` are the inbox's own and the one it was created with: a program that is started
    again after the owner changed the policy still asks for the first.
    """
    local = options.local
    differs = {
        "key": requester.owner is not None and inbox.owner != requester.owner,
        "policy": options.policy not in policies,
        "metadata": inbox.metadata != options.metadata,
        "domain": options.domain is not None and inbox.domain != domain_key(options.domain),
        "local": local is not None and inbox.email != address_key(local, inbox.domain),
    }
    different = [name for name, differ in differs.items() if differ]
    if "key" in different and not options.label:
        raise InboxConflict(
            f"attempt {options.attempt_id!r} belongs to another API key (number {number + 1} of "
            "this call); use that key or another attempt_id"
        )
    if different:
        raise InboxConflict(
            f"the attempt has an inbox with this label and another {different[0]} (number "
            f"{number + 1} of this call); choose another label"
        )
