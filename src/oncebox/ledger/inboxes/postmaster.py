"""The postmaster: makes inboxes and domains by the rules of the installation."""

import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from oncebox import ids
from oncebox.config import InboxSettings
from oncebox.errors import ConfigInvalid, StateConflict
from oncebox.ledger.events import outbox
from oncebox.ledger.inboxes import domains, inboxes
from oncebox.ledger.inboxes.inboxes import Asker, NewInbox
from oncebox.ledger.office import audit
from oncebox.mail_errors import (
    AddressInvalid,
    AddressTaken,
    DomainNeeded,
    DomainUnknown,
    InboxDiffers,
)
from oncebox.model.domain import Domain, domain_key
from oncebox.model.event import NewEvent
from oncebox.model.inbox import (
    RANDOM_BYTES,
    Inbox,
    InboxWish,
    address_key,
    check_wish,
    make_local,
)
from oncebox.store.database import Transaction

#: how often an address is drawn before something must be wrong with the dice
_DRAWS = 5
_CATCH_ALL = "catch-all"


class Made(msgspec.Struct, frozen=True):
    """An inbox, and whether it was made by this very call."""

    inbox: Inbox
    new: bool


class Postmaster:
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
        self.default = _default(settings.domain)
        self.draining = round(settings.draining * 1000)
        self._lifetime = round(settings.lifetime * 1000)
        self._home = home
        self._random = random
        self._new_id = new_id

    # inboxes

    def make(
        self, tx: Transaction, asker: Asker, wishes: Sequence[InboxWish], now: int
    ) -> list[Made]:
        """Make inboxes in one commit; an attempt that has one of that label keeps it.

        Raises: AddressInvalid, AddressTaken, DomainNeeded, DomainUnknown, InboxDiffers,
        InboxInvalid.
        """
        wanted = dict(enumerate(map(check_wish, wishes)))
        names = self._domains(tx, asker, wanted.values(), now)
        found: dict[int, Made] = {}
        for _ in range(_DRAWS):
            drawn = {
                number: self._drawn(wish, names[wish.domain], now)
                for number, wish in wanted.items()
                if number not in found
            }
            found |= self._kept(tx, asker, drawn, now)
            found |= self._known(tx, asker, wanted, drawn, found)
            if len(found) == len(wanted):
                return [found[number] for number in wanted]
        message = "this address was given out before; choose another"
        raise AddressTaken(message)

    def rotate(
        self, tx: Transaction, asker: Asker, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Give an attempt a new address and let the old one drain; a repeat returns the same.

        Raises: NotFound, DomainUnknown.
        """
        old = inboxes.get(tx, asker, id_)
        successor = self._new_id("inb")
        if not inboxes.succeed(tx, asker, id_, successor):
            rotated_to = inboxes.get(tx, asker, id_).rotated_to
            return inboxes.get(tx, asker, rotated_to or "")
        if not domains.is_of(tx, asker.tenant, old.domain):
            raise _unknown()
        if old.ended_at is None:
            self._end(tx, asker, old, draining, now)
        owner = Asker(tenant=asker.tenant, key=old.owner)
        for _ in range(_DRAWS):
            new = inboxes.add(tx, owner, [self._successor(old, successor, now)], now)
            if new:
                self._tell(tx, new, now)
                return new[0]
        message = "no free address was found; try again"
        raise AddressTaken(message)

    def close(
        self, tx: Transaction, asker: Asker, id_: str, draining: int | None, now: int
    ) -> Inbox:
        """Let an inbox drain and then close it; one that has ended stays as it is.

        Raises: NotFound.
        """
        self._end(tx, asker, inboxes.get(tx, asker, id_), draining, now)
        return inboxes.get(tx, asker, id_)

    # domains

    def is_default(self, tenant: str, name: str) -> bool:
        """Say whether a domain is the default one, and the tenant's."""
        return bool(name) and name == self.default and tenant == self._home

    def domains(self, tx: Transaction, tenant: str) -> list[Domain]:
        """Return the domains of a tenant, by name; the default one is there by itself."""
        found = {each.name: each for each in domains.all_(tx, tenant)}
        if self.is_default(tenant, self.default):
            found.setdefault(self.default, Domain(self.default, tenant, None, 0))
        return sorted(found.values(), key=lambda each: each.name)

    def add_domain(
        self, tx: Transaction, name: str, asker: Asker, deed: audit.Deed, *, catch_all: bool
    ) -> Domain:
        """Take mail for a domain: for its inboxes only, or with one more for all the rest.

        Raises: AddressInvalid, DomainTaken.
        """
        key = domain_key(name)
        if key == self.default and deed.tenant != self._home:
            raise domains.taken()
        if self.is_default(deed.tenant, key) and catch_all:
            domains.claim(tx, key, deed.tenant, deed.at)
            audit.record(tx, deed, "domain add", f"domain:{key}", _CATCH_ALL)
        else:
            domains.add(tx, key, deed, _CATCH_ALL if catch_all else "")
        if catch_all:
            wish = InboxWish(label=_CATCH_ALL, domain=key, lifetime=0)
            (made,) = self.make(tx, asker, [wish], deed.at)
            domains.set_catch_all(tx, key, deed.tenant, made.inbox.id)
        return domains.find(tx, deed.tenant, key)

    def remove_domain(self, tx: Transaction, name: str, deed: audit.Deed) -> None:
        """Take no more mail for a domain; its inboxes and their messages can still be read.

        Raises: NotFound, StateConflict.
        """
        try:
            key = domain_key(name)
        except AddressInvalid as error:
            raise domains.missing() from error
        if self.is_default(deed.tenant, key):
            message = "the default domain stays; name another in ONCEBOX_INBOXES__DOMAIN"
            raise StateConflict(message)
        domains.remove(tx, key, deed)

    # how

    def _domains(
        self, tx: Transaction, asker: Asker, wishes: Iterable[InboxWish], now: int
    ) -> dict[str | None, str]:
        """Return the domains that wishes mean, by how they name them."""
        named = dict.fromkeys(wish.domain for wish in wishes)
        return {each: self._domain(tx, asker.tenant, each, now) for each in named}

    def _domain(self, tx: Transaction, tenant: str, name: str | None, now: int) -> str:
        key = self._default_of(tx, tenant) if name is None else domain_key(name)
        if self.is_default(tenant, key):
            domains.claim(tx, key, tenant, now)
        elif not domains.is_of(tx, tenant, key):
            raise _unknown()
        return key

    def _default_of(self, tx: Transaction, tenant: str) -> str:
        if self.is_default(tenant, self.default):
            return self.default
        own = domains.all_(tx, tenant)
        if len(own) == 1:
            return own[0].name
        message = "say which domain the address shall have; list them with: oncebox domain list"
        raise DomainNeeded(message)

    def _drawn(self, wish: InboxWish, domain: str, now: int) -> NewInbox:
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
            return f"{make_local(self._random(RANDOM_BYTES))}@{domain}"
        if "+" in local:
            message = "leave the plus sign away; mail to name+anything comes to name"
            raise AddressInvalid(message)
        return address_key(local, domain)

    def _kept(
        self, tx: Transaction, asker: Asker, drawn: dict[int, NewInbox], now: int
    ) -> dict[int, Made]:
        """Keep what can be kept; return it by its place in the call."""
        added = inboxes.add(tx, asker, drawn.values(), now)
        self._tell(tx, added, now)
        numbers = {new.id: number for number, new in drawn.items()}
        return {numbers[each.id]: Made(each, new=True) for each in added}

    def _known(
        self,
        tx: Transaction,
        asker: Asker,
        wanted: dict[int, InboxWish],
        drawn: dict[int, NewInbox],
        found: dict[int, Made],
    ) -> dict[int, Made]:
        """Return the inboxes that attempts have already, by their place in the call."""
        rest = {
            number: new.pair
            for number, new in drawn.items()
            if number not in found and new.pair is not None
        }
        known = inboxes.of_attempts(tx, asker.tenant, rest.values()) if rest else {}
        return {
            number: Made(_same(asker, number, wanted[number], known[pair]), new=False)
            for number, pair in rest.items()
            if pair in known
        }

    def _end(
        self, tx: Transaction, asker: Asker, inbox: Inbox, draining: int | None, now: int
    ) -> None:
        until = now + (self.draining if draining is None else draining)
        if inboxes.close(tx, asker, inbox.id, until, now):
            # Read again: only now, under the lock of its row, do the figures stand still.
            last = inboxes.get(tx, asker, inbox.id)
            figures = {"messages": last.cursor, "matched": last.matched}
            outbox.record(tx, [self._event("inbox.closed", last, now, **figures)])

    def _tell(self, tx: Transaction, made: Sequence[Inbox], now: int) -> None:
        outbox.record(
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


def _default(name: str) -> str:
    try:
        return domain_key(name) if name else ""
    except AddressInvalid as error:
        message = f"the setting inboxes.domain cannot be used: {error}"
        raise ConfigInvalid(message) from error


def _unknown() -> DomainUnknown:
    return DomainUnknown("there is no such domain here; add it with: oncebox domain add")


def _same(asker: Asker, number: int, wish: InboxWish, inbox: Inbox) -> Inbox:
    """Return the inbox an attempt has, if it is what is wished for.

    Raises: InboxDiffers.
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
        message = (
            f"the attempt has an inbox of this label with another {words[0]} (number "
            f"{number + 1} of this call); take another label"
        )
        raise InboxDiffers(message)
    return inbox
