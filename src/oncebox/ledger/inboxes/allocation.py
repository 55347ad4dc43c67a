"""InboxService: allocates, rotates and closes inboxes, adds and removes domains."""

import os
from collections.abc import Callable, Iterable, Sequence

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
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.inboxes import NewInbox
from oncebox.model.events import NewEvent
from oncebox.model.inboxes.addresses import (
    ADDRESS_RANDOM_BYTES,
    Domain,
    address_key,
    domain_key,
    make_local_part,
)
from oncebox.model.inboxes.inbox import Inbox, InboxOptions, check_options
from oncebox.settings import InboxSettings

_sql = load(__package__, "allocation.sql")


def insert_domain(tx: Transaction, name: str, deed: audit.AuditEntry, detail: str = "") -> None:
    """Keep a new domain.

    Raises: NotFound, when there is no such tenant; DomainTaken.
    """
    tenants.require(tx, deed.tenant)
    if not tx.run(_sql.add, name=name, tenant=deed.tenant, now=deed.at):
        raise domain_taken()
    audit.record(tx, deed, "domain add", f"domain:{name}", detail)


def ensure_domain(tx: Transaction, name: str, tenant: str, now: int) -> None:
    """Make sure that a tenant has a domain that is there by itself; nothing if it has.

    Raises: DomainTaken, when it is somebody else's.
    """
    if is_domain_of(tx, tenant, name):
        return
    tx.run(_sql.add, name=name, tenant=tenant, now=now)
    if not is_domain_of(tx, tenant, name):
        raise domain_taken()


def is_domain_of(tx: Transaction, tenant: str, name: str) -> bool:
    """Say whether a domain is a tenant's."""
    return tx.one(_sql.one, name=name, tenant=tenant) is not None


def get_domain(tx: Transaction, tenant: str, name: str) -> Domain:
    """Return one domain of a tenant.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, name=name, tenant=tenant)
    if row is None:
        raise domain_missing()
    return Domain(*row)


def list_domains(tx: Transaction, tenant: str) -> list[Domain]:
    """Return the domains of a tenant, by name."""
    return [Domain(*row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def set_catch_all(tx: Transaction, name: str, tenant: str, inbox_id: str) -> None:
    """Let an inbox have what no inbox of the domain has.

    Raises: DomainTaken, when another has it already.
    """
    if not tx.run(_sql.set_catch_all, name=name, tenant=tenant, catch_all=inbox_id):
        raise domain_taken()


def delete_domain(tx: Transaction, name: str, deed: audit.AuditEntry) -> None:
    """Take no more mail for a domain.

    Raises: NotFound.
    """
    if not tx.run(_sql.remove, name=name, tenant=deed.tenant):
        raise domain_missing()
    audit.record(tx, deed, "domain remove", f"domain:{name}")


def domain_missing() -> NotFound:
    """Return the refusal of a domain that is not there, or not the caller's."""
    return NotFound("there is no such domain; list them with: oncebox domain list")


def domain_taken() -> DomainTaken:
    """Return the refusal of a domain that somebody has; it does not say who."""
    return DomainTaken("this domain is in the installation already; choose another")


#: how often an address is drawn before something must be wrong with the dice
_MOST_DRAWS = 5
_CATCH_ALL = "catch-all"


class AllocatedInbox(msgspec.Struct, frozen=True):
    """An inbox, and whether it was made by this very call."""

    inbox: Inbox
    new: bool


class InboxService:
    """Makes, rotates and closes inboxes; all times in milliseconds."""

    def __init__(
        self,
        settings: InboxSettings,
        *,
        home: str,
        random: Callable[[int], bytes] = os.urandom,
        new_id: ids.NewId = ids.new,
    ) -> None:
        """Keep the default domain for the tenant ``home``.

        Raises: ConfigInvalid.
        """
        self.default = _default_domain(settings.domain)
        self.draining = round(settings.draining * 1000)
        self._lifetime = round(settings.lifetime * 1000)
        self._default_tenant = home
        self._random = random
        self._new_id = new_id

    # inboxes

    def allocate(
        self, tx: Transaction, asker: Requester, wishes: Sequence[InboxOptions], now: int
    ) -> list[AllocatedInbox]:
        """Make inboxes in one commit; an attempt that has one of that label keeps it.

        Raises: AddressInvalid, AddressTaken, DomainRequired, DomainUnknown, InboxConflict,
        InboxInvalid.
        """
        wanted = dict(enumerate(map(check_options, wishes)))
        names = self._domain_names(tx, asker, wanted.values(), now)
        found: dict[int, AllocatedInbox] = {}
        for _ in range(_MOST_DRAWS):
            drawn = {
                number: self._new_inbox(wish, names[wish.domain], now)
                for number, wish in wanted.items()
                if number not in found
            }
            found |= self._insert(tx, asker, drawn, now)
            found |= self._existing(tx, asker, wanted, drawn, found)
            if len(found) == len(wanted):
                return [found[number] for number in wanted]
        raise AddressTaken("this address was given out before; choose another")

    def rotate(
        self, tx: Transaction, asker: Requester, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Give an attempt a new address and let the old one drain; a repeat returns the same.

        Raises: NotFound, DomainUnknown.
        """
        old = inboxes.get(tx, asker, id_)
        successor = self._new_id("inb")
        if not inboxes.set_successor(tx, asker, id_, successor):
            rotated_to = inboxes.get(tx, asker, id_).rotated_to
            return inboxes.get(tx, asker, rotated_to or "")
        if not is_domain_of(tx, asker.tenant, old.domain):
            raise _domain_unknown()
        if old.ended_at is None:
            self._drain_or_close(tx, asker, old, draining, now)
        owner = Requester(tenant=asker.tenant, key=old.owner)
        for _ in range(_MOST_DRAWS):
            new = inboxes.add(tx, owner, [self._successor(old, successor, now)], now)
            if new:
                self._record_created(tx, new, now)
                return new[0]
        raise AddressTaken("no free address was found; try again")

    def close(
        self, tx: Transaction, asker: Requester, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Let an inbox drain and then close it; one that has ended stays as it is.

        Raises: NotFound.
        """
        self._drain_or_close(tx, asker, inboxes.get(tx, asker, id_), draining, now)
        return inboxes.get(tx, asker, id_)

    # domains

    def is_default(self, tenant: str, name: str) -> bool:
        """Say whether a domain is the default one, and the tenant's."""
        return bool(name) and name == self.default and tenant == self._default_tenant

    def domains(self, tx: Transaction, tenant: str) -> list[Domain]:
        """Return the domains of a tenant, by name; the default one is there by itself."""
        found = {each.name: each for each in list_domains(tx, tenant)}
        if self.is_default(tenant, self.default):
            found.setdefault(self.default, Domain(self.default, tenant, None, 0))
        return sorted(found.values(), key=lambda each: each.name)

    def add_domain(
        self,
        tx: Transaction,
        name: str,
        asker: Requester,
        deed: audit.AuditEntry,
        *,
        catch_all: bool,
    ) -> Domain:
        """Take mail for a domain: for its inboxes only, or with one more for all the rest.

        Raises: AddressInvalid, DomainTaken.
        """
        key = domain_key(name)
        if key == self.default and deed.tenant != self._default_tenant:
            raise domain_taken()
        if self.is_default(deed.tenant, key) and catch_all:
            ensure_domain(tx, key, deed.tenant, deed.at)
            audit.record(tx, deed, "domain add", f"domain:{key}", _CATCH_ALL)
        else:
            insert_domain(tx, key, deed, _CATCH_ALL if catch_all else "")
        if catch_all:
            wish = InboxOptions(label=_CATCH_ALL, domain=key, lifetime=0)
            (made,) = self.allocate(tx, asker, [wish], deed.at)
            set_catch_all(tx, key, deed.tenant, made.inbox.id)
        return get_domain(tx, deed.tenant, key)

    def remove_domain(self, tx: Transaction, name: str, deed: audit.AuditEntry) -> None:
        """Take no more mail for a domain; its inboxes and their messages can still be read.

        Raises: NotFound, StateConflict.
        """
        try:
            key = domain_key(name)
        except AddressInvalid as error:
            raise domain_missing() from error
        if self.is_default(deed.tenant, key):
            raise StateConflict("the default domain stays; name another in ONCEBOX_INBOXES__DOMAIN")
        delete_domain(tx, key, deed)

    # how

    def _domain_names(
        self, tx: Transaction, asker: Requester, wishes: Iterable[InboxOptions], now: int
    ) -> dict[str | None, str]:
        """Return the domains that wishes mean, by how they name them."""
        named = dict.fromkeys(wish.domain for wish in wishes)
        return {each: self._domain(tx, asker.tenant, each, now) for each in named}

    def _domain(self, tx: Transaction, tenant: str, name: str | None, now: int) -> str:
        key = self._default_of(tx, tenant) if name is None else domain_key(name)
        if self.is_default(tenant, key):
            ensure_domain(tx, key, tenant, now)
        elif not is_domain_of(tx, tenant, key):
            raise _domain_unknown()
        return key

    def _default_of(self, tx: Transaction, tenant: str) -> str:
        if self.is_default(tenant, self.default):
            return self.default
        own = list_domains(tx, tenant)
        if len(own) == 1:
            return own[0].name
        raise DomainRequired(
            "say which domain the address shall have; list them with: oncebox domain list"
        )

    def _new_inbox(self, wish: InboxOptions, domain: str, now: int) -> NewInbox:
        lifetime = self._lifetime if wish.lifetime is None else wish.lifetime
        return NewInbox(
            id=self._new_id("inb"),
            email=self._address(wish.local, domain),
            attempt_id=wish.attempt_id,
            label=wish.label,
            active_until=now + lifetime if lifetime else None,
            metadata=wish.metadata,
            policy=wish.policy,
        )

    def _successor(self, old: Inbox, id_: str, now: int) -> NewInbox:
        lifetime = None if old.active_until is None else old.active_until - old.created_at
        return NewInbox(
            id=id_,
            email=self._address(None, old.domain),
            attempt_id=old.attempt_id,
            label=old.label,
            active_until=None if lifetime is None else now + lifetime,
            metadata=old.metadata,
            policy=old.policy,
            rotated_from=old.id,
        )

    def _address(self, local: str | None, domain: str) -> str:
        if local is None:
            return f"{make_local_part(self._random(ADDRESS_RANDOM_BYTES))}@{domain}"
        if "+" in local:
            raise AddressInvalid("leave the plus sign away; mail to name+anything comes to name")
        return address_key(local, domain)

    def _insert(
        self, tx: Transaction, asker: Requester, drawn: dict[int, NewInbox], now: int
    ) -> dict[int, AllocatedInbox]:
        """Keep what can be kept; return it by its place in the call."""
        added = inboxes.add(tx, asker, drawn.values(), now)
        self._record_created(tx, added, now)
        numbers = {new.id: number for number, new in drawn.items()}
        return {numbers[each.id]: AllocatedInbox(each, new=True) for each in added}

    def _existing(
        self,
        tx: Transaction,
        asker: Requester,
        wanted: dict[int, InboxOptions],
        drawn: dict[int, NewInbox],
        found: dict[int, AllocatedInbox],
    ) -> dict[int, AllocatedInbox]:
        """Return the inboxes that attempts have already, by their place in the call."""
        rest = {
            number: new.pair
            for number, new in drawn.items()
            if number not in found and new.pair is not None
        }
        known = inboxes.of_attempts(tx, asker.tenant, rest.values()) if rest else {}
        return {
            number: AllocatedInbox(
                _matching_inbox(asker, number, wanted[number], known[pair]), new=False
            )
            for number, pair in rest.items()
            if pair in known
        }

    def _drain_or_close(
        self, tx: Transaction, asker: Requester, inbox: Inbox, draining: int | None, now: int
    ) -> None:
        until = now + (self.draining if draining is None else draining)
        if inboxes.close(tx, asker, inbox.id, until, now):
            # Read again: only now, under the lock of its row, do the figures stand still.
            last = inboxes.get(tx, asker, inbox.id)
            figures = {"messages": last.cursor, "matched": last.matched}
            event_log.record(tx, [self._event("inbox.closed", last, now, **figures)])

    def _record_created(self, tx: Transaction, made: Sequence[Inbox], now: int) -> None:
        event_log.record(
            tx,
            [
                self._event(
                    "inbox.created",
                    each,
                    now,
                    email=each.email,
                    label=each.label,
                    active_until=each.active_until,
                    rotated_from=each.rotated_from,
                )
                for each in made
            ],
        )

    def _event(self, type_: str, inbox: Inbox, now: int, **data: str | int | None) -> NewEvent:
        return NewEvent(
            id=self._new_id("evt"),
            tenant=inbox.tenant,
            type=type_,
            inbox_id=inbox.id,
            attempt_id=inbox.attempt_id,
            subject_id=inbox.id,
            at=now,
            data=data,
        )


def _default_domain(name: str) -> str:
    try:
        return domain_key(name) if name else ""
    except AddressInvalid as error:
        raise ConfigInvalid(f"the setting inboxes.domain cannot be used: {error}") from error


def _domain_unknown() -> DomainUnknown:
    return DomainUnknown("there is no such domain here; add it with: oncebox domain add")


def _matching_inbox(asker: Requester, number: int, wish: InboxOptions, inbox: Inbox) -> Inbox:
    """Return the inbox an attempt has, if it is what is wished for.

    Raises: InboxConflict.
    """
    differs = {
        "key": asker.owner is not None and inbox.owner != asker.owner,
        "policy": inbox.policy != wish.policy,
        "metadata": inbox.metadata != wish.metadata,
        "domain": wish.domain is not None and inbox.domain != domain_key(wish.domain),
        "local": wish.local is not None and inbox.email != address_key(wish.local, inbox.domain),
    }
    words = [name for name, differ in differs.items() if differ]
    if words:
        raise InboxConflict(
            f"the attempt has an inbox of this label with another {words[0]} (number "
            f"{number + 1} of this call); take another label"
        )
    return inbox
